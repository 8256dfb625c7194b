# Row 8's peer: diffusers' WanTransformerBlock, torch.compile, cuDNN attention, the same weights and inputs as r8_block.
# r8_peer.py OURS_BINARY DIR [S for timing F,H,W] ; runs ours between two timings of the peer.
import os, subprocess, sys, time
import numpy as np
import torch
from diffusers.models.transformers.transformer_wan import WanTransformerBlock, WanRotaryPosEmbed

ours, folder = sys.argv[1], sys.argv[2]
cpu = not torch.cuda.is_available()
dev = "cpu" if cpu else "cuda"
C, H, FFN, L = (5120, 40, 13824, 512) if not cpu else (256, 2, 512, 16)
os.makedirs(folder, exist_ok=True)
t0 = time.time()
say = lambda *a: print(f"[{time.time()-t0:6.1f}s]", *a, flush=True)
torch.manual_seed(5)
torch.backends.cuda.matmul.allow_tf32 = False
blk = WanTransformerBlock(C, FFN, H, "rms_norm_across_heads", True, 1e-6, None).to(dev)
with torch.no_grad():
    for n, p in blk.named_parameters():
        if n.endswith("bias"): p.copy_(torch.randn_like(p) * 0.1)
        elif "norm" in n: p.copy_(1 + 0.1 * torch.randn_like(p))
        elif p.dim() == 2: p.copy_(torch.randn_like(p) * (1.0 / p.shape[1] ** 0.5))
        else: p.copy_(torch.randn_like(p) * 0.3)
keep = ("norm2", "scale_shift_table")
ref = blk  # fp32 module holding bf16-representable weights
with torch.no_grad():
    for n, p in ref.named_parameters():
        if not any(k in n for k in keep): p.copy_(p.bfloat16().float())
import copy
bf = copy.deepcopy(ref)
for n, p in bf.named_parameters():
    if not any(k in n for k in keep): p.data = p.data.bfloat16()
for a in (bf.attn1, bf.attn2): a.processor._attention_backend = None if cpu else "_native_cudnn"
for a in (ref.attn1, ref.attn2): a.processor._attention_backend = None if cpu else "_native_efficient"

def raw(name, t):
    t = t.detach().contiguous()
    (t.view(torch.int16) if t.dtype == torch.bfloat16 else t).cpu().numpy().tofile(f"{folder}/{name}.bin")

def dump(h, temb, text, rope):
    raw("h", h); raw("mod", ref.scale_shift_table.float() + temb.float()); raw("text", text)
    cos, sin = rope  # [1, S, 1, D], every value twice
    raw("rope", torch.stack([cos[0, :, 0, 0::2].float(), sin[0, :, 0, 1::2].float()], -1))

def dump_weights():
    a, b = bf.attn1, bf.attn2
    raw("wqkv", torch.cat([a.to_q.weight, a.to_k.weight, a.to_v.weight])); raw("bqkv", torch.cat([a.to_q.bias, a.to_k.bias, a.to_v.bias]))
    raw("nq", a.norm_q.weight); raw("nk", a.norm_k.weight); raw("wo", a.to_out[0].weight); raw("bo", a.to_out[0].bias)
    raw("wq2", b.to_q.weight); raw("bq2", b.to_q.bias); raw("wkv2", torch.cat([b.to_k.weight, b.to_v.weight])); raw("bkv2", torch.cat([b.to_k.bias, b.to_v.bias]))
    raw("nq2", b.norm_q.weight); raw("nk2", b.norm_k.weight); raw("wo2", b.to_out[0].weight); raw("bo2", b.to_out[0].bias)
    raw("n2w", bf.norm2.weight.float()); raw("n2b", bf.norm2.bias.float())
    raw("w1", bf.ffn.net[0].proj.weight); raw("b1", bf.ffn.net[0].proj.bias); raw("w2", bf.ffn.net[2].weight); raw("b2", bf.ffn.net[2].bias)

def inputs(f, h, w):
    S = f * h * w
    g = torch.Generator(dev).manual_seed(S)
    x = torch.randn(1, S, C, device=dev, generator=g).bfloat16()
    text = torch.randn(1, L, C, device=dev, generator=g).bfloat16()
    temb = (torch.randn(1, 6, C, device=dev, generator=g) * 0.3).bfloat16()
    r = WanRotaryPosEmbed(C // H, (1, 2, 2), 1024).to(dev)
    rope = r(torch.empty(1, 16, f, 2 * h, 2 * w, device=dev))
    return x, text, temb, rope

def rel(a, b):
    return ((a.float() - b.float()).norm() / b.float().norm()).item()

def run_ours(S, reps):
    e = dict(os.environ)
    p = subprocess.run([ours, folder, str(S), str(reps)], capture_output=True, text=True, timeout=150, env=e)
    print(p.stdout, p.stderr[-1500:], flush=True)
    if p.returncode: return None
    return torch.from_numpy(np.fromfile(f"{folder}/out.bin", dtype=np.float32)).to(dev).view(1, S, C)

with torch.no_grad():
    dump_weights()
    say("weights written")
    # correctness at a small size
    x, text, temb, rope = inputs(4, 36, 50) if not cpu else inputs(2, 3, 4)
    S = x.shape[1]
    dump(x.float(), temb, text, rope)
    r32 = ref(x.float(), text.float(), temb.float(), rope)
    b16 = bf(x, text, temb, rope)
    upd = lambda y: y.float() - x.float()
    say(f"S {S}: diffusers bf16 against fp32: rel {rel(b16, r32):.3e} (of the update {rel(upd(b16), upd(r32)):.3e}), rms {r32.pow(2).mean().sqrt().item():.3f}")
    if cpu: sys.exit(0)
    o = run_ours(S, 0)
    if o is not None:
        say(f"S {S}: ours against fp32: rel {rel(o, r32):.3e} (of the update {rel(upd(o), upd(r32)):.3e}); against diffusers bf16 {rel(o, b16):.3e}")
    del r32, b16, o
    x, text, temb, rope = inputs(20, 45, 80)
    S = x.shape[1]
    dump(x.float(), temb, text, rope)
    say("72,000-token inputs written")
    comp = torch.compile(bf, fullgraph=True)
    eager = bf
    def timed(f, n, what):
        for _ in range(2): f(x, text, temb, rope)
        torch.cuda.synchronize()
        t = []
        for _ in range(n):
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record(); y = f(x, text, temb, rope); b.record(); torch.cuda.synchronize()
            t.append(a.elapsed_time(b))
        t.sort()
        say(f"PEER {what} S {S}: {t[len(t)//2]:.2f} ms [{t[0]:.2f} {t[-1]:.2f}] torch {torch.__version__} cudnn {torch.backends.cudnn.version()}")
        return y, t[len(t)//2]
    yc, p1 = timed(comp, 10, "compiled, before")
    o = run_ours(S, 10)
    if o is not None: say(f"S {S}: ours against compiled diffusers: rel {rel(o, yc):.3e}")
    del o
    yc, p2 = timed(comp, 10, "compiled, after")
    run_ours(S, 10)
    ye, p3 = timed(eager, 5, "eager")
    if len(sys.argv) > 3:
        comp2 = torch.compile(bf, fullgraph=True, mode=sys.argv[3])
        torch._dynamo.reset()
        timed(comp2, 8, "compiled " + sys.argv[3])
say("ROW8 done")
