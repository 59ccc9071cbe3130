#!/usr/bin/env python3
"""Writes a recording for rollout.name=replay whose sequences have given lengths.

Token ids and rewards are random; every sequence begins with a share of prompt, and each run of --n rows
is a group with one uid. Prints the overrides that play it back as one step.

  scripts/bench/recorded_lengths.py scripts/bench/lengths/long_tail.json rows.jsonl
"""

import argparse
import json
import pathlib
import random
import shlex
import sys


def parsed():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lengths", type=pathlib.Path, help="JSON array of tokens a sequence")
    parser.add_argument("output", type=pathlib.Path, help="JSONL file to write")
    parser.add_argument("--vocab", type=int, default=151936, help="ids lie below it (151936)")
    parser.add_argument("--prompt-share", type=float, default=0.03, help="of each sequence (0.03)")
    parser.add_argument("--n", type=int, default=4, help="rows of a group (4)")
    parser.add_argument("--seed", type=int, default=1, help="of ids and rewards (1)")
    options = parser.parse_args()
    if options.vocab < 1 or options.n < 1 or not 0 <= options.prompt_share <= 1:
        parser.error("--vocab and --n are at least 1, --prompt-share lies between 0 and 1")
    return options


def read_lengths(path, n):
    try:
        lengths = json.loads(path.read_text())
    except OSError as error:
        sys.exit(f"{path}: cannot be read: {error.strerror}")
    except ValueError as error:
        sys.exit(f"{path}: is not JSON: {error}")
    whole = isinstance(lengths, list) and all(type(length) is int for length in lengths)
    if not whole or not lengths or min(lengths) < 2:
        sys.exit(f"{path}: must hold an array of integers, each at least 2: a prompt and a response")
    if len(lengths) % n != 0:
        sys.exit(f"{path}: {len(lengths)} lengths make no groups of --n {n}")
    return lengths


def prompt_of(length, share):
    return min(max(round(share * length), 1), length - 1)


def write_rows(out, lengths, options):
    """Returns the longest prompt and the longest response."""
    draw = random.Random(options.seed)
    longest_prompt = longest_response = 1
    for index, length in enumerate(lengths):
        prompt = prompt_of(length, options.prompt_share)
        ids = [draw.randrange(options.vocab) for _ in range(length)]
        row = {
            "uid": f"group{index // options.n}",
            "prompt_ids": ids[:prompt],
            "response_ids": ids[prompt:],
            "reward": draw.random(),
        }
        out.write(json.dumps(row) + "\n")
        longest_prompt = max(longest_prompt, prompt)
        longest_response = max(longest_response, length - prompt)
    return longest_prompt, longest_response


def main():
    options = parsed()
    lengths = read_lengths(options.lengths, options.n)
    if options.output.exists() and options.output.samefile(options.lengths):
        sys.exit(f"{options.output}: is the file of lengths; the recording must be a file of its own")
    try:
        with open(options.output, "w") as out:
            longest_prompt, longest_response = write_rows(out, lengths, options)
    except OSError as error:
        sys.exit(f"{options.output}: cannot be written: {error.strerror}")
    print(
        "actor_rollout_ref.rollout.name=replay",
        shlex.quote(f"actor_rollout_ref.rollout.replay_path={options.output}"),
        f"data.train_batch_size={len(lengths) // options.n}",
        f"actor_rollout_ref.rollout.n={options.n}",
        f"data.max_prompt_length={longest_prompt}",
        f"data.max_response_length={longest_response}",
        "trainer.total_training_steps=1",
    )


if __name__ == "__main__":
    main()
