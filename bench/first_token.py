#!/usr/bin/env python3
"""From starting the program to the first token of a short prompt, and on to its end, with a prepared model's pages in memory,
beside what reading that prompt takes in a program that has been running.

    bench/first_token.py --flashnext build/release/flashnext --model-dir DIR --out bench/results/first_token.json

Beyond reading the prompt a start should cost less than 0.3 s: what is mapped is not read, nothing is converted."""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import turns


def prompt_seconds(args):
    """What the prompt's forward costs in a process that has been running."""
    text = subprocess.run([args.flashnext, "bench", "--model-dir", args.model_dir, "-p", str(args.tokens), "-n", "0",
                           "-r", "5", "-o", "json", "-t", str(args.threads)],
                          capture_output=True, text=True, check=True).stdout
    return json.loads(text)["results"][0]["first_token_seconds"]


def run(args, ids_file):
    """(seconds of the process until it has ended, its own figures)"""
    begin = time.perf_counter()
    text = subprocess.run([args.flashnext, "run", "--model-dir", args.model_dir, "--ids-file", ids_file, "--new-tokens", "1",
                           "--temp", "0", "--ignore-eos", "--json", "-t", str(args.threads)],
                          capture_output=True, text=True, check=True).stdout
    seconds = time.perf_counter() - begin
    return seconds, json.loads(text)["timings"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flashnext", required=True, help="our program")
    parser.add_argument("--model-dir", required=True, help="a prepared checkpoint")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ids_file = Path(folder) / "ids.json"
        ids_file.write_text(json.dumps([[(i * 7919 + 13) % 1000 for i in range(args.tokens)]]))
        run(args, ids_file)  # brings pages in
        results = []
        for _ in range(args.rounds):
            whole, timings = run(args, ids_file)
            results.append({"whole_seconds": whole, "timings": timings})
    whole = statistics.median(r["whole_seconds"] for r in results)
    prompt = prompt_seconds(args)
    print(f"whole process {whole:.3f} s, prompt of {args.tokens} {prompt:.3f} s, beyond it {whole - prompt:.3f} s "
          f"(medians of {args.rounds})")
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps({
            "name": "First token", "date": time.strftime("%Y-%m-%d"), "machine": turns.machine(args.threads),
            "version": turns.version(args.flashnext), "tokens": args.tokens, "whole_seconds_median": whole,
            "prompt_seconds": prompt, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
