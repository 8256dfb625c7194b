#!/bin/bash
# The second round: run2.sh BIN OUT
bin=$1 out=$2
site=${SITE:?set SITE to the site-packages folder that holds nvidia/cudnn, nvidia/cu13 and nvidia/nccl}
export LD_LIBRARY_PATH=$site/nvidia/cudnn/lib:$site/nvidia/cu13/lib:$site/nvidia/nccl/lib:/usr/local/cuda/lib64 NCCL_NVLS_ENABLE=0
cp -r $bin /tmp/pb && chmod +x /tmp/pb/*; bin=/tmp/pb
nvidia-smi --query-gpu=index,clocks.sm,power.draw,temperature.gpu,clocks_event_reasons.active --format=csv -lms 250 > $out/smi.csv 2>&1 &
smi=$!
( export CUDA_VISIBLE_DEVICES=0; for p in r4b_lengths r6b_bits; do echo "== $p"; timeout 60 $bin/$p; echo "rc $? at $SECONDS s"; done ) > $out/gpu0.log 2>&1 &
a=$!
( export CUDA_VISIBLE_DEVICES=1; echo "== r7"; timeout 40 $bin/r7_graph; echo "rc $? at $SECONDS s"; echo "== r5 brief"; timeout 60 $bin/r5_gemm brief; echo "rc $? at $SECONDS s" ) > $out/gpu1.log 2>&1 &
wait $a $!
kill $smi
( timeout 70 $bin/r2b_hazard; echo "rc $? at $SECONDS s" ) > $out/r2.log 2>&1
(
    while read -r args; do
        [ $SECONDS -gt ${LIMIT:-165} ] && { echo "skipped: $args"; continue; }
        timeout 40 $bin/r3_abort $args; echo "rc $? at $SECONDS s"
    done <<'LIST'
kernel graph 1 abort 10
kernel eager 4 threads 10
kernel graph 4 threads 10
kernel graph 1 revoke 3
kernel eager 4 rthreads 3
ce eager 1 abort 1
kernel graph 4 rthreads 3
LIST
) > $out/r3.log 2>&1
echo "done at $SECONDS s"
