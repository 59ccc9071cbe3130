#!/usr/bin/env python3
"""Holds lib/config against Hydra and OmegaConf: random overrides, values, YAML texts and layered trees,
read by both; each must give the same value, or an error in both.

    scripts/parity/hydra_check.py [BUILD_FOLDER] [--seed N] [--scale X]

Needs hydra-core and omegaconf; says so and ends with 0 where they are not, and with 1 at a difference.
It builds what it asks, test/config/hydra_lines. For maintainers.
"""
import argparse
import collections
import contextlib
import copy
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
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import OverrideType, QuotedString, Sweep, Glob
    from omegaconf import OmegaConf
    from omegaconf.errors import InterpolationToMissingValueError
except ImportError as error:
    print(f"hydra_check: skipped, {error.name} is not installed")
    sys.exit(0)

import hydra_corpus as corpus
import hydra_meant as meant
import hydra_trees as trees

warnings.simplefilter("ignore")

KINDS = {OverrideType.CHANGE: "set", OverrideType.ADD: "add", OverrideType.FORCE_ADD: "force", OverrideType.DEL: "delete"}
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
        with hydra.initialize_config_dir(line["folder"], version_base=None), read_anew(line.get("read_anew")):
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


@contextlib.contextmanager
def quoted_in_order():
    """Lets Hydra's sort() compare quoted strings by their text."""
    text = lambda item: item.text if isinstance(item, QuotedString) else item
    QuotedString.__lt__ = lambda a, b: text(a) < text(b)
    QuotedString.__gt__ = lambda a, b: text(a) > text(b)
    try:
        yield
    finally:
        del QuotedString.__lt__, QuotedString.__gt__


@contextlib.contextmanager
def read_anew(wanted):
    """Keeps Hydra from merging one file's maps into those of another use of the same file."""
    original = ConfigLoaderImpl._load_single_config
    if wanted:
        ConfigLoaderImpl._load_single_config = lambda *a, **k: copy.deepcopy(original(*a, **k))
    try:
        yield
    finally:
        ConfigLoaderImpl._load_single_config = original


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
        with quoted_in_order() if line.get("quoted_in_order") else contextlib.nullcontext():
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
        elif meant.same(mine, judge, used):
            counts["the same value"] += 1
            allowed.update(used)
        elif (why := meant.difference(line, mine, judge, program.ask, judged)) is not None:
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
    subprocess.run(["ninja", "-C", options.build, "--quiet", "test/config/hydra_lines"], check=True)
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
        print(f"meant to differ, {count} times: {meant.MEANT[name]}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
