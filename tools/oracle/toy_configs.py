"""Writes configs/toy/: the JSON files of the toy folders in the diffusers layout. `write_folder` adds random weights and the tokenizer."""

import argparse
import json
import pathlib
import shutil

VERSION = "0.42.1"

LATENTS_MEAN = [-0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508, 0.4134, -0.0715, 0.5517, -0.3632, -0.1922, -0.9497, 0.2503, -0.2921]
LATENTS_STD = [2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743, 3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.916]


def transformer(layers, heads, width, ffn, text_dim=64, channels=16):
    return {"_class_name": "WanTransformer3DModel", "_diffusers_version": VERSION, "added_kv_proj_dim": None, "attention_head_dim": width,
            "cross_attn_norm": True, "eps": 1e-06, "ffn_dim": ffn, "freq_dim": 256, "image_dim": None, "in_channels": channels,
            "num_attention_heads": heads, "num_layers": layers, "out_channels": channels, "patch_size": [1, 2, 2],
            "pos_embed_seq_len": None, "qk_norm": "rms_norm_across_heads", "rope_max_seq_len": 1024, "text_dim": text_dim}


def vae(base_dim, decoder_base_dim=None, z_dim=16):
    return {"_class_name": "AutoencoderKLWan", "_diffusers_version": VERSION, "attn_scales": [], "base_dim": base_dim,
            "decoder_base_dim": decoder_base_dim, "dim_mult": [1, 2, 4, 4], "dropout": 0.0, "in_channels": 3, "is_residual": False,
            "latents_mean": LATENTS_MEAN[:z_dim], "latents_std": LATENTS_STD[:z_dim], "num_res_blocks": 2, "out_channels": 3,
            "patch_size": None, "scale_factor_spatial": 8, "scale_factor_temporal": 4, "temperal_downsample": [False, True, True], "z_dim": z_dim}


def text_encoder(layers, d_model, heads, d_kv, d_ff, vocab_size):
    return {"architectures": ["UMT5EncoderModel"], "classifier_dropout": 0.0, "d_ff": d_ff, "d_kv": d_kv, "d_model": d_model,
            "decoder_start_token_id": 0, "dense_act_fn": "gelu_new", "dropout_rate": 0.1, "eos_token_id": 1, "feed_forward_proj": "gated-gelu",
            "initializer_factor": 1.0, "is_encoder_decoder": True, "is_gated_act": True, "layer_norm_epsilon": 1e-06, "model_type": "umt5",
            "num_decoder_layers": layers, "num_heads": heads, "num_layers": layers, "output_past": True, "pad_token_id": 0,
            "relative_attention_max_distance": 128, "relative_attention_num_buckets": 32, "scalable_attention": True,
            "tie_word_embeddings": False, "tokenizer_class": "T5Tokenizer", "torch_dtype": "float32", "use_cache": True, "vocab_size": vocab_size}


def scheduler(flow_shift=3.0, **changes):
    base = {"_class_name": "UniPCMultistepScheduler", "_diffusers_version": VERSION, "beta_end": 0.02, "beta_schedule": "linear",
            "beta_start": 0.0001, "disable_corrector": [], "dynamic_thresholding_ratio": 0.995, "final_sigmas_type": "zero",
            "flow_shift": flow_shift, "lower_order_final": True, "num_train_timesteps": 1000, "predict_x0": True,
            "prediction_type": "flow_prediction", "rescale_betas_zero_snr": False, "sample_max_value": 1.0, "solver_order": 2, "solver_p": None,
            "solver_type": "bh2", "steps_offset": 0, "thresholding": False, "timestep_spacing": "linspace", "trained_betas": None,
            "use_beta_sigmas": False, "use_exponential_sigmas": False, "use_flow_sigmas": True, "use_karras_sigmas": False}
    return {**base, **changes}


def model_index(two_experts):
    index = {"_class_name": "WanPipeline", "_diffusers_version": VERSION}
    if two_experts:
        index["boundary_ratio"] = 0.875
    index.update({"scheduler": ["diffusers", "UniPCMultistepScheduler"], "text_encoder": ["transformers", "UMT5EncoderModel"],
                  "tokenizer": ["transformers", "T5TokenizerFast"], "transformer": ["diffusers", "WanTransformer3DModel"]})
    if two_experts:
        index["transformer_2"] = ["diffusers", "WanTransformer3DModel"]
    index["vae"] = ["diffusers", "AutoencoderKLWan"]
    return index


def folders():
    """{kind: {relative path: JSON value}}"""
    parts = {"scheduler/scheduler_config.json": scheduler(), "vae/config.json": vae(8),
             "text_encoder/config.json": text_encoder(2, 64, 4, 16, 128, 768)}
    expert = transformer(3, 4, 32, 320)
    return {"wan": {"model_index.json": model_index(False), "transformer/config.json": transformer(3, 6, 32, 512), **parts},
            "wan-a14b": {"model_index.json": model_index(True), "transformer/config.json": expert, "transformer_2/config.json": expert, **parts}}


def write_configs(root):
    for kind, files in folders().items():
        for name, value in files.items():
            path = root / kind / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(value, indent=2) + "\n")


def write_folder(configs, kind, out, seed=0):
    """A whole checkpoint: configs/toy/<kind>, the shared tokenizer, and weights by the rule of random_parameters. transformer_2 takes seed + 1."""
    import models  # torch is needed only here

    shutil.copytree(configs / kind, out, dirs_exist_ok=True)
    shutil.copytree(configs / "tokenizer", out / "tokenizer", dirs_exist_ok=True)
    for part in ("text_encoder", "transformer", "transformer_2", "vae"):
        if (out / part).exists():
            models.write_weights(out / part, seed + (part == "transformer_2"))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("root", type=pathlib.Path, help="configs/toy")
    write_configs(arguments.parse_args().root)
