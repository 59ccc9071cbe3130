#!/usr/bin/env python3
"""Checks the direction of the arrows between folders, and what may be included where.

A folder includes only what it points to, and what those reach. No CUDA, NCCL or cuDNN header may
appear in lib/ or app/; yaml-cpp, spdlog, CLI11 and Arrow each have one home; no function-like macros.
"""
import pathlib
import re
import sys

ARROWS = {
    "base": [],
    "tensor": ["base"],
    "schedule": ["base"],
    "jinja": ["base"],
    "algo": ["base"],
    "config": ["base"],
    "cpu": ["tensor"],
    "parallel": ["tensor"],
    "data": ["schedule", "jinja"],
    "reward": ["data"],
    "model": ["parallel", "data", "tensor"],
    "rollout": ["model"],
    "train": ["rollout", "reward", "model", "algo", "config"],
    "cuda": ["tensor", "parallel"],
    "app": ["train", "cpu", "cuda", "config"],
}
HOMES = {
    "yaml-cpp/": ["lib/config/yaml.cpp"],
    "spdlog/": ["lib/base/log.cpp"],
    "CLI/": ["app/cli.cpp"],
    "arrow/": ["lib/data/parquet.cpp"],
    "parquet/": ["lib/data/parquet.cpp"],
}
DEVICE_HEADERS = re.compile(r"^(cuda|cublas|cudnn|nccl|curand)[\w-]*(\.h|/)")


def reach(folder):
    """All folders `folder` may include, itself included."""
    seen, todo = set(), [folder]
    while todo:
        here = todo.pop()
        if here not in seen:
            seen.add(here)
            todo += ARROWS[here]
    return seen


def check(path, folder, allowed):
    problems = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        where = f"{path}:{number}"
        if re.match(r"\s*#\s*define\s+\w+\(", line):
            problems.append(f"{where}: function-like macro")
        match = re.match(r'\s*#\s*include\s+[<"]([^>"]+)[>"]', line)
        if not match:
            continue
        header = match.group(1)
        top = header.split("/")[0]
        if "/" in header and top in ARROWS and top not in allowed:
            problems.append(f"{where}: {folder}/ may not include {header}")
        if folder != "cuda" and DEVICE_HEADERS.match(header) and header != "cuda/runtime.h":
            problems.append(f"{where}: device header {header} outside of cuda/")
        for prefix, homes in HOMES.items():
            if header.startswith(prefix) and str(path) not in homes:
                problems.append(f"{where}: {prefix} belongs to {', '.join(homes)}")
    return problems


def main():
    folders = {f"lib/{name}": name for name in ARROWS if name not in ("app", "cuda")}
    folders.update({"app": "app", "cuda": "cuda"})
    problems, files = [], 0
    for root, folder in folders.items():
        for path in sorted(pathlib.Path(root).glob("**/*")):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh"):
                files += 1
                problems += check(path, folder, reach(folder))
    print("\n".join(problems) if problems else f"layers: {files} files, all arrows point down")
    sys.exit(1 if problems else 0)


main()
