"""Trains the toy SentencePiece models: `configs/toy/tokenizer/spiece.model`, and a copy with byte pieces for the tokenizer golden.

Unigram, nmt_nfkc, UMT5's special ids: <pad> 0, </s> 1, <s> 2, <unk> 3.
"""

import argparse
import io
import json
import pathlib

import sentencepiece

import corpus

SPECIALS = {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3}


def train(vocab_size, byte_fallback=False):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus.sentences()), model_writer=model, model_type="unigram", vocab_size=vocab_size,
        character_coverage=1.0, normalization_rule_name="nmt_nfkc", byte_fallback=byte_fallback, num_threads=1,
        minloglevel=2, **SPECIALS)
    return model.getvalue()


def tokenizer_config():
    return {"bos_token": "<s>", "clean_up_tokenization_spaces": False, "eos_token": "</s>", "extra_ids": 0, "model_max_length": 512,
            "pad_token": "<pad>", "tokenizer_class": "T5Tokenizer", "unk_token": "<unk>"}


def special_tokens_map():
    return {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=pathlib.Path, help="configs/toy/tokenizer")
    arguments.add_argument("--bytes-model", type=pathlib.Path, help="where to write the model with byte pieces")
    options = arguments.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "spiece.model").write_bytes(train(700))
    write_json(options.folder / "tokenizer_config.json", tokenizer_config())
    write_json(options.folder / "special_tokens_map.json", special_tokens_map())
    if options.bytes_model:
        options.bytes_model.write_bytes(train(950, byte_fallback=True))
