"""Records goldens: `python record.py [module ...]` writes tests/golden/<module>.tar.xz (all modules by default)."""

import argparse
import importlib
import pathlib
import tempfile

import golden
import models

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = {"sched": "golden_sched", "umt5": "golden_umt5", "wan": "golden_wan", "wan_vae": "golden_wan_vae", "tokenizer": "golden_tokenizer",
           "pipeline": "golden_pipeline"}

if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("modules", nargs="*", help=", ".join(MODULES))
    arguments.add_argument("--keep", type=pathlib.Path, help="folder for the unpacked files")
    options = arguments.parse_args()
    models.settle()
    for module in options.modules or MODULES:
        with tempfile.TemporaryDirectory() as temporary:
            out = (options.keep or pathlib.Path(temporary)) / module
            out.mkdir(parents=True, exist_ok=True)
            importlib.import_module(MODULES[module]).main(out)
            archive = ROOT / "tests/golden" / f"{module}.tar.xz"
            golden.pack(out, archive)
            print(f"{archive.name}: {archive.stat().st_size} bytes")
