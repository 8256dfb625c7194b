"""The three networks, in the classes that diffusers and transformers ship, at the sizes of the demo model."""
import os

import torch

from common import LATENT_CHANNELS, load_weights, read_json

FULL = dict(
    vae=dict(base_dim=16),
    text=dict(d_model=128, d_kv=32, num_heads=4, d_ff=256, num_layers=2),
    transformer=dict(num_attention_heads=6, attention_head_dim=32, ffn_dim=768, num_layers=6, freq_dim=256),
)
SMOKE = dict(
    vae=dict(base_dim=4),
    text=dict(d_model=32, d_kv=16, num_heads=2, d_ff=32, num_layers=1),
    transformer=dict(num_attention_heads=2, attention_head_dim=16, ffn_dim=64, num_layers=1, freq_dim=32),
)


def make_vae(sizes, stats=None):
    """stats: {"mean": [16], "std": [16]} of the latents, zeros and ones until they are measured."""
    from diffusers import AutoencoderKLWan
    stats = stats or dict(mean=[0.0] * LATENT_CHANNELS, std=[1.0] * LATENT_CHANNELS)
    vae = AutoencoderKLWan(**sizes["vae"], z_dim=LATENT_CHANNELS, latents_mean=stats["mean"], latents_std=stats["std"])
    with torch.no_grad():  # start with little noise on the latents, else the decoder first learns to ignore them
        vae.quant_conv.weight[LATENT_CHANNELS:].mul_(0.1)
        vae.quant_conv.bias[LATENT_CHANNELS:].fill_(-5.0)
    return vae


def make_text_encoder(sizes, vocabulary):
    from transformers import UMT5Config, UMT5EncoderModel
    config = UMT5Config(vocab_size=vocabulary, feed_forward_proj="gated-gelu", dropout_rate=0.0, pad_token_id=0,
                        eos_token_id=1, relative_attention_num_buckets=32, relative_attention_max_distance=128,
                        is_encoder_decoder=False, use_cache=False, **sizes["text"])
    return UMT5EncoderModel(config)


def make_transformer(sizes):
    from diffusers import WanTransformer3DModel
    model = WanTransformer3DModel(**sizes["transformer"], patch_size=(1, 2, 2), in_channels=LATENT_CHANNELS,
                                  out_channels=LATENT_CHANNELS, text_dim=sizes["text"]["d_model"], rope_max_seq_len=1024)
    with torch.no_grad():  # start as the identity: gates and output at zero
        model.proj_out.weight.zero_()
        model.proj_out.bias.zero_()
        model.condition_embedder.time_proj.weight.zero_()
        model.condition_embedder.time_proj.bias.zero_()
        for block in model.blocks:
            block.scale_shift_table[:, 2].fill_(0.1)
            block.scale_shift_table[:, 5].fill_(0.1)
            block.attn2.to_out[0].weight.mul_(0.1)
    return model


def vocabulary_size(work):
    return len(read_json(os.path.join(work, "tokenizer", "tokenizer.json"))["model"]["vocab"])


def load_vae(work, sizes):
    stats_path = os.path.join(work, "state", "latents.json")
    vae = make_vae(sizes, read_json(stats_path) if os.path.exists(stats_path) else None)
    load_weights(vae, os.path.join(work, "state", "vae.safetensors"))
    return vae.eval()


def load_flow(work, sizes):
    text, transformer = make_text_encoder(sizes, vocabulary_size(work)), make_transformer(sizes)
    load_weights(text, os.path.join(work, "state", "text_encoder.safetensors"))
    load_weights(transformer, os.path.join(work, "state", "transformer.safetensors"))
    return text.eval(), transformer.eval()


def parameters(module):
    return sum(p.numel() for p in module.parameters())
