"""Random weights from a rule of a few lines, the same in C++ (src/nn/random): nothing has to be stored.

Element i of tensor `key` is splitmix64 of (fnv1a64(key) ^ seed * golden, i), 24 bits of it as u in [0, 1), and (2u - 1) * a + b in fp32,
one rounding at the product and one at the sum. (a, b) hang on the tensor's name and are chosen so that each layer's output has unit scale.
"""

import math

import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


def fnv1a64(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def uniform(key, count, seed):
    """[count] fp32 in [0, 1), multiples of 2^-24."""
    base = np.uint64(fnv1a64(key) ^ ((seed * GOLDEN) & MASK))
    with np.errstate(over="ignore"):
        z = base + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def scale(key, shape):
    """(a, b), before `a` is rounded to fp32. The first line that matches decides."""
    fan_in = math.prod(shape[1:])
    if key.endswith(".gamma") or (key.endswith(".weight") and len(shape) == 1):
        return 0.2, 1.0
    if "relative_attention_bias" in key:
        return 1.0, 0.0
    if "scale_shift_table" in key:
        return 0.5, 0.0
    if key.endswith(".bias"):
        return 0.1, 0.0
    if key == "shared.weight" or "embed_tokens" in key:
        return math.sqrt(3.0), 0.0
    if "SelfAttention.q.weight" in key:
        return 0.25 * math.sqrt(3.0 / fan_in), 0.0
    if "decoder.conv_out.weight" in key:
        return 0.5 * math.sqrt(3.0 / fan_in), 0.0
    if "resnets" in key and ("conv1" in key or "conv2" in key):
        return 1.5 * math.sqrt(3.0 / fan_in), 0.0
    return math.sqrt(3.0 / fan_in), 0.0


def tensor(key, shape, seed):
    """fp32 array of `shape`."""
    a, b = scale(key, shape)
    u = uniform(key, math.prod(shape), seed)
    centred = np.float32(2.0) * u - np.float32(1.0)  # exact
    return (centred * np.float32(a) + np.float32(b)).reshape(shape)


def fill(shapes, seed):
    """{key: shape} -> {key: array}."""
    return {key: tensor(key, tuple(shape), seed) for key, shape in shapes.items()}


def check(weights):
    """What a golden's metadata says about its weights: the sum in fp64 and the first four values of three tensors (first, middle, last by name)."""
    keys = sorted(weights)
    chosen = sorted({keys[0], keys[len(keys) // 2], keys[-1]})
    return {"sum": float(sum(weights[key].astype(np.float64).sum() for key in keys)),
            "count": int(sum(weights[key].size for key in keys)),
            "first_values": {key: [float(v) for v in weights[key].reshape(-1)[:4]] for key in chosen}}
