"""Prompts -> cleaned text -> ids, and the toy models they belong to.

`ids` come from the pipeline's own cleaning and a fast T5 tokenizer whose unknown id is the model's own (3), as transformers 4 and the original Wan
code have it. transformers 5.24 builds T5Tokenizer with a fixed unknown id of 2, which in UMT5 is <s>: `ids_transformers5` is what a diffusers
folder gives there. The two differ only where a piece is unknown.
"""

import copy
import json
import pathlib
import shutil
import tempfile

from diffusers.pipelines.wan.pipeline_wan import prompt_clean
from tokenizers import Tokenizer
from transformers import T5TokenizerFast

import golden
import make_tokenizer

TOY = pathlib.Path(__file__).resolve().parents[2] / "configs/toy/tokenizer"
LENGTH = 512

PROMPTS = {
    "plain": "a cat walks on the grass",
    "empty": "",
    "spaces": " \t \n  ",
    "tabs_newlines": "\ta small dog\r\nruns along\n\n the beach \u00a0 and\u2003stops\u3000here ",
    "punctuation": "Close-up shot, 35 mm film: \u201ca red fox\u201d \u2014 it\u2019s 7:45 p.m.\u2026 (slow motion)!",
    "emoji_zwj": "a family \U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 waves \U0001f44b\U0001f3fd and smiles \u2764\ufe0f",
    "arabic": "\u0642\u0637\u0629 \u062a\u0645\u0634\u064a \u0639\u0644\u0649 \u0627\u0644\u0639\u0634\u0628. \u0645\u064f\u062f\u064e\u0631\u0651\u0650\u0633 \ufefb",
    "thai": "\u0e41\u0e21\u0e27\u0e40\u0e14\u0e34\u0e19\u0e1a\u0e19\u0e2b\u0e0d\u0e49\u0e32 \u0e19\u0e49\u0e33\u0e15\u0e01",
    "chinese_full_width": "\u4e00\u53ea\u732b\u5728\u8349\u5730\u4e0a\u8d70\uff0c\u5915\u9633\u4e0b\u7684\u6d77\u8fb9\uff01\uff21\uff22\uff23\uff11\uff12\uff13\u3002",
    "japanese_half_width": "\uff88\uff7a\u304c\u8349\u306e\u4e0a\u3092\u6b69\u304f\u3002\uff76\uff9e\uff97\uff7d",
    "korean_jamo": "\u1100\u1169\u110b\u1163\u11bc\u110b\u1175\uac00 \uac77\ub294\ub2e4",
    "entities": "salt &amp;amp; pepper &lt;b&gt; caf&eacute; &#128512; &amp;quot;x&amp;quot; &nbsp;y",
    "combining": "Un garc\u0327on pre\u0300s de la fore\u0302t, e\u0301te\u0301 \u212b \u00bd \u2460 \ufb01lm",
    "special_tokens": "a <pad> cat</s> walks <s>on <unk> the <extra_id_0> grass",
    "zero_width": "a\u200bcat\u200d walks\u2060 on\ufeff the\u00ad grass\u200e",
    "control": "a cat\u0001\u0007 walks \u001b[31mred\u001b[0m on\u007f the grass",
    "mojibake": "caf\u00c3\u00a9 \u00e2\u20ac\u0153quoted\u00e2\u20ac\u009d na\u00c3\u00afve",
    "unknown": "\u265e \u265e\u265f the \u16a0\u16a2\u16a6 runes \u0915\u0924\u092c",
    "underline": "a\u2581cat \u2581 walks\u2581",
    "html_and_case": "THE Quick <i>Brown</i> FOX_jumps+over 100% of 3.14 https://example.org/a?b=c&d=e",
    "long": " ".join(["a cat walks on the grass and a small dog runs along the beach, slowly"] * 43),
}


def with_own_unknown(tokenizer, unknown):
    state = json.loads(tokenizer._tokenizer.to_str())
    assert state["model"]["type"] == "Unigram" and state["model"]["byte_fallback"] is False
    state["model"]["unk_id"] = unknown
    return Tokenizer.from_str(json.dumps(state))


def encode_as_pipeline(tokenizer, text):
    """The pipeline's call; only the real ids, the end token among them."""
    result = tokenizer([text], padding="max_length", max_length=LENGTH, truncation=True, add_special_tokens=True, return_attention_mask=True)
    return [i for i, real in zip(result.input_ids[0], result.attention_mask[0]) if real]


def encode(folder):
    """[{name, prompt, cleaned, ids, ids_transformers5}]"""
    loaded = T5TokenizerFast.from_pretrained(folder)
    own = copy.deepcopy(loaded)
    own._tokenizer = with_own_unknown(loaded, 3)
    rows = []
    for name, prompt in PROMPTS.items():
        cleaned = prompt_clean(prompt)
        rows.append({"name": name, "prompt": prompt, "cleaned": cleaned, "ids": encode_as_pipeline(own, cleaned),
                     "ids_transformers5": encode_as_pipeline(loaded, cleaned)})
    return rows


def main(out):
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "bytes"
        shutil.copytree(TOY, folder)
        (folder / "spiece.model").write_bytes(make_tokenizer.train(950, byte_fallback=True))
        value = {"kind": "tokenizer", "versions": golden.versions(), "toy": encode(TOY), "bytes": encode(folder)}
        shutil.copy(folder / "spiece.model", out / "bytes.model")
    (out / "prompts.json").write_text(json.dumps(value, ensure_ascii=True, indent=1) + "\n")
    for row in value["toy"]:
        print(row["name"], repr(row["cleaned"][:60]), len(row["ids"]), row["ids"].count(3), row["ids"] == row["ids_transformers5"])
