#!/usr/bin/env bash
# Feeds random bytes to the readers of overrides and YAML under AddressSanitizer and UBSan (libFuzzer):
#
#   scripts/fuzz_config.sh [SECONDS] [FOLDER]
#
# FOLDER (build/fuzz_config) keeps the program, the corpus and what made it fail. Ends non-zero on a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
folder=${2:-build/fuzz_config}
compiler=${CLANGXX:-clang++}

command -v "$compiler" >/dev/null || { echo "fuzz_config: there is no $compiler; on Debian: apt-get install clang" >&2; exit 3; }
mkdir -p "$folder/corpus"
flags=(-std=c++20 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined)
if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    "$compiler" -x c++ - "${flags[@]}" -fsanitize=fuzzer -o "$folder/probe" 2>/dev/null; then
  version=$("$compiler" -dumpversion)
  echo "fuzz_config: $compiler has no libFuzzer; on Debian: apt-get install libclang-rt-${version%%.*}-dev" >&2
  exit 3
fi
rm -f "$folder/probe"

# Clang before 16 has no std::source_location with GCC's library.
if ! printf '#include <source_location>\nstd::source_location here;' | "$compiler" -std=c++20 -x c++ -fsyntax-only - 2>/dev/null; then
  mkdir -p "$folder/include"
  cat >"$folder/include/source_location" <<'HEADER'
#pragma once
namespace std {
struct source_location {
  const char* file;
  unsigned at;
  static constexpr source_location current(const char* f = __builtin_FILE(), unsigned l = __builtin_LINE()) { return {f, l}; }
  constexpr const char* file_name() const { return file; }
  constexpr unsigned line() const { return at; }
};
}  // namespace std
HEADER
  flags+=("-I$folder/include")
fi

# The library of YAML is not instrumented; a container it fills with our strings would be a false alarm.
export ASAN_OPTIONS=detect_container_overflow=0
python3 scripts/embed_conf.py conf "$folder/embedded.cpp" "$folder/embedded.d"
objects=()
for source in lib/base/error.cpp lib/config/*.cpp "$folder/embedded.cpp" test/config/fuzz_config.cpp; do
  object="$folder/$(basename "${source%.cpp}").o"
  if [ ! -e "$object" ] || [ -n "$(find lib/base/*.h lib/config/*.h "$source" -newer "$object" -print -quit)" ]; then
    "$compiler" "${flags[@]}" -fsanitize=fuzzer-no-link -Ilib -c "$source" -o "$object"
  fi
  objects+=("$object")
done
"$compiler" "${flags[@]}" -fsanitize=fuzzer "${objects[@]}" -lyaml-cpp -o "$folder/fuzz_config"

# Something to begin with: verl's own files, and one of each kind of override.
for file in $(find conf -name '*.yaml'); do
  printf '1%s' "$(cat "$file")" >"$folder/corpus/$(echo "$file" | tr / _)"
done
number=0
while IFS= read -r line; do
  printf '0%s' "$line" >"$folder/corpus/override_$((number++))"
done <<'LINES'
a.b=[1,{c: 'x\'y'},${d}]
++a@p.q=str([1.0,true])
+a/b@=sort([3,1],reverse=true)
~a={x\:y: "z"}
LINES
printf '2defaults: [g: a, _self_]\nk: ${oc.select:g.x,"a${m}"}\nm: ${oc.env:HOME}\n%%%%%% g/a\n# @package _global_\nx: 1\n>+y={z: 1}\n>~m\n' \
  >"$folder/corpus/tree"
seed_tree() {
  printf "2$2" >"$folder/corpus/$1"
}
seed_tree tree_hydra 'defaults: [g, _self_]\nhydra: {run: {dir: "${now:%%Y}"}, sweeper: {params: {a.b: "1,2"}}, a.b: 1, "": {"": 2}}\n%%%%%% g\nhydra: {sweep: {dir: x, subdir: y}}\nk: ${hydra:run.dir}\n>hydra.run={dir: z}\n>++hydra.sweep={dir: x,a.b: 1}\n'
seed_tree tree_run_dir 'hydra: {run.dir: x, searchpath: [pkg://verl.trainer.config, "file:///x"]}\n>hydra.searchpath=[pkg://a]\n'
seed_tree tree_names 'a.b: 1\na: {b: 2, "": 3}\n"": {c.d: {e: 4}}\n>++m={a.b: 1}\n>++m={a: {b: 2}}\n>++m={"": 1}\n>~a.b\n'
cat >"$folder/words" <<'WORDS'
"${"
"oc.select:"
"oc.env:"
"oc.decode:"
"defaults:"
"_self_"
"hydra: {"
"hydra."
"run.dir"
"searchpath"
"sweeper: {params: {"
"\"\": "
"pkg://"
"override "
"optional "
"# @package "
"_global_"
"%%% "
"\x0a>"
"<<: *"
"!!str "
"???"
"null"
WORDS
exec "$folder/fuzz_config" -max_total_time="$seconds" -max_len=600 -timeout=10 -rss_limit_mb=3000 -dict="$folder/words" \
  -artifact_prefix="$folder/" -print_final_stats=1 "$folder/corpus"
