#!/usr/bin/env bash
# scripts/format.sh [--check]: clang-format over every tracked or new C++ and CUDA file; --check changes nothing.
# Version 14, which Debian 12 and Ubuntu 22.04 ship: other versions format differently.
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
tool=$(command -v clang-format-14 || command -v clang-format || true)
if [ -z "$tool" ]; then
  echo "format: clang-format 14 is not installed; run as root: apt-get install -y clang-format-14" >&2
  exit 1
fi
version=$("$tool" --version | sed -n 's/.*version \([0-9]*\).*/\1/p')
if [ "$version" != 14 ]; then
  echo "format: found clang-format $version, but the tree is formatted with 14 (clang-format-14)" >&2
  exit 1
fi
mapfile -d '' -t files < <(git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cu' '*.cuh')
existing=()
for file in "${files[@]}"; do
  if [ -f "$file" ]; then existing+=("$file"); fi
done
if [ "${1:-}" = --check ]; then
  "$tool" --dry-run --Werror "${existing[@]}"
  echo "format: ${#existing[@]} files are formatted"
else
  "$tool" -i "${existing[@]}"
fi
