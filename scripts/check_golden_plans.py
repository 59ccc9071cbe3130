#!/usr/bin/env python3
"""Runs every golden case of the dynamic CP scheduler through `verlcpp-train --plan`.

  scripts/check_golden_plans.py BINARY test/golden/dcp_schedule.jsonl

A case that upstream schedules must come out the same, rank by rank. A case that upstream refuses or
crashes on must be refused (exit code 2, one message) when no plan exists, and otherwise be scheduled
within the plan's guarantees.
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

MEGATRON = "actor_rollout_ref.actor.megatron."


def plan(binary, case, folder):
    path = os.path.join(folder, f"{case['id']}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(case["seq_lens"], file)
    arguments = [
        binary, "--plan", path, "--format", "json",
        f"trainer.n_gpus_per_node={case['dp'] * case['cp']}", "trainer.nnodes=1",
        f"{MEGATRON}context_parallel_size={case['cp']}",
        f"{MEGATRON}dynamic_context_parallel=True",
        f"{MEGATRON}max_seqlen_per_dp_cp_rank={case['max_seqlen_per_dp_cp_rank']}",
        f"+{MEGATRON}override_transformer_config.min_dynamic_context_parallel_size="
        f"{case['min_cp_size']}",
    ]
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


def is_true_refusal(case):
    pool = case["dp"] * case["cp"]
    lengths = case["seq_lens"]
    return (not lengths or min(lengths) < 1 or case["min_cp_size"] > pool
            or max(lengths) > pool * case["max_seqlen_per_dp_cp_rank"])


def broken_guarantee(case, out):
    """What a plan of ours breaks, or None."""
    pool, lengths = case["dp"] * case["cp"], case["seq_lens"]
    seen = []
    for micro_batch in out["micro_batches"]:
        ranks = [rank for group in micro_batch["groups"] for rank in group["ranks"]]
        if ranks != list(range(pool)):
            return "the groups do not cover the pool in order"
        for group in micro_batch["groups"]:
            seen += group["samples"]
            if not group["samples"]:
                return "a rank is idle"
            total = sum(lengths[sample] for sample in group["samples"])
            if total > case["max_seqlen_per_dp_cp_rank"] * len(group["ranks"]):
                return "a rank is over its budget"
            if any(micro_batch["ranks"][rank] != group["samples"] for rank in group["ranks"]):
                return "ranks and groups disagree"
        if sum(micro_batch["tokens"]) != sum(
                lengths[sample] for group in micro_batch["groups"] for sample in group["samples"]):
            return "the real tokens of the shards do not add up"
    if sorted(seen) != list(range(len(lengths))):
        return "not every sample exactly once"
    return None if out["total_tokens"] == sum(lengths) else "total_tokens is wrong"


def check(binary, case, folder):
    """(kind, problem or None) of one case."""
    result = plan(binary, case, folder)
    if is_true_refusal(case):
        refused = result.returncode == 2 and result.stdout == "" and result.stderr.strip()
        return "refused", None if refused else f"exit {result.returncode}, wanted a refusal"
    if result.returncode != 0:
        return "failed", f"exit {result.returncode}: {result.stderr.strip()}"
    out = json.loads(result.stdout)
    problem = broken_guarantee(case, out)
    if "groups" not in case:
        return "repaired", problem
    if [micro_batch["ranks"] for micro_batch in out["micro_batches"]] != case["groups"]:
        problem = "the plan differs from upstream's"
    return "equal", problem


def main():
    binary, golden = sys.argv[1:3]
    with open(golden, encoding="utf-8") as file:
        cases = [json.loads(line) for line in file]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as workers:
        results = list(workers.map(lambda case: check(binary, case, folder), cases))
    counts, failures = {}, 0
    for case, (kind, problem) in zip(cases, results):
        counts[kind] = counts.get(kind, 0) + 1
        if problem is not None:
            failures += 1
            print(f"case {case['id']} ({case['tag']}): {problem}")
    summary = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    print(f"{len(cases)} golden cases: {summary}; {failures} failures")
    return 1 if failures or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
