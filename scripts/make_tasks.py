#!/usr/bin/env python3
"""Writes prompt files in verl's columns from the tasks of the PyPI package reasoning-gym.

    scripts/make_tasks.py OUTPUT_FOLDER [--task NAME[:OPTION=VALUE,...]]... [--rows N] [--val-rows N]
                          [--seed N] [--format parquet|jsonl] [--instruction TEXT]

Makes OUTPUT_FOLDER/train and /test, with as many rows of every task, mixed. Only tasks whose answers
are numbers: data_source is openai/gsm8k, whose rule wants the answer after "####" (or, with
reward.gsm8k_method=flexible, as the last number). Rows of the two files are different questions.
Needs reasoning-gym, and pyarrow for Parquet.

    scripts/make_tasks.py /tmp/tasks --task chain_sum:max_terms=3,max_digits=2 --task leg_counting
"""

import argparse
import ast
import json
import pathlib
import random
import re
import sys

try:
    import reasoning_gym
except ImportError:
    reasoning_gym = None

TASKS = ["chain_sum", "basic_arithmetic", "products", "gcd", "leg_counting"]
INSTRUCTION = 'Let\'s think step by step and output the final answer after "####".'


def parse_task(text):
    name, _, options = text.partition(":")
    values = {}
    for option in filter(None, options.split(",")):
        key, equals, value = option.partition("=")
        if not equals:
            sys.exit(f"--task {text}: {option!r} is not OPTION=VALUE")
        values[key] = ast.literal_eval(value)
    return name, values


def is_number(answer):
    return re.fullmatch(r"-?\d+(\.\d+)?", answer) is not None


def questions(name, options, count, seed):
    """`count` different questions, with their answers."""
    found, size = {}, 2 * count
    while len(found) < count:
        if size > 64 * count:
            sys.exit(f"task {name}: only {len(found)} different questions with a number as answer; "
                     f"{count} are wanted")
        try:
            data = reasoning_gym.create_dataset(name, size=size, seed=seed, **options)
        except (TypeError, ValueError, AssertionError) as error:
            sys.exit(f"task {name} with {options}: {error}")
        for entry in data:
            if is_number(str(entry["answer"])):
                found.setdefault(entry["question"], str(entry["answer"]))
        size *= 2
    return list(found.items())[:count]


def row_of(question, answer, task, split, index, instruction):
    return {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "user", "content": f"{question} {instruction}".strip()}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": answer},
        "extra_info": {"split": split, "index": index, "task": task},
    }


def write(path, rows, kind):
    path = path.with_suffix("." + kind)
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    else:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    print(f"{path}: {len(rows)} rows")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--task", action="append", type=parse_task, dest="tasks")
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--val-rows", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", choices=["parquet", "jsonl"], default="parquet")
    parser.add_argument("--instruction", default=INSTRUCTION)
    options = parser.parse_args()
    if reasoning_gym is None:
        sys.exit("make_tasks: needs the Python package reasoning-gym")
    if options.rows < 1 or options.val_rows < 1:
        parser.error("--rows and --val-rows are at least 1")
    tasks = options.tasks or [(name, {}) for name in TASKS]
    split_rows = {"train": [], "test": []}
    counts = {"train": -(-options.rows // len(tasks)), "test": -(-options.val_rows // len(tasks))}
    for name, values in tasks:
        both = iter(questions(name, values, sum(counts.values()), options.seed))
        for split, rows in split_rows.items():
            rows += [(name, *next(both)) for _ in range(counts[split])]
    seen = {question for _, question, _ in split_rows["train"]}
    both = sum(question in seen for _, question, _ in split_rows["test"])
    if both:
        sys.exit(f"{both} questions would be in both files; name tasks that do not overlap")
    options.folder.mkdir(parents=True, exist_ok=True)
    wanted = {"train": options.rows, "test": options.val_rows}
    for split, rows in split_rows.items():
        random.Random(options.seed).shuffle(rows)
        write(options.folder / split,
              [row_of(question, answer, task, split, index, options.instruction)
               for index, (task, question, answer) in enumerate(rows[:wanted[split]])],
              options.format)


if __name__ == "__main__":
    main()
