#!/usr/bin/env bash
# README command two: sets up, builds, runs the cpu suite, closes with "N passed, N failed".
#   scripts/test.sh [BUILD_FOLDER [meson setup options...]]
# VERLCPP_SUITE picks another suite; only what it needs is built.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build}
[[ $# -eq 0 ]] || shift
scripts/setup.sh
scripts/configure.sh "$folder" "$@"
status=0
# Instrumented builds on a busy machine take their time.
meson test -C "$folder" --suite "${VERLCPP_SUITE:-cpu}" --print-errorlogs \
  --timeout-multiplier 4 || status=$?
python3 scripts/count_tests.py "$folder/meson-logs/testlog.json" || status=1
exit "$status"
