#!/usr/bin/env python3
"""scripts/make_tasks.py with tasks made here instead of reasoning-gym's."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))
import make_tasks


class Sums:
    """As many different questions as `distinct`, every third without a number as answer."""

    def __init__(self, distinct):
        self.distinct = distinct

    def create_dataset(self, name, size, seed, **options):
        if options:
            raise TypeError(f"unknown option {list(options)[0]}")
        numbers = [(seed + i) % self.distinct for i in range(size)]
        return [{"question": f"{name}: {n} + 1?", "answer": "many" if n % 3 == 0 else n + 1}
                for n in numbers]


class MakeTasks(unittest.TestCase):
    def run_with(self, distinct, *arguments):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(
                make_tasks, "reasoning_gym", Sums(distinct)), mock.patch.object(
                sys, "argv", ["make_tasks.py", folder, "--format", "jsonl", *arguments]):
            with contextlib.redirect_stdout(io.StringIO()):
                make_tasks.main()
            return [[json.loads(line) for line in pathlib.Path(folder, name).read_text().splitlines()]
                    for name in ("train.jsonl", "test.jsonl")]

    def test_rows(self):
        arguments = ["--task", "sums", "--task", "more", "--rows", "21", "--val-rows", "6",
                     "--instruction", "Say it."]
        train, test = self.run_with(100, *arguments)
        self.assertEqual((len(train), len(test)), (21, 6))
        prompts = [row["prompt"][0]["content"] for row in train + test]
        self.assertEqual(len(set(prompts)), 27)  # no question twice, none in both files
        self.assertEqual({row["extra_info"]["task"] for row in train}, {"sums", "more"})
        for split, rows in (("train", train), ("test", test)):
            for index, row in enumerate(rows):
                task, n = row["prompt"][0]["content"].removesuffix(" + 1? Say it.").split(": ")
                self.assertEqual(row, {
                    "data_source": "openai/gsm8k",
                    "prompt": [{"role": "user", "content": f"{task}: {n} + 1? Say it."}],
                    "ability": "math",
                    "reward_model": {"style": "rule", "ground_truth": str(int(n) + 1)},
                    "extra_info": {"split": split, "index": index, "task": task}})
                self.assertNotEqual(int(n) % 3, 0)
        self.assertEqual(self.run_with(100, *arguments), [train, test])
        self.assertNotEqual(self.run_with(100, *arguments, "--seed", "2"), [train, test])

    def test_too_few_questions(self):
        with self.assertRaises(SystemExit) as stop:
            self.run_with(9, "--task", "sums", "--rows", "10", "--val-rows", "1")
        self.assertEqual(str(stop.exception), "task sums: only 6 different questions with a number as "
                                              "answer; 11 are wanted")

    def test_options(self):
        self.assertEqual(make_tasks.parse_task("gcd"), ("gcd", {}))
        self.assertEqual(make_tasks.parse_task("a:b=3,c='x'"), ("a", {"b": 3, "c": "x"}))
        with self.assertRaises(SystemExit) as stop:
            make_tasks.parse_task("a:b")
        self.assertEqual(str(stop.exception), "--task a:b: 'b' is not OPTION=VALUE")
        with self.assertRaises(SystemExit) as stop:
            self.run_with(9, "--task", "sums:b=1")
        self.assertEqual(str(stop.exception), "task sums with {'b': 1}: unknown option b")

    def test_numbers(self):
        for text, number in (("7", True), ("-12.50", True), ("1/2", False), ("1.", False), ("", False)):
            self.assertEqual(make_tasks.is_number(text), number, text)


if __name__ == "__main__":
    unittest.main()
