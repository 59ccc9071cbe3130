#!/usr/bin/env bash
# The controlled comparison of dynamic with static context parallelism: the same samples, weights and
# optimizer state before each step, arms in turn. Sets up, builds, and runs it on the quickstart's
# model and four CPU ranks. Further arguments are flags and overrides, e.g.
# scripts/compare_dcp.sh --compare-steps 10 --compare-json compare.json data.train_batch_size=32
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/configure.sh build
ninja -C build --quiet app/verlcpp-train
# The three lines of dynamic context parallelism: the static arms pack 64 x 4 tokens.
exec build/app/verlcpp-train --compare-dcp --config-name quickstart \
  actor_rollout_ref.actor.megatron.context_parallel_size=4 \
  actor_rollout_ref.actor.megatron.dynamic_context_parallel=True \
  actor_rollout_ref.actor.megatron.max_seqlen_per_dp_cp_rank=64 \
  "$@"
