"""CPU time of a toy transformer forward and a toy VAE decode (by default 256x256, 17 frames) in diffusers and here, in turns.

    python bench/peers/cpu_toy.py --model TOY --ours BUILD/bin/toy_bench --out bench/history/NAME.json

TOY is a folder of `zoetrope make-toy --kind wan`. Both programs stay loaded, warm up once, and then run one after the other
(diffusers, ours, diffusers, ours, ...), so that a busy machine is busy for both. Counted are user and system seconds of the
process; wall seconds stand beside them. Every run's result is checked: finite and the same bits each time on either side, and
ours within 1e-4 of the largest value of diffusers'. Exit status 1 if a ratio is above --most.

diffusers computes time embedding and text keys and values in every forward; `forward` has them on both sides. `step` is what one
forward of a request costs here, where they are made once; it is compared with the same diffusers forward.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # a spinning thread would count as work against diffusers

import diffusers
import numpy as np
import safetensors.numpy
import torch

TEXT_ROWS, REAL_TEXT, TIMESTEP = 512, 20, 500


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def ours_layout(x):
    """[1, C, T, H, W] -> [T, H, W, C]"""
    return np.ascontiguousarray(x[0].permute(1, 2, 3, 0).numpy())


class Peer:
    def __init__(self, folder, size, frames):
        self.transformer = diffusers.WanTransformer3DModel.from_pretrained(folder / "transformer").eval()
        self.vae = diffusers.AutoencoderKLWan.from_pretrained(folder / "vae").eval()
        config, rng = self.vae.config, torch.Generator().manual_seed(1)
        width, height = (int(n) for n in size.split("x"))
        shape = (1, config.z_dim, (frames - 1) // 4 + 1, height // 8, width // 8)
        self.x, self.latents = torch.randn(shape, generator=rng), torch.randn(shape, generator=rng)
        self.text = torch.zeros(1, TEXT_ROWS, self.transformer.config.text_dim)
        self.text[:, :REAL_TEXT] = torch.randn(1, REAL_TEXT, self.text.shape[2], generator=rng)
        self.mean = torch.tensor(config.latents_mean).view(1, -1, 1, 1, 1)
        self.inverse = 1.0 / torch.tensor(config.latents_std).view(1, -1, 1, 1, 1)
        self.first = {}

    def forward(self):
        return self.transformer(hidden_states=self.x, timestep=torch.tensor([TIMESTEP]), encoder_hidden_states=self.text, return_dict=False)[0]

    def decode(self):
        return self.vae.decode(self.latents / self.inverse + self.mean, return_dict=False)[0]

    def run(self, part):
        """{cpu_s, wall_s}; the result must be finite and the bits of the first run."""
        cpu, wall = cpu_seconds(), time.perf_counter()
        result = getattr(self, part)()
        seconds = {"cpu_s": cpu_seconds() - cpu, "wall_s": time.perf_counter() - wall}
        assert torch.isfinite(result).all(), f"diffusers: {part} is not finite"
        bits = hashlib.sha256(result.numpy().tobytes()).hexdigest()
        assert self.first.setdefault(part, bits) == bits, f"diffusers: {part} gave other bits than its first run"
        return seconds

    def write_case(self, file):
        """Inputs and results, for ours. The video precedes the clamp, which would hide differences."""
        chunks = []
        hook = self.vae.decoder.register_forward_hook(lambda _m, _a, out: chunks.append(out.clone()))
        clamped = self.decode()
        hook.remove()
        video = torch.cat(chunks, dim=2)
        assert torch.equal(video.clamp(-1, 1), clamped)
        safetensors.numpy.save_file({"x": ours_layout(self.x), "text_in": self.text[0, :REAL_TEXT].numpy().copy(), "latents": ours_layout(self.latents),
                                     "velocity": ours_layout(self.forward()), "video": ours_layout(video)}, file, metadata={"timestep": str(TIMESTEP)})


class Ours:
    def __init__(self, program, folder, case, threads):
        command = [program, folder, case, "--threads", str(threads), "--wait"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.read()  # "ready"

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("cpu_toy: toy_bench ended; its message stands above")
        return json.loads(line)

    def run(self, part):
        self.process.stdin.write(part + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        summary = self.read()
        self.process.wait()
        return summary


def spread(runs):
    return {key: {"median": statistics.median(r[key] for r in runs), "min": min(r[key] for r in runs), "max": max(r[key] for r in runs),
                  "all": [round(r[key], 6) for r in runs]} for key in ("cpu_s", "wall_s")}


def machine():
    words = dict(line.split(":", 1) for line in open("/proc/cpuinfo") if ":" in line)
    words = {key.strip(): value.strip() for key, value in words.items()}
    flags = words.get("flags", "").split()
    return {"cpu": words.get("model name", platform.processor()), "cores": os.cpu_count(), "avx2": "avx2" in flags, "avx512": "avx512f" in flags,
            "load": os.getloadavg()[0]}


def measure(options):
    torch.set_num_threads(options.threads)
    peer = Peer(options.model, options.size, options.frames)
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        case = pathlib.Path(folder) / "case.safetensors"
        peer.write_case(case)
        ours = Ours(options.ours, options.model, case, options.threads)
        pairs = {"forward": "forward", "step": "forward", "decode": "decode"}
        for part in ("forward", "decode"):
            peer.run(part)
        runs = {part: ([], []) for part in pairs}
        for _ in range(options.runs):
            for part, of_peer in pairs.items():
                runs[part][0].append(peer.run(of_peer))
                runs[part][1].append(ours.run(part))
        return runs, ours.close()


def report(options, runs, summary):
    parts = {}
    for part, (theirs, mine) in runs.items():
        parts[part] = {"diffusers": spread(theirs), "zoetrope": spread(mine), **{key: summary["parts"][part][key] for key in ("gflop", "max_error")}}
        for key in ("cpu_s", "wall_s"):
            parts[part][f"ratio_{key}"] = round(parts[part]["zoetrope"][key]["median"] / parts[part]["diffusers"][key]["median"], 3)
    return {"what": f"{options.model.name}: forward and decode at {options.size}x{options.frames}, fp32, in turns", "date": datetime.date.today().isoformat(),
            "threads": options.threads, "wait_policy": os.environ["OMP_WAIT_POLICY"], "machine": machine(),
            "versions": {"zoetrope": summary["version"], "git": summary["git"], "onednn": summary["onednn"], "diffusers": diffusers.__version__,
                         "torch": torch.__version__, "python": platform.python_version()}, "parts": parts}


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--model", type=pathlib.Path, required=True, help="folder of make-toy --kind wan")
    arguments.add_argument("--ours", type=pathlib.Path, required=True, help="the program toy_bench")
    arguments.add_argument("--out", type=pathlib.Path, help="JSON file to write")
    arguments.add_argument("--size", default="256x256")
    arguments.add_argument("--frames", type=int, default=17)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--most", type=float, default=1.5, help="allowed ratio of CPU seconds")
    options = arguments.parse_args()
    result = report(options, *measure(options))
    for part, row in result["parts"].items():
        print(f"{part:8} diffusers {row['diffusers']['cpu_s']['median']:.4f} ours {row['zoetrope']['cpu_s']['median']:.4f} CPU s, ratio {row['ratio_cpu_s']:.2f};"
              f" wall {row['diffusers']['wall_s']['median']:.4f} {row['zoetrope']['wall_s']['median']:.4f}, ratio {row['ratio_wall_s']:.2f};"
              f" max|diff| {row['max_error']:.1e}")
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    worst = max(row["ratio_cpu_s"] for row in result["parts"].values())
    sys.exit(f"cpu_toy: a ratio of {worst} is above {options.most}" if worst > options.most else 0)
