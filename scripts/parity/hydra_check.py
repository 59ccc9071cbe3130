#!/usr/bin/env python3
"""Holds lib/config against Hydra and OmegaConf: random overrides, values, YAML texts and layered trees,
read by both; each must give the same value, or an error in both.

    scripts/parity/hydra_check.py [BUILD_FOLDER] [--seed N] [--scale X]

Needs hydra-core and omegaconf; says so and ends with 0 where they are not, and with 1 at a difference.
`ninja -C BUILD_FOLDER test/config/hydra_lines` builds what it asks. For maintainers.
"""
import argparse
import collections
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings

try:
    import hydra
    import omegaconf
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import OverrideType, Sweep, Glob
    from omegaconf import OmegaConf
    from omegaconf.errors import InterpolationToMissingValueError
except ImportError as error:
    print(f"hydra_check: skipped, {error.name} is not installed")
    sys.exit(0)

import hydra_corpus as corpus
import hydra_trees as trees

warnings.simplefilter("ignore")

# What is meant to differ. Each holds only where the rest of the text gives the same value.
MEANT = {
    "characters": "an unquoted text may hold characters that Hydra has no use for (~ # ! & ; < > ^ ` and non-ASCII)",
    "quoted key": "a key of a {map} may be quoted, so that every key can be written",
    "repeated key": "a key that comes twice in one map is an error, in {map} too and in YAML also for numbers",
    "64 bits": "an integer of more than 64 bits stays text; int() of one is an error",
    "sort": "sort() also orders quoted strings",
    "printed map": "a map inside a text is printed with its interpolations resolved",
    "null group": "group=null on the command line leaves the group out",
    "null deleted": "~key of a key that is null or ??? deletes it",
    "group beside": "`../group` without a package goes to `group`, where Hydra makes keys without names",
    "interpolation": "+ and ~ look at an interpolation as it is written, not at what it leads to",
    "behind": "a list over an interpolation that leads to a map replaces it, and is an error there; a map over ${oc.select:...} likewise",
    "list": "a configuration file is a map, not a list",
    "YAML": "yaml-cpp and PyYAML differ: [?x], [???], %x at a line's start, tags, marks of anchors and of text blocks",
    "shuffle": "shuffle() of a list is an error: nothing in a configuration is random",
}
KINDS = {OverrideType.CHANGE: "set", OverrideType.ADD: "add", OverrideType.FORCE_ADD: "force", OverrideType.DEL: "delete"}
FOREIGN = re.compile(r"[^A-Za-z0-9_/\-\\+.$%*@?|:()\[\]{},='\" \t]")
PARSER = OverridesParser.create()


def plain(value):
    """As hydra_lines prints it."""
    if isinstance(value, dict):
        if any(key is None for key in value):
            raise ValueError("a key is null")
        return {"map": [[key if isinstance(key, str) else number(key), plain(item)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return {"int": str(value)}
    if isinstance(value, float):
        return {"float": str(value)}
    raise ValueError(f"a {type(value).__name__}")


def number(key):
    return str(key)


def unresolved(value):
    """Marks strings that are interpolations; others lose the backslash before ${."""
    if isinstance(value, dict):
        return {key: unresolved(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unresolved(item) for item in value]
    if isinstance(value, str) and "${" in value:
        if re.search(r"(?<!\\)(\\\\)*\$\{", value):
            return Marked(value)
        return re.sub(r"(\\+)\$\{", lambda match: match[1][:len(match[1]) // 2] + "${", value)
    return value


class Marked(str):
    pass


def marked(value):
    if isinstance(value, dict):
        return {"map": [[key, marked(item)] for key, item in value["map"]]} if "map" in value else value
    if isinstance(value, list):
        return [marked(item) for item in value]
    return {"interpolation": str(value)} if isinstance(value, Marked) else value


def hydra_parse(text):
    item = PARSER.parse_override(text)
    if isinstance(item._value, (Sweep, Glob)) or item.is_sweep_override():
        raise ValueError("a sweep")
    return item


def theirs(line):
    if "override" in line:
        item = hydra_parse(line["override"])
        if item.key_or_group == "":
            raise ValueError("no key")
        return {"kind": KINDS[item.type], "key": item.key_or_group, "package": item.package,
                "value": marked(plain(unresolved(item.value())))}
    if "folder" in line:
        with hydra.initialize_config_dir(line["folder"], version_base=None):
            tree = hydra.compose("main", overrides=line["overrides"])
    else:
        loaded = trees.load_yaml(line["yaml"])
        if not isinstance(loaded, (dict, list)):
            raise ValueError("neither a map nor a list")
        tree = OmegaConf.create(loaded)
    if "value" in line:
        value = hydra_parse("k=" + line["value"]).value()
        OmegaConf.update(tree, "k", value, merge=True, force_add=True)
    result = walked(tree)
    return {"value": plain(result["k"] if "value" in line else result)}


def walked(node):
    """Every value as a program reads it after OmegaConf.resolve: ??? stays, and so does a reference to one."""
    if OmegaConf.is_dict(node):
        return {key: item_of(node, key) for key in node}
    if OmegaConf.is_list(node):
        return [item_of(node, index) for index in range(len(node))]
    return node


def item_of(node, key):
    try:
        return "???" if OmegaConf.is_missing(node, key) else walked(node[key])
    except InterpolationToMissingValueError:
        return "???"


def judged(line):
    try:
        return theirs(line)
    except RecursionError:
        raise
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


class Lines:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def same(mine, judge, used):
    """Equal, but for integers beyond 64 bits."""
    if isinstance(mine, dict) and isinstance(judge, dict):
        return mine.keys() == judge.keys() and all(same(mine[key], judge[key], used) for key in mine)
    if isinstance(mine, list) and isinstance(judge, list):
        return len(mine) == len(judge) and all(same(a, b, used) for a, b in zip(mine, judge))
    if isinstance(mine, str) and isinstance(judge, dict) and "int" in judge and abs(int(judge["int"])) >= 2**63:
        used.add("64 bits")
        return re.sub("_", "", mine).lstrip("+") == judge["int"] or mine.lstrip("+-").startswith("0")
    return mine == judge


def meant(line, mine, judge):
    """Which of MEANT a difference is, or nothing."""
    if "yaml" in line and "value" not in line:
        if "unknown token" in mine.get("error", "") and "?" in line["yaml"] or re.search(
                "anchor|directive|block scalar|constructor for the tag '!", judge.get("error", "")) or re.search(r"&\w+:", line["yaml"]):
            return "YAML"
    if "folder" in line and "error" in mine:
        if "already in the defaults list" in mine["error"] and re.search(r"\.\./\w+: ", trees.show(line["folder"])):
            return "group beside"
        if "the file must be a map" in mine["error"]:
            return "list"
        if re.search(r"already exists \(\$\{|is \$\{", mine["error"]):
            return "interpolation"
    if "folder" in line and "error" not in mine and "error" in judge:
        if re.search("Error merging override ~", judge["error"]):
            return "interpolation"
        if "Cannot merge DictConfig with ListConfig" in judge["error"]:
            return "behind"
        if "Got NoneType" in judge["error"]:
            return "null group"
        if "Could not delete from config" in judge["error"] and "does not exist" in judge["error"]:
            return "null deleted"
    name = next((key for key in ("override", "value") if key in line), None)
    if "error" in mine:
        if "comes twice" in mine["error"]:
            return "repeated key"
        if "shuffle() is for sweeps" in mine["error"]:
            return "shuffle"
        if "cannot convert" in mine["error"] and re.search(r"\d{19,}", mine["error"]):
            return "64 bits"
    elif "error" not in judge and "folder" in line:
        if re.search(r'\["", \{"map"', json.dumps(judge)):
            return "group beside"
    elif "error" not in judge:
        if "${" in json.dumps(judge) and "{'" in json.dumps(judge):
            return "printed map"
    elif "QuotedString' and" in judge["error"] or "and 'QuotedString" in judge["error"]:
        return "sort"
    elif name is not None:
        key, equal, value = line[name].partition("=") if name == "override" else ("", "", line[name])
        ask = lambda text: judged({**line, name: key + equal + text})
        simpler = FOREIGN.sub("?", value)
        if simpler != value and ask(simpler).get("value") == foreign_replaced(mine["value"]):
            return "characters"
        unquoted = re.sub(r"([{,]\s*)(['\"])(?:\\.|(?!\2).)*\2(\s*:)", r"\1key\3", simpler)
        if unquoted != simpler and "error" not in ask(unquoted):
            return "quoted key"
    return None


def foreign_replaced(value):
    if isinstance(value, dict):
        return {key: foreign_replaced(item) for key, item in value.items()}
    if isinstance(value, list):
        return [foreign_replaced(item) for item in value]
    return FOREIGN.sub("?", value) if isinstance(value, str) else value


def apart(mine, judge):
    """Where two values differ."""
    while isinstance(mine, dict) and isinstance(judge, dict) and "map" in mine and "map" in judge:
        a, b = mine["map"], judge["map"]
        if [item[0] for item in a] != [item[0] for item in b]:
            break
        mine, judge = next((x[1], y[1]) for x, y in zip(a, b) if x[1] != y[1])
    return mine, judge


def compare(name, lines, program, limit):
    counts, allowed, folders, shown = collections.Counter(), collections.Counter(), set(), 0
    for line in lines:
        mine, judge = program.ask(line), judged(line)
        used = set()
        if "error" in mine and "error" in judge:
            counts["errors in both"] += 1
        elif same(mine, judge, used):
            counts["the same value"] += 1
            allowed.update(used)
        elif (why := meant(line, mine, judge)) is not None:
            counts["meant to differ"] += 1
            allowed[why] += 1
        else:
            counts["different"] += 1
            if shown < limit:
                shown += 1
                if "folder" in line and line["folder"] not in folders:
                    print(trees.show(line["folder"]))
                    folders.add(line["folder"])
                if isinstance(mine.get("value"), dict) and isinstance(judge.get("value"), dict):
                    mine, judge = apart(mine["value"], judge["value"])
                print(f"  {json.dumps({k: v for k, v in line.items() if v != corpus.NEIGHBOURS}, ensure_ascii=False)}\n"
                      f"    here  {json.dumps(mine, ensure_ascii=False)}\n    judge {json.dumps(judge, ensure_ascii=False)}")
    total = sum(counts.values())
    print(f"{name}: {total}; " + ", ".join(f"{counts[key]} {key}" for key in
                                           ("the same value", "errors in both", "meant to differ", "different")))
    return counts["different"], allowed


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build", nargs="?", default="build")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--scale", type=float, default=1.0, help="of the corpus's size")
    options.add_argument("--show", type=int, default=10, help="differences of each kind")
    options.add_argument("--only", default="")
    options = options.parse_args()
    os.environ["VERLCPP_SET"] = "12"
    os.environ.pop("VERLCPP_UNSET", None)
    program = Lines(os.path.join(options.build, "test/config/hydra_lines"))
    rng = random.Random(options.seed)
    many = lambda n: range(max(1, int(n * options.scale)))
    print(f"hydra_check: hydra-core {hydra.__version__}, omegaconf {omegaconf.__version__}, seed {options.seed}")
    failed, allowed = 0, collections.Counter()
    with tempfile.TemporaryDirectory() as place:
        kinds = {
            "overrides": lambda: [{"override": corpus.override(rng)} for _ in many(8000)],
            "values": lambda: [{"value": corpus.value(rng), "yaml": corpus.NEIGHBOURS} for _ in many(4000)],
            "YAML texts": lambda: [{"yaml": corpus.yaml_text(rng)} for _ in many(4000)],
            "trees": lambda: trees.lines(rng, place, len(many(300))),
        }
        for name, make in kinds.items():
            if options.only and options.only != name:
                continue
            different, used = compare(name, make(), program, options.show)
            failed += different
            allowed += used
    for name, count in allowed.items():
        print(f"meant to differ, {count} times: {MEANT[name]}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
