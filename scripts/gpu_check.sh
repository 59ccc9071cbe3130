#!/usr/bin/env bash
# On a machine with a GPU: builds with all cores and runs the gpu suite.
#   scripts/gpu_check.sh [BUILD_FOLDER [meson setup options...]]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build-gpu}
[[ $# -eq 0 ]] || shift
export OPENBLAS_NUM_THREADS=1 NCCL_NVLS_ENABLE=0
scripts/configure.sh "$folder" "$@"
ninja -C "$folder" --quiet test/cuda/test_cuda app/verlcpp-train
status=0
meson test -C "$folder" --no-rebuild --suite gpu --print-errorlogs || status=$?
python3 scripts/count_tests.py "$folder/meson-logs/testlog.json" || status=1
exit "$status"
