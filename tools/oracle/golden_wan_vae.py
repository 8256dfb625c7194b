"""Wan 2.1 VAE: decode of 1, 2 and 5 latent frames, taps of the middle case, over all frames."""

import numpy as np
import torch

import golden
import models
import toy_configs

CONFIGS = {"a": toy_configs.vae(8), "b": toy_configs.vae(4, 12, z_dim=4)}
SEED = {"a": 15, "b": 13}  # of the seeds tried, two whose single frame (a third of the history) is not too faint
CASES = [(1, 4, 6), (2, 5, 3), (5, 3, 4)]  # latent frames, rows, columns


def denormalised(latents, config):
    """The pipeline's own arithmetic, in fp32: a division by 1 / std."""
    mean = torch.tensor(config["latents_mean"]).view(1, -1, 1, 1, 1)
    inverse = 1.0 / torch.tensor(config["latents_std"]).view(1, -1, 1, 1, 1)
    return latents / inverse + mean


def decode(vae, z, names):
    """(clamped video, {name: [T, H, W, C]}): stages run once a latent frame; their outputs are joined over time."""
    chunks, hooks = {}, []
    for name, part in names.items():
        hooks.append(part.register_forward_hook(lambda _m, _a, out, name=name: chunks.setdefault(name, []).append(out.clone())))
    video = vae.decode(z, return_dict=False)[0]
    for hook in hooks:
        hook.remove()
    return golden.video(video), {name: golden.video(torch.cat(parts, dim=2)) for name, parts in chunks.items()}


def main(out):
    for name, config in CONFIGS.items():
        vae, weights = models.random_model(config, SEED[name])
        stages = {"post_quant": vae.post_quant_conv, "conv_in": vae.decoder.conv_in, "mid": vae.decoder.mid_block,
                  **{f"up.{i}": block for i, block in enumerate(vae.decoder.up_blocks)}}
        for frames, rows, columns in CASES:
            latents = torch.randn(1, config["z_dim"], frames, rows, columns, generator=torch.Generator().manual_seed(200 + frames))
            z = denormalised(latents, config)
            clamped, parts = decode(vae, z, {"out": vae.decoder, **(stages if frames == 2 else {})})
            assert (np.clip(parts["out"], -1, 1) == clamped).all()
            tensors = {"latents": golden.video(latents), "z": golden.video(z), **parts}
            if frames < 5:
                tensors["clamped"] = clamped
            golden.save(out / f"{name}_{frames}x{rows}x{columns}.safetensors", "wan_vae", tensors, config, SEED[name], weights, scale_of=list(tensors))
            print(f"vae {name} {frames}x{rows}x{columns}: " + ", ".join(f"{n} {list(a.shape)} {golden.rms(a):.3f}" for n, a in tensors.items())
                  + f", clamped {np.mean(np.abs(parts['out']) > 1):.4f}")
