"""What diffusers and torch take on this GPU for what bench/cuda_bench times, with cuda_bench's run in the middle.

    python bench/peers/cuda.py block|raw|vae [--ours PATH/cuda_bench]

Random weights and inputs of the same shapes, bf16. block: WanTransformerBlock, torch.compile, cuDNN attention (it also makes the
prompt's keys and values, 0.1 ms, which we make once a prompt). raw: cuDNN attention and cuBLASLt products called by torch.
vae: AutoencoderKLWan.decode. Lines: peer | what | value | unit | remark. Results are checked: finite and not constant.
"""
import argparse
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

S, C, HEADS, FFN, TEXT = 72000, 5120, 40, 13824, 512


def line(what, value, unit, remark=""):
    print(f"peer | {what} | {value:.4g} | {unit} | {remark}", flush=True)


def timed(what, f, runs, warm=2):
    for _ in range(warm):
        f()
    torch.cuda.synchronize()
    times = []
    for _ in range(runs):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        y = f()
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b))
    times.sort()
    sample = y.flatten()[:: max(1, y.numel() // 1000003)].float()
    if not (torch.isfinite(sample).all() and sample.std() > 1e-3 * sample.abs().max()):
        sys.exit(f"peer: {what}: not finite or constant")
    line(what, times[len(times) // 2], "ms", f"[{times[0]:.2f}, {times[-1]:.2f}] of {runs} runs")
    return times[len(times) // 2]


def ours(program, part):
    if program:
        torch.cuda.empty_cache()
        subprocess.run([program, part], timeout=150, check=False)


def block(program):
    from diffusers.models.transformers.transformer_wan import WanRotaryPosEmbed, WanTransformerBlock

    with torch.device("cuda"):
        module = WanTransformerBlock(C, FFN, HEADS, "rms_norm_across_heads", True, 1e-6, None)
        rotary = WanRotaryPosEmbed(C // HEADS, (1, 2, 2), 1024)
        for name, p in module.named_parameters():
            torch.nn.init.uniform_(p, -0.1, 0.1) if name.endswith("bias") else None
            if p.dim() == 2:
                torch.nn.init.normal_(p, std=p.shape[1] ** -0.5)
            if "norm2" not in name and "scale_shift_table" not in name:
                p.data = p.data.bfloat16()
        rope = rotary(torch.empty(1, 16, 20, 90, 160))
        x = torch.randn(1, S, C).bfloat16()
        text = torch.randn(1, TEXT, C).bfloat16()
        temb = (torch.randn(1, 6, C) * 0.3).bfloat16()
    for attention in (module.attn1, module.attn2):
        attention.processor._attention_backend = "_native_cudnn"
    compiled = torch.compile(module, fullgraph=True)
    timed("block compiled", lambda: compiled(x, text, temb, rope), 10)
    ours(program, "block")
    timed("block compiled, again", lambda: compiled(x, text, temb, rope), 10)
    timed("block eager", lambda: module(x, text, temb, rope), 5, 1)


def raw(program):
    qkv = torch.randn(1, S, 3, HEADS, C // HEADS, device="cuda", dtype=torch.bfloat16)
    q, k, v = (t.transpose(1, 2) for t in qkv.unbind(2))
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        timed("self-attention", lambda: F.scaled_dot_product_attention(q, k, v), 10)
        timed("cross-attention", lambda: F.scaled_dot_product_attention(q, k[:, :, :TEXT], v[:, :, :TEXT]), 10)
    ours(program, "attention")
    del qkv, q, k, v
    total = 0
    for what, i, o in (("qkv", C, 3 * C), ("out", C, C), ("q cross", C, C), ("out cross", C, C), ("up", C, FFN), ("down", FFN, C)):
        x, w, b = (torch.randn(*s, device="cuda", dtype=torch.bfloat16) for s in ((S, i), (o, i), (o,)))
        total += timed("product " + what, lambda: F.linear(x, w, b), 10)
    line("products", total, "ms", "sum; no GELU behind up")
    del x, w, b
    ours(program, "products")


def vae(program):
    from diffusers import AutoencoderKLWan

    with torch.device("cuda"):
        torch.manual_seed(1)
        model = AutoencoderKLWan().bfloat16().eval()
        z = torch.randn(1, 16, 20, 90, 160).bfloat16()
    decode = lambda: model.decode(z, return_dict=False)[0]
    timed("vae", decode, 3, 1)
    line("vae memory", torch.cuda.max_memory_allocated() / 2**30, "GiB", f"{torch.cuda.max_memory_reserved() / 2**30:.2f} reserved")
    ours(program, "vae")
    timed("vae, again", decode, 1, 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("block", "raw", "vae"))
    parser.add_argument("--ours", help="cuda_bench, run between two timings of the peer")
    options = parser.parse_args()
    print(f"peer | torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}", flush=True)
    with torch.no_grad():
        {"block": block, "raw": raw, "vae": vae}[options.part](options.ours)
