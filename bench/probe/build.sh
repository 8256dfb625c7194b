#!/bin/sh
# Build the probes: build.sh FRONTEND_INCLUDE OUT names...   (dnn: the cuDNN part, once)
set -e
fe=$1 out=$2
shift 2
cd "$(dirname "$0")"
cuda=/usr/local/cuda
for p in "$@"; do
    if [ $p = dnn ]; then
        g++ -O1 -w -std=c++20 -I "$fe" -I $cuda/include -c dnn.cpp -o "$out/dnn.o"
    else
        o=
        case $p in r4*|r6*|r8*) o="$out/dnn.o" ;; esac
        nvcc -O2 -std=c++20 -gencode=arch=compute_90a,code=sm_90a -diag-suppress 177,550,2361 -o "$out/$p" $p.cu $o -lcudnn -lcublasLt -lnccl -lnvrtc -lcuda \
            -L $cuda/lib64 -L $cuda/lib64/stubs
    fi
    echo built $p
done
