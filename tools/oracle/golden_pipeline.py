"""Whole pipelines on the toy folders: given latents and a prompt, the final latents, the frames, and which expert ran."""

import json
import pathlib
import tempfile

import numpy as np
import safetensors.numpy
import torch
from diffusers import WanPipeline

import golden
import golden_sched
import random_parameters
import toy_configs

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs/toy"
PROMPT = "a cat walks on the grass"
NEGATIVE = "Bright tones, overexposed, static, blurred details, low quality"
SIZE = {"height": 48, "width": 64, "num_frames": 9}

# name: kind, steps, shift (None: the folder's 3), grid, negative prompt, guidance, guidance of the low-noise expert, frames stored
CASES = {
    "wan_4": ("wan", 4, None, "diffusers", None, 5.0, None, True),
    "wan_8_negative_shift12": ("wan", 8, 12.0, "diffusers", NEGATIVE, 5.0, None, False),
    "wan_4_unguided": ("wan", 4, None, "diffusers", None, 1.0, None, False),
    "wan-a14b_4": ("wan-a14b", 4, None, "diffusers", None, 4.0, 3.0, False),
    "wan-a14b_8": ("wan-a14b", 8, None, "diffusers", None, 4.0, 3.0, True),
    "wan-a14b_8_negative_shift12": ("wan-a14b", 8, 12.0, "diffusers", NEGATIVE, 4.0, 3.0, False),
    "wan-a14b_8_native12": ("wan-a14b", 8, 12.0, "native", NEGATIVE, 4.0, 3.0, True),
    "wan-a14b_4_first_scale_1": ("wan-a14b", 4, None, "diffusers", None, 1.0, 4.0, False),
    "wan-a14b_4_one_scale": ("wan-a14b", 4, None, "diffusers", None, 4.0, None, False),
}


def loaded(folder, shift, grid):
    """The folder as diffusers loads it, with the schedule of the case."""
    pipe = WanPipeline.from_pretrained(folder)
    pipe.set_progress_bar_config(disable=True)
    if shift is not None:
        pipe.scheduler = pipe.scheduler.from_config(pipe.scheduler.config, flow_shift=shift)
    if grid == "native":
        own = pipe.scheduler.set_timesteps
        pipe.scheduler.set_timesteps = lambda steps, device=None: own(device=device, sigmas=golden_sched.native_sigmas(steps))
    return pipe


def watch_experts(pipe):
    """A list that receives (expert, timestep) of every forward."""
    seen = []
    for name in ("transformer", "transformer_2"):
        module = getattr(pipe, name, None)
        if module is not None:
            module.register_forward_pre_hook(lambda _m, _a, words, name=name: seen.append((name, int(words["timestep"][0]))), with_kwargs=True)
    return seen


def embeddings(pipe, negative, guided):
    """The real rows of both prompts; the other rows of the 512 are checked to be zero."""
    rows = {}
    for name, rows_of, used in (("prompt", PROMPT, True), ("negative", negative or "", guided)):
        if used:
            ids = pipe.tokenizer(rows_of).input_ids
            count = len(ids)
            assert 2 not in ids and 3 not in ids, "an unknown piece would differ between versions of transformers (golden_tokenizer.py)"
            full = pipe._get_t5_prompt_embeds(rows_of, max_sequence_length=512)[0]
            assert full.shape[0] == 512 and not full[count:].any()
            rows[f"{name}_embeds"], rows[f"{name}_ids"] = full[:count].numpy(), np.array(ids)
    return rows


def run(folder, kind, steps, shift, grid, negative, guidance, guidance_2, with_video):
    pipe = loaded(folder, shift, grid)
    seen, after = watch_experts(pipe), []

    def keep(_pipe, _i, _t, words):
        after.append(golden.video(words["latents"]).copy())
        return {}

    latents = torch.randn(1, 16, 3, SIZE["height"] // 8, SIZE["width"] // 8, generator=torch.Generator().manual_seed(42))
    frames = pipe(PROMPT, negative_prompt=negative, num_inference_steps=steps, guidance_scale=guidance, guidance_scale_2=guidance_2,
                  latents=latents.clone(), output_type="np", callback_on_step_end=keep, **SIZE).frames[0]
    tensors = {"latents": golden.video(latents), "final": after[-1], "after": np.stack(after[:4]), **embeddings(pipe, negative, guidance > 1)}
    if with_video:
        tensors["video"] = frames.astype(np.float32)
    passes = len(seen) // steps
    experts = [seen[i * passes] for i in range(steps)]
    facts = {"prompt": PROMPT, "negative_prompt": negative or "", "steps": steps, "flow_shift": pipe.scheduler.config.flow_shift, "grid": grid,
             "guidance_scale": guidance, "guidance_scale_2": guidance_2, "passes_per_step": passes, "timesteps": [t for _, t in experts],
             "experts": [name for name, _ in experts], "latents_seed": 42, "toy": kind, **SIZE}
    return tensors, facts, frames


def component_checks(folder):
    """{part: check of the weights in its file}"""
    return {path.parent.name: random_parameters.check(safetensors.numpy.load_file(path)) for path in sorted(folder.glob("*/*.safetensors"))}


def main(out):
    with tempfile.TemporaryDirectory() as temporary:
        for kind in ("wan", "wan-a14b"):
            toy_configs.write_folder(CONFIGS, kind, pathlib.Path(temporary) / kind, seed=0)
        checks = {kind: component_checks(pathlib.Path(temporary) / kind) for kind in ("wan", "wan-a14b")}
        for name, case in CASES.items():
            folder = pathlib.Path(temporary) / case[0]
            tensors, facts, frames = run(folder, *case)
            index = json.loads((folder / "model_index.json").read_text())
            golden.save(out / f"{name}.safetensors", "pipeline", tensors, index, 0, None, scale_of=[n for n in tensors if not n.endswith("_ids")],
                        component_weights=checks[case[0]], **facts)
            print(f"{name}: t {facts['timesteps']} experts {[e == 'transformer_2' for e in facts['experts']].count(False)} high, "
                  f"passes {facts['passes_per_step']}, final rms {golden.rms(tensors['final']):.3f}, video rms {golden.rms(frames):.3f} std {frames.std():.3f}, "
                  f"saturated {np.mean((frames <= 0) | (frames >= 1)):.4f}")
