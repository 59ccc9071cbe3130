#!/usr/bin/env python3
"""Writes a C++ file with a function that returns the text of a file, so that the executable needs none.

usage: embed_text.py INPUT HEADER NAMESPACE FUNCTION OUTPUT.cpp
"""

import pathlib
import sys

from embed_conf import literal


def main():
    source, header, namespace, function, output = sys.argv[1:]
    text = literal(pathlib.Path(source).read_text())
    pathlib.Path(output).write_text(
        f'#include "{header}"\n\n'
        f"namespace {namespace} {{\n\n"
        f"const char* {function}() {{\n  return\n{text};\n}}\n\n"
        f"}}  // namespace {namespace}\n"
    )


if __name__ == "__main__":
    main()
