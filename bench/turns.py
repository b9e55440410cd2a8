#!/usr/bin/env python3
"""Speeds of several variants in one run: all stay open and take turns, round by round.

A machine's speed changes within seconds (neighbours, clocks), so figures of two runs say little about each other. Here every
variant is a process of its own that is stopped (SIGSTOP) while another is measured. Medians and their ratios to the
first variant are reported, and added to what FILE of --out has of other tests.

    bench/turns.py --flashnext build/release/flashnext --tests pp512,tg128 --rounds 5 --name Threads --out FILE.json \\
        --side "1 thread=--model-dir DIR -t 1" --side "2 threads=--model-dir DIR -t 2"

What follows NAME= are options of `flashnext bench` (-d N for the tokens that stand before)."""
import argparse
import json
import os
import platform
import re
import shlex
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

FLAGS = ("avx2", "fma", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")
SPARE = 3  # times a round is tried


class Watch(threading.Thread):
    """Notices when this machine, or all that was started here, stood still: what is timed then is not what it took."""

    TICK, GAP = 0.05, 0.4

    def __init__(self):
        super().__init__(daemon=True)
        self.gaps = 0
        self.start()

    def run(self):
        last = time.monotonic()
        while True:
            time.sleep(self.TICK)
            now = time.monotonic()
            self.gaps += now - last > self.GAP
            last = now


class Turns:
    """Programs that take turns. Each prints a line of JSON after each measurement, and is stopped between its turns. What it does
    before the next measurement (loading, reading up to a depth, warming up) is not timed."""

    def __init__(self):
        self.commands, self.running = {}, {}
        self.watch = Watch()

    def add(self, name, command):
        self.commands[name] = [str(word) for word in command]

    def next(self, name):
        """The next line of one of them; None when the machine stood still meanwhile."""
        for other, process in self.running.items():
            os.killpg(process.pid, signal.SIGCONT if other == name else signal.SIGSTOP)
        if name not in self.running:
            self.running[name] = subprocess.Popen(self.commands[name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                                  text=True, start_new_session=True)
        process, before = self.running[name], self.watch.gaps
        for line in process.stdout:
            if line.startswith("{"):
                os.killpg(process.pid, signal.SIGSTOP)
                return json.loads(line) if self.watch.gaps == before else None
        sys.exit(f"{name}: ended with {process.wait()} before its last measurement: {shlex.join(self.commands[name])}")

    def round(self, names):
        """A line of each; begun anew where one was disturbed."""
        for _ in range(SPARE):
            lines = [self.next(name) for name in names]
            if None not in lines:
                return lines
        sys.exit(f"{', '.join(names)}: the machine stood still in {SPARE} rounds in a row")

    def end(self, names=None):
        for name in list(names or self.running):
            process = self.running.pop(name)
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def repeated(value, rounds):
    """More than are asked for: some may have to be measured again."""
    return ",".join([str(value)] * (SPARE * rounds))


def first_line(path, otherwise="unknown"):
    try:
        return Path(path).read_text().split("\n")[0].strip()
    except OSError:
        return otherwise


def machine(threads):
    cpu = Path("/proc/cpuinfo").read_text()
    flags = set(re.search(r"^flags\s*:\s*(.*)$", cpu, re.M)[1].split())
    memory = re.search(r"^MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text(), re.M)
    pages = re.search(r"\[(\w+)\]", first_line("/sys/kernel/mm/transparent_hugepage/enabled", "[unknown]"))
    numbers = [re.search(rf"^{key}\s*:\s*(.*)$", cpu, re.M) for key in ("model name", "cpu family", "model", "stepping")]
    return {"cpu": " ".join(f"{key} {found[1]}".strip() for key, found in
                            zip(("", "family", "model", "stepping"), numbers) if found),
            "flags": [f for f in FLAGS if f in flags], "cpus": os.cpu_count(),
            "memory_bytes": int(memory[1]) * 1024, "kernel": platform.release(), "huge_pages": pages[1],
            "threads": threads}


def version(flashnext):
    words = subprocess.run([flashnext, "version"], capture_output=True, text=True, check=True).stdout
    return words.strip().split("\n")[0]


def end_on_sigterm():
    """So that stopped programs do not stay behind."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def nameless(options):
    """Without the folders of this machine."""
    return shlex.join(Path(word).name if "/" in word else word for word in shlex.split(options))


def measure(flashnext, sides, tests, rounds):
    """sides: {name: options}; tests: pp512, tg128, ... {(name, test): row}"""
    rows, turns = {}, Turns()
    try:
        for test in tests:
            prompt = repeated(test[2:], rounds) if test.startswith("pp") else 0
            answer = repeated(test[2:], rounds) if test.startswith("tg") else 0
            for name, words in sides.items():
                turns.add(name, [flashnext, "bench", "-r", 1, "-o", "jsonl", "-p", prompt, "-n", answer, *shlex.split(words)])
                rows[name, test] = {"side": name, "options": nameless(words), "lines": []}
            for turn in range(rounds):
                for name, line in zip(sides, turns.round(list(sides))):
                    rows[name, test]["lines"].append(line)
                    print(f"{test} round {turn + 1} {name}: {line['tokens_per_second']:.2f}", file=sys.stderr, flush=True)
            turns.end()
    except SystemExit as stop:
        print(f"ended early ({stop.code}): what was finished is kept", file=sys.stderr)
    finally:
        turns.end()
    rows = {key: row for key, row in rows.items() if any(line["samples"] for line in row["lines"])}
    return rows or sys.exit("nothing was measured")


def summary(row, first):
    """Of one variant and test; `first` is the summary of the variant that ratios refer to."""
    lines = [line for line in row["lines"] if line["samples"]]
    about = lines[0]
    result = {"side": row["side"], "test": about["test"], "depth": about["depth"], "batch": about["batch"],
              "options": row["options"], "threads": about["threads"], "isa": about["isa"], "precision": about["precision"],
              "samples": [line["samples"][0] for line in lines],
              "peak_rss_bytes": about["peak_rss_bytes"], "huge_page_bytes": about["huge_page_bytes"],
              "discarded": sum(line["discarded"] for line in row["lines"]),
              "median": statistics.median(line["samples"][0] for line in lines),
              "share_median": statistics.median(line["share_of_limit"] for line in lines), "work": about["work"],
              "limits_median": {k: statistics.median(line["limits"][k] for line in lines) for k in about["limits"]}}
    result["ratio"] = result["median"] / (first or result)["median"]
    return result


def summaries(rows):
    results, first = [], {}
    for (_, test), row in rows.items():
        results.append(summary(row, first.get(test)))
        first.setdefault(test, results[-1])
    return results


def table(results):
    lines = ["| variant | test | depth | tokens/s | ratio | share of the limit | GB a forward | read GB/s | INT8 GOP/s | rounds |",
             "| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: |"]
    for r in results:
        gigabytes = (r["work"]["weight_bytes"] + r["work"]["state_bytes"]) / 1e9
        limits = r["limits_median"]
        lines.append(f"| {r['side']} | {r['test']} | {r['depth']} | {r['median']:.2f} | {r['ratio']:.3f} | "
                     f"{100 * r['share_median']:.0f} % | {gigabytes:.3f} | {limits['read_bytes_per_second'] / 1e9:.1f} | "
                     f"{limits['int8_operations_per_second'] / 1e9:.0f} | {len(r['samples'])} |")
    return "\n".join(lines)


def older(path, tests):
    """Results of an earlier run that measured other tests, to stand beside new ones."""
    if path is None or not path.exists():
        return []
    return [r for r in json.loads(path.read_text())["results"] if r["test"] not in tests]


def save(path, name, flashnext, results, **more):
    path.parent.mkdir(parents=True, exist_ok=True)
    for result in results:
        result.setdefault("version", version(flashnext))
    whole = {"name": name, "date": time.strftime("%Y-%m-%d"), "machine": machine(results[0]["threads"]), **more, "results": results}
    path.write_text(json.dumps(whole, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flashnext", required=True, help="our program")
    parser.add_argument("--side", action="append", required=True, metavar="NAME=OPTIONS", help="a variant; may be repeated")
    parser.add_argument("--tests", default="pp512,tg128")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--name", required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    end_on_sigterm()
    tests = args.tests.split(",")
    rows = measure(args.flashnext, dict(side.split("=", 1) for side in args.side), tests, args.rounds)
    results = older(args.out, tests) + summaries(rows)
    save(args.out, args.name, args.flashnext, results)
    print(f"{args.name}: {version(args.flashnext)}\n\n{table(results)}")


if __name__ == "__main__":
    main()
