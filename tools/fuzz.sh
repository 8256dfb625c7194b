#!/bin/sh
# tools/fuzz.sh SECONDS [BUILD]: builds the fuzz targets with clang and runs each for that long. Exit 1 at the first
# input that crashes; it is left in BUILD/found.
set -eu
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
seconds=${1:?usage: tools/fuzz.sh SECONDS [BUILD]}
root=$(cd "$(dirname "$0")/.." && pwd)
build=${2:-$root/build-fuzz}
compiler=
for name in clang++-14 clang++; do
  if command -v "$name" > /dev/null; then compiler=$name && break; fi
done
if [ -z "$compiler" ]; then
  echo "fuzz: no clang++ here; install clang-14 and libclang-rt-14-dev" >&2
  exit 2
fi

generator=
if command -v ninja > /dev/null; then generator="-G Ninja"; fi
# shellcheck disable=SC2086
cmake $generator -S "$root" -B "$build" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CXX_FLAGS="-Wno-unknown-warning-option -Wno-unused-command-line-argument" \
  -DZOETROPE_FUZZ=ON -DZOETROPE_MP4=OFF -DZOETROPE_SANITIZE=fuzzer-no-link,address,undefined > "$build.log" 2>&1 ||
  { tail -20 "$build.log" >&2; exit 2; }
cmake --build "$build" --target fuzz_safetensors -j "$(nproc)"

corpus=$build/corpus
mkdir -p "$corpus" "$build/found"
header() { printf '\001\%03o\000%s' "$2" "$3" > "$corpus/$1"; }
header empty 0 '{}'
header one 4 '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
header two 8 '{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,1],"data_offsets":[4,8]},"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}  '
header zero 1 '{"a":{"dtype":"U8","shape":[0,3],"data_offsets":[0,0]},"b":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}'
header long 9 '{"a":{"dtype":"I64","shape":[1,1,1,1,1,1],"data_offsets":[1,9]},"b":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}}'
printf '\000\070\000\000\000\000\000\000\000{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}   xx' > "$corpus/file"
printf '"dtype"\n"shape"\n"data_offsets"\n"__metadata__"\n"F32"\n"BF16"\n"F8_E5M2"\n"F4"\n"[0,0]"\n"18446744073709551615"\n"1e999"\n' > "$build/words"

cd "$build/found"
"$build/bin/fuzz_safetensors" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=1024 -dict="$build/words" \
  -print_final_stats=1 "$corpus" > "$build/fuzz.log" 2>&1 || { tail -40 "$build/fuzz.log" >&2; exit 1; }
grep -E 'stat::number_of_executed_units|stat::average_exec_per_sec|DONE' "$build/fuzz.log"
