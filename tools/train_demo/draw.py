"""Draws clips on whatever device the tensors live on, many at a time.

Every motion is one formula with parameters that are zero where they do not apply, at time u = frame / 32:
centre = start + velocity u + circle (cos, sin)(phase + omega u) - (0, height |sin(pi beats u)|), radius = r0 + (r1 - r0) u,
angle = a0 + spin u. Lengths are fractions of the frame's side; y points down.
"""
import math

import numpy as np
import torch

import grammar

LAST = 32.0  # the frame at which u = 1: speeds do not depend on the clip's length
PARAMS = ["start", "velocity", "circle", "phase", "omega", "height", "beats", "r0", "r1", "a0", "spin"]


def _motion_parameters(scene, rng):
    """Arrays [N, 2] or [N, 2, 2] for each of PARAMS, random within what the scene's words allow."""
    shape = scene["motion"].shape
    uniform = lambda a, b: rng.uniform(a, b, shape)
    is_ = lambda *names: np.isin(scene["motion"], [grammar.MOTIONS.index(n) for n in names])
    low, high = (np.where(scene["size"] == 0, grammar.RADIUS["small"][k], grammar.RADIUS["big"][k]) for k in (0, 1))
    p = {"r0": low + (high - low) * rng.random(shape)}
    p["r1"] = p["r0"].copy()
    bigger, smaller = uniform(0.19, 0.24), uniform(0.06, 0.085)
    for name, first, last in (("grow", smaller, bigger), ("shrink", bigger, smaller)):
        p["r0"], p["r1"] = np.where(is_(name), first, p["r0"]), np.where(is_(name), last, p["r1"])
    p["circle"] = np.where(is_("clockwise", "counterclockwise"), uniform(0.17, 0.24), 0)
    p["omega"] = uniform(0.9, 1.3) * 2 * math.pi * np.where(is_("counterclockwise"), -1, 1)
    p["phase"] = uniform(0, 2 * math.pi)
    p["height"] = np.where(is_("bounce"), uniform(0.25, 0.38), 0)
    p["beats"] = np.round(uniform(1.6, 3.4))
    p["a0"] = uniform(-0.12, 0.12)
    p["spin"] = np.where(is_("spin"), uniform(2.2, 3.4) * rng.choice([-1, 1], shape), 0)
    reach = np.maximum(p["r0"], p["r1"])
    travel = np.minimum(uniform(0.42, 0.62), 0.96 - 2 * reach)
    sign_x = np.where(is_("left"), -1, np.where(is_("right"), 1, 0))
    sign_y = np.where(is_("up"), -1, np.where(is_("down"), 1, 0))
    p["velocity"] = np.stack([sign_x * travel, sign_y * travel], -1)
    # The start leaves room for the whole path: [lo, hi] on each axis, empty ranges collapse to their middle.
    room = np.stack([reach + p["circle"]] * 2, -1) + 0.01
    lo = room - np.minimum(p["velocity"], 0)
    hi = 1 - room - np.maximum(p["velocity"], 0)
    lo[..., 1] += p["height"]
    lo, hi = np.where(lo > hi, (lo + hi) / 2, lo), np.where(lo > hi, (lo + hi) / 2, hi)
    p["start"] = lo + (hi - lo) * rng.random(lo.shape)
    return p


def _path(p, frames=9):
    """Centres [N, 2 objects, frames, 2] on a coarse grid of times."""
    u = np.linspace(0, 1, frames)
    wave = p["phase"][..., None] + p["omega"][..., None] * u
    offset = p["circle"][..., None, None] * np.stack([np.cos(wave), np.sin(wave)], -1)
    offset[..., 1] -= p["height"][..., None] * np.abs(np.sin(math.pi * p["beats"][..., None] * u))
    return p["start"][..., None, :] + p["velocity"][..., None, :] * u[:, None] + offset


def make_clips(scene, seed, device, colour_noise=10.0, tries=12):
    """Parameters of all scenes as a dict of tensors on `device`; of `tries` layouts the least overlapping is taken."""
    rng = np.random.default_rng(seed)
    best, best_gap = None, None
    for _ in range(tries):
        p = _motion_parameters(scene, rng)
        centres = _path(p)
        reach = np.maximum(p["r0"], p["r1"]).sum(1)
        gap = np.linalg.norm(centres[:, 0] - centres[:, 1], axis=-1).min(1) - reach
        if best is None:
            best, best_gap = p, gap
            continue
        better = gap > best_gap
        best = {k: np.where(better.reshape(-1, *[1] * (v.ndim - 1)), p[k], v) for k, v in best.items()}
        best_gap = np.maximum(gap, best_gap)
    palette, backs = (np.array(list(t.values()), float) for t in (grammar.COLOURS, grammar.BACKGROUNDS))
    jitter = lambda x, amount: np.clip(x + rng.normal(0, amount, x.shape), 0, 255) / 127.5 - 1
    clips = {k: torch.tensor(best[k], dtype=torch.float32, device=device) for k in PARAMS}
    clips["rgb"] = torch.tensor(jitter(palette[scene["colour"]], colour_noise), dtype=torch.float32, device=device)
    clips["back"] = torch.tensor(jitter(backs[scene["back"]], colour_noise / 2), dtype=torch.float32, device=device)
    for k in ("shape", "objects", "gradient"):
        clips[k] = torch.tensor(scene[k], device=device)
    return clips


def select(clips, rows):
    return {k: v[rows] for k, v in clips.items()}


def centres(clips, frames):
    """Object centres [N, T, 2 objects, 2] at the frame numbers `frames` [T] or [N, T]."""
    u = (frames / LAST).reshape(-1, frames.shape[-1], 1)
    wave = clips["phase"][:, None] + clips["omega"][:, None] * u
    offset = clips["circle"][:, None, :, None] * torch.stack([wave.cos(), wave.sin()], -1)
    jump = clips["height"][:, None] * (math.pi * clips["beats"][:, None] * u).sin().abs()
    offset = offset - torch.stack([torch.zeros_like(jump), jump], -1)
    return clips["start"][:, None] + clips["velocity"][:, None] * u[..., None] + offset


def _star(x, y, r, points, inner):
    """Signed distance to the edge lines of a star or regular polygon with a corner pointing up."""
    sector = math.pi / points
    angle = torch.atan2(x, -y)
    folded = (torch.remainder(angle + sector, 2 * sector) - sector).abs()
    rho = torch.sqrt(x * x + y * y + 1e-12)
    px, py = rho * folded.cos(), rho * folded.sin()
    ix, iy = inner * math.cos(sector), inner * math.sin(sector)  # inner corner, for outer radius 1
    nx, ny = iy, 1 - ix
    norm = math.hypot(nx, ny)
    return ((px - r) * nx + py * ny) / norm


def _distance(kind, x, y, r):
    """Signed distance [N, T, H, W] of each clip's own shape; kind [N, 1, 1, 1]."""
    rho = torch.sqrt(x * x + y * y + 1e-12)
    ax, ay = x.abs(), y.abs()
    square = torch.maximum(ax, ay) - 0.86 * r
    arm = torch.minimum(torch.maximum(ax - r, ay - 0.34 * r), torch.maximum(ax - 0.34 * r, ay - r))
    d = rho - r
    for index, name in enumerate(grammar.SHAPES):
        if name == "square":
            d = torch.where(kind == index, square, d)
        elif name == "triangle":
            d = torch.where(kind == index, _star(x, y + 0.15 * r, 1.2 * r, 3, 0.5), d)
        elif name == "star":
            d = torch.where(kind == index, _star(x, y, 1.2 * r, 5, 0.45), d)
        elif name == "ring":
            d = torch.where(kind == index, (rho - 0.76 * r).abs() - 0.24 * r, d)
        elif name == "cross":
            d = torch.where(kind == index, arm, d)
    return d


def render(clips, frames, side, window=None, size=None):
    """Pictures [N, 3, T, h, w] in [-1, 1].

    frames: frame numbers [T] or [N, T]; side: the full frame's side in pixels; window [N, 2] with size (h, w): draw
    only the h x w pixels whose top left corner is at (x, y).
    """
    device = clips["start"].device
    h, w = size or (side, side)
    corner = torch.zeros(len(clips["start"]), 2, device=device) if window is None else window
    x = (corner[:, :1] + torch.arange(w, device=device) + 0.5) / side
    y = (corner[:, 1:] + torch.arange(h, device=device) + 0.5) / side
    x, y = x[:, None, None, :], y[:, None, :, None]
    mode = clips["gradient"][:, None, None, None]
    blend = torch.where(mode == 2, y, torch.where(mode == 3, x, torch.zeros_like(x))).clamp(0, 1)[:, None]
    first, second = (clips["back"][:, k, :, None, None, None] for k in (0, 1))
    picture = first + (second - first) * blend  # [N, 3, 1, h, w]
    middle = centres(clips, frames)
    u = (frames / LAST).reshape(-1, frames.shape[-1])[:, :, None, None]
    picture = picture.expand(-1, -1, middle.shape[1], h, w)
    for o in range(2):
        at = lambda name: clips[name][:, o, None, None, None]
        r, angle = at("r0") + (at("r1") - at("r0")) * u, at("a0") + at("spin") * u
        dx, dy = x - middle[:, :, o, 0, None, None], y - middle[:, :, o, 1, None, None]
        lx, ly = dx * angle.cos() + dy * angle.sin(), dy * angle.cos() - dx * angle.sin()
        cover = (0.5 - _distance(at("shape"), lx, ly, r) * side).clamp(0, 1)
        cover = cover * (clips["objects"] > o).float()[:, None, None, None]
        picture = picture + (clips["rgb"][:, o, :, None, None, None] - picture) * cover[:, None]
    return picture.contiguous()
