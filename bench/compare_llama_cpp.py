#!/usr/bin/env python3
"""Our speed beside llama.cpp's, in one run: both programs stay open and take turns, round by round.

A round of ours is followed by the same round of the peer's, then the next of ours (see turns.py). What is reported is medians
and the ratio of medians. A case is pp512 (a prompt of 512 at once), tg128 (128 tokens
one by one), tg32x8 (eight sequences together), with @8192 for the tokens that stand before.

    bench/compare_llama_cpp.py --flashnext build/release/flashnext --model-dir DIR --peer-dir LLAMA/bin --gguf FILE \\
        --cases pp512,pp2048,tg128,tg32x8@16 --rounds 5 --threads 2 --name "INT8 + INT4" --out bench/results/NAME.json

--own-cases are measured for ours alone, in the same turns (what a depth costs, say). --bench-args goes to
`flashnext bench` (--isa avx2, --dense-bits 8). Results are added to those that FILE of --out already has; a case that is
measured again replaces the older figure; one that was stopped goes on. Needs llama-bench, and llama-batched-bench for several sequences, in --peer-dir."""
import argparse
import json
import os
import re
import shlex
import statistics
import sys
import time
from pathlib import Path

import turns

CASE = re.compile(r"(pp|tg)(\d+)(?:x(\d+))?(?:@(\d+))?$")


class Case:
    def __init__(self, text):
        match = CASE.match(text)
        if not match or (match[1] == "pp" and match[3]):
            sys.exit(f"'{text}': expected a case like pp512, tg128, tg32x8 or pp512@8192")
        self.text = text
        self.prompt = match[1] == "pp"
        self.n, self.batch, self.depth = int(match[2]), int(match[3] or 1), int(match[4] or 0)

    def kind(self):
        return (not self.prompt, self.n, self.batch)


def command_of(args, name, case):
    """Measures one case over and over."""
    answer = 0 if case.prompt else turns.repeated(case.n, args.rounds)
    if name == "ours":
        return [args.flashnext, "bench", "--model-dir", args.model_dir, "-t", args.threads, "-r", 1, "-o", "jsonl",
                "-p", turns.repeated(case.n, args.rounds) if case.prompt else 0, "-n", answer, "-d", case.depth,
                "-b", case.batch, *shlex.split(args.bench_args)]
    if case.batch > 1:
        return [args.peer_dir / "llama-batched-bench", "-m", args.gguf, "-t", args.threads,
                "-c", case.batch * (max(1, case.depth) + case.n), "-npp", max(1, case.depth), "-ntg", case.n,
                "-npl", turns.repeated(case.batch, args.rounds), "--output-format", "jsonl", *shlex.split(args.peer_args)]
    return [args.peer_dir / "llama-bench", "-m", args.gguf, "-t", args.threads, "-r", 1, "-o", "jsonl",
            "-p", turns.repeated(case.n, args.rounds) if case.prompt else 0, "-n", answer, "-d", case.depth,
            *shlex.split(args.peer_args)]


def peer_rate(line):
    return line["speed_tg"] if "speed_tg" in line else line["avg_ts"]


def add(row, ours, peer):
    row["discarded"] += ours["discarded"]
    if ours["samples"]:
        row["ours"].append(ours["samples"][0])
        row["shares"].append(ours["share_of_limit"])
        row["limits"].append(ours["limits"])
        row["first"].append(ours["first_token_seconds"])
        row["work"] = ours["work"]
    if peer is not None:
        row["peer"].append(peer_rate(peer))


def begun(args, old, case):
    """The rounds that an earlier run of the same program finished before it was stopped."""
    empty = {"case": case.text, "version": turns.version(args.flashnext), "ours": [], "shares": [], "peer": [], "limits": [],
             "first": [], "discarded": 0}
    for r in old["results"]:
        if r["case"] == case.text and r["version"] == empty["version"] and r["rounds"] < args.rounds:
            return empty | {key: r[key] for key in (*empty, "work") if key in r}
    return empty


def measure(args, cases, own, old):
    rows = {c.text: begun(args, old, c) for c in cases}
    notes, run = {}, turns.Turns()
    try:
        for kind in sorted({c.kind() for c in cases}):  # all depths of a kind in turn, so that depths can be compared, too
            names = {}
            for case in sorted((c for c in cases if c.kind() == kind), key=lambda c: c.depth):
                for side in ("ours",) if case in own else ("ours", "peer"):
                    names[f"{side} {case.text}"] = (side, case)
                    run.add(f"{side} {case.text}", command_of(args, side, case))
            for turn in range(min(len(rows[case.text]["ours"]) for _, case in names.values()), args.rounds):
                lines = dict(zip(names.values(), run.round(list(names))))
                for (side, case), line in lines.items():
                    if side == "ours":
                        add(rows[case.text], line, lines.get(("peer", case)))
                        show = [f"{rows[case.text][k][-1]:.2f}" for k in ("ours", "peer") if rows[case.text][k]]
                        print(f"{case.text} round {turn + 1}: {' '.join(show)}", file=sys.stderr, flush=True)
                    if side == "ours" or "build_commit" in line:
                        notes[side] = line
            run.end()
    except SystemExit as stop:
        print(f"ended early ({stop.code}): what was finished is kept", file=sys.stderr)
    finally:
        run.end()
    return rows, notes


def summary(row):
    result = row | {"rounds": len(row["ours"]), "ours_median": statistics.median(row["ours"]),
                    "share_median": statistics.median(row["shares"]),
                    "first_token_seconds_median": statistics.median(row["first"]),
                    "limits_median": {k: statistics.median(l[k] for l in row["limits"]) for k in row["limits"][0]}}
    if row["peer"]:
        result["peer_median"] = statistics.median(row["peer"])
        result["ratio"] = result["ours_median"] / result["peer_median"]
    return result


def table(results):
    lines = ["| case | ours | peer | ratio | share of the limit | read GB/s | INT8 GOP/s | BF16 GOP/s | rounds |",
             "| --- | --: | --: | --: | --: | --: | --: | --: | --: |"]
    for r in results:
        peer = (f"{r['peer_median']:.2f}", f"{r['ratio']:.2f}") if r["peer"] else ("", "")
        limits = r["limits_median"]
        lines.append(f"| {r['case']} | {r['ours_median']:.2f} | {peer[0]} | {peer[1]} | {100 * r['share_median']:.0f} % | "
                     f"{limits['read_bytes_per_second'] / 1e9:.1f} | {limits['int8_operations_per_second'] / 1e9:.0f} | "
                     f"{limits['bf16_operations_per_second'] / 1e9:.0f} | {r['rounds']} |")
    return "\n".join(lines)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flashnext", required=True, help="our program")
    parser.add_argument("--model-dir", required=True, help="our model")
    parser.add_argument("--peer-dir", type=Path, required=True, help="where llama-bench and llama-batched-bench are")
    parser.add_argument("--gguf", required=True, help="the peer's model")
    parser.add_argument("--cases", default="", help="measured for both")
    parser.add_argument("--own-cases", default="", help="measured for ours alone")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--bench-args", default="", help="more for `flashnext bench`")
    parser.add_argument("--peer-args", default="", help="more for the peer's programs")
    parser.add_argument("--name", required=True, help="what is compared, for the tables")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def main():
    args = options()
    turns.end_on_sigterm()
    own = [Case(c) for c in args.own_cases.split(",") if c]
    cases = [Case(c) for c in args.cases.split(",") if c] + own
    if not cases:
        sys.exit("nothing to measure: --cases or --own-cases")
    old = json.loads(args.out.read_text()) if args.out.exists() else {"results": []}
    rows, notes = measure(args, cases, own, old)
    rows = {name: row for name, row in rows.items() if row["ours"]}
    if "ours" not in notes:
        sys.exit("nothing was measured")
    kept = [r for r in old["results"] if r["case"] not in rows]
    about = notes["ours"]
    peer = notes.get("peer")
    whole = {"name": args.name, "date": time.strftime("%Y-%m-%d"), "machine": turns.machine(args.threads),
             "ours": {"version": turns.version(args.flashnext), "isa": about["isa"], "precision": about["precision"],
                      "chunk": about["chunk"], "arguments": args.bench_args, "model": Path(args.model_dir).name,
                      "load_seconds": about["load_seconds"], "peak_rss_bytes": about["peak_rss_bytes"],
                      "huge_page_bytes": about["huge_page_bytes"]},
             "peer": {"commit": peer["build_commit"], "model": Path(args.gguf).name, "type": peer["model_type"],
                      "batch": peer["n_ubatch"], "arguments": args.peer_args} if peer else old.get("peer"),
             "results": sorted(kept + [summary(row) for row in rows.values()],
                               key=lambda r: (Case(r["case"]).kind(), Case(r["case"]).depth))}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(whole, indent=1) + "\n")
    print(f"{args.name}: {whole['ours']['version']}, {whole['ours']['isa']}, {args.threads} threads\n")
    print(table(whole["results"]))


if __name__ == "__main__":
    main()
