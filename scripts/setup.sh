#!/usr/bin/env bash
# Installs everything the build and the tests need, from Debian's packages. Idempotent; needs neither
# a GPU nor nvcc.
#   scripts/setup.sh         what the two README commands need
#   scripts/setup.sh --dev   also clang-format, which CI checks with
set -euo pipefail

packages=(
  g++ meson ninja-build pkg-config ccache python3
  catch2 libcli11-dev libyaml-cpp-dev libspdlog-dev libfmt-dev nlohmann-json3-dev
  libopenblas-dev libssl-dev
)
if [[ "${1:-}" == "--dev" ]]; then
  packages+=(clang-format)
elif [[ $# -gt 0 ]]; then
  echo "usage: scripts/setup.sh [--dev]" >&2
  exit 2
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [[ "$status" == ii* ]] || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then
  exit 0
fi

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
