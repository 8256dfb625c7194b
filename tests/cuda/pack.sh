#!/usr/bin/env bash
# pack.sh BUILD OUT: test_cuda, the recordings and those shared libraries that a bare machine with a GPU lacks, in one folder.
# There: OUT/run.sh RESULTS, or LD_LIBRARY_PATH=<folders of cuDNN, cuBLAS and NVRTC> OUT/test_cuda
set -euo pipefail
build=$1 out=$2
mkdir -p "$out"
cp "$build/bin/test_cuda" "$out/"
cp "$(dirname "$0")/run.sh" "$out/"
strip "$out/test_cuda"
rm -rf "$out/golden"
cp -r "$build/golden" "$out/"
ldd "$build/bin/test_cuda" | awk '$3 ~ /^\// { print $3 }' | while read -r library; do
  case $(basename "$library") in
    libc.so* | libm.so* | libstdc++.so* | libgcc_s.so* | libpthread* | libdl* | librt* | libcu* | libnv* | ld-*) ;;
    *) cp "$library" "$out/" ;;
  esac
done
du -sh "$out"
