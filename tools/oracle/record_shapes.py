"""Records the reference clips of the demo model: diffusers (fp32, CPU) on models/shapes, eight frames of each clip side by
side in one PNG, and the prompts with their token ids beside them.

  python record_shapes.py models/shapes tests/demo/reference
"""
import json
import os
import sys

import diffusers
import numpy as np
import torch
from PIL import Image

CLIPS = [  # the draft preset: 17 frames, 10 steps
    {"prompt": "a big red circle moves right on a white background", "seed": 1},
    {"prompt": "a small yellow star moves up on a navy background", "seed": 2},
    {"prompt": "a large green square circles clockwise over a gradient from cream to brown", "seed": 3},
]
FRAMES, STEPS, GUIDANCE, SHOWN = 17, 10, 4.0, 8


def main():
    folder, out = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    pipe = diffusers.WanPipeline.from_pretrained(folder, torch_dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    indices = [(cell * (FRAMES - 1) + (SHOWN - 1) // 2) // (SHOWN - 1) for cell in range(SHOWN)]
    ids = lambda text: [int(i) for i in pipe.tokenizer(text).input_ids]  # the end token included
    clips = [{**clip, "ids": ids(clip["prompt"])} for clip in CLIPS]
    for number, clip in enumerate(CLIPS):
        video = pipe(prompt=clip["prompt"], negative_prompt="", width=128, height=128, num_frames=FRAMES,
                     num_inference_steps=STEPS, guidance_scale=GUIDANCE, output_type="np",
                     generator=torch.Generator().manual_seed(clip["seed"])).frames[0]
        pixels = np.rint(np.asarray(video, np.float64) * 255).astype(np.uint8)
        Image.fromarray(np.concatenate([pixels[i] for i in indices], axis=1)).save(os.path.join(out, f"{number}.png"))
    record = {"clips": clips, "negative_ids": ids(""), "frames": indices,
              "versions": {"diffusers": diffusers.__version__, "torch": torch.__version__.split("+")[0]}}
    with open(os.path.join(out, "clips.json"), "w") as f:
        f.write(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
