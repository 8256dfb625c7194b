"""UMT5 encoder: last hidden states in fp32 beside a run that is fp64 throughout."""

import numpy as np
import torch
from transformers.models.umt5 import modeling_umt5

import golden
import models
import toy_configs

CONFIGS = {"a": toy_configs.text_encoder(2, 64, 4, 16, 128, 300), "b": toy_configs.text_encoder(3, 96, 6, 16, 224, 517)}
LENGTHS = (1, 7, 77, 512)
SEED = {"a": 1, "b": 2}


def norm_in_own_dtype(self, x):
    """The library takes the variance in fp32 even in an fp64 model; this does not."""
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def ids_of(length, vocab):
    ids = np.random.default_rng(length).integers(3, vocab, length)
    ids[-1] = 1
    return torch.from_numpy(ids)[None]


def taps_of(module, ids):
    taps = {"embedding": golden.sequence(module.shared(ids))}
    hooks = []
    for i, block in enumerate(module.encoder.block):
        def keep(name):
            return lambda _m, _a, out: taps.update({name: golden.sequence(out[0] if isinstance(out, tuple) else out)})
        hooks.append(block.register_forward_hook(keep(f"block.{i}")))
        hooks.append(block.layer[0].SelfAttention.register_forward_hook(keep(f"block.{i}.attn")))
        hooks.append(block.layer[1].DenseReluDense.register_forward_hook(keep(f"block.{i}.ffn")))
    module(ids)
    for hook in hooks:
        hook.remove()
    return taps


def check_layers(module, config):
    tables = [block.layer[0].SelfAttention.relative_attention_bias.weight for block in module.encoder.block]
    assert len({t.data_ptr() for t in tables}) == config["num_layers"], "each block must own its bias table"
    assert module.encoder.embed_tokens.weight.data_ptr() == module.shared.weight.data_ptr(), "the embedding must be tied"


def check_padding(module, ids, hidden):
    """What the pipeline does (512 rows and a mask) equals running the real tokens only."""
    padded = torch.nn.functional.pad(ids, (0, 512 - ids.shape[1]))
    mask = (torch.arange(512) < ids.shape[1]).long()[None]
    full = module(padded, attention_mask=mask).last_hidden_state[:, : ids.shape[1]]
    error = float((full - hidden).abs().max())
    assert error < 1e-5, error
    return error


def main(out):
    original = modeling_umt5.UMT5LayerNorm.forward
    for name, config in CONFIGS.items():
        module, weights = models.random_model(config, SEED[name])
        check_layers(module, config)
        double, _ = models.random_model(config, SEED[name], torch.float64)
        for length in LENGTHS:
            ids = ids_of(length, config["vocab_size"])
            hidden = module(ids).last_hidden_state
            modeling_umt5.UMT5LayerNorm.forward = norm_in_own_dtype
            exact = double(ids).last_hidden_state
            modeling_umt5.UMT5LayerNorm.forward = original
            error = float((hidden.double() - exact).abs().max() / exact.abs().max())
            tensors = {"ids": ids[0].numpy(), "hidden": golden.sequence(hidden)}
            if length <= 77:
                tensors["hidden64"] = golden.sequence(exact)
            if name == "a" and length == 7:
                tensors.update(taps_of(module, ids))
            golden.save(out / f"{name}_{length}.safetensors", "umt5", tensors, config, SEED[name], weights, scale_of=("hidden",),
                        fp32_error=error, padded_error=check_padding(module, ids, hidden))
            print(f"umt5 {name} {length}: rms {golden.rms(tensors['hidden']):.3f}, fp32 against fp64 {error:.2e} of max")
