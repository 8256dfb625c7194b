#!/usr/bin/env bash
# pack.sh BUILD OUT: test_cuda, test_cuda_engine, the recordings and those shared libraries that a bare machine with a GPU lacks, in one folder.
# With the benchmarks where they are built (-DZOETROPE_BENCH=ON). There: OUT/run.sh RESULTS, OUT/bench.sh RESULTS, or LD_LIBRARY_PATH=<folders of cuDNN, cuBLAS and NVRTC> OUT/test_cuda
set -euo pipefail
build=$1 out=$2
mkdir -p "$out"
cp "$build/bin/test_cuda" "$out/"
cp "$(dirname "$0")/run.sh" "$out/"
if [ -x "$build/bin/cuda_bench" ]; then
  bench=$(dirname "$0")/../../bench
  mkdir -p "$out/peers"
  cp "$build/bin/cuda_bench" "$out/"
  cp "$bench/cuda.sh" "$out/bench.sh"
  cp "$bench/peers/cuda.py" "$bench/../tools/oracle/random_parameters.py" "$out/peers/"
  strip "$out/cuda_bench"
fi
strip "$out/test_cuda"
libraries() { ldd "$1" | awk '$3 ~ /^\// { print $3 }' | grep -vE '/(libc\.so|libm\.so|libstdc|libgcc_s|libpthread|libdl|librt|libcu|libnv|ld-)'; }
if [ -x "$build/bin/zoetrope" ]; then  # for bench.sh, packed: oneDNN and ICU are large
  program=$(mktemp -d)
  libraries "$build/bin/zoetrope" | xargs cp -Lt "$program"
  for name in zoetrope test_cuda_engine; do
    if [ -x "$build/bin/$name" ]; then cp "$build/bin/$name" "$program/" && strip "$program/$name"; fi
  done
  tar -C "$program" -c . | xz -T0 -6 >"$out/program.tar.xz"
  rm -r "$program"
fi
rm -rf "$out/golden" "$out/configs" "$out/tests"
cp -r "$build/golden" "$out/"
mkdir -p "$out/configs" "$out/tests/demo"
cp -r "$(dirname "$0")/../../configs/toy" "$out/configs/"
cp -r "$(dirname "$0")/../demo/reference" "$out/tests/demo/"
libraries "$build/bin/test_cuda" | xargs cp -Lt "$out"
du -sh "$out"
