"""Measures colour, size class and motion of the shapes in a clip from its pixels, without knowing how it was made.

Every pixel is given the nearest of the colours the clips are made of, objects and backgrounds alike; the pixels of one
object colour are that object, frame by frame. From the track of their centre and area follow the answers.

    python measure.py CLIP [CLIP ...] [--prompts prompts.json]      CLIP: a folder of PNGs or an MP4 (needs ffmpeg)
With --prompts (as evaluate.py writes them) the n-th CLIP is compared with the n-th prompt and the scores are printed.
"""
import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np

import grammar

# Area of each shape drawn with radius r, over r squared.
AREA = {"circle": 3.142, "square": 2.959, "triangle": 1.871, "star": 1.905, "ring": 2.292, "cross": 2.257}
BIG = 0.14          # radius, in frame sides, from which an object counts as big
MOVED = 0.10        # shift of the centre, in frame sides, from which an object counts as moving
VISIBLE = 0.0015    # share of a frame's pixels from which a colour counts as present


def read_clip(path):
    """Frames [T, H, W, 3] uint8 of a folder of PNGs or of a video file."""
    from PIL import Image
    if os.path.isdir(path):
        files = sorted(glob.glob(os.path.join(path, "*.png")))
        if not files:
            raise SystemExit(f"measure: {path} holds no PNG files")
        return np.stack([np.asarray(Image.open(f).convert("RGB")) for f in files])
    if not shutil.which("ffmpeg"):
        raise SystemExit(f"measure: reading {path} needs the ffmpeg program; write PNG files instead")
    run = lambda *a: subprocess.run(["ffmpeg", "-v", "error", "-i", path, *a], capture_output=True, check=True)
    size = re.search(rb"(\d{2,5})x(\d{2,5})", subprocess.run(["ffmpeg", "-i", path], capture_output=True).stderr)
    width, height = int(size[1]), int(size[2])
    raw = run("-f", "rawvideo", "-pix_fmt", "rgb24", "-").stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, height, width, 3)


def classify(frames):
    """Index [T, H, W] of the nearest colour: grammar's object colours first, then mixes of the backgrounds.

    Distance counts hue and saturation more than brightness, so that a dark red edge is still red.
    """
    backs = np.array(list(grammar.BACKGROUNDS.values()), float)
    mixes = [backs] + [backs[i:i + 1] * (1 - t) + backs[j:j + 1] * t for i in range(len(backs)) for j in range(i)
                       for t in (0.25, 0.5, 0.75)]
    palette = np.concatenate([np.array(list(grammar.COLOURS.values()), float), *mixes])
    split = lambda rgb: np.concatenate([rgb.mean(-1, keepdims=True) * 0.8, rgb - rgb.mean(-1, keepdims=True)], -1)
    points, refs = split(frames.reshape(-1, 3).astype(np.float32)), split(palette).astype(np.float32)
    out = np.empty(len(points), np.int64)
    for start in range(0, len(points), 1 << 16):
        part = points[start:start + (1 << 16)]
        out[start:start + len(part)] = (-2 * part @ refs.T + (refs ** 2).sum(1)).argmin(1)
    return out.reshape(frames.shape[:-1])


def interior(mask):
    """Pixels whose four neighbours are in the mask too: drops blended edges, which can look like another colour."""
    inner = mask.copy()
    inner[:, 1:] &= mask[:, :-1]
    inner[:, :-1] &= mask[:, 1:]
    inner[:, :, 1:] &= mask[:, :, :-1]
    inner[:, :, :-1] &= mask[:, :, 1:]
    return inner


def track(mask):
    """Centre x, y [T] (fractions of the frame, NaN where absent) and share of the frame [T] of a mask [T, H, W]."""
    t, h, w = mask.shape
    count = mask.sum((1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        x = (mask.sum(1) * (np.arange(w) + 0.5)).sum(1) / count / w
        y = (mask.sum(2) * (np.arange(h) + 0.5)).sum(1) / count / h
    share = count / (h * w)
    absent = share < VISIBLE / 3
    return np.where(absent, np.nan, x), np.where(absent, np.nan, y), share


def motion_of(x, y, share):
    """'left', 'right', 'up', 'down', 'circle', 'bounce', 'grow', 'shrink', 'still', or 'unseen'."""
    seen = ~np.isnan(x)
    if seen.sum() < max(3, len(x) // 2):
        return "unseen"
    x, y, share = x[seen], y[seen], share[seen]
    n = max(1, len(x) // 6)
    dx, dy = x[-n:].mean() - x[:n].mean(), y[-n:].mean() - y[:n].mean()
    span_x, span_y = np.ptp(x), np.ptp(y)
    steps = np.hypot(np.diff(x), np.diff(y)).sum()
    straight = np.hypot(dx, dy)
    if straight > MOVED and straight > 0.55 * steps and max(abs(dx), abs(dy)) > 2 * min(abs(dx), abs(dy)):
        return ("right" if dx > 0 else "left") if abs(dx) > abs(dy) else ("down" if dy > 0 else "up")
    if min(span_x, span_y) > 0.6 * max(span_x, span_y) and span_x > 2 * MOVED:
        return "circle"
    if span_y > 1.5 * MOVED and span_x < 0.5 * span_y:
        return "bounce"
    growth = share[-n:].mean() / max(share[:n].mean(), 1e-6)
    if growth > 2 or growth < 0.5:
        return "grow" if growth > 1 else "shrink"
    return "still" if straight < MOVED else "other"


def measure_clip(frames):
    """The object colours of a clip, most pixels first: [{colour, share, motion, area}]. area: median share of a frame."""
    labels = classify(frames)
    found = []
    for index, name in enumerate(grammar.COLOUR_NAMES):
        mask = labels == index
        core = interior(mask)
        if core.mean() < VISIBLE:
            continue
        x, y, share = track(mask)
        found.append(dict(colour=name, core=float(core.mean()), motion=motion_of(x, y, share), area=float(np.median(share))))
    return sorted(found, key=lambda f: -f["core"])


def compare(found, asked):
    """Which of the asked-for properties a clip has: {colour, direction, size} -> bool, all objects together."""
    wanted = [a["colour"] for a in asked]
    by_colour = {f["colour"]: f for f in found}
    seen = [by_colour.get(c) for c in wanted]
    colour = {f["colour"] for f in found[:len(asked)]} == set(wanted)
    expected = lambda m: "circle" if "clockwise" in m else m
    direction = all(s and s["motion"] == expected(a["motion"]) for s, a in zip(seen, asked))
    radius = lambda s, a: (s["area"] / AREA[a["shape"]]) ** 0.5
    size = all(s and (radius(s, a) > BIG) == (a["size"] == "big") for s, a in zip(seen, asked))
    return dict(colour=colour, direction=direction, size=size)


def share_of(rows):
    return {k: round(100 * float(np.mean([r[k] for r in rows])), 1) for k in ("colour", "direction", "size")}


def score(clips, prompts):
    """Per-prompt rows and percentages over [(frames, prompt entry)]."""
    rows = []
    for frames, prompt in zip(clips, prompts):
        found = measure_clip(frames)
        rows.append(dict(prompt=prompt["prompt"], asked=prompt["objects"], found=found, **compare(found, prompt["objects"])))
    percent = share_of(rows)
    for name, objects in (("one_object", 1), ("two_objects", 2)):
        some = [r for r in rows if len(r["asked"]) == objects]
        if some:
            percent[name] = dict(count=len(some), **share_of(some))
    return dict(count=len(rows), **percent, rows=rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips", nargs="+")
    parser.add_argument("--prompts")
    args = parser.parse_args()
    if not args.prompts:
        for path in args.clips:
            print(path, json.dumps(measure_clip(read_clip(path))))
        return
    with open(args.prompts) as f:
        prompts = json.load(f)
    if len(prompts) < len(args.clips):
        sys.exit(f"measure: {len(args.clips)} clips but only {len(prompts)} prompts in {args.prompts}")
    result = score((read_clip(p) for p in args.clips), prompts)
    for row in result["rows"]:
        print(*("ok " if row[k] else "BAD" for k in ("colour", "direction", "size")), row["prompt"],
              "" if row["colour"] and row["direction"] else [(f["colour"], f["motion"]) for f in row["found"]])
    print(f"{result['count']} clips: colour {result['colour']} %, direction {result['direction']} %, size {result['size']} %")


if __name__ == "__main__":
    main()
