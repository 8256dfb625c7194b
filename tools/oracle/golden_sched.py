"""UniPC: tables, and a trajectory of 64 elements with a synthetic model."""

import math

import numpy as np
import torch
from diffusers import UniPCMultistepScheduler

import golden
import toy_configs

STEPS = (1, 2, 3, 4, 27, 40, 50)


def velocity(x, t):
    """fp32(0.05) * x + fp32(0.3 sin(t / 1000) - 0.1), two fp32 roundings; t is the integer timestep."""
    return 0.05 * x + (0.3 * math.sin(t / 1000) - 0.1)


def native_sigmas(steps):
    """The authors' own grid (fm_solvers_unipc): its upper end is 0.999 rounded to fp32."""
    return np.linspace(float(np.float32(0.999)), 0, steps + 1)[:-1]


def record(path, config, steps, sigmas=None, trajectory=True, **facts):
    scheduler = UniPCMultistepScheduler.from_config(config)
    if sigmas is None:
        scheduler.set_timesteps(steps)
    else:
        scheduler.set_timesteps(sigmas=sigmas)
    tensors = {"timesteps": scheduler.timesteps.numpy(), "sigmas": scheduler.sigmas.numpy()}
    if trajectory:
        scheduler.set_begin_index(0)
        x = torch.linspace(-1, 1, 64)[None]  # the solver wants a batch axis
        rows = [x]
        for t in scheduler.timesteps:
            x = scheduler.step(velocity(x, int(t)), t, x, return_dict=False)[0]
            rows.append(x)
        tensors["x"] = torch.cat(rows).numpy()
    golden.save(path, "sched", tensors, config, steps=steps, scale_of=("x",) if trajectory else (), **facts)


def main(out):
    for steps in STEPS:
        record(out / f"folder_{steps}.safetensors", toy_configs.scheduler(3.0), steps, grid="diffusers")
        record(out / f"shift12_{steps}.safetensors", toy_configs.scheduler(12.0), steps, grid="diffusers")
        record(out / f"native12_{steps}.safetensors", toy_configs.scheduler(12.0), steps, native_sigmas(steps), grid="native")
    karras = toy_configs.scheduler(1.0, use_karras_sigmas=True, sigma_max=200.0, sigma_min=0.147)
    for steps in (4, 35, 50):
        record(out / f"karras_{steps}.safetensors", karras, steps, trajectory=False, grid="karras")
