#!/usr/bin/env bash
# The table of docs/fidelity.md, measured here: tests/golden/fidelity.sh [BUILD]. Fails where a comparison fails.
set -u
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
build=${1:-build}
status=0
echo '| module | case | what | shape | error | bound |'
echo '|---|---|---|---|---|---|'
for module in sched models pipeline; do
  out=$("$build/bin/test_$module" --gtest_filter='*Golden*:*Bf16*') || { printf '%s\n' "$out" >&2; status=1; }
  printf '%s\n' "$out" | sed -n 's/^fidelity|/|/p' | awk '!seen[$0]++'
done
exit $status
