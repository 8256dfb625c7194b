"""Builds the reference's own modules from a config.json and gives them the weights of random_parameters."""

import json

import diffusers
import numpy as np
import safetensors.numpy
import torch
import transformers

import random_parameters

TORCH_SETTINGS = "eval, deterministic, 1 thread"


def settle():
    """One thread and deterministic kernels: the same bits at each recording on one machine."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.set_grad_enabled(False)


def bare(config):
    """The module that a component's config.json (as a dict) describes, in fp32 and with arbitrary weights."""
    if config.get("model_type") == "umt5":
        return transformers.UMT5EncoderModel(transformers.UMT5Config(**config)).eval()
    return getattr(diffusers, config["_class_name"]).from_config(config).eval()


def weights(config, seed):
    """{key: fp32 array}, keys and shapes as in a saved checkpoint (the tied copy of the embedding table is left out)."""
    with torch.device("meta"):
        shapes = {key: tuple(value.shape) for key, value in bare(config).state_dict().items()}
    shapes.pop("encoder.embed_tokens.weight", None)
    return random_parameters.fill(shapes, seed)


def random_model(config, seed, dtype=torch.float32):
    """(module in eval mode, its weights)"""
    values = weights(config, seed)
    module = bare(config)
    state = {key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in values.items()}
    missing, unexpected = module.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"encoder.embed_tokens.weight"}, (missing, unexpected)
    return (module if dtype == torch.float32 else module.to(dtype)), values


def write_weights(folder, seed):
    config = json.loads((folder / "config.json").read_text())
    name = "model.safetensors" if config.get("model_type") == "umt5" else "diffusion_pytorch_model.safetensors"
    safetensors.numpy.save_file(weights(config, seed), folder / name, metadata={"format": "pt"})
