#!/usr/bin/env python3
"""From starting the program to the first token of a short prompt on its standard output, and on to its end, with a prepared
model's pages in memory, beside what that token takes in a program that has been running.

    bench/first_token.py --flashnext build/release/flashnext --model-dir DIR --out bench/results/first-token.json

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
    """Seconds until the first byte of the answer came, and until the process has ended; its page faults."""
    begin = time.perf_counter()
    with subprocess.Popen([args.flashnext, "run", "--model-dir", args.model_dir, "--ids-file", ids_file, "--new-tokens", "1",
                           "--temp", "0", "--ignore-eos", "-t", str(args.threads)], stdout=subprocess.PIPE) as process:
        byte = process.stdout.read(1)
        first = time.perf_counter() - begin
        process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0 or not byte:
        raise SystemExit(f"flashnext run gave no token, exit {process.returncode}")
    return {"first_seconds": first, "whole_seconds": time.perf_counter() - begin, "page_faults": usage.ru_minflt}


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
        results = [run(args, ids_file) for _ in range(args.rounds)]
    first, whole, faults = (statistics.median(r[key] for r in results)
                            for key in ("first_seconds", "whole_seconds", "page_faults"))
    prompt = prompt_seconds(args)
    print(f"first token {first:.3f} s, prompt of {args.tokens} {prompt:.3f} s, beyond it {first - prompt:.3f} s; "
          f"whole process {whole:.3f} s, {faults:.0f} page faults (medians of {args.rounds})")
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps({
            "name": "First token", "date": time.strftime("%Y-%m-%d"), "machine": turns.machine(args.threads),
            "version": turns.version(args.flashnext), "tokens": args.tokens, "first_seconds_median": first,
            "whole_seconds_median": whole, "page_faults_median": faults, "prompt_seconds": prompt, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
