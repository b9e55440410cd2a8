#!/usr/bin/env python3
"""Writes src/tokens/unicode_tables.c and src/tokens/nfc_tables.c from the answers of `tokenizers`.

What a letter, a mark, a digit or a space is differs between Unicode versions, and between the parts
of that one package: its split rule follows Unicode 16, its NFC an older one. So no standard's table
is read here: every code point is put to the package itself, and what it does is written down.

    python3 tools/gen_unicode.py            # writes the tables and tests/data/tokens/unicode.json
    python3 tools/gen_unicode.py --check    # says whether the files still match the package
"""

import argparse
import json
import os
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
BLOCK = 32
LETTER, MARK, NUMBER, SPACE, WORD, NFC_CHECK, ORDERED = 1, 2, 4, 8, 16, 32, 64
HANGUL = range(0xAC00, 0xAC00 + 11172)

NFC = normalizers.NFC().normalize_str
NFD = normalizers.NFD().normalize_str


def split_class(pattern):
    """The code points the pre-tokenizer's regex engine counts in a class."""
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    found = set()
    for at in range(0, len(CODE_POINTS), 4096):
        block = CODE_POINTS[at:at + 4096]
        left = "".join(p for p, _ in split.pre_tokenize_str("".join(map(chr, block))))
        found.update(set(block) - set(map(ord, left)))
    return found


def added_token_class(**flags):
    """The code points before an added token that keep it from matching (single_word) or that it
    swallows (lstrip): the package uses another regex engine there."""
    tok = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tok.add_tokens([AddedToken("\U00012345<added>", normalized=False, **flags)])
    found = set()
    for c in CODE_POINTS:
        enc = tok.encode(chr(c) + "\U00012345<added>")
        if "single_word" in flags:
            hit = enc.ids.count(1) == 0
        else:
            hit = enc.offsets[enc.ids.index(1)][0] == 0
        if hit:
            found.add(c)
    return found


def combining_classes():
    """ccc of every code point, found by how NFD orders it against one known mark of each class."""
    marks = {}
    for c in CODE_POINTS:
        k = unicodedata.combining(chr(c))
        known = k and (k == 240 or NFD("\u0345" + chr(c)) != "\u0345" + chr(c))
        if known and NFD(chr(c)) == chr(c):
            marks.setdefault(k, chr(c))
    classes = sorted(marks)

    def below(x, k):  # 0 < ccc(x) < k: NFD moves x before the mark
        return NFD(marks[k] + x) == x + marks[k]

    def above(x, k):  # ccc(x) > k
        return NFD(x + marks[k]) == marks[k] + x

    result = {}
    for c in CODE_POINTS:
        x = chr(c)
        if NFD(x) != x or not (below(x, classes[-1]) or above(x, classes[0])):
            continue
        inside = [k for k in classes if marks[k] == x or not (below(x, k) or above(x, k))]
        assert len(inside) == 1, (hex(c), inside)
        result[c] = inside[0]
    return result


def decompositions():
    """Single steps, {composed: (first, second)}, second 0 for a plain replacement; and which of
    them NFC puts together again."""
    steps, composed = {}, set()
    whole = {NFD(chr(c)): chr(c) for c in reversed(CODE_POINTS) if NFD(chr(c)) != chr(c)}
    for c in CODE_POINTS:
        x = chr(c)
        full = NFD(x)
        if full == x or c in HANGUL:
            continue
        if len(full) == 1:
            steps[c] = (ord(full), 0)
            continue
        head = NFC(full[:-1])
        head = head if len(head) == 1 else whole[full[:-1]]  # a pair that NFC leaves apart
        assert len(head) == 1, hex(c)
        steps[c] = (ord(head), ord(full[-1]))
        if NFC(full) == x:
            assert NFC(head + full[-1]) == x, hex(c)
            composed.add(c)
    return steps, composed


def collect():
    letter, mark = split_class(r"\p{L}"), split_class(r"\p{M}")
    number, space = split_class(r"\p{N}"), split_class(r"\s")
    word, strip = added_token_class(single_word=True), added_token_class(lstrip=True)
    assert strip == space, "the two regex engines disagree about white space"
    ccc = combining_classes()
    steps, composed = decompositions()
    seconds = {steps[c][1] for c in composed}
    jamo = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    flags = {}
    for c in CODE_POINTS:
        f = (LETTER * (c in letter) | MARK * (c in mark) | NUMBER * (c in number)
             | SPACE * (c in space) | WORD * (c in word) | ORDERED * (c in ccc)
             | NFC_CHECK * (NFC(chr(c)) != chr(c) or c in seconds or c in jamo))
        if f:
            flags[c] = f
    return flags, ccc, steps, composed


def rows(values, render=str):
    lines, line = [], ""
    for text in (render(v) + "," for v in values):
        if len(line) + len(text) > 96:
            lines.append("    " + line)
            line = ""
        line += text
    return "\n".join(lines + ["    " + line])


HEAD = """/* Generated by tools/gen_unicode.py from the answers of tokenizers %s; do not edit. */
#include "tokens/unicode_tables.h"

/* clang-format off */
"""


def class_source(flags, ccc):
    blocks, index = {}, []
    for at in range(0, 0x110000, BLOCK):
        block = tuple(flags.get(c, 0) for c in range(at, at + BLOCK))
        index.append(blocks.setdefault(block, len(blocks)))
    pages, page_index = {}, []
    for at in range(0, len(index), 32):
        page = tuple(index[at:at + 32])
        page_index.append(pages.setdefault(page, len(pages)))
    assert len(blocks) < 65536 and len(pages) < 256
    leaf = [v for block in blocks for v in block]
    middle = [v for page in pages for v in page]
    ranges = []
    for c in sorted(ccc):
        if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == ccc[c]:
            ranges[-1][1] = c
        else:
            ranges.append([c, c, ccc[c]])
    return (HEAD % tokenizers.__version__
            + "const uint8_t fn_unicode_pages[%d] = {\n%s\n};\n\n" % (
                len(page_index), rows(page_index))
            + "const uint16_t fn_unicode_blocks[%d] = {\n%s\n};\n\n" % (
                len(middle), rows(middle))
            + "const uint8_t fn_unicode_leaves[%d] = {\n%s\n};\n\n" % (
                len(leaf), rows(leaf))
            + "const fn_unicode_order fn_unicode_orders[] = {\n%s\n};\n\n" % rows(
                ranges, lambda r: "{0x%X,0x%X,%d}" % tuple(r))
            + "const size_t fn_unicode_n_orders = "
              "sizeof(fn_unicode_orders) / sizeof(fn_unicode_orders[0]);\n")


def nfc_source(steps, composed):
    keys = sorted(steps)
    order = sorted((steps[c], i) for i, c in enumerate(keys) if c in composed)
    return (HEAD % tokenizers.__version__
            + "const fn_unicode_step fn_unicode_steps[] = {\n%s\n};\n\n" % rows(
                keys, lambda c: "{0x%X,0x%X,0x%X}" % (c, *steps[c]))
            + "const size_t fn_unicode_n_steps = "
              "sizeof(fn_unicode_steps) / sizeof(fn_unicode_steps[0]);\n\n"
            + "const uint16_t fn_unicode_compositions[] = {\n%s\n};\n\n" % rows(
                [i for _, i in order])
            + "const size_t fn_unicode_n_compositions = sizeof(fn_unicode_compositions) /\n"
              "                                         sizeof(fn_unicode_compositions[0]);\n")


def summary(flags, ccc, steps, composed):
    """What the C test compares: counts, and FNV-1a over (flags, ccc) of 0 ... 0x10FFFF."""
    digest = 0xCBF29CE484222325
    for c in range(0x110000):
        for byte in (flags.get(c, 0), ccc.get(c, 0)):
            digest = ((digest ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    count = lambda bit: sum(1 for f in flags.values() if f & bit)
    return json.dumps({
        "tokenizers": tokenizers.__version__, "letters": count(LETTER), "marks": count(MARK),
        "numbers": count(NUMBER), "spaces": count(SPACE), "word": count(WORD),
        "nfc_check": count(NFC_CHECK), "ordered": count(ORDERED), "steps": len(steps),
        "compositions": len(composed), "fnv1a": "%016x" % digest}, indent=1) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    args = parser.parse_args()
    flags, ccc, steps, composed = collect()
    files = {
        "src/tokens/unicode_tables.c": class_source(flags, ccc),
        "src/tokens/nfc_tables.c": nfc_source(steps, composed),
        "tests/data/tokens/unicode.json": summary(flags, ccc, steps, composed),
    }
    stale = 0
    for name, text in files.items():
        path = os.path.join(ROOT, name)
        if args.check:
            same = os.path.exists(path) and open(path, encoding="utf-8").read() == text
            print(name, "matches" if same else "DIFFERS")
            stale += not same
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            print(name, len(text), "bytes")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
