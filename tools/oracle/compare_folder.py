"""Runs a model folder in diffusers (fp32, CPU) and compares its frames with a video that zoetrope wrote.

  python compare_folder.py FOLDER FRAMES.safetensors --prompt TEXT --seed N [--steps N] [--guidance X] [--size WxH] ...

FRAMES.safetensors is `zoetrope generate ... --out FRAMES.safetensors`; the arguments must be those of that run. Prints the
PSNR of each frame's 8-bit pixels (worst first) and exits with 1 when one is below --gate.
"""
import argparse
import sys

import numpy as np
import torch
from diffusers import WanPipeline
from safetensors.numpy import load_file


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("frames")
    p.add_argument("--prompt", required=True)
    p.add_argument("--negative-prompt", default="")
    p.add_argument("--seed", type=int, required=True)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--guidance", type=float, default=4.0)
    p.add_argument("--guidance-2", type=float)
    p.add_argument("--size", default="128x128")
    p.add_argument("--num-frames", type=int, default=33)
    p.add_argument("--gate", type=float, default=60.0)
    return p.parse_args()


def main():
    a = parse()
    width, height = map(int, a.size.split("x"))
    pipe = WanPipeline.from_pretrained(a.folder, torch_dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    two = {"guidance_scale_2": a.guidance_2} if a.guidance_2 is not None else {}
    video = pipe(prompt=a.prompt, negative_prompt=a.negative_prompt, width=width, height=height,
                 num_frames=a.num_frames, num_inference_steps=a.steps, guidance_scale=a.guidance,
                 generator=torch.Generator().manual_seed(a.seed), output_type="np", **two).frames[0]
    theirs = np.rint(np.asarray(video, np.float64) * 255)
    ours = load_file(a.frames)["frames"].astype(np.float64)
    if ours.shape != theirs.shape:
        sys.exit(f"shapes differ: {ours.shape} and {theirs.shape}")
    error = ((ours - theirs) ** 2).reshape(len(ours), -1).mean(axis=1)
    psnr = np.where(error == 0, np.inf, 10 * np.log10(255.0**2 / np.maximum(error, 1e-30)))
    print(f"worst frame {psnr.min():.1f} dB (frame {int(psnr.argmin())}), pixels that differ: {int((ours != theirs).sum())} of {ours.size},"
          f" by at most {int(np.abs(ours - theirs).max())}")
    sys.exit(0 if psnr.min() >= a.gate else 1)


if __name__ == "__main__":
    main()
