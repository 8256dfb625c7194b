"""Stage 2: the text encoder alone learns which words of a caption speak of the same object.

Left to the flow loss it does not get there in the time given: the first model drew both objects but gave either motion
to either of them. From fresh weights this stage gets there in a few hundred steps; from weights already trained by the
flow loss alone it is far slower, so it always starts afresh.
"""
import os

import torch

import grammar
from common import Budget, Log, Optimisers, save_weights
from models import make_text_encoder, parameters, vocabulary_size
from stage_flow import ATTRIBUTES, Binder, Sampler, embed, hidden_matrix, tokenise


def correct(binder, rows, labels):
    """Share of attributes read correctly, over all tokens that tell any."""
    with torch.no_grad():
        logits = binder.head(rows).split(list(ATTRIBUTES.values()), dim=-1)
        right = torch.stack([l.argmax(-1) == labels[..., k] for k, l in enumerate(logits)], -1)
        return right[labels >= 0].float().mean()


def train(work, sizes, device, steps, minutes, scale, seed=41):
    """scale: dict(scenes, batch, log_every). Writes state/text_encoder.safetensors."""
    torch.manual_seed(seed)
    threads = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)  # the matrices are tiny: threads would mostly wait for each other
    text = make_text_encoder(sizes, vocabulary_size(work)).to(device).train()
    binder = Binder(text.config.d_model).to(device)
    scene = grammar.sample_scenes(scale["scenes"], seed, pairs=0.8)
    sampler = Sampler(torch.zeros(scale["scenes"], 1, device=device), scene, tokenise(work, grammar.captions(scene, 2, seed)), seed)
    named = [(prefix + n, p) for prefix, m in (("text.", text), ("binder.", binder)) for n, p in m.named_parameters()]
    optimiser = Optimisers(named, 2.5e-3, hidden_matrix, 5e-3, fused=device.type == "cuda")
    budget, log, running = Budget(steps, minutes), Log("text"), True
    print(f"text parameters={parameters(text)}", flush=True)
    while running:
        _, ids, labels = sampler.batch(scale["batch"])
        rows = embed(text, ids)[:, :-1]
        loss = binder(rows, labels)
        loss.backward()
        optimiser.step(budget.rate(warmup=20))
        running = budget.advance()
        if budget.step % scale["log_every"] == 0 or not running:
            log.add(budget.step, loss=loss, correct=correct(binder, rows, labels))
    torch.set_num_threads(threads)
    save_weights(text, os.path.join(work, "state", "text_encoder.safetensors"))
    log.save(os.path.join(work, "logs"), ["loss", "correct"])
