#!/usr/bin/env bash
# Installs everything the build and the tests need, from Debian's packages. Idempotent; needs neither
# a GPU nor nvcc. Debian has no Arrow, which reads Parquet: unless pkg-config finds one, its headers and
# libraries come from a wheel (PyPI) into .deps/. Where nvcc is, so do the headers of the CUDA build.
#   scripts/setup.sh         what the two README commands need
#   scripts/setup.sh --dev   also clang-format, which CI checks with, and where nvcc is the newer
#                            compute-sanitizer that scripts/gpu_check.sh looks at whole layers with
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  g++ meson ninja-build pkg-config ccache python3
  catch2 libcli11-dev libyaml-cpp-dev libspdlog-dev libfmt-dev nlohmann-json3-dev
  libopenblas-dev libssl-dev libpcre2-dev libutf8proc-dev
)
if [[ "${1:-}" == "--dev" && $# -eq 1 ]]; then
  packages+=(clang-format)
elif [[ $# -gt 0 ]]; then
  echo "usage: scripts/setup.sh [--dev]" >&2
  exit 2
fi

# --- what Debian or the CUDA toolkit lacks, from wheels: NAME==VERSION and the SHA-256 of its wheel
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
wanted=() # FOLDER NAME==VERSION SHA256
[[ -e .deps/arrow/lib/libparquet.so ]] || pkg-config --exists 'arrow >= 24' 'parquet >= 24' 2>/dev/null ||
  wanted+=("arrow pyarrow==26.0.1 c718bf97a92a6dea97fd1062c3b9f9e2e83cb9cc926e752289fa4ffff41738f9")
if [[ -n "$nvcc" ]]; then
  cuda_include=$(dirname "$(dirname "$(readlink -f "$nvcc")")")/include
  has_header() { # FOLDER HEADER
    [[ -f ".deps/$1/include/$2" ]] && return
    echo "#include <$2>" | g++ -E -x c++ -I"$cuda_include" - >/dev/null 2>&1
  }
  has_header cudnn-frontend cudnn_frontend.h ||
    wanted+=("cudnn-frontend nvidia-cudnn-frontend==1.18.0 6c023539ca6de99234cf5102c3ec0d6af817f5396fc93028a22ba5b834a35b8a")
  has_header cudnn cudnn.h ||
    wanted+=("cudnn nvidia-cudnn-cu13==9.19.0.56 d20e1734305e9d68889a96e3f35094d733ff1f83932ebe462753973e53a572bf")
  has_header nccl nccl.h ||
    wanted+=("nccl nvidia-nccl-cu13==2.28.9 e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42")
  [[ "${1:-}" != "--dev" || -x .deps/compute-sanitizer/compute-sanitizer ]] ||
    wanted+=("compute-sanitizer nvidia-cuda-sanitizer-api==13.5.25 5df2efbdf605a812c6bac07600dd3d801cb9d334a30376113a6f1e2bc0679f54")
fi
if [[ ${#wanted[@]} -gt 0 ]] && ! python3 -m pip --version >/dev/null 2>&1; then
  packages+=(python3-pip)
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [[ "$status" == ii* ]] || missing+=("$package")
done
if [[ ${#missing[@]} -gt 0 ]]; then
  as_root=()
  if [[ $EUID -ne 0 ]]; then
    command -v sudo >/dev/null || {
      echo "scripts/setup.sh: missing packages: ${missing[*]}; run it as root, or install sudo" >&2
      exit 3
    }
    as_root=(sudo)
  fi
  echo "installing: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# Only the wheel's headers stay, with compute-sanitizer's programs and libraries and Arrow's two libraries;
# which Python the wheel is for does not matter to any of them.
fetch() { # FOLDER NAME==VERSION SHA256
  download=$(mktemp -d)
  trap 'rm -rf "$download"' EXIT
  echo "fetching $1 of $2"
  python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_25_x86_64 \
    --platform manylinux_2_18_x86_64 --dest "$download" "$2"
  echo "$3  $(echo "$download"/*.whl)" | sha256sum --check --quiet
  python3 - "$download"/*.whl "$download/kept" <<'PYTHON'
import pathlib, sys, zipfile
wheel, out = sys.argv[1:]
with zipfile.ZipFile(wheel) as files:
    for name in files.namelist():
        parts = pathlib.PurePosixPath(name).parts
        if parts[0] == "pyarrow" and parts[-1].startswith(("libarrow.so.", "libparquet.so.")):
            target = pathlib.Path(out, "lib", parts[-1])
            link = target.with_name(parts[-1].split(".so")[0] + ".so")  # what the linker looks for
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target.name)
        elif "include" in parts and name.endswith((".h", ".hpp")):
            target = pathlib.Path(out, *parts[parts.index("include"):])
        elif parts[-2:-1] == ("compute-sanitizer",) and (name.endswith(".so") or "." not in parts[-1]):
            target = pathlib.Path(out, parts[-1])
        else:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(files.read(name))
        if "include" not in parts:
            target.chmod(0o755)
PYTHON
  mkdir -p .deps
  rm -rf ".deps/$1"
  mv "$download/kept" ".deps/$1"
  rm -rf "$download"
}
for entry in "${wanted[@]}"; do
  # shellcheck disable=SC2086
  fetch $entry
done
