#!/bin/bash
# Run the probes on a machine with two GPUs: run.sh BIN OUT [phase...]; logs under OUT.
bin=$1 out=$2
shift 2
phases=${*:-one two}
site=${SITE:?set SITE to the site-packages folder that holds nvidia/cudnn, nvidia/cu13 and nvidia/nccl}
libs=$site/nvidia/cu13/lib:$site/nvidia/nccl/lib:/usr/local/cuda/lib64
export LD_LIBRARY_PATH=$site/nvidia/cudnn/lib:$libs
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1 PYTHONUNBUFFERED=1
here=$(cd "$(dirname "$0")" && pwd)
cp -r $bin /tmp/pb && chmod +x /tmp/pb/* ; bin=/tmp/pb
{ nvidia-smi; nvidia-smi topo -m; ldd $bin/r8_block; df -h /dev/shm /tmp; uname -r; nproc; ls $site/nvidia; } > $out/env.log 2>&1
shm=/tmp/peer; [ "$(df --output=avail -k /dev/shm | tail -1)" -gt 9000000 ] && shm=/dev/shm/peer
if [[ $phases == *one* ]]; then
    python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target /tmp/site $bin/*.whl >> $out/env.log 2>&1
    (
        export CUDA_VISIBLE_DEVICES=0
        echo "== r4"; timeout 160 $bin/r4_sdpa; echo "rc $? at $SECONDS s"
        echo "== r8"; PYTHONPATH=/tmp/site timeout 240 python3 $here/r8_peer.py $bin/r8_block $shm; echo "rc $? at $SECONDS s"
    ) > $out/gpu0.log 2>&1 &
    a=$!
    (
        export CUDA_VISIBLE_DEVICES=1
        for p in r7_graph r1_ranges; do echo "== $p"; timeout 80 $bin/$p; echo "rc $? at $SECONDS s"; done
        echo "== r4 brief, installed cuDNN"; timeout 60 $bin/r4_sdpa brief
        if [ -f $bin/cudnn920.tar.xz ]; then
            mkdir -p /tmp/c20 && tar -C /tmp/c20 -xf $bin/cudnn920.tar.xz
            echo "== r4 brief, carried cuDNN"; LD_LIBRARY_PATH=/tmp/c20:$libs timeout 60 $bin/r4_sdpa brief; echo "rc $? at $SECONDS s"
        fi
        for p in r5_gemm r6_conv; do echo "== $p"; timeout 180 $bin/$p; echo "rc $? at $SECONDS s"; done
    ) > $out/gpu1.log 2>&1 &
    wait $a $!
fi
if [[ $phases == *two* ]]; then
    (
        for m in processes threads; do echo "== r2 $m"; timeout 80 $bin/r2_slots $m; echo "rc $? at $SECONDS s"; done
    ) > $out/r2.log 2>&1
    (
        while read -r args; do
            [ $SECONDS -gt ${LIMIT:-520} ] && { echo "skipped: $args"; continue; }
            timeout 80 $bin/r3_abort $args; echo "rc $? at $SECONDS s"
        done <<'LIST'
kernel eager 1 abort 10
kernel graph 1 abort 10
ce eager 1 abort 10
ce graph 1 abort 10
kernel eager 4 abort 5
kernel graph 4 threads 10
kernel eager 1 revoke 5
ce eager 1 revoke 5
ce graph 4 threads 5
LIST
    ) > $out/r3.log 2>&1
fi
echo "done at $SECONDS s"
