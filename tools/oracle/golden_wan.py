"""Wan transformer: three shapes of model, three of latents, integer and float timesteps, taps in one case a model."""

import numpy as np
import torch
from diffusers.models.transformers import transformer_wan

import golden
import models
import toy_configs

CONFIGS = {"a": toy_configs.transformer(2, 4, 16, 128, text_dim=32),
           "b": {**toy_configs.transformer(3, 5, 32, 200, text_dim=48), "in_channels": 36},
           "c": toy_configs.transformer(2, 2, 128, 384, text_dim=64)}
SEED = {"a": 3, "b": 4, "c": 5}
# latent frames, rows, columns, timestep, real text rows; the second of each is run with taps
CASES = [(3, 2, 6, 999, 1), (3, 6, 10, 750, 11), (5, 6, 10, 138, 40), (3, 2, 6, 437.25, 7)]
TEXT_ROWS = 512


def run(module, x, text, t):
    full = torch.zeros(1, TEXT_ROWS, text.shape[-1])
    full[:, : text.shape[1]] = text
    time = torch.tensor([t], dtype=torch.int64 if isinstance(t, int) else torch.float32)
    return module(hidden_states=x, timestep=time, encoder_hidden_states=full, return_dict=False)[0]


class Taps:
    """Collects what the stages of one forward return."""

    def __init__(self, module, real_text):
        self.taps, self.hooks = {}, []
        self.watch(module.patch_embedding, lambda out: {"patch": golden.sequence(out.flatten(2).transpose(1, 2))})
        self.watch(module.condition_embedder, lambda out: {"temb": golden.sequence(out[0]), "tproj": golden.sequence(out[1].unflatten(1, (6, -1))),
                                                           "text": golden.sequence(out[2][:, : real_text + 1])})
        for i, block in enumerate(module.blocks):
            self.watch(block, lambda out, i=i: {f"block.{i}": golden.sequence(out)})
        for name in ("attn1", "attn2", "ffn"):
            self.watch(getattr(module.blocks[0], name), lambda out, name=name: {f"block.0.{name}": golden.sequence(out)})
        self.watch(module.proj_out, lambda out: {"head": golden.sequence(out)})
        self.dispatch = transformer_wan.dispatch_attention_fn

    def watch(self, part, names):
        self.hooks.append(part.register_forward_hook(lambda _m, _a, out: self.taps.update(names(out))))

    def __enter__(self):
        def first_call(query, key, value, **rest):
            if "block.0.q" not in self.taps:
                self.taps.update({"block.0.q": golden.sequence(query), "block.0.k": golden.sequence(key), "block.0.v": golden.sequence(value)})
            return self.dispatch(query, key, value, **rest)
        transformer_wan.dispatch_attention_fn = first_call
        return self.taps

    def __exit__(self, *_):
        transformer_wan.dispatch_attention_fn = self.dispatch
        for hook in self.hooks:
            hook.remove()


def main(out):
    for name, config in CONFIGS.items():
        module, weights = models.random_model(config, SEED[name])
        for index, (frames, rows, columns, t, real) in enumerate(CASES):
            rng = torch.Generator().manual_seed(100 + index)
            x = torch.randn(1, config["in_channels"], frames, rows, columns, generator=rng)
            text = torch.randn(1, real, config["text_dim"], generator=rng)
            tensors = {"x": golden.video(x), "text_in": golden.sequence(text).reshape(real, -1)}
            if index == 1:
                with Taps(module, real) as taps:
                    tensors["out"] = golden.video(run(module, x, text, t))
                tensors.update(taps)
            else:
                tensors["out"] = golden.video(run(module, x, text, t))
            suffix = "" if isinstance(t, int) else "_float"
            golden.save(out / f"{name}_{frames}x{rows}x{columns}{suffix}.safetensors", "wan_transformer", tensors, config, SEED[name], weights,
                        scale_of=[n for n in tensors if n not in ("temb", "tproj", "text", "block.0.attn2")], timestep=t, text_rows=TEXT_ROWS)
            print(f"wan {name} {frames}x{rows}x{columns} t {t}: " + ", ".join(f"{n} {golden.rms(a):.3f}" for n, a in tensors.items()))
