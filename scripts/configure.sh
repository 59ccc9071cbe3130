#!/usr/bin/env bash
# Configures a build folder once: scripts/configure.sh FOLDER [meson setup options...]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
shift
[[ ! -f "$folder/build.ninja" ]] || exit 0
if command -v ccache >/dev/null; then
  export CC="ccache ${CC:-cc}" CXX="ccache ${CXX:-c++}"
fi
log=$(mktemp)
meson setup "$folder" "$@" >"$log" 2>&1 || { cat "$log" >&2; exit 3; }
rm -f "$log"
