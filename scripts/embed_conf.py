#!/usr/bin/env python3
"""Writes a C++ file that holds every YAML file below a folder, so that the executable needs none.

usage: embed_conf.py CONF_FOLDER OUTPUT.cpp OUTPUT.d
"""

import pathlib
import sys


def literal(text):
    """A C++ string literal, one line of the text per line of C++."""
    lines = []
    for line in text.splitlines(keepends=True):
        escaped = line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'       "{escaped}"')
    return "\n".join(lines) or '       ""'


def main():
    conf, output, depfile = (pathlib.Path(argument) for argument in sys.argv[1:])
    files = sorted(conf.rglob("*.yaml"))
    entries = "".join(
        f'      {{"{file.relative_to(conf).as_posix()}",\n{literal(file.read_text())}}},\n'
        for file in files
    )
    output.write_text(
        '#include "config/embedded.h"\n\n'
        "namespace verlcpp::config {\n\n"
        'SearchPath embedded() {\n  return in_memory("conf", {\n'
        f"{entries}"
        "  }, Origin::Source::kShipped);\n}\n\n"
        "}  // namespace verlcpp::config\n"
    )
    # The folders too, so that a new file is noticed.
    inputs = files + sorted({conf, *(file.parent for file in files)})
    depfile.write_text(f"{output}: " + " ".join(str(item) for item in inputs) + "\n")


if __name__ == "__main__":
    main()
