"""What diffusers and torch take on this GPU for what bench/cuda_bench times, with cuda_bench's run in the middle.

    python bench/peers/cuda.py block|raw|vae|depth [--ours PATH/cuda_bench]

Random weights and inputs of the same shapes, bf16. block: WanTransformerBlock, torch.compile, cuDNN attention (it also makes the
prompt's keys and values, 0.1 ms, which we make once a prompt). raw: cuDNN attention and cuBLASLt products called by torch.
vae: AutoencoderKLWan.decode. depth: WanTransformer3DModel of A14B's width, 40 blocks, bf16 (what diffusers keeps in fp32 stays so) against itself in
fp32, 768 tokens, weights and inputs those of cuda_bench depth, whose fp32 result must be the same. Lines: peer | what | value | unit | remark. Results are checked: finite and not constant.
"""
import argparse
import math
import os
import subprocess
import sys
import tempfile

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


def ours(program, *words):
    if program:
        torch.cuda.empty_cache()
        subprocess.run([program, *words], timeout=150, check=False)


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


def random_tensor(key, shape, seed, device="cuda"):
    """The values of tools/oracle/random_parameters.tensor, made on the device: 14 billion of them take a CPU minutes."""
    import random_parameters as rule

    def signed(v):
        return v - (1 << 64) if v >> 63 else v

    def shifted(z, k):  # int64 shifts keep the sign
        return (z >> k) & ((1 << (64 - k)) - 1)

    z = torch.arange(1, math.prod(shape) + 1, device=device) * signed(rule.GOLDEN) + signed(rule.fnv1a64(key) ^ ((seed * rule.GOLDEN) & rule.MASK))
    z = (z ^ shifted(z, 30)) * signed(0xBF58476D1CE4E5B9)
    z = (z ^ shifted(z, 27)) * signed(0x94D049BB133111EB)
    u = shifted(z ^ shifted(z, 31), 40).float() * 2.0**-24
    a, b = (torch.tensor(v, dtype=torch.float32, device=device) for v in rule.scale(key, shape))
    return ((2 * u - 1) * a + b).reshape(shape)


def relative(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


def depth(program):
    from diffusers import WanTransformer3DModel

    frames, rows, columns, channels = 2, 32, 48, 16
    with tempfile.NamedTemporaryFile() as file:
        ours(program, "depth", file.name)
        mine = torch.frombuffer(bytearray(open(file.name, "rb").read()), dtype=torch.float32) if os.path.getsize(file.name) else None
    with torch.device("cuda"):
        model = WanTransformer3DModel((1, 2, 2), HEADS, C // HEADS, channels, channels, 4096, 256, FFN, 40, True, "rms_norm_across_heads", 1e-6).eval()
    for name, p in model.named_parameters():
        p.data = random_tensor(name, tuple(p.shape), 1)
    x = random_tensor("shared.weight", (frames, rows, columns, channels), 11).permute(3, 0, 1, 2)[None]
    text = random_tensor("shared.weight", (TEXT, 4096), 12)[None]

    def velocity(dtype):  # [T, H, W, C] as ours
        v = model(x.to(dtype), torch.full((1,), 500, device="cuda"), text.to(dtype), return_dict=False)[0]
        return v[0].float().permute(1, 2, 3, 0).contiguous()

    exact = velocity(torch.float32)
    keep = model._keep_in_fp32_modules or []
    for name, p in model.named_parameters():
        if not any(part in name.split(".") for part in keep):
            p.data = p.data.bfloat16()
    line("depth, 768 tokens rms", exact.square().mean().sqrt().item(), "", f"kept in fp32: {', '.join(keep)}")
    line("depth, 768 tokens bf16 against fp32", relative(velocity(torch.bfloat16), exact), "relative L2", "diffusers")
    if mine is not None:
        line("depth, 768 tokens ours in fp32 against theirs", relative(mine.reshape(exact.shape).cuda(), exact), "relative L2", "the same weights and inputs")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("block", "raw", "vae", "depth"))
    parser.add_argument("--ours", help="cuda_bench, run between two timings of the peer")
    options = parser.parse_args()
    print(f"peer | torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}", flush=True)
    with torch.no_grad():
        {"block": block, "raw": raw, "vae": vae, "depth": depth}[options.part](options.ours)
