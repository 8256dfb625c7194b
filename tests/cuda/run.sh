#!/usr/bin/env bash
# run.sh [OUT]: beside test_cuda, as pack.sh lays it out. Each suite in a process of its own, since a fault of a kernel
# ends a process's use of the GPU; what failed or was not reached runs again alone, with launches that wait and the
# libraries' logs; then memcheck over a few suites. Ends with a table. In OUT: cuda_failed.log, cuda_plans.txt, cuda_logs.tgz.
# LIMIT (seconds in all, 235), JOBS (processes at a time, 6). Exit status: 0 only where all passed.
set -u
OUT=$(realpath -m "${1:-.}")
cd "$(dirname "$0")" || exit 2
jobs=${JOBS:-6} logs=$(mktemp -d) deadline=$((EPOCHSECONDS + ${LIMIT:-235}))
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
export LD_LIBRARY_PATH=$PWD:$(pip_libraries 2>/dev/null):${LD_LIBRARY_PATH:-}
export logs deadline
nvidia-smi --query-gpu=name,driver_version,memory.used,memory.total --format=csv,noheader
ldd ./test_cuda | grep -E 'cudnn|cublas|nvrtc|yaml|not found'
if ! ./test_cuda --gtest_list_tests >"$logs/list" 2>"$logs/list.err"; then
  cat "$logs/list.err"
  echo "run.sh: test_cuda does not start"
  exit 1
fi
if ! ./test_cuda --gtest_filter=-* >"$logs/start" 2>&1; then
  tail -3 "$logs/start"
  echo "run.sh: no GPU to run on"
  exit 4
fi
grep -E '^[^ ]+\.( |$)|^  ' "$logs/list" >"$logs/list.tests"
awk '/^[^ ]/ { suite = $1 } /^  / { print suite $1 }' "$logs/list.tests" >"$logs/all"

# SECONDS LOG WHAT...: one process, its status and time behind the log
one() {
  local limit=$1 log=$2 begin=$EPOCHREALTIME status
  shift 2
  timeout -k 5 "$limit" "$@" >"$log" 2>&1
  status=$?
  printf 'status %d seconds %s\n' $status "$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')" >"$log.end"
}
suite() { one "$(left 120 80)" "$logs/suite.$(tr / _ <<<"$1")" ./test_cuda --gtest_filter="$1*"; }
alone() {
  local name=$logs/alone.$(tr / _ <<<"$1")
  CUDA_LAUNCH_BLOCKING=1 CUBLASLT_LOG_LEVEL=1 CUBLASLT_LOG_FILE=$name.blas CUDNN_LOGLEVEL_DBG=1 CUDNN_LOGDEST_DBG=$name.dnn \
    CUDNN_FRONTEND_LOG_INFO=1 CUDNN_FRONTEND_LOG_FILE=$name.frontend \
    one "$(left 40 40)" "$name" ./test_cuda --gtest_filter="$1"
}
memory() {
  one "$(left 60 5)" "$logs/memory.$(tr -c '[:alnum:].\n' _ <<<"$1")" \
    "$sanitizer" --tool memcheck --error-exitcode 9 --print-limit 20 ./test_cuda --gtest_filter="$1"
}
export -f left one suite alone memory

# The long ones first.
{
  printf '%s\n' Library. Conv. Shapes/WanGolden. Clips/WanVaeGolden. Bits. Lengths/Umt5Golden.
  awk '/^[^ ]/ { print $1 }' "$logs/list.tests"
} | awk '!seen[$0]++' | grep -Fxf <(awk '/^[^ ]/ { print $1 }' "$logs/list.tests") >"$logs/suites"
xargs -P "$jobs" -I{} bash -c 'suite {}' <"$logs/suites"
echo "suites: $SECONDS s"

cat "$logs"/suite.* | sed -n 's/^\[       OK \] \([^ ]*\) .*/\1/p; s/^\[  SKIPPED \] \([^ ]*\) .*/\1/p' | sort -u >"$logs/passed"
sort -u "$logs/all" | comm -23 - "$logs/passed" >"$logs/again"
if [ -s "$logs/again" ]; then
  head -80 "$logs/again" | xargs -P "$jobs" -I{} bash -c 'alone {}'
  echo "alone: $SECONDS s"
fi

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
export sanitizer
if [ -n "$sanitizer" ] && [ $((deadline - EPOCHSECONDS)) -gt 30 ]; then
  {
    (cd "$logs" && grep -lE 'illegal|misaligned|unspecified launch|invalid argument' alone.* 2>/dev/null | grep -vE '\.(end|blas|dnn|frontend)$') |
      sed 's/^alone\.//' | grep -Fxf <(tr / _ <"$logs/again") | head -6 | sed 's/^\(Lengths\|Shapes\|Clips\)_/\1?/; s/_\([0-9]*\)$/?\1/'
    printf '%s\n' 'Attention.*' 'RmsNorm.*:LayerNorm.*:Modulate.*:NormModulate.*' 'Rope.*:NormRope.*:CopyHeads.*' \
      'Elementwise.*:Gather.*' 'Norms.*:GateAdd.*:ChannelNorm.*:SquareSums.*:MergeAttention.*' 'Conv.*'
  } | xargs -P "$jobs" -I{} bash -c 'memory "{}"'
  echo "memcheck: $SECONDS s"
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
grep -ahE '^(plan|device|fidelity) ?\|' "$logs"/suite.* | sort -u >"$OUT/cuda_plans.txt"
tar czf "$OUT/cuda_logs.tgz" -C "$logs" .

grep -h '^device' "$OUT/cuda_plans.txt" | head -2
printf '\n%-26s %6s %6s %8s  %s\n' suite passed of seconds status
while read -r name; do
  log=$logs/suite.$(tr / _ <<<"$name")
  read -r _ status _ seconds <"$log.end"
  printf '%-26s %6d %6d %8s  %s\n' "${name%.}" "$(grep -cE '^\[       OK \]|^\[  SKIPPED \] .* ms\)' "$log")" "$(grep -c "^$name" "$logs/all")" "$seconds" "$status"
done <"$logs/suites"
for end in "$logs"/memory.*.end; do
  if [ -e "$end" ]; then printf 'memcheck %-60s %s: %s\n' "$(basename "${end%.end}")" "$(cat "$end")" "$(grep -h 'ERROR SUMMARY' "${end%.end}" | tail -1)"; fi
done
while read -r name; do
  log=$logs/alone.$(tr / _ <<<"$name")
  if [ ! -e "$log.end" ]; then echo "failed: $name (not run alone)" && continue; fi
  reason=$(sed -n 's/^failed: [^:]*: //p' "$log" | head -1)
  echo "failed: $name; alone: $(cat "$log.end") ${reason:0:170}"
done <"$logs/again"
printf '%d of %d passed in suites, %d s\n' "$(wc -l <"$logs/passed")" "$(wc -l <"$logs/all")" $SECONDS
[ ! -s "$logs/again" ]
