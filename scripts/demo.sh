#!/usr/bin/env bash
# Makes demo.mp4 from a prompt: with the trained model in models/shapes where there is one, else with a toy of random
# weights, which shows that everything runs and nothing more. Usage: scripts/demo.sh [BUILD_FOLDER [OUT.mp4]]
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
build=${1:-build} out=${2:-demo.mp4}
zoetrope=$build/bin/zoetrope
model=models/shapes
options=()
if [ ! -f $model/model_index.json ]; then
  model=$build/toy
  options=(--size 256x256 --num-frames 17 --steps 8)
  # A toy is whole only when its last file is there; a stopped make-toy leaves none.
  if [ ! -f "$model/model_index.json" ]; then "$zoetrope" make-toy --kind wan --out "$model"; fi
fi
"$zoetrope" generate --model "$model" --prompt "a big red circle moves right on a white background" --seed 1 \
  "${options[@]}" --out "$out" --contact-sheet "${out%.mp4}.png" --report "$build/demo.json"
echo "demo: wrote $out and ${out%.mp4}.png ($(stat -c %s "$out") bytes); report in $build/demo.json"
