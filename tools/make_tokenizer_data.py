#!/usr/bin/env python3
"""Makes tests/data/tokens: two small tokenizers, trained here, and what `tokenizers` answers.

    python3 tools/make_tokenizer_data.py            # writes everything
    python3 tools/make_tokenizer_data.py --check    # asks the package again about the files

tokenizer.json  NFC, the Qwen 3.5 split rule, merges as pairs, added tokens as in chat models
plain.json      no normaliser, the Qwen 2 rule, merges as strings, added tokens with every flag
cases.json      texts with their ids, bytes that are no UTF-8, ids with their text, NFC of texts
"""

import argparse
import json
import os
import random
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import trainers

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(ROOT, "tests", "data", "tokens")
sys.path.insert(0, os.path.join(ROOT, "bench"))
from tokenizer_bench import PHRASES  # noqa: E402

CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
RULE_35 = (CONTRACTION + r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
           r"\s*[\r\n]+|\s+(?!\S)|\s+")
RULE_2 = (CONTRACTION + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>"]
ADDED = ["<tool_call>", "</tool_call>", "<think>", "</think>"]

# Every flag, and neighbours that are prefixes of each other.
FLAGS = [
    AddedToken("<|end|>", special=True, normalized=False),
    AddedToken("<|end|><|end|>", special=False, normalized=False),
    AddedToken("<|l|>", lstrip=True, normalized=False),
    AddedToken("<|r|>", rstrip=True, normalized=False),
    AddedToken("<|lr|>", lstrip=True, rstrip=True, normalized=False, special=True),
    AddedToken("word", single_word=True, normalized=False),
    AddedToken("Ångström", normalized=True),
    AddedToken("<|n|>", normalized=True, rstrip=True),
    AddedToken("\n\n\n", normalized=False),
    AddedToken("the", normalized=False),
    AddedToken("ar", single_word=True, normalized=False),  # merges make it too
]

ANSWERS = """
What is a lantern? A lantern is a light that can be carried, with sides that keep the wind away.
I can't, you don't, he's, we've, they'll, I'd, you're, I'm; CAN'T, DON'T, HE'S, WE'VE, THEY'LL.
for (size_t i = 0; i < n; i++) { sum += values[i] * weights[i]; }   /* one fixed order */
def main():\n    parser = argparse.ArgumentParser()\n    return 0 if parser.parse_args() else 1\n
{"name": "get_weather", "arguments": {"city": "Zürich", "unit": "celsius", "days": 3}}
1, 2, 3, 10, 20, 300, 4096, 65536; 3.14159 and 2.71828; 12:45 on 2026-11-30; 50 % of 1,000 is 500.
"""


def training_text():
    rng = random.Random(7)
    lines = []
    for _ in range(1500):
        phrase = rng.choice(PHRASES)
        words = phrase.split(" ")
        if len(words) == 1:
            words = [phrase[i:i + 4] for i in range(0, len(phrase), 4)]
        rng.shuffle(words)
        space = " " if " " in phrase else ""
        lines.append(space.join(words) + rng.choice([". ", ",\n", "!\n\n"]))
    # Long runs become tokens, as in published vocabularies: the worst case of merging.
    runs = ["a" * 64, "x" + " " * 65 + "x", "\n" * 64, "你" * 32, "-" * 64]
    return lines + ANSWERS.split("\n") * 40 + PHRASES * 30 + runs * 30


def train(rule, normalizer, size):
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizer
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(rule), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=[],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator(training_text(), trainer)
    return tok


def save(tok, name, string_merges):
    data = json.loads(tok.to_str())
    if string_merges:
        data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as f:
        json.dump(data, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


def make_tokenizers():
    os.makedirs(FOLDER, exist_ok=True)
    tok = train(RULE_35, normalizers.NFC(), 3000)
    tok.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIAL])
    tok.add_tokens([AddedToken(s, special=False, normalized=False) for s in ADDED])
    save(tok, "tokenizer.json", False)
    plain = train(RULE_2, None, 700)
    plain.add_tokens(FLAGS)
    save(plain, "plain.json", True)


FIXED = [
    "", " ", "  ", "   x", "\n", "\r\n", "\n\n\n", " \n \n x", "\t\tx", "x \n", "x  ", "a\r\rb",
    "\r \n\t", "I can't don't HE'S We'Ve they'LL I'D you'Re I'm 'S 'x 'll'll it''s 's't",
    "don’t it’s", "'\u017f '\u017ft it'\u017f", "'K '\u212a",
    "2026 1,234.5 \u0663\u0664 \u0967\u0968 \u00bd \u2167 \u3007 \U0001d7d8", "Å é ô",
    "A\u030a e\u0301 o\u0302", "한글 각", "\u1112\u1161\u11ab\u1100\u1173\u11af \u1100\u1161\u11a8",
    "가\u11a8 \u1161 \u11a8\u11a8", "q\u0307\u0323 q\u0323\u0307", "\u0301 start \u0301\u0301",
    "\u0344 \u0958 \ufb2c \u2126 \uf900", "a" + "\u0301\u0323" * 20 + "b",
    "👩‍👩‍👧 👨‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪", "\u0000", "a\u0000b\u0000\u0000", "\ufeffbom\u200bzero\u200d",
    "\u00a0nbsp\u3000wide\u2003em\u1680\u180e\u2028\u2029\u0085x", " " * 70 + "x" + " " * 71,
    "a" * 1500, " " * 1999 + "x", "ab" * 900 + "aaab" * 300, "你好" * 400 + "你" * 900,
    "\n" * 40 + "x", "a" * 300, "abc" * 100, "你好" * 60, "-" * 130,
    "x" + " \t" * 40 + "\r\n" * 9 + "  y",
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    "<|im_end|><|im_end|> <|im_end |> <|im_end|",
    "<tool_call></tool_call> <Think> <think><think>", "the end <|end|><|end|><|end|> x",
    "a <|l|> b  <|r|>  c \n <|lr|> \n d<|lr|>", "\u3000\u00a0<|l|>\u2003<|r|>\u3000",
    "word words sword word, _word \u0301word word\u0301 word<|end|>word \u200dword",
    "Ångström A\u030angstro\u0308m", "<|n|>  x <|n|>\n\n\n<|r|>\n\n\n\ny", "the other then the",
    "thé", "…—“quoted”—…", "x²y₂z", "ǅ ǆ ʰ ª ـ ๆ ꙮ 𝒳 𐐀 𞤀 ア ｱ", "कि की क़ ක්‍ෂ ม้ ကြ",
    "\u0378 \ue000 \U000f0000 \U0010ffff \ufffd \ufffe",
    "if (x != NULL && *x >= 0x1F) { return \"ok\\n\"; }\n\n\n    // done\r\n",
]


def category_texts(rng):
    """A few characters of every general category between letters, digits and spaces."""
    members = {}
    for c in range(0x110000):
        members.setdefault(unicodedata.category(chr(c)), []).append(c)
    members.pop("Cs")
    for name in sorted(members):
        picked = [chr(rng.choice(members[name])) for _ in range(8)]
        yield "a{0} {1}b {2}{3}1{4}\n{5}{5} {6}!{7}".format(*picked)


def random_texts(rng, n, added):
    parts = (list(" \n\t\r'") + ["  ", "'s", "'LL", "é", "e\u0301", "\u0323", "\u0301", "你好", "각"]
             + ["12", "ab", "The ", " river", "!?", "_", "👩‍👩‍👧", "\u00a0", "\u0000", "ﬁ", "ſ"]
             + ["\u1161"] + added)
    for _ in range(n):
        yield "".join(rng.choice(parts) for _ in range(rng.randint(1, 14)))


BROKEN = [
    b"\xff", b"a\x80b", b"\xc3", b"\xe4\xbd", b"\xe4\xbda", b"\xe4\xbd\xa0\xe4\xbd",
    b"\xed\xa0\x80", b"\xf0\x9f\x91", b"\xf0\x9f\x91\xa9\xf0\x9f", b"\xf4\x90\x80\x80",
    b"\xc0\xaf", b"\xe0\x80\x80", b"\xf8\x88\x80\x80\x80", b"<|im_end|>\xfe<think>\xe2\x82",
    b"x" * 20 + b"\x80" * 5 + b"y" * 20, b"e\xcc\x81\xcc\xff",
]

NFC_TEXTS = [
    "\u1e9b\u0323", "\u1e0a\u0323", "D\u0307\u0323", "\u0044\u0323\u0307", "\u212b", "\u2126",
    "\u0fb2\u0f71\u0f80", "\u0fb3\u0f80\u0f71", "\u1100\u1161\u11a8", "\u1100\u1161\u1161",
    "\uac00\u11a7\u11a8", "\u0958\u093c", "\u2adc", "\U0001d15e\U0001d165",
    "\U00011935\U00011930", "\U000105d2\u0307", "a\u0315\u0300\u05ae\u0300b",
    "\u0061\u035c\u0315\u0300\u1dfa\u0062", "\u0041\u0327\u030a\u0301",
    "\u3099\u304b\u3099\u309a", "\ufb1d\ufb2c\ufb4e", "\u0b47\u0300\u0b3e", "\u1025\u102e\u1037",
    "\u09c7\u09be\u09c7\u09d7", "\u0374\u037e\u0387\u1fef\u2000",
]


def make_cases():
    rng = random.Random(11)
    tokenizers = {name: Tokenizer.from_file(os.path.join(FOLDER, name))
                  for name in ("tokenizer.json", "plain.json")}
    flags = [str(t.content) for t in FLAGS]
    texts = (FIXED + PHRASES + [ANSWERS] + list(category_texts(rng))
             + list(random_texts(rng, 60, SPECIAL[:3] + ADDED))
             + list(random_texts(rng, 60, flags)))
    cases = {"texts": texts, "broken": [b.hex() for b in BROKEN]}
    nfc = normalizers.NFC()
    cases["nfc"] = [[t, nfc.normalize_str(t)] for t in NFC_TEXTS + FIXED]
    for name, tok in tokenizers.items():
        encode = lambda t: tok.encode(t, add_special_tokens=False).ids
        size = tok.get_vocab_size()
        # Added tokens outside of ASCII are left out: the package garbles their text.
        sound = [i for i in range(size) if tok.id_to_token(i) != "Ångström"] + [size + 3]
        lists = [[rng.choice(sound) for _ in range(rng.randint(1, 20))] for _ in range(40)]
        cases[name] = {
            "ids": [encode(t) for t in texts],
            "broken_ids": [encode(b.decode("utf-8", errors="replace")) for b in BROKEN],
            "decode": [{"ids": l, "text": tok.decode(l, skip_special_tokens=False),
                        "without_special": tok.decode(l, skip_special_tokens=True)} for l in lists],
        }
    text = json.dumps(cases, ensure_ascii=True, separators=(",", ":"))
    return text.replace("],[", "],\n[") + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    args = parser.parse_args()
    path = os.path.join(FOLDER, "cases.json")
    if not args.check:
        make_tokenizers()
    text = make_cases()
    if args.check:
        same = json.loads(text) == json.load(open(path, encoding="utf-8"))
        print("cases.json", "matches" if same else "DIFFERS")
        return 0 if same else 1
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    for name in sorted(os.listdir(FOLDER)):
        print(name, os.path.getsize(os.path.join(FOLDER, name)), "bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
