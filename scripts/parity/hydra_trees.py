"""Random layered configurations for hydra_check.py: groups with defaults lists, packages and overrides."""
import io
import os
import pathlib

import yaml
from omegaconf._utils import get_yaml_loader

GROUPS = {"g": ["a", "b"], "h": ["a", "c"], "g/sub": ["x", "y"], "eng": ["one", "two"], "act": ["one_act", "two_act"]}
KEYS = ["k", "l", "m", "n", "lr", "name"]
SCALARS = ["1", "2.5", "1e-6", "true", "null", "text", "'1'", "???", "''", "[1, 2]", "[]", "{}", "[a, {b: 1}]"]
REFERENCES = ["${k}", "${.k}", "${..k}", "${g.k}", "${oc.select:g.sub.k,5}", "${oc.select:p.k}", "${oc.env:VERLCPP_SET}",
              "${oc.env:VERLCPP_UNSET,d}", "x-${k}", "${oc.select:n,null}", "${m}", "${oc.select:eng.name,e}", "${missing}"]


def load_yaml(text):
    loaded = yaml.load(io.StringIO(text), Loader=get_yaml_loader())
    return {} if loaded is None else loaded


def body(rng, depth, indent=""):
    lines = []
    for key in rng.sample(KEYS, rng.randint(1, 4)):
        kind = rng.random()
        if depth > 0 and kind < 0.3:
            lines += [f"{indent}{key}:"] + body(rng, depth - 1, indent + "  ")
        elif kind < 0.42:
            lines.append(f"{indent}{key}: {rng.choice(REFERENCES)}")
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
    if folder == "" and group == "act" and rng.random() < 0.6:
        name = "${eng}_act"
    if rng.random() < 0.03:
        name = rng.choice(["missing", "???"])
    package = rng.choice(["@p", "@p.q", "@_here_", "@_global_", "@_global_.z"]) if rng.random() < 0.4 else ""
    if rng.random() < 0.1:
        return f"{group}/{name}{package}" if name not in ("null", "???") and "$" not in name else None
    return f"{'optional ' if rng.random() < 0.15 else ''}{group}{package}: {name}"


def override_entry(rng):
    group = rng.choice(["g", "h", "eng", "act", "g/sub", "h@p", "/eng", "g/sub@p"])
    return f"override {group}: {rng.choice(GROUPS[group.split('@')[0].lstrip('/')])}"


def defaults(rng, folder, level):
    entries = [entry(rng, folder, level) for _ in range(rng.randint(0, 4 if folder == "" else 2))]
    entries = list(dict.fromkeys(item for item in entries if item))
    if rng.random() < 0.75:
        entries.insert(rng.choice([0, len(entries)]), "_self_")
    if rng.random() < (0.25 if folder == "" else 0.1):
        entries.append(override_entry(rng))
    return entries


def write(rng, place, path, level):
    folder = os.path.dirname(path)
    lines = []
    if level > 0 and rng.random() < 0.2:
        lines.append("# @package " + rng.choice(["_global_", "_here_", "a.b", "_global_.c", "p"]))
        if rng.random() < 0.1:
            lines.insert(0, "# a comment")
    entries = defaults(rng, folder, level) if rng.random() < (1 if level == 0 else 0.4) else []
    if entries:
        lines += ["defaults:"] + ["  - " + item for item in entries]
    if rng.random() < 0.9:
        lines += body(rng, 2)
    file = pathlib.Path(place, path + ".yaml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")


def value_override(rng):
    key = ".".join(rng.choice(KEYS + ["g", "h", "sub", "p", "eng", "0", "zz"]) for _ in range(rng.choice([1, 1, 2, 2, 3])))
    sign = rng.choice(["", "", "+", "++", "~"])
    value = rng.choice(["5", "0.5", "text", "null", "[3]", "{k: 9}", "{zz: 1}", "'${k}'", "${k}", "{}", "[]", "{l: {m: 2}}", "true", "???"])
    return f"{sign}{key}" if sign == "~" and rng.random() < 0.7 else f"{sign}{key}={value}"


def group_override(rng):
    group = rng.choice(list(GROUPS))
    package = rng.choice(["@p", "@p.q", "@z", "@"]) if rng.random() < 0.3 else ""
    sign = rng.choice(["", "", "", "+", "~", "++"])
    name = rng.choice(GROUPS[group] + ["null", "missing"] * (rng.random() < 0.2))
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
        for _ in range(4):
            overrides = [value_override(rng) if rng.random() < 0.65 else group_override(rng) for _ in range(rng.choice([0, 1, 1, 2]))]
            result.append({"folder": folder, "overrides": overrides})
    return result


def show(folder):
    files = sorted(pathlib.Path(folder).rglob("*.yaml"))
    return "\n".join(f"--- {file.relative_to(folder)}\n{file.read_text().rstrip()}" for file in files)
