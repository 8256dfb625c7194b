"""Stage 3: the VAE, first on crops around the objects, at the end on whole clips; then the statistics of its latents."""
import contextlib
import os
import time

import torch

import draw
import grammar
from common import Average, Budget, Log, Optimisers, load_weights, next_round, save_weights, write_json
from models import make_vae, parameters
from vae_whole import NATIVE, STACKED, WholeVae, check

KL_WEIGHT = 4e-5     # against the mean squared error of pixels in [-1, 1]
FIRST_WEIGHT = 0.15  # frame 0 has a latent frame to itself and takes its own way through the network, but is one of many


def autocast(device):
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else contextlib.nullcontext()


class Crops:
    """Random clips: windows that mostly hold an object, at a random time of its path."""

    def __init__(self, device, scenes, seed, side):
        scene = grammar.sample_scenes(scenes, seed)
        self.clips = draw.make_clips(scene, seed + 1, device, colour_noise=18.0)
        self.count, self.side, self.device = scenes, side, device
        self.random = torch.Generator(device).manual_seed(seed + 2)

    def uniform(self, *shape):
        return torch.rand(*shape, generator=self.random, device=self.device)

    def batch(self, count, frames, window):
        clips = draw.select(self.clips, torch.randint(self.count, (count,), generator=self.random, device=self.device))
        start = self.uniform(count, 1) * (33 - frames)
        times = start + torch.arange(frames, device=self.device)
        if window >= self.side:
            return draw.render(clips, times, self.side)
        middle = draw.centres(clips, times[:, frames // 2:frames // 2 + 1])[:, 0]  # [N, 2 objects, 2]
        which = (self.uniform(count) * clips["objects"]).long()
        aim = middle[torch.arange(count, device=self.device), which] * self.side
        corner = aim - window / 2 + (self.uniform(count, 2) - 0.5) * window
        corner = torch.where(self.uniform(count, 1) < 0.1, self.uniform(count, 2) * (self.side - window), corner)
        corner = corner.clamp(0, self.side - window).round()
        return draw.render(clips, times, self.side, corner, (window, window))


def loss_of(whole, video, noise):
    """Pixel error plus a small KL term; the means of both, and the latents' scale."""
    mean, logvar = whole.encode(video)
    latent = mean + torch.exp(0.5 * logvar) * noise(mean)
    picture = whole.decode(latent)
    error = picture - video
    mse, l1 = error.square().mean(), error.abs().mean()
    first = error[:, :, 0].square().mean()
    kl = 0.5 * (mean.square() + logvar.exp() - 1 - logvar).mean()
    return mse + FIRST_WEIGHT * first + 0.1 * l1 + KL_WEIGHT * kl, dict(mse=mse, first=first, l1=l1, kl=kl)


def fastest_convolution(vae, crops, size, device, compile_norms):
    """Times both ways of convolving on one batch, forward and backward, and takes the faster."""
    if device.type != "cuda":
        return NATIVE
    times = {}
    for conv in (NATIVE, STACKED):
        whole = WholeVae(vae, conv, compile_norms)
        for repeat in range(4):
            if repeat == 2:
                torch.cuda.synchronize()
                start = time.time()
            with autocast(device):
                loss = loss_of(whole, crops.batch(*size), torch.randn_like)[0]
            loss.backward()
        torch.cuda.synchronize()
        times[conv] = (time.time() - start) / 2
        vae.zero_grad(set_to_none=True)
    print("vae seconds a step:", {k: round(v, 4) for k, v in times.items()}, flush=True)
    return min(times, key=times.get)


def train(work, sizes, device, steps, minutes, scale, seed=21):
    """scale: dict(scenes, side, crop (batch, frames, window), full (batch, frames)). Writes state/vae.safetensors."""
    torch.manual_seed(seed)
    path = os.path.join(work, "state", "vae.safetensors")
    vae = make_vae(sizes)
    check(vae)
    resumed = os.path.exists(path)
    if resumed:
        load_weights(vae, path)
        seed += 1000 * next_round(work, "vae")  # a resumed run draws clips it has not seen
    vae.to(device)
    on_gpu = device.type == "cuda"
    torch.backends.cudnn.benchmark = on_gpu
    print(f"vae parameters={parameters(vae)} resumed={resumed}", flush=True)
    crops = Crops(device, scale["scenes"], seed, scale["side"])
    budget = Budget(steps, minutes)
    whole = WholeVae(vae, fastest_convolution(vae, crops, scale["crop"], device, on_gpu), on_gpu)
    optimiser = Optimisers(vae.named_parameters(), 1e-3 if resumed else 2e-3, fused=on_gpu)
    average, log, running = Average([vae], 0.998), Log("vae"), True
    while running:
        late = budget.progress > 0.8
        video = crops.batch(scale["full"][0], scale["full"][1], scale["side"]) if late else crops.batch(*scale["crop"])
        with autocast(device):
            loss, parts = loss_of(whole, video, torch.randn_like)
        loss.backward()
        norm = optimiser.step(budget.rate(warmup=100))
        average.update()
        running = budget.advance()
        if budget.step % scale["log_every"] == 0 or not running:
            log.add(budget.step, psnr=10 * torch.log10(4 / parts["mse"]), grad=norm, **parts)
    average.swap()
    save_weights(vae, path)
    stats = measure(whole, device, scale, seed + 7)
    write_json(os.path.join(work, "state", "latents.json"), stats)
    log.save(os.path.join(work, "logs"), ["psnr", "mse", "kl"])
    print(f"vae final psnr={stats['psnr']} worst_clip_psnr={stats['psnr_worst']} std={stats['std']}", flush=True)
    return stats


@torch.no_grad()
def measure(whole, device, scale, seed):
    """Reconstruction of fresh whole clips, and per-channel mean and deviation of sampled latents."""
    crops = Crops(device, max(64, scale["scenes"] // 64), seed, scale["side"])
    latents, noisy, psnr = [], [], []
    for _ in range(scale["measure_batches"]):
        video = crops.batch(scale["full"][0], scale["full"][1], scale["side"])
        with autocast(device):
            mean, logvar = whole.encode(video)
            picture = whole.decode(mean).clamp(-1, 1)
        psnr.append(10 * torch.log10(4 / (picture - video).square().flatten(1).mean(1)))
        latents.append(mean.float())
        noisy.append((mean + torch.exp(0.5 * logvar) * torch.randn_like(mean)).float())
    mean, noisy, psnr = torch.cat(latents), torch.cat(noisy), torch.cat(psnr)
    rounded = lambda t: [round(v, 4) for v in t.tolist()]
    return dict(mean=rounded(mean.mean((0, 2, 3, 4))), std=rounded(noisy.std((0, 2, 3, 4))),
                std_of_means=rounded(mean.std((0, 2, 3, 4))), psnr=round(psnr.mean().item(), 2),
                psnr_worst=round(psnr.min().item(), 2))
