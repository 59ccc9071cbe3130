#!/usr/bin/env bash
# A two-dimensional sweep without -m: a shell loop, for when the loop has to do something of its own.
# Every run has a folder (hydra.run.dir) in which all that it writes lies, and one that fails does
# not end the loop. The same runs as
#   verlcpp-train -m ... actor_rollout_ref.actor.optim.lr=1e-3,3e-3,1e-2 actor_rollout_ref.rollout.n=4,8
#
#   scripts/sweep.sh FOLDER [flags and overrides of every run...]
#
# VERLCPP_TRAIN names the executable, LRS and NS the values.
set -uo pipefail
[[ $# -ge 1 && $1 != -* && $1 != *=* ]] || { echo "usage: scripts/sweep.sh FOLDER [overrides...]" >&2; exit 2; }
folder=$1
shift
train=${VERLCPP_TRAIN:-$(dirname "$0")/../build/app/verlcpp-train}
code=0
for lr in ${LRS:-1e-3 3e-3 1e-2}; do
  for n in ${NS:-4 8}; do
    run="$folder/lr=$lr,n=$n"
    echo "== $run"
    "$train" --config-name quickstart "$@" \
      actor_rollout_ref.actor.optim.lr="$lr" actor_rollout_ref.rollout.n="$n" \
      hydra.run.dir="'$run'"
    ended=$?
    echo "== $run ended with $ended"
    [[ $code -ne 0 ]] || code=$ended
    # 75: a signal asked for the end, of this loop too.
    [[ $ended -ne 75 && $ended -lt 128 ]] || exit "$ended"
  done
done
exit "$code"
