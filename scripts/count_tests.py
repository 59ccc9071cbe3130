#!/usr/bin/env python3
"""Adds up the test cases of a Meson test log and prints "N passed, N failed".

A Catch2 program counts with its own cases, any other test as one. Exits 1 when a case failed or
when nothing ran.
"""
import json
import os
import re
import sys


def cases(test):
    """(passed, failed) of one log entry."""
    out = test.get("stdout", "")
    passed, failed = 0, 0
    match = re.search(r"All tests passed \(\d+ assertions? in (\d+) test cases?\)", out)
    if match:
        passed = int(match.group(1))
    match = re.search(r"^test cases:(.*)$", out, re.MULTILINE)
    if match:
        numbers = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed)", match.group(1))}
        passed, failed = numbers.get("passed", 0), numbers.get("failed", 0)
    match = re.search(r"^(\d+) passed, (\d+) failed$", out, re.MULTILINE)
    if match:
        passed, failed = int(match.group(1)), int(match.group(2))
    ok = test["result"] in ("OK", "EXPECTEDFAIL")
    if not ok:
        return passed, max(failed, 1)
    return max(passed, 1), failed


def main():
    passed = failed = 0
    if not os.path.exists(sys.argv[1]):  # nothing was built
        print("0 passed, 1 failed")
        sys.exit(1)
    with open(sys.argv[1], encoding="utf-8") as log:
        for line in log:
            p, f = cases(json.loads(line))
            passed += p
            failed += f
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


main()
