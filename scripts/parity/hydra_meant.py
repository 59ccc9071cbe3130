"""What hydra_check.py lets differ. A difference has a name only where the text without it, or written
in the way that means the same to Hydra, gives the same value on both sides: so it hides no other."""
import json
import os
import pathlib
import re
import shutil
import tempfile

import yaml

MEANT = {
    "characters": "an unquoted text may hold characters that Hydra has no use for (~ # ! & ; < > ^ ` and non-ASCII)",
    "quoted key": "a key of a {map} may be quoted, so that every key can be written",
    "repeated key": "a key that comes twice in one map is an error, in {map} too and in YAML also for numbers",
    "64 bits": "an integer of more than 64 bits stays text; int() of one is an error",
    "sort": "sort() also orders quoted strings",
    "null group": "group=null on the command line leaves the group out",
    "null deleted": "~key of a key that is null or ??? deletes it",
    "group beside": "`../group` is `group`, where Hydra makes keys without names",
    "left out": "a file of a group that ~group leaves out is not read",
    "behind": "~ does not delete in the map that an interpolation above its key leads to",
    "only overrides": "the primary file counts where its list has only overrides; Hydra drops it for +group=name",
    "twice": "a file that is listed twice is the same both times; Hydra merges what comes between into its maps",
    "list": "a configuration file is a map, not a list",
    "flow": "in YAML's brackets yaml-cpp does not read [?x] and {a:[x]}",
    "block": "in YAML yaml-cpp takes a comment right behind the mark of a text block",
    "lines": "in YAML yaml-cpp does not read a key in {} or a word with an &anchor that goes on on the next line, "
             "nor a text block that is not indented",
    "resolver": "a resolver that nobody knows is an error, also where an argument of it leads to ???",
    "shuffle": "shuffle() of a list is an error: nothing in a configuration is random",
}
FOREIGN = re.compile(r"[^A-Za-z0-9_/\-\\+.$%*@?|:()\[\]{},='\" \t]")


def plain(text):
    """In characters that Hydra takes, sorted as before."""
    return FOREIGN.sub(lambda found: "|" if found[0] > "z" else "?", text)


def same(mine, judge, used=None):
    """Equal, but for integers beyond 64 bits."""
    if isinstance(mine, dict) and isinstance(judge, dict):
        return mine.keys() == judge.keys() and all(same(mine[key], judge[key], used) for key in mine)
    if isinstance(mine, list) and isinstance(judge, list):
        return len(mine) == len(judge) and all(same(a, b, used) for a, b in zip(mine, judge))
    if isinstance(mine, str) and isinstance(judge, dict) and "int" in judge and abs(int(judge["int"])) >= 2**63:
        if used is not None:
            used.add("64 bits")
        return re.sub("_", "", mine).lstrip("+") == judge["int"] or mine.lstrip("+-").startswith("0")
    return mine == judge


def agree(mine, judge):
    """The same value, or an error in both."""
    return "error" in mine and "error" in judge or same(mine, judge)


def difference(line, mine, judge, ask, judged):
    """The name of a difference, or nothing. `ask` answers for us, `judged` for Hydra."""
    if "folder" in line:
        return tree_difference(line, mine, judge, ask, judged)
    if "override" in line or "value" in line:
        return value_difference(line, mine, judge, ask, judged)
    return yaml_difference(line, mine, judge, ask, judged)


def value_difference(line, mine, judge, ask, judged):
    name = "override" if "override" in line else "value"
    key, equal, value = line[name].partition("=") if name == "override" else ("", "", line[name])
    both = lambda text: (ask({**line, name: key + equal + text}), judged({**line, name: key + equal + text}))
    if "error" in mine:
        message = mine["error"].split("\n")[0]
        if twice := re.search("the key (.*) comes twice", message):
            return "repeated key" if value.count(twice[1]) > 1 or twice[1] not in value else None
        if "shuffle() is for sweeps" in message and agree(*both(re.sub(r"shuffle\s*\(\s*\[", "sort([", value))):
            return "shuffle"
        if "is for sweeps" in message:
            # Hydra keeps the last of them, and never looks at what is wrong in one before.
            apart = re.sub(r"(\w+)(\s*:)(?=.*\b\1\s*:)", r"\1_\2", value)
            return "repeated key" if apart != value and agree(*both(apart)) else None
        if unknown := re.search(r"unknown resolver ([\w.-]+);", message):
            known = re.sub(r"\$\{\s*" + re.escape(unknown[1]) + ":", "${oc.select:", value)
            return "resolver" if judge == {"value": "???"} and known != value and agree(*both(known)) else None
        if "cannot convert" in message and re.search(r"\d{19,}|e\+\d\d", message):
            small = re.sub(r"\d{19,}", "12", value)
            ours, theirs = both(small)
            other = value_difference({**line, name: key + equal + small}, ours, theirs, ask, judged)
            return "64 bits" if agree(ours, theirs) or other else None
        return None
    if "error" not in judge:
        return None
    if re.search("'?QuotedString' and|and 'QuotedString", judge["error"]):
        return "sort" if agree(mine, judged({**line, "quoted_in_order": True})) else None
    simpler = plain(value)
    if simpler != value:
        ours, theirs = both(simpler)
        if "value" not in ours or foreign_replaced(mine["value"]) != ours["value"]:
            return None
        simple_line = {**line, name: key + equal + simpler}
        named = agree(ours, theirs) or value_difference(simple_line, ours, theirs, ask, judged)
        return "characters" if named else None
    unquoted = re.sub(r"([{,]\s*)(['\"])(?:\\.|(?!\2).)*\2(\s*:)", r"\1key\3", value)
    if unquoted != value:
        ours, theirs = both(unquoted)
        return "quoted key" if "error" not in theirs and same(ours, theirs) else None
    return None


def foreign_replaced(value):
    if isinstance(value, dict):
        return {key: foreign_replaced(item) for key, item in value.items()}
    if isinstance(value, list):
        return [foreign_replaced(item) for item in value]
    return plain(value) if isinstance(value, str) else value


def yaml_difference(line, mine, judge, ask, judged):
    text = line["yaml"]
    if "error" in mine and "error" not in judge:
        if twice := re.search("the key (.*) comes twice", mine["error"]):
            return "repeated key" if re.search(r"\d", twice[1]) else None
        # Written with a space they mean the same to PyYAML.
        spaced = re.sub(r"([\[{,]\s*)\?(?=\S)", r"\1? ", re.sub(r":(?=[\[{])", ": ", text))
        if spaced != text and judged({"yaml": spaced}) == judge:
            plain = re.sub(r"\[\? ([^\],]*)\]", r"[{\1: }]", spaced)
            return "flow" if "?" in spaced or agree(ask({"yaml": plain}), judge) else None
        on_one_line = [text[:end.start()] + " " + text[end.end():] for end in re.finditer(r"\n *", text)]
        for rewritten in [re.sub(r"\n(?=[|>])", "\n ", text), *on_one_line]:
            if rewritten != text and judged({"yaml": rewritten}) == judge and agree(ask({"yaml": rewritten}), judge):
                return "lines"
    if "error" not in mine and "error" in judge:
        apart = re.sub(r"([|>][-+]?)#", r"\1 #", text)
        if apart != text and agree(mine, judged({"yaml": apart})):
            return "block"
    return None


def tree_difference(line, mine, judge, ask, judged):
    anew = {**line, "read_anew": True}
    if agree(mine, judged(anew)):
        return "twice"
    if "error" in mine and (file := re.match(r"(\S+\.yaml):\d+: the file must be a map", mine["error"])):
        return "list" if isinstance(yaml.safe_load(pathlib.Path(file[1]).read_text()), list) else None
    used = []
    with tempfile.TemporaryDirectory() as place:
        folder = os.path.join(place, "rewritten")
        shutil.copytree(line["folder"], folder)
        line = {"folder": folder, "overrides": list(line["overrides"]), "read_anew": True}
        for name, rewrite in REWRITES.items():
            before = json.dumps(line) + texts(folder)
            rewrite(line, mine, judge)
            if json.dumps(line) + texts(folder) != before:
                used.append(name)
                if agree(without_place(mine), without_place(judged(line))):
                    return used[-1]
    return None


def without_place(answer):
    return {"error": ""} if "error" in answer else answer


def texts(folder):
    return "".join(file.read_text() for file in sorted(pathlib.Path(folder).rglob("*.yaml")))


def beside(line, mine, judge):
    """`../h` of the one folder above is `/h`."""
    for file in pathlib.Path(line["folder"]).rglob("*/*.yaml"):
        file.write_text(re.sub(r"^(  - (?:optional |override )?)\.\./", r"\1/", file.read_text(), flags=re.M))


def only_overrides(line, mine, judge):
    main = pathlib.Path(line["folder"], "main.yaml")
    text = main.read_text()
    entries = re.findall(r"^  - (.*)", text, flags=re.M)
    if entries and all(item.startswith("override ") for item in entries):
        main.write_text(text.replace("defaults:\n", "defaults:\n  - _self_\n", 1))


def null_group(line, mine, judge):
    """As `override group: null`, in front of the file's own overrides."""
    if "Got NoneType" not in judge.get("error", ""):
        return
    main = pathlib.Path(line["folder"], "main.yaml")
    for item in [item for item in line["overrides"] if re.fullmatch(r"\+?[a-z/]+(@[a-z_.]*)?=null", item)]:
        group = item.partition("=")[0]
        if not pathlib.Path(line["folder"], group.lstrip("+").partition("@")[0]).is_dir():
            continue
        of_group = [other for other in line["overrides"] if other.startswith(group + "=")]
        counts = of_group[-1] == item  # the last one does
        line["overrides"] = [other for other in line["overrides"] if other != item and not (counts and other in of_group)]
        if group.startswith("+") or not counts:
            continue
        lines = main.read_text().split("\n")
        if "defaults:" not in lines:
            continue
        first = next((i for i, text in enumerate(lines) if text.startswith("  - override ")), None)
        last = max(i for i, text in enumerate(lines) if i == 0 or text.startswith("  - "))
        own = [] if any(text == "  - _self_" for text in lines) else ["  - _self_"]
        at = last + 1 if first is None else first
        lines[at:at] = own + [f"  - override {group}: null"]
        main.write_text("\n".join(lines))


def null_deleted(line, mine, judge):
    if "Could not delete from config" not in judge.get("error", "") or "does not exist" not in judge["error"]:
        return
    key = re.search(r"config\. '(.*)' does", judge["error"])[1]
    line["overrides"] = [part for item in line["overrides"]
                         for part in ([f"{key}=0", f"~{key}"] if item in (f"~{key}", f"~{key}=null") else [item])]


def behind(line, mine, judge):
    """~a.b, where a is ${c}, is ~c.b to Hydra: what we refuse must be that."""
    if found := re.search(r"^~\S+ \(override \d+\): .* because a group above it is \$\{[a-z.]+\}", mine.get("error", "")):
        line["overrides"] = ["~no_such_key" if found[0].startswith(item + " ") else item for item in line["overrides"]]


def left_out(line, mine, judge):
    """~group leaves a file unread that Hydra reads, and finds broken."""
    if not re.match(r"\w+Error: while ", judge.get("error", "")):
        return
    for item in line["overrides"]:
        group = pathlib.Path(line["folder"], item.lstrip("~").partition("=")[0])
        for file in group.glob("*.yaml") if item.startswith("~") else []:
            try:
                yaml.safe_load(file.read_text())
            except yaml.YAMLError:
                file.write_text("{}\n")


REWRITES = {"left out": left_out, "only overrides": only_overrides, "null deleted": null_deleted, "null group": null_group, "behind": behind, "group beside": beside}
