"""`tokenize` against the tokenizers package, text for text, with the demo model's tokenizer."""
import json
import random

import pytest

from conftest import ROOT, SHARED

DEMO = ROOT / "models" / "demo"

HAND_PICKED = [
    "", " ", "  ", "\n", "\r\n", "\t\t x", "Hello world", "It's what they'RE saying, I'll bet we'd've WON'T",
    "don\u2019t", "2026 12,345.678e-9", "a1b22c333 \u0661\u0662\u0663 \u00bd \u00b2", "\u4f60\u597d\uff0c\u4e16\u754c\uff01",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3001", "\uc548\ub155\ud558\uc138\uc694", "\u041f\u0440\u0438\u0432\u0435\u0442",
    "\u0645\u064e\u0631\u0652\u062d\u064e\u0628\u064b\u0627", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "A\u030a \u00c5 e\u0301 \u00e9 o\u0302", "\u1112\u1161\u11ab\u1100\u1173\u11af", "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea",
    "\ufb01 \u2126 \u212b \u0344 \u0958", "  leading", "trailing  ", "a  b   c\n\n\nd \n e", "\n \n", "   \n   x", "x\u00a0y\u3000z\u2003w",
    "def f(x):\n\treturn x**2  # \u03bb\n", "<|im_start|>user\nhi<|im_end|>\n", "<think>\nhm\n</think>\n\nyes", "<|im_start|", "<tool_call>",
    "a<|endoftext|><|endoftext|>b", "\x00 nul \x00", "\ufffd", "\u0f0b\u0f0d\u17d4", "e\u0301\u0301\u0323", "\u0130stanbul \u01c5", "K\u212aK",
    "\u180e\u200b\ufeff", "\U0001e900\U0001e922 \U00010d4a \U00016d40", "'s 'S \u2019s 'lL 'VE", "!!!???...\n\n", "\u00ad\u034f", "1\u20e3",
]
ALPHABET = [chr(c) for c in (*range(32, 127), 9, 10, 13)] + list("\u00e9\u00df\u0131\u0130\u017f\u1e9e\u03a9\u0416\u05d0\u0627\u0301\u0308\u0323\u093f\u0e33"
            "\u4e00\u3042\uac00\u1100\u1161\u11a8\u2028\u3000\u00a0\u200d\ufe0f\u2160\u00b2\u0660\U0001d7d8\U0001f600\U00020000")


def random_texts(count):
    draw = random.Random(11)
    any_char = lambda: chr(draw.choice([*range(0x20, 0xd800, 1), *range(0xe000, 0x3134f, 1)]))
    texts = ["".join(draw.choice(ALPHABET) for _ in range(draw.randint(1, 40))) for _ in range(count)]
    pool = [any_char() for _ in range(3000)]
    return texts + ["".join(draw.choice(pool) for _ in range(draw.randint(1, 30))) for _ in range(count)]


@pytest.fixture(scope="module")
def reference():
    from tokenizers import Tokenizer
    return Tokenizer.from_file(str(DEMO / "tokenizer.json"))


def encode(flashnext, texts, *options):
    return flashnext.json("tokenize", "--json", *options, stdin=json.dumps(texts))


@pytest.mark.parametrize("texts", [HAND_PICKED, random_texts(2000)], ids=["picked", "random"])
def test_same_ids_as_the_tokenizers_package(texts, reference, flashnext):
    got = encode(flashnext, texts, "--model-dir", DEMO)
    assert len(got) == len(texts)
    for text, ids in zip(texts, got):
        assert ids == reference.encode(text, add_special_tokens=False).ids, ascii(text)


def test_composed_and_decomposed_text_are_one(flashnext):
    one, other = encode(flashnext, ["\u00c5 \u00e9 \u00f4 \ud55c\uae00", "A\u030a e\u0301 o\u0302 \u1112\u1161\u11ab\u1100\u1173\u11af"], "--model-dir", DEMO)
    assert one == other


def test_no_special_reads_control_tokens_as_text(reference, flashnext):
    added = {token.content: i for i, token in reference.get_added_tokens_decoder().items()}
    for ids in encode(flashnext, [f"a{name}b" for name in added], "--model-dir", DEMO, "--no-special"):
        assert not set(ids) & set(added.values())


def test_published_tokenizer(flashnext):
    folder = SHARED / "tokenizers" / "qwen-151k"
    if not folder.exists():
        pytest.skip("no ../shared here")
    cases = json.loads((folder / "cases.json").read_text())
    got = encode(flashnext, [case["text"] for case in cases], "--model-dir", folder)
    for case, ids in zip(cases, got, strict=True):
        assert ids == case["ids"], ascii(case["text"])


@pytest.mark.parametrize("damage,word", [
    (lambda t: t["model"]["merges"].append(t["model"]["merges"][0]), "merge"),
    (lambda t: t["model"]["merges"].append(["\u0120nosuchpiece", "x"]), "nosuchpiece"),
    (lambda t: t["model"].pop("vocab"), "vocab"),
    (lambda t: t["model"]["vocab"].update(zzz=-4), "zzz"),
    (lambda t: t.update(model=[]), "model"),
], ids=["duplicate merge", "dangling merge", "no vocabulary", "negative id", "no model"])
def test_bad_tokenizer_file(damage, word, tmp_path, flashnext):
    content = json.loads((DEMO / "tokenizer.json").read_text())
    damage(content)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    done = flashnext.run("tokenize", "--json", "--tokenizer", tmp_path / "tokenizer.json", stdin='["a"]')
    assert done.returncode == 3 and done.stdout == "" and "tokenizer.json" in done.stderr and word in done.stderr, done.stderr
    assert len(done.stderr.strip().split("\n")) == 1


@pytest.mark.slow
def test_long_texts_take_linear_time(reference, flashnext):
    for piece in ("a", " ", "\n", "\u4e00", "ab1 "):
        text = piece * (10_000_000 // len(piece.encode()))
        got = encode(flashnext, [text], "--model-dir", DEMO)
        start = reference.decode(got[0][:50], skip_special_tokens=False).rstrip("\ufffd")  # 50 ids may end inside a character
        assert start and text.startswith(start)
