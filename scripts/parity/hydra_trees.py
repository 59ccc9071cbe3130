"""Random layered configurations for hydra_check.py: groups with defaults lists, packages and overrides."""
import io
import os
import pathlib
import re

import yaml
from omegaconf._utils import get_yaml_loader

GROUPS = {"g": ["a", "b"], "h": ["a", "c"], "g/sub": ["x", "y"], "eng": ["one", "two"], "act": ["one_act", "two_act"]}
PLAIN, MAPS = ["k", "lr", "name", "l"], ["m", "n"]
SCALARS = ["1", "2.5", "1e-6", "true", "null", "text", "'1'", "???", "''", "[1, 2]", "[]", "[a, {b: 1}]", "0x1f", "1:30", "on"]
REFERENCES = ["${k}", "${.k}", "${lr}", "${oc.select:g.sub.k,5}", "${oc.select:p.k}", "${oc.env:VERLCPP_SET}", "${oc.select:.lr,1}",
              "${oc.env:VERLCPP_UNSET,d}", "x-${k}", "${oc.select:n,null}", "${oc.select:eng.name,e}", "${oc.select:m.k,7}"]


def load_yaml(text):
    loaded = yaml.load(io.StringIO(text), Loader=get_yaml_loader())
    return {} if loaded is None else loaded


def body(rng, depth, indent="", root=False):
    """Most keys are of one kind everywhere: lists and maps do not merge, and clashes are to stay the exception."""
    lines = [f"{indent}k: {rng.choice(['1', '2', 'text', 'null', '3.5'])}"]
    keys = rng.sample(PLAIN[1:], 3) if root else rng.sample(PLAIN[1:], rng.randint(0, 3))
    for key in keys + rng.sample(MAPS, rng.randint(0, 2 if depth > 0 else 0)):
        if (key in MAPS) != (rng.random() < 0.01):
            lines += [f"{indent}{key}:"] + body(rng, depth - 1, indent + "  ")
        elif rng.random() < 0.25:
            lines.append(f"{indent}{key}: {rng.choice(REFERENCES) if rng.random() < 0.97 else '${missing}'}")
        else:
            lines.append(f"{indent}{key}: {rng.choice(SCALARS)}")
    return lines


def entry(rng, folder, level):
    """A line of a defaults list; `level` keeps most lists free of cycles."""
    below = {"": ["g", "h", "eng", "act"], "g": ["sub", "/h", "../h"], "act": ["../h", "/g/sub", "/h"], "h": ["/g/sub"],
             "eng": [], "g/sub": []}[folder]
    kind = rng.random()
    if kind < 0.15 or not below:
        return rng.choice(["base", "other", "optional nothing: x" if below else "base"]) if folder == "" else None
    group = rng.choice(below)
    path = os.path.normpath(os.path.join("/" + folder, group)).lstrip("/")
    name = rng.choice(GROUPS[path] + (["null"] if rng.random() < 0.2 else []))
    if rng.random() < 0.03:
        name = rng.choice(["missing", "???"])
    if rng.random() < 0.06:
        name = f"[{', '.join(rng.choice(GROUPS[path]) for _ in range(rng.randint(0, 2)))}]"
    package = rng.choice(["@p", "@p.q", "@_here_", "@_global_", "@_global_.z"]) if rng.random() < 0.4 else ""
    if rng.random() < 0.1:
        return f"{group}/{name}{package}" if name not in ("null", "???") and name[0] not in "$[" else None
    return f"{'optional ' if rng.random() < 0.15 else ''}{group}{package}: {name}"


def override_entry(rng, entries):
    """Mostly of a group that is there."""
    groups = [item.split(":")[0] for item in entries if ": " in item and "optional" not in item and "../" not in item]
    group = rng.choice(groups) if groups and rng.random() < 0.85 else rng.choice(["g", "h@p", "/eng", "g/sub@p"])
    names = GROUPS.get(group.split("@")[0].lstrip("/"), ["a"])
    return f"override {group}: {rng.choice(names)}"


def defaults(rng, folder, level):
    entries = [entry(rng, folder, level) for _ in range(rng.randint(0, 4 if folder == "" else 2))]
    entries = [item for item in entries if item]
    if rng.random() < 0.9:  # of each group one
        entries = list({item.split(":")[0].split("/")[0].replace("optional ", ""): item for item in entries}.values())
    if folder == "" and any(item.startswith("eng: ") for item in entries):
        entries = [re.sub(r"^(act.*): .*", r"\1: ${eng}_act", item) for item in entries]
    if rng.random() < 0.75:
        entries.insert(rng.choice([0, len(entries)]), "_self_")
    if rng.random() < (0.25 if folder == "" else 0.1):
        entries.append(override_entry(rng, entries))
    return entries


def write(rng, place, path, level):
    folder = os.path.dirname(path)
    lines = []
    if level > 0 and rng.random() < 0.2:
        lines.append("# @package " + rng.choice(["_global_", "a.b", "_global_.c", "p", "_here_"]))
        if rng.random() < 0.1:
            lines.insert(0, "# a comment")
    entries = defaults(rng, folder, level) if rng.random() < (1 if level == 0 else 0.4) else []
    if entries:
        lines += ["defaults:"] + ["  - " + item for item in entries]
    if level == 0 or rng.random() < 0.9:
        lines += body(rng, 2, root=level == 0)
    if level > 0 and rng.random() < 0.03:
        lines = rng.choice([[], ["# nothing"], ["[1]"], ["k: [1"]])
    file = pathlib.Path(place, path + ".yaml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")


def value_override(rng):
    if rng.random() < 0.85:
        key = ".".join([rng.choice(MAPS + ["g", "h", "eng"]) for _ in range(rng.choice([0, 0, 1, 2]))] + [rng.choice(PLAIN + MAPS)])
    else:
        key = rng.choice(["l.0", "l.1.b", "zz", "g.zz", "k.x", "p.q.k", "z.k", "act.k", "g.sub.k", "a.b.k"])
    sign = rng.choice(["", "", "+", "++", "~"])
    value = rng.choice(["5", "0.5", "text", "null", "[3]", "{k: 9}", "{zz: 1}", "'${k}'", "${k}", "{}", "[]", "{l: {m: 2}}", "true", "???"])
    return f"{sign}{key}" if sign == "~" and rng.random() < 0.7 else f"{sign}{key}={value}"


def group_override(rng, main):
    """Mostly of a group that the main file lists."""
    listed = re.findall(r"- (?:optional )?([a-z]+(?:@[a-z._]+)?): ", main)
    sign = rng.choice(["", "", "", "", "+", "~"])
    if listed and sign != "+" and "nothing" not in listed and rng.random() < 0.85:
        group, at, package = rng.choice(listed).partition("@")
        package = "" if package == "_here_" else at + package.replace("_global_.", "")
    else:
        group, package = rng.choice(list(GROUPS)), rng.choice(["", "", "@p", "@z", "@"])
        sign = rng.choice([sign, sign, sign, "++"])
    name = rng.choice(GROUPS[group] + ["null", "missing"] * (rng.random() < 0.2))
    if rng.random() < 0.08:
        name = f"[{','.join(rng.choice(GROUPS[group]) for _ in range(rng.randint(0, 2)))}]"
    return f"{sign}{group}{package}" + ("" if sign == "~" and rng.random() < 0.7 else f"={name}")


def lines(rng, place, count):
    result = []
    for number in range(count):
        folder = os.path.join(place, str(number))
        write(rng, folder, "main", 0)
        for name in ("base", "other"):
            pathlib.Path(folder, name + ".yaml").write_text("\n".join(body(rng, 1)) + "\n")
        for group, names in GROUPS.items():
            for name in names:
                write(rng, folder, f"{group}/{name}", 1)
        main = pathlib.Path(folder, "main.yaml").read_text()
        for _ in range(4):
            overrides = [value_override(rng) if rng.random() < 0.65 else group_override(rng, main) for _ in range(rng.choice([0, 1, 1, 2]))]
            result.append({"folder": folder, "overrides": overrides})
    return result


def show(folder):
    """The files with a defaults list or a header, and main.yaml."""
    files = sorted(pathlib.Path(folder).rglob("*.yaml"))
    texts = {file: file.read_text().rstrip() for file in files}
    return "\n".join(f"--- {file.relative_to(folder)}\n{text}" for file, text in texts.items()
                     if file.name == "main.yaml" or re.search("defaults:\n(?!  - _self_\nk)|@package", text))
