"""Pieces every stage shares: the step budget, the optimiser, the moving average, weights on disk, curves."""
import json
import math
import os
import time

import torch
from safetensors.torch import load_file, save_file

LATENT_CHANNELS = 16
TEXT_LENGTH = 512  # rows the transformer sees; the class's pipeline always pads to it


def device_of(name):
    return torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)


def quiet_libraries():
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")


class Budget:
    """Progress from 0 to 1 by steps or by minutes, whichever is further; so a slow machine still ends its schedule."""

    def __init__(self, steps, minutes):
        self.steps, self.seconds, self.start = steps, minutes * 60, time.time()
        self.step, self.progress = 0, 0.0

    def advance(self):
        self.step += 1
        self.progress = max(self.step / self.steps, self.elapsed() / self.seconds)
        return self.progress < 1

    def elapsed(self):
        return time.time() - self.start

    def rate(self, warmup=200, floor=0.0):
        """Learning-rate factor: linear warm-up, flat to 40 %, then a cosine to `floor`."""
        tail = 0.0 if self.progress < 0.4 else min(1.0, (self.progress - 0.4) / 0.6)
        return min(1.0, (self.step + 1) / warmup) * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * tail)))


def _orthogonal(g):
    """Nearest semi-orthogonal matrices of a batch [K, m, n], m <= n, by the quintic Newton-Schulz iteration in bf16."""
    x = g.bfloat16()
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.float()


class Muon(torch.optim.Optimizer):
    """Momentum whose update is orthogonalised (Jordan et al. 2024), scaled to the root mean square of an AdamW step.

    For the weight matrices of hidden layers. Matrices of one shape are handled as one batch.
    """

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            shapes = {}
            for p in group["params"]:
                if p.grad is not None:
                    shapes.setdefault(tuple(p.shape), []).append(p)
            for shape, params in shapes.items():
                self._step_shape(group, shape, params)

    def _step_shape(self, group, shape, params):
        buffers = [self.state[p].setdefault("momentum", torch.zeros_like(p)) for p in params]
        grads = [p.grad for p in params]
        torch._foreach_lerp_(buffers, grads, 1 - group["momentum"])
        update = torch.stack(torch._foreach_lerp(grads, buffers, group["momentum"]))
        wide = update if shape[0] <= shape[1] else update.mT
        update = _orthogonal(wide)
        update = update if shape[0] <= shape[1] else update.mT
        torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
        scale = 0.2 * math.sqrt(max(shape))
        torch._foreach_add_(params, list(update.unbind(0)), alpha=-group["lr"] * scale)


class Optimisers:
    """Muon (rate matrix_lr) for the hidden matrices, AdamW (rate lr) for the rest, one schedule."""

    def __init__(self, named, lr, matrix=lambda n, p: False, matrix_lr=0.0, betas=(0.9, 0.95), weight_decay=0.01, fused=False):
        named = [(n, p) for n, p in named if p.requires_grad]
        hidden = [p for n, p in named if matrix(n, p)]
        rest = [p for n, p in named if not matrix(n, p)]
        self.parts = [torch.optim.AdamW(rest, lr=lr, betas=betas, weight_decay=weight_decay, fused=fused)]
        if hidden:
            self.parts.append(Muon(hidden, lr=matrix_lr, weight_decay=weight_decay))
        self.rates, self.params = [lr, matrix_lr], [p for _, p in named]

    def step(self, factor, clip=1.0):
        norm = torch.nn.utils.clip_grad_norm_(self.params, clip, foreach=True)
        for part, rate in zip(self.parts, self.rates):
            for group in part.param_groups:
                group["lr"] = rate * factor
            part.step()
        for p in self.params:
            p.grad = None
        return norm


class Average:
    """Exponential moving average of a module's parameters, with a short memory at first."""

    def __init__(self, modules, decay):
        self.modules, self.decay, self.count = modules, decay, 0
        self.params = [p for m in modules for p in m.parameters()]
        self.mean = [p.detach().clone() for p in self.params]

    @torch.no_grad()
    def update(self):
        self.count += 1
        decay = min(self.decay, (1 + self.count) / (10 + self.count))
        torch._foreach_lerp_(self.mean, [p.detach() for p in self.params], 1 - decay)

    @torch.no_grad()
    def swap(self):
        """Exchanges the modules' parameters and their average."""
        for p, m in zip(self.params, self.mean):
            kept = p.detach().clone()
            p.copy_(m)
            m.copy_(kept)


def save_weights(module, path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    state = {k: v.detach().float().cpu().contiguous() for k, v in module.state_dict().items()}
    seen, unique = {}, {}
    for k, v in state.items():  # a tied tensor is stored once
        source = module.state_dict()[k].data_ptr()
        if source not in seen:
            seen[source] = k
            unique[k] = v
    save_file(unique, path, metadata={"format": "pt"})


def load_weights(module, path):
    missing, unexpected = module.load_state_dict(load_file(path), strict=False)
    tied = {"encoder.embed_tokens.weight", "shared.weight"}
    if set(missing) - tied or unexpected:
        raise SystemExit(f"{path}: not this model's weights (missing {missing[:3]}, unexpected {unexpected[:3]})")


def write_json(path, value):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as f:
        json.dump(value, f, indent=1)
        f.write("\n")


def read_json(path):
    with open(path) as f:
        return json.load(f)


def next_round(work, stage):
    """How often this stage was resumed before, counted in state/rounds.json."""
    path = os.path.join(work, "state", "rounds.json")
    rounds = read_json(path) if os.path.exists(path) else {}
    rounds[stage] = rounds.get(stage, 0) + 1
    write_json(path, rounds)
    return rounds[stage]


class Log:
    """Prints and keeps rows of numbers; `save` writes them as JSON and as a curve."""

    def __init__(self, name):
        self.name, self.rows, self.start = name, [], time.time()

    def add(self, step, **numbers):
        row = dict(step=step, seconds=round(time.time() - self.start, 1), **{k: float(f"{float(torch.as_tensor(v).detach()):.5g}") for k, v in numbers.items()})
        self.rows.append(row)
        print(self.name, " ".join(f"{k}={v}" for k, v in row.items()), flush=True)

    def save(self, folder, columns):
        write_json(os.path.join(folder, self.name + ".json"), self.rows)
        if len(self.rows) > 1:
            draw_curves(os.path.join(folder, self.name + ".png"), self.rows, columns)


def draw_curves(path, rows, columns, width=900, height=260):
    """One panel per column over steps, log scale where all values are positive."""
    from PIL import Image, ImageDraw
    image = Image.new("RGB", (width, height * len(columns)), "white")
    pen = ImageDraw.Draw(image)
    for n, name in enumerate(columns):
        points = [(r["step"], r[name]) for r in rows if name in r]
        if len(points) < 2:
            continue
        logscale = all(v > 0 for _, v in points)
        value = (lambda v: math.log10(v)) if logscale else (lambda v: v)
        xs, ys = [p[0] for p in points], [value(p[1]) for p in points]
        x0, x1, y0, y1 = min(xs), max(xs), min(ys), max(ys)
        top, left, right, bottom = n * height + 24, 80, width - 20, (n + 1) * height - 24
        spot = lambda x, y: (left + (right - left) * (x - x0) / max(x1 - x0, 1e-9),
                             bottom - (bottom - top) * (y - y0) / max(y1 - y0, 1e-9))
        pen.rectangle([left, top, right, bottom], outline="#999999")
        pen.line([spot(x, y) for x, y in zip(xs, ys)], fill="#1f5fbf", width=2)
        pen.text((left, top - 16), f"{name} over steps ({x0} to {x1}){', log scale' if logscale else ''}", fill="black")
        for y in (y0, y1):
            pen.text((6, spot(x0, y)[1] - 6), f"{(10 ** y if logscale else y):.4g}", fill="black")
    image.save(path)
