#!/usr/bin/env python3
"""Records torch.randn of a CUDA generator, and how far it lies from the order and formula of docs/noise.md.

Needs torch with a GPU and numpy; takes well under a minute. Prints one JSON object:
  python3 tools/oracle/record_cuda_noise.py > tests/golden/noise_cuda.json
"""
import json
import sys

import numpy as np

SEEDS = (0, 42, 0x123456789ABCDEF)
SIZES = (1, 15, 257, 1025, 270336, 270337, 1081345, 4838400)


def philox(draw, thread, seed):
    """Philox4x32-10 of counter (draw, 0, thread, 0): four uint32 words per element of `draw` and `thread`."""
    low, zero = np.uint64(0xFFFFFFFF), np.zeros_like(thread)
    c = [draw, zero, thread, zero]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), b & low, (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), a & low]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def expected(n, seed, multiprocessors, blocks):
    """The n values by the formula, in float64 after the device's float32 uniforms."""
    stride = min(multiprocessors * blocks, (n + 255) // 256) * 256
    place = np.arange(n, dtype=np.uint64)
    draw, inside = place // np.uint64(4 * stride), place % np.uint64(4 * stride)
    word, thread = inside // np.uint64(stride), inside % np.uint64(stride)
    w = philox(draw, thread, seed)
    x, y = np.where(word < 2, w[0], w[2]), np.where(word < 2, w[1], w[3])
    two_pi = float(np.uint32(0x30C90FDB).view(np.float32))  # 2 pi 2^-32 as float32
    u = (x.astype(np.float32).astype(np.float64) * 2.0**-32 + 2.0**-33).astype(np.float32).astype(np.float64)
    v = (y.astype(np.float32).astype(np.float64) * two_pi + two_pi / 2).astype(np.float32).astype(np.float64)
    return np.sqrt(-2 * np.log(u)) * np.where(word % np.uint64(2) == 0, np.sin(v), np.cos(v))


def fnv1a(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def record(torch):
    p = torch.cuda.get_device_properties(0)
    blocks = p.max_threads_per_multi_processor // 256
    cases = []
    for seed in SEEDS:
        for n in SIZES:
            g = torch.Generator("cuda").manual_seed(seed)
            got = torch.randn(n, generator=g, device="cuda").cpu().numpy()
            words = got.view(np.uint32)
            cases.append({
                "seed": seed, "n": n, "fnv1a": fnv1a(got.tobytes()),
                "first": [f"{w:08x}" for w in words[:4]], "last": [f"{w:08x}" for w in words[-4:]],
                "max_abs_difference": float(np.abs(got - expected(n, seed, p.multi_processor_count, blocks)).max()),
            })
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "device": p.name,
            "noise": f"torch-cuda:{p.multi_processor_count}x{blocks}", "cases": cases}


if __name__ == "__main__":
    import torch
    if not torch.cuda.is_available():
        sys.exit("record_cuda_noise: no CUDA device is visible to torch; run it on the GPU whose noise is wanted")
    json.dump(record(torch), sys.stdout, indent=1)
    print()
