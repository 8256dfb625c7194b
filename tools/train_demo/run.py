"""Trains the demo model. Each stage is one command and continues from what the stage before left in --work:

    python run.py tokenizer --work W          # seconds, CPU
    python run.py text      --work W          # minutes, CPU or GPU
    python run.py vae       --work W          # <= 8 minutes on one H200
    python run.py flow      --work W          # <= 8 minutes on one H200; again: continues from its own weights
    python run.py export    --work W --model models/shapes
    python run.py evaluate  --work W --model models/shapes
    python run.py import    --work W --model models/shapes    # the other way: training state from a finished folder
    python run.py --smoke                     # all stages, tiny, on the CPU, in two minutes

W/state holds the weights in fp32 (no file over 16 MiB), W/logs the losses as JSON and as curves.
"""
import argparse
import os
import shutil
import tempfile
import time

import torch

import common
import models

common.quiet_libraries()

TEXT_SCALE = dict(scenes=8192, batch=96, log_every=50)
VAE_SCALE = dict(scenes=32768, side=128, crop=(16, 17, 64), full=(4, 33), log_every=100, measure_batches=12)
FLOW_SCALE = dict(clips=49152, side=128, frames=33, encode_batch=64, encode_minutes=1.0, batch=192, shortest=5,
                  log_every=100, warmup=300, lr=2.5e-3, matrix_lr=5e-3)
SMOKE_TEXT = dict(scenes=64, batch=8, log_every=2)
SMOKE_VAE = dict(scenes=64, side=32, crop=(2, 5, 16), full=(2, 9), log_every=2, measure_batches=1)
SMOKE_FLOW = dict(clips=8, side=32, frames=9, encode_batch=4, encode_minutes=0.2, batch=4, shortest=2, log_every=2, warmup=2,
                  lr=1e-3, matrix_lr=3e-3)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", nargs="?", choices=["tokenizer", "text", "vae", "flow", "export", "evaluate", "import"])
    parser.add_argument("--work", default="train_demo_work")
    parser.add_argument("--model", help="the diffusers folder, default W/model")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--steps", type=int, help="at most so many training steps")
    parser.add_argument("--minutes", type=float, default=7.5, help="at most so many minutes of training")
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
    if not args.smoke and not args.stage:
        parser.error("name a stage, or --smoke")
    return args


def run_stage(stage, work, model, device, steps, minutes, smoke):
    import evaluate
    import stage_export
    import stage_flow
    import stage_text
    import stage_tokenizer
    import stage_vae
    sizes = models.SMOKE if smoke else models.FULL
    start = time.time()
    if stage == "tokenizer":
        stage_tokenizer.train(os.path.join(work, "tokenizer"))
        stage_tokenizer.check(os.path.join(work, "tokenizer"))
    elif stage == "text":
        stage_text.train(work, sizes, device, steps or 800, minutes, SMOKE_TEXT if smoke else TEXT_SCALE)
    elif stage == "vae":
        stage_vae.train(work, sizes, device, steps or 30000, minutes, SMOKE_VAE if smoke else VAE_SCALE)
    elif stage == "flow":
        stage_flow.train(work, sizes, device, steps or 30000, minutes, SMOKE_FLOW if smoke else FLOW_SCALE)
    elif stage == "export":
        stage_export.export(work, sizes, model)
    elif stage == "import":
        import_state(work, model)
    elif stage == "evaluate":
        options = ["--out", os.path.join(work, "logs"), "--device", str(device)]
        options += ["--limit", "2", "--steps", "2", "--frames", "9", "--side", "32"] if smoke else []
        evaluate.evaluate(model, evaluate.arguments(options, model=False))
    print(f"stage {stage} done in {time.time() - start:.1f} s", flush=True)


def import_state(work, model):
    """Makes W/tokenizer and W/state from a finished diffusers folder, so that training can go on from it."""
    from safetensors.torch import load_file, save_file
    shutil.copytree(os.path.join(model, "tokenizer"), os.path.join(work, "tokenizer"), dirs_exist_ok=True)
    os.makedirs(os.path.join(work, "state"), exist_ok=True)
    for part, name in (("vae", "diffusion_pytorch_model"), ("transformer", "diffusion_pytorch_model"), ("text_encoder", "model")):
        weights = load_file(os.path.join(model, part, name + ".safetensors"))
        save_file({k: v.float() for k, v in weights.items()}, os.path.join(work, "state", part + ".safetensors"))
    config = common.read_json(os.path.join(model, "vae", "config.json"))
    path = os.path.join(work, "state", "latents.json")
    common.write_json(path, dict(mean=config["latents_mean"], std=config["latents_std"], psnr="unknown"))


def check_measure(count=24):
    """Draws what the evaluation prompts ask for; measure.py must find nearly all of it."""
    import draw
    import grammar
    from measure import score
    prompts = grammar.evaluation_prompts()
    if prompts != common.read_json(os.path.join(os.path.dirname(os.path.abspath(__file__)), "evaluation_prompts.json")):
        raise SystemExit("smoke: evaluation_prompts.json is not what grammar.py makes")
    prompts = prompts[:count]
    clips = draw.make_clips(grammar.scene_of([p["objects"] for p in prompts], 4), 5, "cpu")
    times = torch.arange(0, 33, 4)
    video = [draw.render(draw.select(clips, torch.tensor([i])), times, 128)[0] for i in range(count)]
    frames = [((v.permute(1, 2, 3, 0) + 1) * 127.5).round().clamp(0, 255).byte().numpy() for v in video]
    result = score(frames, prompts)
    print("measure on drawn clips:", {k: result[k] for k in ("colour", "direction", "size")})
    if min(result[k] for k in ("colour", "direction", "size")) < 95:
        raise SystemExit("smoke: measure.py misses what was drawn")


def smoke():
    """Every stage at toy size; the training stages twice, the second time resumed; and training from the export."""
    check_measure()
    work = tempfile.mkdtemp(prefix="train_demo_")
    start, cpu = time.time(), torch.device("cpu")
    model = os.path.join(work, "model")
    for stage in ("tokenizer", "text", "vae", "vae", "flow", "flow", "export", "evaluate", "import", "flow", "export"):
        run_stage(stage, work, model, cpu, 4, 0.5, smoke=True)
    files = sorted(os.path.relpath(os.path.join(d, f), model) for d, _, fs in os.walk(model) for f in fs)
    print("files", *files)
    for needed in ("logs/vae.png", "logs/flow.png", "logs/scores.json", "logs/contact_sheet.png", "model/model_index.json"):
        if not os.path.exists(os.path.join(work, needed)):
            raise SystemExit(f"smoke: {needed} was not written")
    shutil.rmtree(work)
    print(f"smoke passed in {time.time() - start:.0f} s")


def main():
    args = parse()
    if args.smoke:
        return smoke()
    model = args.model or os.path.join(args.work, "model")
    run_stage(args.stage, args.work, model, common.device_of(args.device), args.steps, args.minutes, False)


if __name__ == "__main__":
    main()
