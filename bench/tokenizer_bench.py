#!/usr/bin/env python3
"""Encoding speed beside the `tokenizers` package: one thread each, turn by turn, in one run.

    python3 bench/tokenizer_bench.py --build build/release [--tokenizer FILE] [--megabytes 10]

Every text is encoded whole, `--turns` times by each side; the best turn counts, in seconds of CPU,
so that what else runs on the machine matters less. The ids must be the same. "mixed" is what the
promise is about: source code and its comments, and prose in eleven languages with its words
shuffled; the other texts show the worst cases.
"""

import argparse
import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import Tokenizer  # noqa: E402  (after the environment is set)

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARED = os.path.join(ROOT, "..", "shared", "tokenizers", "qwen-151k", "tokenizer.json")
OWN = os.path.join(ROOT, "tests", "data", "tokens", "tokenizer.json")

PHRASES = [
    "the river carried our small boat past sleeping villages until morning came",
    "der alte Müller öffnete die Tür und grüßte seine müden Gäste höflich",
    "l'été dernier, nous avons loué une maison près de la forêt où naît le ruisseau",
    "вечером старый учитель рассказывал детям истории о далёких странах и морях",
    "το καράβι έφυγε νωρίς το πρωί και γύρισε πριν από τη μεγάλη βροχή",
    "في المساء جلس الصياد قرب النهر ينتظر عودة القوارب الصغيرة",
    "बारिश के बाद गाँव के बच्चे खेतों में दौड़ते हुए नदी तक पहुँचे",
    "昨天晚上我们沿着河边走了很久谈起小时候的事情觉得时间过得真快",
    "昔々あるところに小さな村がありそこには優しい大工とその家族が住んでいました",
    "아침마다 할머니는 시장에서 신선한 채소와 따뜻한 빵을 사 오셨다",
    "buổi sáng người nông dân ra đồng sớm để tránh cái nắng gay gắt của mùa hè",
]


def source_code(n_bytes, rng):
    folder = sysconfig.get_paths()["stdlib"]
    names = sorted(f for f in os.listdir(folder) if f.endswith(".py"))
    rng.shuffle(names)
    parts, size = [], 0
    while size < n_bytes:
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as f:
                parts.append(f.read())
            size += len(parts[-1].encode())
            if size >= n_bytes:
                break
    return "".join(parts)


def prose(n_bytes, rng):
    lines, size = [], 0
    while size < n_bytes:
        phrase = rng.choice(PHRASES)
        words = phrase.split(" ") if " " in phrase else list(phrase)
        rng.shuffle(words)
        end = rng.choice([". ", ", ", "!\n", "? ", "\n\n", " 42; ", " (2026) "])
        lines.append((" " if " " in phrase else "").join(words) + end)
        size += len(lines[-1].encode())
    return "".join(lines)


def texts(n_bytes):
    rng = random.Random(1)
    mixed = source_code(n_bytes // 2, rng) + prose(n_bytes // 2, rng)
    yield "mixed", mixed
    yield "code", source_code(n_bytes, rng)
    yield "other scripts", prose(n_bytes, rng)
    yield "all 'a'", "a" * n_bytes
    yield "all spaces", " " * n_bytes
    yield "all newlines", "\n" * n_bytes
    yield "all 你", "你" * (n_bytes // 3)


def digest(ids):
    value = 0xCBF29CE484222325
    for i in ids:
        for byte in i.to_bytes(4, "little"):
            value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return "%016x" % value


class Ours:
    def __init__(self, program, tokenizer, path):
        self.process = subprocess.Popen([program, tokenizer, path], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.load_seconds = float(self.process.stdout.readline().split()[0])

    def turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        seconds, count, value = self.process.stdout.readline().split()
        return float(seconds), int(count), value

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(program, tokenizer, reference, name, text, turns):
    with tempfile.NamedTemporaryFile(suffix=".txt") as f:
        f.write(text.encode())
        f.flush()
        ours = Ours(program, tokenizer, f.name)
        best = [float("inf"), float("inf")]
        same = None
        for _ in range(turns):
            seconds, count, value = ours.turn()
            best[0] = min(best[0], seconds)
            start = time.process_time()
            try:  # the call without offsets: its fastest
                ids = reference.encode_batch_fast([text], add_special_tokens=False)[0].ids
            except BaseException as error:  # its regex engine gives up on some texts
                print("%-14s tokenizers fails: %s" % (name, error), file=sys.stderr)
                continue
            best[1] = min(best[1], time.process_time() - start)
            if same is None:
                same = len(ids) == count and digest(ids) == value
        ours.close()
    return best, same, ours.load_seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--tokenizer", default=SHARED if os.path.exists(SHARED) else OWN)
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", help="one of the texts, by name")
    args = parser.parse_args()
    start = time.process_time()
    reference = Tokenizer.from_file(args.tokenizer)
    print("load: tokenizers %.3f s" % (time.process_time() - start))
    failed = False
    for name, text in texts(int(args.megabytes * 1e6)):
        if args.only and args.only != name:
            continue
        size = len(text.encode()) / 1e6
        best, same, load = compare(os.path.join(args.build, "tokenize_bench"), args.tokenizer,
                                   reference, name, text, args.turns)
        print("%-14s %5.1f MB  flashnext %7.1f MB/s  tokenizers %6.2f MB/s  ratio %6.1f  ids %s"
              "  (load %.3f s)" % (name, size, size / best[0], size / best[1], best[1] / best[0],
                                   {True: "equal", False: "DIFFER", None: "-"}[same], load),
              flush=True)
        failed |= same is False or (name == "mixed" and best[1] < best[0])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
