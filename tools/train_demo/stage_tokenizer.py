"""Stage 1: a SentencePiece unigram tokenizer from captions, written in the files transformers' T5 tokenizer reads."""
import os

import sentencepiece

import grammar
from common import write_json

VOCABULARY = 192


def corpus(seed=11, scenes=20000):
    """Captions; their words with points and commas (a word becomes a piece of its own only if it is seen inside two
    different strings); and the alphabet, so that any word can be spelled."""
    rows = grammar.captions(grammar.sample_scenes(scenes, seed), 1, seed + 1)
    lines = [" ".join(word for word, _ in row[0]) for row in rows]
    words = sorted({w.strip(",") for line in lines for w in line.split()})
    lines += [f"{w}. {w}, {w}; {w}! {w}" for w in words] * 20
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'-"
    return lines + [" ".join(letters), letters, "a still quiet clip of the sea and a cat in the box"] * 50


def lower_case_rules(path):
    """The normaliser: upper-case ASCII and typographic quotes fold to plain ones; nothing else changes."""
    pairs = [(chr(u), chr(u + 32)) for u in range(ord("A"), ord("Z") + 1)]
    pairs += [("\u2018", "'"), ("\u2019", "'"), ("\u2013", "-"), ("\u2014", "-"), ("\u00a0", " "), ("\t", " "), ("\n", " ")]
    with open(path, "w") as f:
        for a, b in pairs:
            f.write(f"{ord(a):X}\t{ord(b):X}\n")


def train(folder):
    """Writes spiece.model, tokenizer.json, tokenizer_config.json and special_tokens_map.json into `folder`."""
    os.makedirs(folder, exist_ok=True)
    rules, prefix = os.path.join(folder, "rules.tsv"), os.path.join(folder, "spiece")
    lower_case_rules(rules)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_prefix=prefix, vocab_size=VOCABULARY, model_type="unigram",
        character_coverage=1.0, normalization_rule_tsv=rules, pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
        hard_vocab_limit=False, num_threads=1, minloglevel=2)
    for leftover in (rules, prefix + ".vocab"):
        os.remove(leftover)
    write_fast_tokenizer(folder)


def write_fast_tokenizer(folder):
    """tokenizer.json with the same pieces, scores and normaliser as spiece.model."""
    from sentencepiece import sentencepiece_model_pb2 as format_
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    proto = format_.ModelProto()
    with open(os.path.join(folder, "spiece.model"), "rb") as f:
        proto.ParseFromString(f.read())
    special = ["<pad>", "</s>", "<unk>"]
    fast = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], unk_id=2, byte_fallback=False))
    fast.normalizer = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    fast.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(),
        pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always", split=True)])
    fast.decoder = decoders.Metaspace(replacement="\u2581", prepend_scheme="always", split=True)
    fast.add_special_tokens(special)
    fast.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    fast.save(os.path.join(folder, "tokenizer.json"))
    write_json(os.path.join(folder, "tokenizer_config.json"), dict(
        tokenizer_class="T5Tokenizer", pad_token="<pad>", eos_token="</s>", unk_token="<unk>", extra_ids=0,
        additional_special_tokens=[], clean_up_tokenization_spaces=False, model_max_length=512))
    write_json(os.path.join(folder, "special_tokens_map.json"), dict(zip(["pad_token", "eos_token", "unk_token"], special)))


def check(folder):
    """The transformers tokenizer and SentencePiece itself must agree, also on words outside the grammar."""
    from transformers import AutoTokenizer
    fast = AutoTokenizer.from_pretrained(folder)
    plain = sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, "spiece.model"))
    for text in corpus(seed=98, scenes=200):  # stage_flow encodes word by word
        if plain.encode(text) != [piece for word in text.split() for piece in plain.encode(word)]:
            raise SystemExit(f"tokenizer: {text!r} does not split at its spaces")
    texts = corpus(seed=99, scenes=200) + ["", "A Small RED circle", "zebra \u00e9t\u00e9 \u732b!", "two  spaces", "x" * 40]
    for text in texts:
        expected = plain.encode(text) + [1]
        got = fast(text).input_ids
        if got != expected:
            raise SystemExit(f"tokenizer: {text!r} gives {got} in transformers, {expected} in SentencePiece")
    longest = max(len(plain.encode(t)) + 1 for t in corpus(seed=5, scenes=20000)[:20000])
    print(f"tokenizer pieces={plain.get_piece_size()} longest_caption={longest} checked={len(texts)}", flush=True)
    return plain.get_piece_size()
