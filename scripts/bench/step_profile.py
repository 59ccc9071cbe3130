#!/usr/bin/env python3
"""Where the time of a training step goes on the GPU, by kind of work.

  scripts/bench/step_profile.py [--json FILE] [--trace LIBRARY] PROGRAM ARGUMENTS...

PROGRAM is `bench step ...`; it runs with the kernel trace (`ninja -C build kernel_trace`) loaded into
it. A step is what lies between two passes of AdamW; of all whole steps the one of median length is
told. Idle is time in which nothing ran, also by what came before and after it. Tracing itself makes a
step a little longer.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# The first that a name matches; names are mangled.
KINDS = [
    ("transfers", "nccl"),
    ("head: logits, statistics, gradient",
     "head_stats|merge_parts|log_prob|logit_stats|keep_logits"),
    ("gate and up with SwiGLU", "gate_up_kernel"),
    ("SwiGLU", "swiglu"),
    ("AdamW", "adamw"),
    ("attention", "fmha|flash|sdpa|cudnn|attention|dot_do_o|convert_dq|seqlen"),
    ("products", "nvjet|gemm|cutlass|xmma|splitK|cublas"),
    ("norms", "rms_norm|weight_parts|norm"),
    ("q, k, v", "split_qkv|bias_parts|rope"),
    ("gradient norm", "square_sums|add_partials"),
    ("embedding and rows", "embedding|gather|scatter|sort|rows"),
    ("memset", "memset|fill_kernel|fill_zero"),
    ("copies", "memcpy|copy_kernel|convert"),
]


def kind_of(name):
    for kind, pattern in KINDS:
        if re.search(pattern, name, re.IGNORECASE):
            return kind
    return "other"


def events_of(library, command):
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder, "trace.tsv")
        environment = dict(os.environ, CUDA_INJECTION64_PATH=str(library), KERNEL_TRACE=str(trace))
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        lines = trace.read_text().splitlines()
    fields = [line.split("\t") for line in lines]
    if len({device for device, _, _, _ in fields}) > 1:
        sys.exit("the trace is of several GPUs; CUDA_VISIBLE_DEVICES picks one")
    return sorted((int(start), int(end), name) for _, start, end, name in fields)


def steps_of(events):
    """Of each step: when the AdamW pass before it ended, and its events up to the end of its own."""
    steps, begin, ended, in_pass = [], None, None, False
    for i, (_, _, name) in enumerate(events):
        is_adamw = "adamw" in name
        if in_pass and not is_adamw:
            if begin is not None:
                steps.append((ended, events[begin:i]))
            begin, ended = i, events[i - 1][1]
        in_pass = is_adamw
    # Leaves out what is no step of training: the optimizer alone.
    return [s for s in steps if any(re.search("head_stats|logit_stats", e[2]) for e in s[1])]


def summary_of(begin, step):
    spent, kernels = collections.Counter(), collections.Counter()
    gaps, gap_counts = collections.Counter(), collections.Counter()
    reached, idle, before = begin, 0, "AdamW"
    for start, end, name in step:
        idle += max(0, start - reached)
        if start > reached:
            between = f"{before} -> {kind_of(name)}"
            gaps[between] += start - reached
            gap_counts[between] += 1
        if end >= reached:
            before = kind_of(name)
        spent[kind_of(name)] += max(0, end - max(start, reached))
        kernels[kind_of(name)] += 1
        reached = max(reached, end)
    rows = [{"kind": k, "milliseconds": round(ns / 1e6, 3), "kernels": kernels[k]}
            for k, ns in spent.most_common()]
    idle_rows = [{"between": b, "milliseconds": round(ns / 1e6, 3), "times": gap_counts[b]}
                 for b, ns in gaps.most_common(8)]
    return {"step_milliseconds": round((reached - begin) / 1e6, 3),
            "idle_milliseconds": round(idle / 1e6, 3), "kinds": rows, "idle": idle_rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--trace", type=pathlib.Path,
                        default=pathlib.Path("build/scripts/bench/libkernel_trace.so"))
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.command:
        parser.error("no program")
    if not options.trace.exists():
        sys.exit(f"{options.trace} is missing: ninja -C build kernel_trace, or --trace")
    steps = steps_of(events_of(options.trace.resolve(), options.command))
    if not steps:
        sys.exit("the trace has no whole step between two passes of AdamW")
    steps.sort(key=lambda s: s[1][-1][1] - s[0])
    summary = summary_of(*steps[len(steps) // 2])
    summary["steps_seen"] = len(steps)
    summary["command"] = " ".join([pathlib.Path(options.command[0]).name, *options.command[1:]])
    for row in summary["kinds"]:
        print(f"{row['kind']:<36} {row['milliseconds']:>9.3f} ms {row['kernels']:>6}")
    print(f"{'idle':<36} {summary['idle_milliseconds']:>9.3f} ms")
    for row in summary["idle"]:
        print(f"  {row['between']:<60} {row['milliseconds']:>7.3f} ms {row['times']:>5}")
    print(f"{'step':<36} {summary['step_milliseconds']:>9.3f} ms")
    if options.json:
        options.json.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
