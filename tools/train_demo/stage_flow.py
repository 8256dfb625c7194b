"""Stage 4: text encoder and transformer together, flow matching on latents made in this stage.

x(sigma) = (1 - sigma) clip + sigma noise, the model predicts noise - clip. A tenth of the prompts is replaced by the
empty one, so that guidance has something to steer away from. The weights kept are a moving average.
"""
import contextlib
import functools
import math
import os
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F

import draw
import grammar
from common import TEXT_LENGTH, Average, Budget, Log, Optimisers, load_weights, next_round, save_weights
from models import load_vae, make_text_encoder, make_transformer, parameters, vocabulary_size
from stage_vae import autocast
from vae_whole import NATIVE, WholeVae

TEXT_ROWS = 32  # rows computed in training; the last stands for all the zero rows up to TEXT_LENGTH
SHIFT = 3.0     # of the flow schedule, in training and in the scheduler's config
DROPPED = 0.1
PHRASINGS = 4
BINDING = 0.02  # weight of the Binder's loss


class CountedZeros:
    """Cross-attention over TEXT_ROWS rows in place of TEXT_LENGTH: the last row is zero and counts as many times as
    there are zero rows left out. The same numbers as the class gives for the padded text."""

    def __init__(self, rows=TEXT_ROWS, length=TEXT_LENGTH):
        self.rows, self.extra = rows, math.log(length - rows + 1)

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, rotary_emb=None):
        heads = lambda x: x.unflatten(2, (attn.heads, -1)).transpose(1, 2)
        q = heads(attn.norm_q(attn.to_q(hidden_states)))
        k = heads(attn.norm_k(attn.to_k(encoder_hidden_states)))
        v = heads(attn.to_v(encoder_hidden_states))
        last = torch.arange(self.rows, device=q.device) == self.rows - 1
        bias = torch.where(last, self.extra, 0.0).to(q.dtype).expand(1, 1, q.shape[2], self.rows)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return attn.to_out[1](attn.to_out[0](out.transpose(1, 2).flatten(2).type_as(hidden_states)))


def use_counted_zeros(transformer):
    for block in transformer.blocks:
        block.attn2.set_processor(CountedZeros())


def embed(text, ids):
    """Token ids [B, TEXT_ROWS - 1], padded with 0 -> [B, TEXT_ROWS, d]: rows past a prompt are zero, as the pipeline has them."""
    mask = ids != 0
    rows = text(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    return F.pad(rows * mask[..., None], (0, 0, 0, 1))


def tokenise(work, rows):
    """Tagged captions [N][P] -> ids [N, P, W], W = TEXT_ROWS - 1, padded with 0; tags [N, P, W], the object each token
    speaks of or -1; said [N, P, 2], whether the caption names the object's size."""
    import sentencepiece
    pieces = sentencepiece.SentencePieceProcessor(model_file=os.path.join(work, "tokenizer", "spiece.model"))
    encode = functools.cache(pieces.encode)  # word by word: pieces never cross spaces
    sizes = {word for words in grammar.SIZE_WORDS.values() for word in words}
    flat = [caption for row in rows for caption in row]
    width = TEXT_ROWS - 1
    ids, tags = torch.zeros(len(flat), width, dtype=torch.long), torch.full((len(flat), width), -1)
    said = torch.zeros(len(flat), 2, dtype=torch.bool)
    for n, caption in enumerate(flat):
        tokens = [(t, tag) for word, tag in caption for t in encode(word)] + [(1, -1)]
        if len(tokens) > width:
            raise SystemExit(f"a caption has {len(tokens)} tokens, TEXT_ROWS allows {width}")
        ids[n, :len(tokens)] = torch.tensor([t for t, _ in tokens])
        tags[n, :len(tokens)] = torch.tensor([tag for _, tag in tokens])
        for word, tag in caption:
            if word in sizes:
                said[n, tag] = True
    shape = (len(rows), -1)
    return ids.view(*shape, width), tags.view(*shape, width), said.view(*shape, 2)


ATTRIBUTES = dict(colour=len(grammar.COLOURS), shape=len(grammar.SHAPES), size=2, motion=len(grammar.MOTIONS))


class Binder(torch.nn.Module):
    """Used in training only: from each token that speaks of an object, all attributes of that object must be readable.
    Without it the encoder takes very long to learn which words belong together when there are two objects."""

    def __init__(self, width):
        super().__init__()
        self.head = torch.nn.Linear(width, sum(ATTRIBUTES.values()))

    def forward(self, rows, labels):
        """rows [B, W, d], labels [B, W, 4] with -100 where there is nothing to tell -> sum of mean cross-entropies."""
        total = 0.0
        for k, logits in enumerate(self.head(rows).float().split(list(ATTRIBUTES.values()), dim=-1)):
            wanted = labels[..., k].flatten()
            told = (wanted >= 0).sum().clamp_min(1)  # a small batch may name no size at all
            total = total + F.cross_entropy(logits.flatten(0, 1), wanted, reduction="sum") / told
        return total


@torch.no_grad()
def make_latents(vae, device, clips, count, side, frames, batch, minutes):
    """Normalised latents [n, 16, t, h, w], n <= count: as many as fit the minutes."""
    whole = WholeVae(vae, NATIVE, device.type == "cuda")
    mean = torch.tensor(vae.config.latents_mean, device=device).view(1, -1, 1, 1, 1)
    std = torch.tensor(vae.config.latents_std, device=device).view(1, -1, 1, 1, 1)
    times, start, parts = torch.arange(frames, device=device, dtype=torch.float32), time.time(), []
    for first in range(0, count, batch):
        rows = torch.arange(first, min(first + batch, count), device=device)
        with autocast(device):
            latent = whole.encode(draw.render(draw.select(clips, rows), times, side))[0]
        if device.type == "cuda":
            torch.cuda.synchronize()  # so that the clock below tells the truth
        parts.append(((latent.float() - mean) / std).to(torch.bfloat16 if device.type == "cuda" else torch.float32))
        if time.time() - start > minutes * 60:
            break
    return torch.cat(parts)


def hidden_matrix(name, p):
    """Which parameters Muon takes: the matrices inside blocks."""
    return p.ndim == 2 and "block" in name and "relative_attention_bias" not in name


class Sampler:
    """Batches of (latents, ids, labels) from the pool; a short clip is the front of a long one: the VAE is causal."""

    def __init__(self, latents, scene, text, seed):
        self.latents, self.device = latents, latents.device
        n = len(latents)
        self.ids, self.tags, self.said = (t[:n].to(self.device) for t in text)
        self.attributes = torch.stack([torch.tensor(scene[k][:n], device=self.device) for k in ATTRIBUTES], -1)  # [N, 2, 4]
        self.random = torch.Generator(self.device).manual_seed(seed)
        self.empty = torch.zeros(self.ids.shape[-1], dtype=torch.long, device=self.device)
        self.empty[0] = 1

    def pick(self, rows, phrase):
        """ids [B, W] and labels [B, W, 4] of the given clips and phrasings."""
        tags, said = self.tags[rows, phrase], self.said[rows, phrase]
        labels = self.attributes[rows].clone()
        labels[..., list(ATTRIBUTES).index("size")][~said] = -100
        labels = labels.gather(1, tags.clamp_min(0)[..., None].expand(-1, -1, len(ATTRIBUTES)))
        return self.ids[rows, phrase], labels.masked_fill(tags[..., None] < 0, -100)

    def batch(self, count):
        draw_ = lambda n: torch.randint(n, (count,), generator=self.random, device=self.device)
        rows = draw_(len(self.latents))
        ids, labels = self.pick(rows, draw_(self.ids.shape[1]))
        dropped = (torch.rand(count, generator=self.random, device=self.device) < DROPPED)[:, None]
        return self.latents[rows].float(), torch.where(dropped, self.empty, ids), labels.masked_fill(dropped[..., None], -100)

    def sigmas(self, count):
        """Stratified logit-normal numbers through the shift of the sampling schedule."""
        u = (torch.randperm(count, generator=self.random, device=self.device) +
             torch.rand(count, generator=self.random, device=self.device)) / count
        z = torch.special.ndtri(u.clamp(1e-4, 1 - 1e-4)) * 1.2
        s = torch.sigmoid(z)
        return SHIFT * s / (1 + (SHIFT - 1) * s)


def flow_loss(transformer, latents, rows, sigma, noise):
    """Mean squared error of the velocity per clip [B]; rows [B, TEXT_ROWS, d] as embed gives them."""
    s = sigma.view(-1, 1, 1, 1, 1)
    prediction = transformer(hidden_states=(1 - s) * latents + s * noise, timestep=sigma * 1000, encoder_hidden_states=rows,
                             return_dict=False)[0]
    return (prediction.float() - (noise - latents)).square().flatten(1).mean(1)


def check_counted_zeros(text, transformer, tolerance=1e-5):
    """The shortened text must give what the class gives for 512 rows (run before the processors are replaced)."""
    random = torch.Generator().manual_seed(3)
    for p in transformer.parameters():  # a fresh model predicts zero: shake it for the comparison, then put it back
        p.kept = p.data.clone()
        p.data += 0.05 * torch.randn(p.shape, generator=random)
    x = torch.randn(2, 16, 2, 4, 4, generator=random)
    ids = torch.zeros(2, TEXT_ROWS - 1, dtype=torch.long)
    ids[0, :5], ids[1, 0] = torch.tensor([3, 4, 5, 6, 1]), 1
    with torch.no_grad():
        rows = embed(text, ids)
        run = lambda e: transformer(hidden_states=x, timestep=torch.tensor([500.0, 20.0]), encoder_hidden_states=e, return_dict=False)[0]
        full = run(F.pad(rows, (0, 0, 0, TEXT_LENGTH - TEXT_ROWS)))
        use_counted_zeros(transformer)
        worst = ((run(rows) - full).abs().max() / full.abs().max()).item()
    for p in transformer.parameters():
        p.data = p.kept
        del p.kept
    if not worst <= tolerance:
        raise SystemExit(f"shortened cross-attention differs from the class by {worst:.2e}")
    print(f"flow shortened-text check max_relative_difference={worst:.2e}", flush=True)


def train(work, sizes, device, steps, minutes, scale, seed=31):
    """scale: dict(clips, side, frames, encode_batch, encode_minutes, batch, log_every). Writes the two networks' weights."""
    start = time.time()
    folder = os.path.join(work, "state")
    names = [os.path.join(folder, n + ".safetensors") for n in ("text_encoder", "transformer")]
    torch.manual_seed(seed)
    text, transformer = make_text_encoder(sizes, vocabulary_size(work)), make_transformer(sizes)
    check_counted_zeros(text, transformer)
    resumed = os.path.exists(names[1])
    for network, name in zip((text, transformer), names):
        if os.path.exists(name):
            load_weights(network, name)
    seed += 1000 * next_round(work, "flow") * resumed  # a resumed run draws clips it has not seen
    on_gpu = device.type == "cuda"
    torch.backends.cudnn.benchmark = on_gpu
    text.to(device).train(), transformer.to(device).train()
    print(f"flow text={parameters(text)} transformer={parameters(transformer)} resumed={resumed} seed={seed}", flush=True)

    scene = grammar.sample_scenes(scale["clips"], seed, pairs=0.65)  # two objects are the harder half
    clips = draw.make_clips(scene, seed + 1, device)
    with ThreadPoolExecutor(1) as side_job:  # captions on the processor while the GPU draws and encodes
        words = side_job.submit(lambda: tokenise(work, grammar.captions(scene, PHRASINGS, seed + 2)))
        latents = make_latents(load_vae(work, sizes).to(device), device, clips, scale["clips"], scale["side"], scale["frames"],
                               scale["encode_batch"], scale["encode_minutes"])
    sampler = Sampler(latents, scene, words.result(), seed + 3)
    binder = Binder(text.config.d_model).to(device)
    print(f"flow clips={len(latents)} latent_rms={latents[:256].float().square().mean().sqrt():.3f} "
          f"prepared_s={time.time() - start:.1f}", flush=True)

    if on_gpu:
        transformer.compile_repeated_blocks()
    named = [(prefix + n, p) for prefix, m in (("text.", text), ("wan.", transformer), ("binder.", binder))
             for n, p in m.named_parameters()]
    gain = 0.5 if resumed else 1.0
    optimiser = Optimisers(named, gain * scale["lr"], hidden_matrix, gain * scale["matrix_lr"], fused=on_gpu)
    average, log = Average([text, transformer], 0.999), Log("flow")
    budget, running = Budget(steps, minutes - (time.time() - start) / 60), True
    recent = []
    while running:
        x, ids, labels = sampler.batch(scale["batch"])
        stance = contextlib.nullcontext()
        if budget.step % 16 == 15:  # shorter clips; not compiled, since each length would be compiled anew
            x = x[:, :, :scale["shortest"] + budget.step // 16 % max(1, x.shape[2] - scale["shortest"])]
            stance = torch.compiler.set_stance("force_eager")
        with autocast(device), stance:
            rows = embed(text, ids)
            loss = flow_loss(transformer, x, rows, sampler.sigmas(len(x)), torch.randn_like(x)).mean()
            binding = binder(rows[:, :-1], labels)
        (loss + BINDING * binding).backward()
        norm = optimiser.step(budget.rate(warmup=scale["warmup"], floor=0.02))
        average.update()
        recent.append(loss.detach())
        running = budget.advance()
        if budget.step % scale["log_every"] == 0 or not running:
            log.add(budget.step, loss=torch.stack(recent).mean(), binding=binding, grad=norm, rate=optimiser.rates[1] * budget.rate(scale["warmup"], 0.02))
            recent = []
    average.swap()
    save_weights(text, names[0])
    save_weights(transformer, names[1])
    final = validate(work, text, transformer, sizes, device, scale)
    log.add(budget.step, validation=final)
    log.save(os.path.join(work, "logs"), ["loss", "binding", "grad", "rate"])
    print(f"flow final validation_loss={final:.5f} seconds={time.time() - start:.0f}", flush=True)


@torch.no_grad()
def validate(work, text, transformer, sizes, device, scale, seed=777):
    """Loss of the averaged weights on fresh clips at 16 fixed noise levels."""
    count = scale["batch"] // 2
    scene = grammar.sample_scenes(count, seed)
    latents = make_latents(load_vae(work, sizes).to(device), device, draw.make_clips(scene, seed + 1, device), count, scale["side"],
                           scale["frames"], scale["encode_batch"], 1).float()
    ids = tokenise(work, grammar.captions(scene, 1, seed + 2))[0].to(device)[:, 0]
    random = torch.Generator(device).manual_seed(seed)
    sigma = ((torch.arange(len(latents), device=device) % 16) + 0.5) / 16
    noise = torch.randn(latents.shape, generator=random, device=device)
    with autocast(device):
        return flow_loss(transformer, latents, embed(text, ids), sigma, noise).mean().item()
