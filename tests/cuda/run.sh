#!/usr/bin/env bash
# run.sh [OUT]: the GPU's tests, as pack.sh lays them out: test_cuda, and test_cuda_engine out of program.tar.xz where it is there.
# Each suite in a process of its own, since a fault of a kernel ends a process's use of the GPU; what failed or was not reached
# runs again alone, with launches that wait and the libraries' logs. Behind them, one by one, the suites that measure the
# device's memory: nobody else may use it then. Last, memcheck and racecheck over small shapes; a hazard that racecheck sees in a
# kernel of cuDNN is shown and does not count. Ends with a table. In OUT: cuda_failed.log, cuda_plans.txt, cuda_logs.tgz.
# LIMIT (seconds in all, 235), JOBS (processes at a time, 8), MODEL (the demo model, ../models/shapes). Exit status: 0 only where
# all passed.
set -u
OUT=$(realpath -m "${1:-.}")
cd "$(dirname "$0")" || exit 2
jobs=${JOBS:-8} logs=$(mktemp -d) program=$(mktemp -d) deadline=$((EPOCHSECONDS + ${LIMIT:-235}))
trap 'rm -rf "$program"' EXIT
mkdir -p "$OUT"
left() {  # MOST KEEP: seconds a process may take, so that KEEP are left for what follows
  local rest=$((deadline - $2 - EPOCHSECONDS))
  echo $((rest > $1 ? $1 : rest > 0 ? rest : 1))
}

# cuDNN, cuBLAS and NVRTC as Python's packages have them, before the system's.
pip_libraries() {
  python3 - <<'P'
import glob, os, sys
print(":".join(d for p in sys.path for d in sorted(glob.glob(os.path.join(p, "nvidia", "*", "lib")))))
P
}
LD_LIBRARY_PATH=$PWD:$program:$(pip_libraries 2>/dev/null):${LD_LIBRARY_PATH:-}
MODEL=$(realpath -m "${MODEL:-../models/shapes}")
export LD_LIBRARY_PATH MODEL logs deadline program
nvidia-smi --query-gpu=name,driver_version,memory.used,memory.total --format=csv,noheader
ldd ./test_cuda | grep -E 'cudnn|cublas|nvrtc|yaml|not found'
if [ -f program.tar.xz ]; then
  python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' program.tar.xz "$program"
fi
for name in test_cuda test_cuda_engine; do
  if [ -x $name ]; then ln -sf "$PWD/$name" "$program/"; fi
done
notes=()
programs=test_cuda
if [ -x "$program/test_cuda_engine" ]; then programs+=' test_cuda_engine'; else notes+=('test_cuda_engine: not run, it is not in the package'); fi
for name in $programs; do
  if ! "$program/$name" --gtest_list_tests >"$logs/list" 2>"$logs/list.err"; then
    cat "$logs/list.err"
    echo "run.sh: $name does not start"
    exit 1
  fi
  sed 's/ *#.*//' "$logs/list" | awk -v program="$name" '/^[^ ]+\.$/ { suite = $1 } /^  / && !/DISABLED_/ { print program, suite $1 }'
done >"$logs/all"
if ! ./test_cuda --gtest_filter=-* >"$logs/start" 2>&1; then
  tail -3 "$logs/start"
  echo "run.sh: no GPU to run on"
  exit 4
fi
if [ ! -d "$MODEL" ]; then
  notes+=("ShapesOnDevice: not run, there is no $MODEL (MODEL names it)")
  sed -i '/ ShapesOnDevice\./d' "$logs/all"
fi

# SECONDS LOG WHAT...: one process, its status and time behind the log
one() {
  local limit=$1 log=$2 begin=$EPOCHREALTIME status
  shift 2
  timeout -k 5 "$limit" "$@" >"$log" 2>&1
  status=$?
  printf 'status %d seconds %s\n' $status "$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')" >"$log.end"
}
log_of() { echo "$logs/$1.$(tr -c '[:alnum:]._\n' _ <<<"$2")"; }  # KIND WORDS
suite() { one "$(left 120 70)" "$(log_of suite "$1.$2")" "$program/$1" --gtest_filter="$2*"; }
alone() {
  local name
  name=$(log_of alone "$1 $2")
  CUDA_LAUNCH_BLOCKING=1 CUBLASLT_LOG_LEVEL=1 CUBLASLT_LOG_FILE=$name.blas CUDNN_LOGLEVEL_DBG=1 CUDNN_LOGDEST_DBG=$name.dnn \
    CUDNN_FRONTEND_LOG_INFO=1 CUDNN_FRONTEND_LOG_FILE=$name.frontend \
    one "$(left 40 40)" "$name" "$program/$1" --gtest_filter="$2"
}
sanitize() {  # TOOL FILTER
  local options=(--tool "$1" --error-exitcode 9 --print-limit 100000)
  if [ "$1" = memcheck ]; then options+=(--report-api-errors no); fi  # that a call is refused is what some cases test
  one "$(left 60 4)" "$(log_of tool "$1 $2")" "$sanitizer" "${options[@]}" ./test_cuda --gtest_filter="$2"
}
export -f left one log_of suite alone sanitize
passed() { cat "$@" | sed -n 's/^\[       OK \] \([^ ]*\) .*/\1/p; s/^\[  SKIPPED \] \([^ ]*\) .* ms)$/\1/p' | sort -u; }

# The long ones first; those that measure memory behind them, alone.
measures='test_cuda_engine (Toys/Promise|OutOfMemory|Stages/OutOfMemoryIn)\.'
suites() { sed -E 's/\.[^.]*$/./' "$logs/all" | awk '!seen[$0]++' | grep "$@"; }
{
  for first in WanOnMesh Ranks/WanSweep Ranks/VaeOnRanks Library Toys/PipelineGolden GateAdd; do echo "test_cuda $first."; done
  suites -vE "$measures"
} | awk '!seen[$0]++' | grep -Fxf <(suites .) >"$logs/suites"
xargs -P "$jobs" -L1 bash -c 'suite "$@"' _ <"$logs/suites"
echo "suites: $SECONDS s"
suites -E "$measures" >"$logs/measures"
xargs -L1 bash -c 'suite "$@"' _ <"$logs/measures"
cat "$logs/measures" >>"$logs/suites"
echo "memory, alone: $SECONDS s"

for name in $programs; do passed "$logs/suite.$name."* | sed "s/^/$name /"; done | sort -u >"$logs/passed"
sort -u "$logs/all" | comm -23 - "$logs/passed" >"$logs/again"
if [ -s "$logs/again" ]; then
  head -60 "$logs/again" | xargs -P "$jobs" -L1 bash -c 'alone "$@"' _
  echo "failed ones again: $SECONDS s"
fi

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
export sanitizer
if [ -z "$sanitizer" ]; then
  notes+=('memcheck, racecheck: not run, there is no compute-sanitizer')
else
  sed 's/ *#.*//' >"$logs/tools" <<'F'
racecheck Attention.*:MergeAttention.*
racecheck Segments.ReplayGivesTheBitsOfPlainRuns:Segments.OfATransformerCallNothingThatAllocatesOrWaits
racecheck RmsNorm.*:GateAddNorm.*:SquareSums.*
racecheck Small.Convolutions
racecheck Rows.NormsHaveTheSameBitsAtAnyAddress
memcheck GateAdd*:ChannelNorm.*:Norms.*:SquareSums.*
memcheck Rows.*
racecheck Rows.ModulationsHaveTheSameBitsAtAnyAddress
memcheck RmsNorm.*:LayerNorm.*:Modulate.*:NormModulate.*
racecheck LayerNorm.MatchesItsFormulaWithAndWithoutWeights:NormModulate.*:Modulate.*
racecheck ChannelNorm.*:Norms.*
racecheck Small.*Attention*
racecheck Loading.TakesSourcesThatHaveNoFile
racecheck Rope.*:NormRope.*:CopyHeads.*
racecheck Elementwise.*:*GuidedMultistep*:Gather.*:FrameCopies.*
memcheck Conv.*:CausalConv.*:Slab.*
memcheck Loading.*
memcheck Segments.*:-Segments.AllocateNothingAfterWarmUp
memcheck Small.*
memcheck Attention.*:MergeAttention.*
memcheck Linear.*:Elementwise.*:*GuidedMultistep*:Gather.*:FrameCopies.*
memcheck Rope.*:NormRope.*:CopyHeads.*
F
  xargs -P "$jobs" -L1 bash -c 'sanitize "$@"' _ <"$logs/tools"
  echo "memcheck, racecheck: $SECONDS s"
fi

# What went wrong, whole.
failed=$OUT/cuda_failed.log
: >"$failed"
for end in "$logs"/*.end; do
  if grep -q '^status 0 ' "$end"; then continue; fi
  log=${end%.end}
  printf '\n===== %s: %s\n' "$(basename "$log")" "$(cat "$end")" >>"$failed"
  head -c 400000 "$log" >>"$failed"
  for more in blas dnn frontend; do
    if [ -s "$log.$more" ]; then printf '\n----- %s\n' "$more" >>"$failed" && tail -c 20000 "$log.$more" >>"$failed"; fi
  done
done
truncate -s '<15M' "$failed"
grep -ahE '^(plan|device|fidelity|memory) ?\|' "$logs"/suite.* | sort -u >"$OUT/cuda_plans.txt"
tar czf "$OUT/cuda_logs.tgz" -C "$logs" .

grep -h '^device' "$OUT/cuda_plans.txt" | head -2
printf '\n%-18s %-28s %6s %6s %8s  %s\n' program suite passed of seconds status
while read -r name suite; do
  log=$(log_of suite "$name.$suite")
  read -r _ status _ seconds <"$log.end"
  printf '%-18s %-28s %6d %6d %8s  %s\n' "$name" "${suite%.}" "$(passed "$log" | wc -l)" "$(grep -cF " $suite" "$logs/all")" "$seconds" "$status"
done <"$logs/suites"
bad=0
if [ -n "$sanitizer" ]; then
  while read -r tool filter; do
    log=$(log_of tool "$tool $filter")
    read -r _ status _ seconds <"$log.end"
    theirs=
    if [ "$status" = 9 ] && grep -q ' access at cudnn_' "$log" && ! grep ' access at ' "$log" | grep -qv ' access at cudnn_'; then
      theirs=" (all in cuDNN's own kernels)"
    fi
    if [ "$status" != 0 ] && [ -z "$theirs" ]; then bad=1; fi
    printf '%-9s status %-3s %5s s %3d cases  %s: %s%s\n' "$tool" "$status" "$seconds" "$(passed "$log" | wc -l)" "$filter" \
      "$(grep -hoE '(ERROR|RACECHECK) SUMMARY.*' "$log" | tail -1)" "$theirs"
  done <"$logs/tools"
fi
while read -r name test; do
  log=$(log_of alone "$name $test")
  if [ ! -e "$log.end" ]; then echo "failed: $name $test (not run alone)" && continue; fi
  reason=$(sed -n 's/^failed: [^:]*: //p' "$log" | head -1)
  echo "failed: $name $test; alone: $(cat "$log.end") ${reason:0:170}"
done <"$logs/again"
if [ ${#notes[@]} -gt 0 ]; then printf '%s\n' "${notes[@]}"; fi
printf '%d of %d passed in suites, %d s\n' "$(comm -12 <(sort -u "$logs/all") "$logs/passed" | wc -l)" "$(sort -u "$logs/all" | wc -l)" $SECONDS
[ ! -s "$logs/again" ] && [ $bad = 0 ] && [ ${#notes[@]} -eq 0 ]
