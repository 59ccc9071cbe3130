#!/usr/bin/env bash
# On a machine with a GPU, in one line: builds with all cores, makes what transformers says of random
# models, runs the gpu suite, then compute-sanitizer on the suite's small cases. Closes with
# "N passed, N failed", where each sanitizer run and each planted fault counts as one.
#   scripts/gpu_check.sh [--suite-only | --sanitizer-only] [--parity-layers N]
#                        [BUILD_FOLDER [meson setup options...]]
# VERLCPP_PARITY_DIR names a folder that scripts/parity/transformers_reference.py has written before.
# Without it the script runs here where python3 has torch and transformers; --parity-layers cuts its
# models down to N layers.
set -euo pipefail
cd "$(dirname "$0")/.."

suite=1 sanitizer=1
parity_options=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --suite-only) sanitizer=0 ;;
    --sanitizer-only) suite=0 ;;
    --parity-layers)
      [[ "${2:-}" =~ ^[1-9][0-9]*$ ]] || { echo "--parity-layers takes a number" >&2; exit 2; }
      parity_options=(--layers "$2"); shift ;;
    -*) echo "usage: scripts/gpu_check.sh [--suite-only | --sanitizer-only] [--parity-layers N]" \
             "[BUILD_FOLDER [meson setup options...]]" >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
if [[ $suite -eq 0 && $sanitizer -eq 0 ]]; then
  echo "--suite-only and --sanitizer-only leave nothing to run" >&2
  exit 2
fi
folder=${1:-build-gpu}
[[ $# -eq 0 ]] || shift
export OPENBLAS_NUM_THREADS=1 NCCL_NVLS_ENABLE=0
passed=0 failed=0
began=$SECONDS

said() { echo "[$((SECONDS - began)) s] $*"; }
count() { # 0: passed; anything else: failed
  if [[ $1 -eq 0 ]]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# PyTorch's wheels carry a newer cuDNN than the system often has.
use_newest_cudnn() {
  local library
  library=$(python3 -c '
import importlib.util, pathlib
spec = importlib.util.find_spec("nvidia.cudnn")
print(pathlib.Path(spec.submodule_search_locations[0], "lib") if spec else "")' 2>/dev/null) || true
  if [[ -n "$library" && -e "$library/libcudnn.so.9" ]]; then
    export LD_LIBRARY_PATH="$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  fi
  python3 -c '
import ctypes
try:
    cudnn = ctypes.CDLL("libcudnn.so.9")
    with open("/proc/self/maps") as maps:
        path = next(line.split()[-1] for line in maps if "libcudnn.so" in line)
    print("cuDNN", cudnn.cudnnGetVersion(), path)
except OSError as error:
    print("cuDNN: none is found:", error)'
}

# In the background: the models' float64 takes longer than the build. Where there are several GPUs, on
# the last.
last_gpu() { python3 -c 'import torch; print(f"cuda:{max(torch.cuda.device_count() - 1, 0)}")'; }
parity_maker=
start_parity_maker() {
  if [[ -n "${VERLCPP_PARITY_DIR:-}" ]]; then
    said "transformers' numbers: $VERLCPP_PARITY_DIR"
  elif python3 -c 'import torch, transformers' 2>/dev/null; then
    mkdir -p "$folder"
    export VERLCPP_PARITY_DIR
    VERLCPP_PARITY_DIR="$(cd "$folder" && pwd)/parity"
    rm -rf "$VERLCPP_PARITY_DIR"
    python3 scripts/parity/transformers_reference.py "$VERLCPP_PARITY_DIR" --device "$(last_gpu)" \
      ${parity_options[@]+"${parity_options[@]}"} >"$folder/parity.log" 2>&1 &
    parity_maker=$!
    trap 'kill "$parity_maker" 2>/dev/null || true' EXIT
  else
    said "skipped: transformers' numbers, python3 has no torch and transformers"
  fi
}

wait_for_parity_maker() {
  [[ -n "$parity_maker" ]] || return 0
  local status=0
  wait "$parity_maker" || status=$?
  if [[ $status -ne 0 ]]; then
    tail -n 20 "$folder/parity.log"
    said "FAILED: scripts/parity/transformers_reference.py ended with $status"
    count "$status"
    unset VERLCPP_PARITY_DIR
  else
    grep -v '^Warning\|^$' "$folder/parity.log" || true
    said "transformers' numbers are made"
  fi
}

run_suite() { # NAME MESON_OPTIONS...
  local counts p f name=$1
  shift
  rm -f "$folder/meson-logs/$name.json"
  meson test -C "$folder" --no-rebuild --logbase "$name" --print-errorlogs "$@" || true
  counts=$(python3 scripts/count_tests.py "$folder/meson-logs/$name.json") || true
  grep -h 'relative to float64\|^skipped: \|: exit code \|^error: \|planned and measured\|^refused ' \
    "$folder/meson-logs/$name.txt" || true
  said "$name: $counts"
  read -r p _ f _ <<<"$counts"
  passed=$((passed + p)) failed=$((failed + f))
}

# The small cases (Catch2 tag [small]) under one tool, each block of device memory an allocation of its
# own. What each may look at:
# - memcheck: every kernel. Libraries' kernels go wrong where we call them wrongly.
# - racecheck: our kernels, in cases of one rank. A race in shared memory is within one kernel, and
#   before version 2026.1 the tool reports false ones at the warp-group barriers of Hopper's library
#   kernels.
#   Not [layers]: there cuBLAS kernels of Hopper fail under version 2025.3 even when no kernel at all
#   is checked (a name that none has), and have not where all are, which was not over after 190 s.
# - racecheck_ranks: those of several. The tool loses track of launches that threads make at the same
#   time ("a failure to track a kernel launch") and may then stand still or make kernels fail, so it
#   runs on one processor, launches wait for their kernels, and a run that lost one is made again.
# - racecheck_layers: whole layers of one rank, by the newer tool of scripts/setup.sh --dev. Version
#   2026.4 stands still where several ranks launch, which 2025.3 does not.
# - initcheck: every kernel, for it must see every write, in cases that run kernels built here alone
#   ([own]): versions before 2025.4 do not see the bulk copies with which library kernels store their
#   results, and those kernels read uninitialised parts of their own workspaces. 2026.4 does not see
#   what cuBLAS stores either.
# Kernels are chosen by a part of their mangled name (kns), in which our namespace appears.
runs=(memcheck racecheck racecheck_ranks initcheck)
newer_sanitizer=.deps/compute-sanitizer/compute-sanitizer
if [[ -x "$newer_sanitizer" ]]; then
  runs+=(racecheck_layers)
fi
tool_options() {
  case $1 in racecheck*) printf '%s\n' --force-blocking-launches --kernel-name kns=verlcpp ;; esac
}
tool_prefix() {
  case $1 in racecheck*) printf '%s\n' taskset --cpu-list "$last_processor" ;; esac
}
last_processor=$(taskset --cpu-list --pid $$ | sed 's/.*[-, ]//')
tool_cases() {
  case $1 in
    initcheck) echo "[small][own]" ;;
    racecheck) echo "[small]~[layers]~[ranks]" ;;
    racecheck_ranks) echo "[small][ranks]" ;;
    racecheck_layers) echo "[one_rank]" ;;
    *) echo "[small]" ;;
  esac
}
tool_program() {
  case $1 in racecheck_layers) echo "$newer_sanitizer" ;; *) echo "$compute_sanitizer" ;; esac
}

find_compute_sanitizer() {
  local nvcc
  command -v compute-sanitizer && return
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  for path in "$(dirname "$(readlink -f "$nvcc")")" /usr/local/cuda/bin /usr/local/cuda/compute-sanitizer; do
    if [[ -x "$path/compute-sanitizer" ]]; then echo "$path/compute-sanitizer"; return; fi
  done
  return 1
}

tool_seconds=400
sanitize() { # RUN LOG PROGRAM...: its exit code, 9 when the tool found something
  local tool=$1 log=$2 options prefix status=0
  shift 2
  mapfile -t options < <(tool_options "$tool")
  mapfile -t prefix < <(tool_prefix "$tool")
  VERLCPP_SEPARATE_BLOCKS=1 timeout -k 10 "$tool_seconds" ${prefix[@]+"${prefix[@]}"} "$(tool_program "$tool")" \
    --tool "${tool%%_*}" \
    --error-exitcode 9 --launch-timeout 120 --print-limit 20 ${options[@]+"${options[@]}"} "$@" >"$log" 2>&1 || status=$?
  return "$status"
}

lost_a_launch() { # LOG: it did, and that is all it found
  grep -q "a failure to track a kernel launch" "$1" && grep -q "All tests passed" "$1" &&
    ! grep -q "^========= \(Error\|Warning\): " "$1"
}

run_tool() { # RUN: its planted fault, then the cases; exit code: how many of the two failed
  local tool=$1 log="$folder/planted-$1.log" status=0 failures=0 attempt
  sanitize "$tool" "$log" "$folder/test/cuda/planted_fault" "${tool%%_*}" || status=$?
  if [[ $status -eq 9 ]]; then
    said "planted fault found by $tool"
  else
    tail -n 20 "$log"
    said "FAILED: $tool does not find the planted fault (exit code $status): its runs say nothing"
    failures=1
  fi
  log="$folder/sanitizer-$tool.log"
  for attempt in 1 2 3; do
    status=0
    sanitize "$tool" "$log" "$folder/test/cuda/test_cuda" "$(tool_cases "$tool")" || status=$?
    lost_a_launch "$log" || break
    said "$tool lost track of a launch, run $attempt of 3"
  done
  if [[ $status -eq 0 ]] && grep -q "All tests passed" "$log"; then
    said "$tool: clean"
    return "$failures"
  fi
  grep -m 60 '^=========\|FAILED\|^test cases' "$log" || tail -n 20 "$log"
  case $status in
    9) said "FAILED: $tool found something, see $log" ;;
    124 | 137) said "FAILED: $tool took longer than $tool_seconds s, see $log" ;;
    *) said "FAILED: the cases under $tool ended with $status, see $log" ;;
  esac
  return $((failures + 1))
}

# The tools work on the processor for the most part, so they run side by side.
run_sanitizers() {
  if ! compute_sanitizer=$(find_compute_sanitizer); then
    said "FAILED: compute-sanitizer is not in PATH and not beside nvcc; install the CUDA toolkit's," \
         "or leave it out with --suite-only"
    count 1
    return
  fi
  "$compute_sanitizer" --version | grep -i version || true
  if [[ -x "$newer_sanitizer" ]]; then
    "$newer_sanitizer" --version | grep -i version || true
  else
    said "skipped: racecheck of whole layers, scripts/setup.sh --dev fetches the tool for it"
  fi
  local -A started
  local tool failures
  for tool in "${runs[@]}"; do
    run_tool "$tool" >"$folder/$tool.out" &
    started[$tool]=$!
  done
  for tool in "${runs[@]}"; do
    failures=0
    wait "${started[$tool]}" || failures=$?
    cat "$folder/$tool.out"
    [[ $failures -le 2 ]] || failures=2
    passed=$((passed + 2 - failures)) failed=$((failed + failures))
  done
}

use_newest_cudnn
if [[ $suite -eq 1 ]]; then start_parity_maker; fi
scripts/configure.sh "$folder" "$@"
ninja -C "$folder" --quiet gpu_check bench
said "built"
if [[ $suite -eq 1 ]]; then
  run_suite gpu-suite --suite gpu --no-suite gpu_last
  wait_for_parity_maker
  run_suite gpu-suite-last --suite gpu_last
fi
if [[ $sanitizer -eq 1 ]]; then run_sanitizers; fi
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
