#!/usr/bin/env python3
"""Checks an exported model folder against transformers (needs torch and transformers).

  scripts/check_export.py MODEL_FOLDER RECORDED.jsonl

RECORDED is what `actor_rollout_ref.rollout.record_path` wrote in a run that started from MODEL_FOLDER:
its first step's rollout_log_probs were computed by verlcpp from exactly these weights. transformers
loads the same folder and computes the log-probs of the same tokens. Prints the largest difference;
exits 1 when it is above --tolerance.
"""
import argparse
import json
import sys

import torch
import transformers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("recorded")
    parser.add_argument("--rows", type=int, default=64, help="rows of the first step to check")
    parser.add_argument("--tolerance", type=float, default=2e-5)
    args = parser.parse_args()

    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        args.folder, dtype=torch.float32, output_loading_info=True)
    problems = {k: v for k, v in info.items() if v}
    if problems:
        print(f"loading {args.folder}: {problems}")
        sys.exit(1)
    worst, tokens = 0.0, 0
    with open(args.recorded, encoding="utf-8") as rows, torch.no_grad():
        for row, _ in zip(map(json.loads, rows), range(args.rows)):
            prompt, response = row["prompt_ids"], row["response_ids"]
            logits = model(torch.tensor([prompt + response])).logits[0].double()
            scaled = (logits / row.get("temperature", 1.0)).log_softmax(-1)
            ours = torch.tensor(row["rollout_log_probs"], dtype=torch.float64)
            theirs = scaled[len(prompt) - 1:-1].gather(1, torch.tensor(response)[:, None])[:, 0]
            worst = max(worst, (ours - theirs).abs().max().item())
            tokens += len(response)
    print(f"{args.folder}: {tokens} tokens, largest log-prob difference {worst:.2e}")
    sys.exit(0 if worst <= args.tolerance else 1)


main()
