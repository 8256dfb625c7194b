"""Writes tests/golden/README.md: each file, its tensors, shapes and types, from the archives themselves."""

import json
import pathlib
import struct
import tarfile

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/golden"

HEAD = """# Goldens
What diffusers and transformers compute, as numbers; recorded by `tools/oracle` (see its README), facts only. CMake unpacks each archive into `golden/<module>/` of the build folder
(`CMakeLists.txt` here; the next build does it again when an archive changed).

- safetensors. `__metadata__`: `kind`, `config` (the component's config.json as text; pipelines: model_index.json), `seed` of the weights, `versions` (JSON), `rms` of each tensor (JSON), and the case's own facts as JSON text.
- Layout is ours: video and latents `[T, H, W, C]`, tokens `[S, C]`, text `[L, C]`, heads `[S, N, D]`.
- No weights: they follow from `config` and `seed` by the rule in `tools/oracle/random_parameters.py`. `weights` (pipelines: `component_weights`, one a part) checks them: `sum` of all values in fp64, `count`, first four values of three tensors.
- Facts. sched: `steps`, `grid`; the model is v = fp32(0.05) x + fp32(0.3 sin(t/1000) - 0.1), row i of `x` is the sample before step i. umt5: `fp32_error` = max|fp32 - fp64| / max|fp64|. wan: `timestep`, `text_rows` (512: `text_in` holds
  the real rows, zeros follow; `text` holds them and one padded row). wan_vae: `latents` are normalised, `z` is what the decoder gets, `out` precedes the clamp. tokenizer: `prompts.json` for the toy's model (`toy`) and for one with
  byte pieces (`bytes`, `bytes.model`). pipeline: prompts, sizes, guidance, `timesteps`, `experts` and `passes_per_step`; `after` are the latents after the first four steps, `video` is in [0, 1].
"""


def header(data):
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length])


def rows(archive):
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            data = tar.extractfile(member).read()
            if member.name.endswith(".safetensors"):
                parts = header(data)
                versions = json.loads(parts.pop("__metadata__")["versions"])
                tensors = ", ".join(f"{name} {value['dtype']} {value['shape']}" for name, value in sorted(parts.items()))
                yield member.name, tensors, versions
            elif member.name.endswith(".json"):
                value = json.loads(data)
                yield member.name, f"{len(value['toy'])} prompts: name, prompt, cleaned, ids, ids_transformers5", value["versions"]
            else:
                yield member.name, f"{len(data)} bytes", None


if __name__ == "__main__":
    text, seen = HEAD, {}
    for archive in sorted(FOLDER.glob("*.tar.xz")):
        text += f"\n## {archive.name}, {archive.stat().st_size:,} bytes\n| file | tensors |\n|---|---|\n"
        for name, tensors, versions in rows(archive):
            text += f"| `{name}` | {tensors} |\n"
            if versions:
                seen[json.dumps(versions)] = versions
    text += "\n## Versions\n" + "\n".join(", ".join(f"{k} {v}" for k, v in versions.items()) for versions in seen.values()) + "\n"
    (FOLDER / "README.md").write_text(text)
