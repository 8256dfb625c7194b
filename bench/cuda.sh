#!/usr/bin/env bash
# cuda.sh [OUT]: beside cuda_bench and peers/cuda.py, as tests/cuda/pack.sh lays them out. Times ours and the peers on
# this GPU in turns, then bf16 through 40 blocks; a table last. diffusers must be importable. Logs in OUT.
# LIMIT: seconds in all (290). Exit status: 0 where every check held.
set -u
OUT=$(realpath -m "${1:-.}")
cd "$(dirname "$0")" || exit 2
mkdir -p "$OUT"
deadline=$((EPOCHSECONDS + ${LIMIT:-290}))
libraries=$(python3 - <<'P'
import glob, os, sys
print(":".join(d for p in sys.path for d in sorted(glob.glob(os.path.join(p, "nvidia", "*", "lib")))))
P
)
status=0
step() {  # LOG MOST WHAT...
  local log=$OUT/$1.log most=$2 left=$((deadline - EPOCHSECONDS)) begin=$EPOCHSECONDS
  shift 2
  if [ $left -lt 8 ]; then echo "$log: no time left" && status=1 && return; fi
  timeout -k 5 $((left < most ? left : most)) "$@" >"$log" 2>&1
  local code=$?
  echo "$(basename "$log"): status $code, $((EPOCHSECONDS - begin)) s"
  if [ $code -ne 0 ]; then status=1 && tail -3 "$log" | cut -c1-300; fi
}
# Only ours needs the libraries on its path: torch finds its own.
cat >"$OUT/ours" <<P
#!/bin/sh
LD_LIBRARY_PATH=$PWD:$libraries exec $PWD/cuda_bench "\$@"
P
chmod +x "$OUT/ours"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw,temperature.gpu --format=csv,noheader
step block 110 python3 peers/cuda.py block --ours "$OUT/ours"
if ! grep -q '^bench | block | ' "$OUT/block.log"; then step block_alone 60 "$OUT/ours" block; fi
step vae 90 python3 peers/cuda.py vae --ours "$OUT/ours"
if ! grep -q '^bench | vae | ' "$OUT/vae.log"; then step vae_alone 60 "$OUT/ours" vae; fi
if [ -f program.tar.xz ] && [ -d "${MODEL:-../models/shapes}" ]; then
  program=$(mktemp -d)
  python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' program.tar.xz "$program"
  for device in cuda cpu; do
    for dtype in fp32 bf16; do
      step "generate_${device}_$dtype" 40 env "LD_LIBRARY_PATH=$program:$libraries" "$program/zoetrope" generate --device $device --dtype $dtype \
        --model "${MODEL:-../models/shapes}" --prompt "a big red circle moves right on a white background" --seed 1 --out "$OUT/$device-$dtype/" \
        --report "$OUT/$device-$dtype.json"
      tail -2 "$OUT/generate_${device}_$dtype.log"
    done
  done
  python3 - "$OUT" <<'P'
import glob, json, os, sys
import numpy as np
from PIL import Image
frames = lambda folder: np.stack([np.asarray(Image.open(f), dtype=np.float64) for f in sorted(glob.glob(os.path.join(folder, "**", "*.png"), recursive=True))])
for dtype in ("fp32", "bf16"):
    try:
        a, b = (frames(os.path.join(sys.argv[1], f"{d}-{dtype}")) for d in ("cpu", "cuda"))
        error = ((a - b) ** 2).mean()
        times = {d: json.load(open(os.path.join(sys.argv[1], f"{d}-{dtype}.json"))).get("timings_s") for d in ("cpu", "cuda")}
        print(f"generate {dtype}: {a.shape} frames, cuda against cpu PSNR {10 * np.log10(255**2 / error) if error else np.inf:.1f} dB, spread {b.std():.1f}; {times}")
    except Exception as e:
        print(f"generate {dtype}: {type(e).__name__}: {e}")
P
  rm -rf "$program"
fi
step raw 70 python3 peers/cuda.py raw --ours "$OUT/ours"
step depth 120 python3 peers/cuda.py depth --ours "$OUT/ours"
if ! grep -q '^bench | depth' "$OUT/depth.log"; then step depth_alone 80 "$OUT/ours" depth; fi
step step 60 "$OUT/ours" step
rm -f "$OUT/ours"
cat "$OUT"/*.log | grep -aE '^(bench|peer|plan|device) ?\|' >"$OUT/bench_lines.txt"
python3 - "$OUT" <<'P'  # for bench/history
import datetime, json, sys
rows = []
for text in open(sys.argv[1] + "/bench_lines.txt", errors="replace"):
    who, what, *rest = [part.strip() for part in text.split("|")]
    if who in ("bench", "peer"):
        value, unit, note = (rest + ["", "", ""])[:3]
        rows.append({"who": who, "what": what, "value": float(value or 0), "unit": unit, "note": note} if rest else {"who": who, "what": what})
    elif who == "device":
        rows.append({"who": who, "what": text.strip()})
day = datetime.date.today().isoformat()
json.dump({"date": day, "command": "bench/cuda.sh", "rows": rows}, open(f"{sys.argv[1]}/cuda-{day}.json", "w"), indent=1)
P
grep -hE '^bench \| .*(profile|relative L2|failed|memory|glue)' "$OUT/bench_lines.txt"
python3 - "$OUT/bench_lines.txt" <<'P'
import sys
ours, peer = {}, {}
for text in open(sys.argv[1], errors="replace"):
    parts = [p.strip() for p in text.split("|")]
    if len(parts) >= 4 and parts[0] in ("bench", "peer"):
        (ours if parts[0] == "bench" else peer).setdefault(parts[1], float(parts[2] or 0))
if "block compiled" in peer:
    peer["block"] = (peer["block compiled"] + peer.get("block compiled, again", peer["block compiled"])) / 2
parts = [w for w in ("self-attention", "cross-attention", "products") if w in peer]
if len(parts) == 3:
    ours["block against raw cuDNN + cuBLASLt"], peer["block against raw cuDNN + cuBLASLt"] = ours.get("block", 0), peer["self-attention"] + peer["products"]
if {"block", "self-attention", "products"} <= ours.keys():
    ours["block outside self-attention and products"] = ours["block"] - ours["self-attention"] - ours["products"]
targets = {"block": "1.00", "block against raw cuDNN + cuBLASLt": "1.025", "vae": "0.40", "vae memory": "8 GiB", "block outside self-attention and products": "7 ms",
           "depth, 768 tokens bf16 against fp32": "0.01, 1.00", "step against the sum of its ops": "1.03"}
print(f"\n{'what':44s} {'ours':>9s} {'peer':>9s} {'ratio':>6s}  target")
for what in ("block", "block against raw cuDNN + cuBLASLt", "block outside self-attention and products", "self-attention", "cross-attention",
             "product qkv", "product out", "product up", "product down", "products", "vae", "vae memory", "depth, 768 tokens bf16 against fp32", "step against the sum of its ops"):
    a, b = ours.get(what), peer.get(what)
    print(f"{what:44s} {a if a is not None else '-':>9} {f'{b:.4g}' if b else '-':>9} {f'{a / b:.3f}' if a and b else '-':>6}  {targets.get(what, '')}")
P
exit $status
