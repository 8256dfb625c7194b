"""Stage 6: generates the held-out prompts with diffusers from a model folder and scores the pixels with measure.py.

    python evaluate.py MODEL [--limit 60] [--steps 20] [--guidance 4] [--frames 33] [--side 128] [--device auto]
                       [--batch 20] [--out DIR] [--save-frames] [--prompts-only]
evaluation_prompts.json beside this file is what --prompts-only writes. Writes scores.json, prompts.json and contact_sheet.png into --out. Prompt n starts from torch's CPU generator with seed
1000 + n, so another engine can start from the same noise.
"""
import argparse
import os
import time

import numpy as np
import torch

import grammar
from common import device_of, quiet_libraries, read_json, write_json
from measure import score


def load_pipeline(folder, device):
    from diffusers import WanPipeline
    pipeline = WanPipeline.from_pretrained(folder, dtype=torch.float32, local_files_only=True).to(device)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def generate(pipeline, prompts, args):
    """Yields (frames [T, H, W, 3] uint8, prompt) for each prompt."""
    for first in range(0, len(prompts), args.batch):
        chunk = prompts[first:first + args.batch]
        start = time.time()
        video = pipeline(
            prompt=[p["prompt"] for p in chunk], negative_prompt=[""] * len(chunk), height=args.side, width=args.side,
            num_frames=args.frames, num_inference_steps=args.steps, guidance_scale=args.guidance, output_type="np",
            generator=[torch.Generator().manual_seed(p["seed"]) for p in chunk]).frames
        print(f"evaluate {first + len(chunk)}/{len(prompts)} seconds={time.time() - start:.1f}", flush=True)
        for frames, prompt in zip(video, chunk):
            yield (np.clip(frames, 0, 1) * 255).round().astype(np.uint8), prompt


def contact_sheet(clips, path, columns=8, rows=12):
    """One row a clip, `columns` frames of each."""
    from PIL import Image
    pick = lambda clip: clip[np.linspace(0, len(clip) - 1, columns).round().astype(int)]
    Image.fromarray(np.concatenate([np.concatenate(list(pick(c)), axis=1) for c in clips[:rows]], axis=0)).save(path)


def save_frames(frames, folder):
    from PIL import Image
    os.makedirs(folder, exist_ok=True)
    for i, frame in enumerate(frames):
        Image.fromarray(frame).save(os.path.join(folder, f"{i:04d}.png"))


def evaluate(folder, args, work=None):
    quiet_libraries()
    device = device_of(args.device)
    os.makedirs(args.out, exist_ok=True)
    prompts = grammar.evaluation_prompts()[:args.limit]
    write_json(os.path.join(args.out, "prompts.json"), prompts)
    if args.prompts_only:
        return None
    clips = list(generate(load_pipeline(folder, device), prompts, args))
    result = score([c for c, _ in clips], prompts)
    said = lambda s: f"colour {s['colour']} %, direction {s['direction']} %, size {s['size']} %"
    result["summary"] = f"{said(result)} ({result['count']} prompts, {args.steps} steps, guidance {args.guidance:g})"
    for name, words in (("one_object", "with one object"), ("two_objects", "with two")):
        if name in result:
            result["summary"] += f"; the {result[name]['count']} {words}: {said(result[name])}"
    write_json(os.path.join(args.out, "scores.json"), result)
    contact_sheet([c for c, _ in clips], os.path.join(args.out, "contact_sheet.png"))
    if args.save_frames:
        for frames, prompt in clips:
            save_frames(frames, os.path.join(args.out, f"{prompt['id']:02d}"))
    for row in result["rows"]:
        if not (row["colour"] and row["direction"]):
            print("missed", {k: row[k] for k in ("colour", "direction", "size")}, row["prompt"],
                  [(f["colour"], f["motion"]) for f in row["found"]])
    print("evaluate", result["summary"], flush=True)
    return result


def arguments(argv=None, model=True):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    if model:
        parser.add_argument("model")
    for name, default in (("limit", 60), ("steps", 20), ("guidance", 4.0), ("frames", 33), ("side", 128), ("batch", 20)):
        parser.add_argument("--" + name, type=type(default), default=default)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", default="evaluation")
    parser.add_argument("--save-frames", action="store_true")
    parser.add_argument("--prompts-only", action="store_true")
    return parser.parse_args(argv)


if __name__ == "__main__":
    options = arguments()
    evaluate(options.model, options)
