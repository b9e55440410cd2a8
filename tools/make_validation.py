#!/usr/bin/env python3
"""Writes text that the demo model was not trained on but made for: conversations drawn as for training, by another seed, each
ended by <|endoftext|>. make_validation.py MODEL_DIR FILE [--positions N]"""
import argparse
from pathlib import Path

import train_demo as demo

SEED = 2026


def documents(folder, positions):
    words = [tuple(line.split("\t")) for line in (folder / "definitions.tsv").read_text().splitlines()]
    tokenizer = demo.PreTrainedTokenizerFast.from_pretrained(folder)
    batches = demo.Batches(tokenizer, demo.Talk(words, SEED))
    while positions > 0:
        text = demo.render(tokenizer, *batches.conversation(128)) + "<|endoftext|>"
        positions -= len(tokenizer.encode(text, add_special_tokens=False)) - 1
        yield text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, metavar="MODEL_DIR")
    parser.add_argument("file", type=Path)
    parser.add_argument("--positions", type=int, default=30000, help="predictions at least; default %(default)s")
    a = parser.parse_args()
    a.file.write_text("".join(documents(a.model, a.positions)))
