"""Records what Python's ftfy, html and tokenizers packages give for a table of prompts, and the small tokenizer that the
tests use. Needed only to make data/ anew: python record_facts.py (with ftfy, sentencepiece, tokenizers)."""
import html
import io
import json
import os
import random
import re

import ftfy
import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2 as format_
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")

PROMPTS = [
    "", " ", "a cat", "Two cats in boxing gear fight on a spotlighted stage.", "  leading and trailing  ",
    "tabs\tand\nnew lines\r\nand\rold ones", "line\u2028separator\u2029paragraph\u0085next", "vertical\x0btab form\x0cfeed",
    "unit\x1cseparators\x1fhere", "no\u00a0break\u2003em\u3000ideographic\u1680ogham", "zero\u200bwidth\u200djoiner",
    "\U0001f469\u200d\U0001f680 an astronaut", "\U0001f3f4\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f Wales",
    "1\ufe0f\u20e3 keycap \u2122\ufe0f mark", "\u0642\u0637\u062a\u0627\u0646 \u062a\u0644\u0639\u0628\u0627\u0646", "\u0642\u0650\u0637\u064e\u0651\u0629 \u200f\u0628\u200c\u0647",
    "\u0e41\u0e21\u0e27\u0e2a\u0e2d\u0e07\u0e15\u0e31\u0e27 \u0e17\u0e33\u0e01\u0e47", "\u4e24\u53ea\u732b\uff0c\u7a7f\u7740\u62f3\u51fb\u88c5\u5907\uff01\u5728\u821e\u53f0\u4e0a\u3002", "\uff26\uff35\uff2c\uff2c\u3000\uff37\uff29\uff24\uff34\uff28\uff1a\uff1f",
    "\uff76\uff9e\uff71 \uffe6\uffe1", "\ufb01lm \ufb03x \ufb05\ufb06 \u0132\u0133", "\u01c5emal \u01c6 \u0149a", "\u201ccurly\u201d \u2018quotes\u2019 \u02bcn \u201fx\u201b",
    "e\u0301te\u0301 A\u030angstrom", "\u1112\u1161\u11ab\u1100\u1173\u11af", "\u212b \u00bd \u2460 \ufdfa \u338f", "&amp;amp;", "&lt;b&gt; &quot;bold&quot; &#39;x&#39;",
    "<b>tag</b> &amp; &eacute;", "first &amp; line\n<i>&amp;</i>\n&amp; after", "&EACUTE;T&EACUTE; &SZLIG; &NTILDE; &nTILDE;",
    "&ampx &notit; &copy2 &para", "&#x41;&#66; &#128; &#x80; &#0; &#xD800; &#x110000; &#1;", "&#99999999999999999999; &#x; &# &; &", "&NotEqualTilde; &acE; &fjlig; &ThickSpace;x",
    "&amp;lt;nested&amp;gt;", "&amp;amp;amp;amp;lt;", "&nosuch; &thetasym &CounterClockwiseContourIntegral;", "&#59; &#38;amp;", "&hellip;&mdash;&nbsp;&ensp;x",
    "\x1b[31mred\x1b[0m text \x1b[1;2Hx \x1b[z", "bell\x07 back\x08 del\x7f esc\x1b", "\ufeffbom \ufff9a\ufffab\ufffb \ufffc \u206a", "c1 \x92quote\x85 \x80uro \x9d",
    "\x01\x02\x03", "S\u00e3o Paulo, 5 o\u2019clock \u2014 na\u00efve caf\u00e9", "5 < 6 &amp; 7 > 2", "\u0130stanbul \u00dftra\u00dfe", "mixed \u732b cat \u0e41\u0e21\u0e27 \u0642\u0637\u0629 \U0001f431",
    "x" * 60, "a  b   c", "\u00a0\u3000", "na\u0303o \u0061\u0328\u0301", "&Tab;x&NewLine;y", "\U0001d4d2\U0001d4ea\U0001d4fd",
]

EXTRA = ["cat</s>dog", "a <pad> b", "<unk>", "<s>start", "<extra_id_0> cat", "</s>", "</s</s>s>"]

SENTENCES = """A cat sits on a red mat and looks at the sea. Two cats in boxing gear fight on a spotlighted stage.
The camera moves slowly over the hills at night. A dog runs through the snow, and the light is soft and warm.
A small boat drifts on a quiet river; birds fly over it. An astronaut walks on the moon, her visor shining.
Close-up of a cup of tea, steam rising, shallow focus. A train crosses a long bridge in the morning fog!
Was it a dream? The city was made of glass and the rain was falling up. 12 people, 3 cars, 45 lamps, 60 windows.
\u4e24 \u53ea \u732b \u5728 \u821e \u53f0 \u4e0a \u3002 \u732b\u5728\u821e\u53f0\u4e0a\u3002 \u0e41\u0e21\u0e27\u0e2a\u0e2d\u0e07\u0e15\u0e31\u0e27 \u0642\u0637\u062a\u0627\u0646 \u062a\u0644\u0639\u0628\u0627\u0646 \u00e9t\u00e9 caf\u00e9 na\u00efve"""

RULES = [("\u00bd", "1/2"), ("\u2122", "TM"), ("\u2460", "1"), ("\u212b", "\u00c5"), ("\u338f", "kg"), ("\u200b", ""),
         ("\u00a0", " "), ("\u0e33", "\u0e4d\u0e32"), ("\u200d", " ")]


def clean(text):
    """diffusers' order; ftfy's guess at wrongly decoded text is left out of the engine, so it is off here."""
    text = html.unescape(html.unescape(ftfy.fix_text(text, fix_encoding=False))).strip()
    return re.sub(r"\s+", " ", text).strip()


def train():
    rules = os.path.join(DATA, "rules.tsv")
    with open(rules, "w") as f:
        for old, new in RULES:
            f.write(" ".join(f"{ord(c):X}" for c in old) + "\t" + " ".join(f"{ord(c):X}" for c in new) + "\n")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES.split("\n") * 40), model_writer=model, vocab_size=620, model_type="unigram",
        character_coverage=1.0, byte_fallback=True, normalization_rule_tsv=rules, pad_id=0, eos_id=1, bos_id=2, unk_id=3,
        hard_vocab_limit=False, num_threads=1, minloglevel=2)
    os.remove(rules)
    return model.getvalue()


def fast(proto, byte_fallback):
    """The form that transformers gives T5 tokenizers."""
    tokenizer = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], unk_id=3, byte_fallback=byte_fallback))
    tokenizer.normalizer = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")])
    tokenizer.add_special_tokens(["<pad>", "</s>", "<s>", "<unk>", "<extra_id_0>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


NEGATIVE = os.path.join(os.path.dirname(DATA), "../../configs/prompts/wan_negative.txt")

GOLDEN = ["", " ", "a cat", "A cat walks on the grass, realistic style", "caf\u00e9", "cafe\u0301", "a \U0001fae8\U0001fae8 b", "\uff0c", ",", "<extra_id_0>",
          "<0x41>", "<0x4", "[eod]", "[web]s", "a <extra_id_3> b", "<extra_id_20>", "<extra_id_1", "\u2581", "\u2581\u2581a", "a\u2581b \u2581 c",
          "  two  spaces   and\ta tab\nline ", " <pad> ", "a\u00a0b\u3000c", "the " * 300, "x" * 700, "\u732b" * 300, "<s><s></s></s> <unk>"]


def umt5_pieces():
    """The structure of UMT5's tokenizer.json at 1/400 of its size: no character map, byte pieces that are not used for
    bytes, runs of marks, sentinels at the end counting down."""
    model = io.BytesIO()
    with open(NEGATIVE, encoding="utf-8") as f:
        corpus = (SENTENCES + "\n" + f.read()).split("\n") * 40
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=model, vocab_size=750, model_type="unigram", character_coverage=1.0,
        byte_fallback=True, normalization_rule_name="identity", pad_id=0, eos_id=1, bos_id=2, unk_id=3,
        user_defined_symbols=["[eod]", "[web]"], hard_vocab_limit=False, num_threads=1, minloglevel=2)
    proto = format_.ModelProto()
    proto.ParseFromString(model.getvalue())
    return ([(p.piece, p.score) for p in proto.pieces] + [("\u2581" * n, -5.0 - n) for n in (4, 3, 2)] +
            [(f"<extra_id_{n}>", 0.0) for n in range(19, -1, -1)])


def umt5():
    pieces = umt5_pieces()
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always", split=True)
    tokenizer.add_special_tokens(["<pad>", "</s>", "<s>", "<unk>"] + [p for p, _ in pieces if p.startswith("<extra_id_")])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def mixtures(tokenizer, count):
    """Pieces, spaces, marks, special tokens and characters that no piece holds, thrown together."""
    draw = random.Random(5)
    pieces = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    others = [" ", "  ", "\u2581", "\U0001f431", "\u0e01", "e\u0301", "\uff1f", "</s>", "<extra_id_7>", "\n"]
    return ["".join(draw.choice(pieces if draw.random() < 0.7 else others) for _ in range(draw.randrange(1, 12)))
            for _ in range(count)]


def write(name, value):
    with open(os.path.join(DATA, name), "w") as f:
        json.dump(value, f, ensure_ascii=True, indent=0, separators=(",", ":"))
        f.write("\n")


def main():
    os.makedirs(os.path.join(DATA, "umt5"), exist_ok=True)
    write("prompts.json", {"made_with": {"ftfy": ftfy.__version__}, "cases": [[p, clean(p)] for p in PROMPTS]})
    model = train()
    with open(os.path.join(DATA, "spiece.model"), "wb") as f:
        f.write(model)
    proto = format_.ModelProto()
    proto.ParseFromString(model)
    plain, bytes_ = fast(proto, False), fast(proto, True)
    plain.save(os.path.join(DATA, "tokenizer.json"), pretty=False)
    texts = [clean(p) for p in PROMPTS] + EXTRA
    write("tokens.json", {
        "made_with": {"tokenizers": tokenizers.__version__, "sentencepiece": sentencepiece.__version__},
        "cases": [[t, plain.encode(t).ids, bytes_.encode(t).ids] for t in texts]})
    write("tokenizer_config.json", {"added_tokens_decoder": {
        str(t): {"content": c, "special": True} for t, c in
        [(0, "<pad>"), (1, "</s>"), (2, "<s>"), (3, "<unk>"), (plain.token_to_id("<extra_id_0>"), "<extra_id_0>")]},
        "eos_token": "</s>"})
    large = umt5()
    large.save(os.path.join(DATA, "umt5", "tokenizer.json"), pretty=False)
    with open(NEGATIVE, encoding="utf-8") as f:
        negative = f.read()
    texts = GOLDEN + [negative, clean(negative)] + PROMPTS + EXTRA + mixtures(large, 150)
    write("umt5/tokens.json", {"made_with": {"tokenizers": tokenizers.__version__},
                               "cases": [[t, large.encode(t).ids] for t in texts]})


if __name__ == "__main__":
    main()
