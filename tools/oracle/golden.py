"""Writing goldens: safetensors with the facts in `__metadata__`, tensors in Zoetrope's layout, one archive a module."""

import json
import lzma
import pathlib
import tarfile

import diffusers
import ftfy
import numpy as np
import safetensors.numpy
import sentencepiece
import tokenizers
import torch
import transformers

import random_parameters


def versions():
    return {"diffusers": diffusers.__version__, "ftfy": ftfy.__version__, "numpy": np.__version__, "sentencepiece": sentencepiece.__version__,
            "tokenizers": tokenizers.__version__, "torch": torch.__version__, "transformers": transformers.__version__,
            "cpu": torch.backends.cpu.get_cpu_capability()}


def sequence(tensor):
    """[1, S, ...] -> [S, ...]"""
    return tensor.detach().squeeze(0).contiguous().numpy()


def video(tensor):
    """[1, C, T, H, W] -> [T, H, W, C]"""
    return tensor.detach().squeeze(0).permute(1, 2, 3, 0).contiguous().numpy()


def rms(array):
    return float(np.sqrt(np.mean(np.square(array.astype(np.float64)))))


def save(path, kind, tensors, config=None, seed=0, weights=None, scale_of=(), **facts):
    """`scale_of` names the tensors whose rms must lie in [0.2, 5]: a comparison against a vanishing or exploding reference proves nothing."""
    for name in scale_of:
        assert 0.2 <= rms(tensors[name]) <= 5, f"{path}: rms of {name} is {rms(tensors[name])}"
    for name, array in tensors.items():
        assert np.isfinite(array).all(), f"{path}: {name}"
    metadata = {"kind": kind, "seed": str(seed), "versions": json.dumps(versions()), "rms": json.dumps({n: round(rms(a), 4) for n, a in tensors.items()})}
    if config is not None:
        metadata["config"] = json.dumps(config)
    if weights is not None:
        metadata["weights"] = json.dumps(random_parameters.check(weights))
    metadata.update({name: value if isinstance(value, str) else json.dumps(value) for name, value in facts.items()})
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(in_fixed_order(safetensors.numpy.save({n: np.ascontiguousarray(a) for n, a in tensors.items()}, metadata=metadata)))


def in_fixed_order(data):
    """The library writes the metadata in an order that changes from run to run; sorted, equal contents give equal bytes."""
    length = int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8 : 8 + length]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data[8 + length :]


def pack(folder, archive):
    """folder -> <module>.tar.xz whose members are <module>/...; no times, no owners, so equal contents give equal bytes."""
    def plain(info):
        info.mtime, info.uid, info.gid, info.uname, info.gname, info.mode = 0, 0, 0, "", "", 0o644
        return info

    with lzma.open(archive, "wb", preset=9 | lzma.PRESET_EXTREME) as out, tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                tar.add(path, arcname=f"{folder.name}/{path.relative_to(folder)}", filter=plain)
