#!/usr/bin/env bash
# Whole runs on one GPU, as users start them: the quickstart with four ranks on the card; GRPO of a
# model of Qwen2.5-0.5B's shape; and deterministic runs of that one, twice each, on one rank and with
# context parallelism over two. Says of each what its reward did and when its first step began, and
# closes with "N passed, N failed".
#   scripts/gpu_runs.sh [BUILD_FOLDER [MODEL_FOLDER]]
# MODEL_FOLDER is written by scripts/bench/shaped_model.py unless it is there. VERLCPP_DEVICE=cpu,
# VERLCPP_DTYPE=float32 and a small MODEL_FOLDER try the script itself.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:-build-gpu} model=${2:-$folder/model-0.5b}
device=${VERLCPP_DEVICE:-cuda} dtype=${VERLCPP_DTYPE:-bfloat16}
train=$folder/app/verlcpp-train
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export NCCL_NVLS_ENABLE=0
passed=0 failed=0

judge() { # STATUS WHAT: counts it, and says it
  if [[ $1 -eq 0 ]]; then
    passed=$((passed + 1)) && echo "passed: $2"
  else
    failed=$((failed + 1)) && echo "FAILED: $2"
  fi
}

run() { # NAME OVERRIDES...: its exit code; the log is $place/NAME.log
  local name=$1 status=0
  shift
  # One logger's file for each run, so that nothing goes on where another ended.
  VERL_FILE_LOGGER_ROOT="$place/$name" "$train" --config-name quickstart trainer.device="$device" \
    trainer.n_gpus_per_node=1 trainer.default_local_dir="$place/$name" "$@" \
    >"$place/$name.log" 2>&1 || status=$?
  if [[ $status -ne 0 ]]; then tail -n 20 "$place/$name.log"; fi
  grep -h '^start to first training step\|^mean reward\|^done in' "$place/$name.log" |
    sed "s/^/$name: /" || true
  return "$status"
}

reward_rises_to() { # NAME FACTOR LEAST: the last mean reward against the first, and on its own
  sed -n 's/^mean reward .*: \(.*\) -> \(.*\)$/\1 \2/p' "$place/$1.log" |
    awk -v factor="$2" -v least="$3" '{ ok = $2 >= factor * $1 && $2 >= least } END { exit !ok }'
}

starts_within() { # NAME SECONDS
  sed -n 's/^start to first training step: \([0-9.]*\) s.*/\1/p' "$place/$1.log" |
    awk -v most="$2" '{ ok = $1 < most } END { exit !ok }'
}

digest() { # NAME: of its last checkpoint's weights and optimizer
  find "$place/$1" -name '*.safetensors' -print0 2>/dev/null | sort -z | xargs -0 cat | md5sum | cut -d' ' -f1
}

half_billion=(
  actor_rollout_ref.model.path="$model" actor_rollout_ref.model.random_init=False
  actor_rollout_ref.actor.megatron.dtype="$dtype" actor_rollout_ref.ref.megatron.dtype="$dtype"
  data.max_token_len_per_gpu=8192 data.train_batch_size=64
  actor_rollout_ref.actor.ppo_mini_batch_size=32 actor_rollout_ref.actor.optim.lr=5e-5)
one_rank=(
  actor_rollout_ref.actor.megatron.context_parallel_size=1
  actor_rollout_ref.actor.megatron.dynamic_context_parallel=False)
two_ranks=(
  actor_rollout_ref.actor.megatron.context_parallel_size=2
  actor_rollout_ref.actor.megatron.dynamic_context_parallel=False trainer.ranks_per_gpu=2)
# Without GPUs there is no ranks_per_gpu.
if [[ $device == cpu ]]; then two_ranks[2]=trainer.n_gpus_per_node=2; fi
four_ranks=(trainer.ranks_per_gpu=4)
if [[ $device == cpu ]]; then four_ranks=(trainer.n_gpus_per_node=4); fi
deterministic=(
  trainer.total_training_steps=3 trainer.save_freq=3 actor_rollout_ref.rollout.full_determinism=True
  +actor_rollout_ref.actor.megatron.override_transformer_config.deterministic_mode=True)

if [[ ! -e "$model/config.json" ]]; then python3 scripts/bench/shaped_model.py "$model"; fi

status=0
{ run quickstart "${four_ranks[@]}" && reward_rises_to quickstart 2 0.9; } || status=$?
judge $status "the quickstart with four ranks: its reward rises to 0.9 and more"

status=0
{ run grpo "${half_billion[@]}" "${one_rank[@]}" trainer.total_training_steps=20 &&
  reward_rises_to grpo 1.5 0; } || status=$?
judge $status "GRPO of the larger model, 20 steps: its reward rises by half and more"
status=0
starts_within grpo 10 || status=$?
judge $status "its first step begins within ten seconds"

for layout in one_rank two_ranks; do
  declare -n ranks=$layout
  status=0
  for time in first second; do
    run "$layout-$time" "${half_billion[@]}" "${ranks[@]}" "${deterministic[@]}" || status=$?
  done
  first=$(digest "$layout-first") second=$(digest "$layout-second")
  echo "$layout: weights and optimizer $first and $second"
  [[ -e "$place/$layout-first/latest_checkpointed_iteration.txt" && $first == "$second" ]] || status=1
  judge $status "a deterministic run repeats bit for bit ($layout)"
done

echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
