#!/usr/bin/env python3
"""Checks that every key that is bound is read: a member of a configuration struct is named somewhere
besides its declaration, its binding and its validation.

The structs are those with a `fields` visitor in lib/train/*_config.h. A member counts as read where
a file of lib/train or app has `receiver.member`, and `receiver` is a variable, parameter or member of
the struct's type there. Files that only bind or validate do not count. Keys that are bound to be checked
alone have a rule in lib/train/key_rules_bound.cpp (refused or without effect), so that --explain-keys tells.

  scripts/check_keys.py [--list]     --list prints where each member is read
"""
import pathlib
import re
import sys

HEADERS = ["lib/train/" + block + "_config.h"
           for block in ["actor_rollout_ref", "data", "megatron", "reward", "train", "trainer"]]
NOT_READING = re.compile(r"lib/train/(validate\w*|key_\w+|explain_keys|plan_lengths)\.(cpp|h)$")
STRUCT = re.compile(r"^struct (\w+) \{(.*?)^\};", re.S | re.M)
# Keys that work without being read by name: why.
WORKS = {
    "algorithm.adv_estimator": "grpo is what is built, and not the default: others are refused",
    "actor_rollout_ref.model.random_init": "its check is what it does: a folder without weights passes",
    "actor_rollout_ref.rollout.multi_turn.tool_config_path": "data.tool_config_path follows it",
}
ROOT = pathlib.Path(__file__).resolve().parent.parent


def structs():
    """Name -> {member: type} of those that are bound, and the text of all headers."""
    found, text = {}, ""
    for header in HEADERS:
        text += re.sub(r"//[^\n]*", "", (ROOT / header).read_text())
    for name, body in STRUCT.findall(text):
        bound = re.findall(r'v\("\w+", (\w+)\)', body)
        if not bound:
            continue
        declared = {}
        for line in body.split("template <class V>")[0].split(";"):
            match = re.match(r"\s*([\w:]+(?:<.*?>+)?)\s+(\w.*)$", line, re.S)
            if match:
                for member in re.findall(r"(\w+)\s*(?:=[^,]*|\{\})?\s*(?:,|$)", match.group(2)):
                    declared[member] = match.group(1)
        found[name] = {member: declared[member] for member in bound}
    return found


def sources():
    """Relative name -> text without comments and without what binds."""
    out = {}
    for folder in ("lib/train", "app"):
        for path in sorted((ROOT / folder).rglob("*")):
            name = str(path.relative_to(ROOT))
            if path.suffix not in (".cpp", ".h", ".cu") or NOT_READING.match(name):
                continue
            text = re.sub(r"//[^\n]*", "", path.read_text())
            out[name] = re.sub(r'"(\\.|[^"\\\n])*"', '""', text)
    return out


def receivers(struct, all_structs, text):
    """Names by which `text` may hold a `struct`: members of other structs, variables, parameters."""
    names = {m for fields in all_structs.values() for m, kind in fields.items() if kind == struct}
    names |= set(re.findall(rf"\b{struct}\s*[&*]?\s*(\w+)\b", text))
    return names


def rules():
    """Patterns of keys that are bound and have a kind of their own."""
    text = (ROOT / "lib/train/key_rules_bound.cpp").read_text()
    return re.findall(r'^\s*\{"([^"]+)", k(?:NoEffect|Refused)', text, re.M)


def keys_of(struct, all_structs):
    """The dotted keys at which `struct` is bound."""
    if struct == "TrainConfig":
        return [""]
    return [
        prefix + member + "."
        for owner, fields in all_structs.items()
        for member, kind in fields.items()
        if kind == struct
        for prefix in keys_of(owner, all_structs)
    ]


def has_rule(key, patterns):
    def matches(pattern):
        return re.fullmatch(re.escape(pattern).replace(r"\*", "[^.]*"), key) is not None

    return any(matches(pattern) for pattern in patterns)


def main():
    all_structs, texts, patterns = structs(), sources(), rules()
    unread, count = [], 0
    for struct, fields in all_structs.items():
        for member, kind in fields.items():
            if kind in all_structs:
                continue
            count += 1
            places = []
            for name, text in texts.items():
                if member not in text:
                    continue
                own = "|".join(sorted(receivers(struct, all_structs, text)))
                if own and re.search(rf"\b({own})(\.|->){member}\b", text):
                    places.append(name)
            if "--list" in sys.argv:
                print(f"{struct}::{member}: {', '.join(places)}")
            keys = [prefix + member for prefix in keys_of(struct, all_structs)]
            if not places:
                unread += [key for key in keys if key not in WORKS and not has_rule(key, patterns)]
    if unread:
        print("bound, but read nowhere and without a rule in lib/train/key_rules_bound.cpp:\n  " + "\n  ".join(unread))
        sys.exit(1)
    print(f"keys: {count} bound members, each is read or has a rule")


main()
