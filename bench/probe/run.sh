#!/bin/bash
# Run the remaining probes on a machine with two GPUs: run.sh BIN LOGS. SITE is the site-packages folder that holds nvidia/cudnn, nvidia/cu13 and
# nvidia/nccl; NEW_CUDNN may name a folder with another cuDNN to time beside it.
bin=$1 out=$2
site=${SITE:?set SITE}
libs=$site/nvidia/cu13/lib:$site/nvidia/nccl/lib
export LD_LIBRARY_PATH=$site/nvidia/cudnn/lib:$libs NCCL_NVLS_ENABLE=0 PYTHONUNBUFFERED=1
here=$(cd "$(dirname "$0")" && pwd)
nvidia-smi > "$out/env.log" 2>&1
(
    export CUDA_VISIBLE_DEVICES=0
    timeout 160 "$bin/r4_sdpa"
    timeout 240 python3 "$here/r8_peer.py" "$bin/r8_block" "${PEER:-/dev/shm/peer}"
) > "$out/gpu0.log" 2>&1 &
a=$!
(
    export CUDA_VISIBLE_DEVICES=1
    timeout 60 "$bin/r4_sdpa" brief
    [ -n "$NEW_CUDNN" ] && LD_LIBRARY_PATH=$NEW_CUDNN:$libs timeout 60 "$bin/r4_sdpa" brief
    timeout 60 "$bin/r4b_lengths"
    timeout 60 "$bin/r6b_bits"
) > "$out/gpu1.log" 2>&1 &
wait $a $!
for m in processes threads; do timeout 80 "$bin/r2_slots" $m; done > "$out/r2.log" 2>&1
timeout 70 "$bin/r2b_hazard" >> "$out/r2.log" 2>&1
while read -r args; do timeout 40 "$bin/r3_abort" $args; done > "$out/r3.log" 2>&1 <<'LIST'
kernel eager 1 abort 10
kernel graph 1 abort 10
kernel eager 4 threads 10
kernel graph 4 threads 10
ce eager 1 abort 1
ce graph 1 abort 1
LIST
