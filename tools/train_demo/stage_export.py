"""Stage 5: the complete diffusers folder in bf16, with its model card."""
import os
import shutil
import textwrap

import torch

from common import read_json
from models import load_flow, load_vae, parameters
from stage_flow import SHIFT

LIMIT = 16_000_000  # bytes, all files together


def export(work, sizes, out):
    from diffusers import UniPCMultistepScheduler, WanPipeline
    from transformers import AutoTokenizer
    text, transformer = load_flow(work, sizes)
    vae = load_vae(work, sizes)
    scheduler = UniPCMultistepScheduler(use_flow_sigmas=True, flow_shift=SHIFT, prediction_type="flow_prediction",
                                        num_train_timesteps=1000, solver_order=2)
    for network in (text, transformer, vae):
        for p in network.parameters():  # stored in bf16 throughout; loaders widen what they keep in fp32
            p.data = p.data.to(torch.bfloat16)
    tokenizer = AutoTokenizer.from_pretrained(os.path.join(work, "tokenizer"))
    pipeline = WanPipeline(tokenizer=tokenizer, text_encoder=text, transformer=transformer, vae=vae, scheduler=scheduler)
    shutil.rmtree(out, ignore_errors=True)
    pipeline.save_pretrained(out, safe_serialization=True)
    for name in os.listdir(os.path.join(work, "tokenizer")):  # our own files, also those save_pretrained leaves out
        shutil.copy(os.path.join(work, "tokenizer", name), os.path.join(out, "tokenizer", name))
    forget_paths(out)
    counts = {n: parameters(m) for n, m in (("text_encoder", text), ("transformer", transformer), ("vae", vae))}
    write_card(work, out, counts)
    total = sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(out) for f in files)
    print(f"export {out} bytes={total} parameters={counts}", flush=True)
    if total > LIMIT:
        raise SystemExit(f"export: {total} bytes, the limit is {LIMIT}")


def forget_paths(out):
    """Drops the `_name_or_path` entries that name the machine the model was made on."""
    import json
    for folder, _, files in os.walk(out):
        for name in files:
            if name.endswith(".json") and name != "tokenizer.json":
                path = os.path.join(folder, name)
                value = read_json(path)
                if isinstance(value, dict) and value.pop("_name_or_path", None) is not None:
                    with open(path, "w") as f:
                        json.dump(value, f, indent=2)
                        f.write("\n")


def write_card(work, out, counts):
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "model_card.md")) as f:
        text = f.read()
    logs = os.path.join(work, "logs")
    for key, value in counts.items():
        text = text.replace("{" + key + "}", f"{value:,}")
    vae, flow = read_json(os.path.join(work, "state", "latents.json")), read_json(os.path.join(logs, "flow.json"))
    losses = [r["loss"] for r in flow if "loss" in r]
    text = text.replace("{psnr}", str(vae["psnr"])).replace("{loss}", f"{losses[-1]:.4f}")
    scores = os.path.join(logs, "scores.json")
    said = read_json(scores)["summary"] if os.path.exists(scores) else "not measured yet"
    text = text.replace("{scores}", textwrap.fill(f"On 60 held-out prompts: {said}.", 118, subsequent_indent="  "))
    with open(os.path.join(out, "README.md"), "w") as f:
        f.write(text)
