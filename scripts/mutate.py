#!/usr/bin/env python3
"""Copies a source file with one fault in it: test/mutants/mutants.toml says which.

  mutate.py --list                 names and files, one mutant a line
  mutate.py NAME OUTPUT            writes the changed file
"""
import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
MUTANTS = tomllib.loads((ROOT / "test/mutants/mutants.toml").read_text())["mutant"]


def write(name: str, output: str) -> None:
    mutant = next(m for m in MUTANTS if m["name"] == name)
    text = (ROOT / mutant["file"]).read_text()
    find = mutant["find"].strip("\n")
    count = text.count(find)
    if count != 1:
        sys.exit(f"mutants.toml: {name}: `find` occurs {count} times in {mutant['file']}, "
                 "must occur once; follow what the file says today")
    pathlib.Path(output).write_text(text.replace(find, mutant["replace"].strip("\n")))


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        for m in MUTANTS:
            print(m["name"], m["file"])
    else:
        write(*sys.argv[1:])
