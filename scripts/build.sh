#!/usr/bin/env bash
# Configures (once) and builds one build folder: scripts/build.sh FOLDER [meson setup options...]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
shift
if command -v ccache >/dev/null; then
  export CC="ccache ${CC:-cc}" CXX="ccache ${CXX:-c++}"
fi
if [[ ! -f "$folder/build.ninja" ]]; then
  meson setup "$folder" "$@" >"$folder.log" 2>&1 || { cat "$folder.log" >&2; exit 3; }
  rm -f "$folder.log"
fi
ninja -C "$folder" --quiet
