#!/usr/bin/env python3
"""What a token costs against layers, experts, experts chosen, width and context, beside what `plan` foretells.

Random checkpoints of several sizes are written below --work (up to 8 GB), quantised to INT8 with INT4 experts, and measured in turns
(turns.py). plan's model of a decoded token is its bytes over the bandwidth; of a token read, its operations over the peak of the
multiply-adds. `over_plan` is the measured time over that, both limits as they were in that very round: what the engine
takes beyond the limit. Where the model holds, it is the same for every size.

    bench/cost.py --flashnext build/release/flashnext --work DIR --out bench/results/cost.json

Needs numpy (random_checkpoint.py)."""
import argparse
import json
import shutil
import statistics
import subprocess
from pathlib import Path

import random_checkpoint
import turns

BASE = {"hidden": 2560, "layers": 8, "experts": 24, "chosen": 10, "vocab": 102400}
SERIES = {"layers": (4, 8, 12), "experts": (12, 24, 48), "chosen": (4, 10, 20), "hidden": (1280, 1920, 2560)}
DEPTHS = (0, 2048, 8192, 32768)
BITS = ["--expert-bits", "4", "--dense-bits", "8"]
# What the whole model would be run with, most precise first; machines by what programs may use of their memory.
WHOLE = ([], ["--expert-bits", "8", "--dense-bits", "8"], BITS, ["--expert-bits", "4", "--dense-bits", "4"])
MACHINES = ("64GiB", "128GiB", "256GiB")


def sizes():
    """{name: sizes}, the base first."""
    found = {"base": BASE}
    for key, values in SERIES.items():
        found |= {f"{key} {value}": BASE | {key: value} for value in values if value != BASE[key]}
    return found


def prepare(args, name, size):
    folder = args.work / name.replace(" ", "-")
    if not (folder / "flashnext-prepared.json").exists():
        source = args.work / "source"
        shutil.rmtree(source, ignore_errors=True)
        random_checkpoint.make(source, argparse.Namespace(**size, seed=1))
        subprocess.run([args.flashnext, "quantize", "--model-dir", source, "--out", folder, *BITS], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.rmtree(source)
    return folder


def planned_bytes(flashnext, folder, depth):
    """Read for the token after `depth` others."""
    text = subprocess.run([flashnext, "plan", "--model-dir", folder, "--context", str(max(1, depth)), "--json"],
                          capture_output=True, text=True, check=True).stdout
    return json.loads(text)["exact"]["read_per_token"]["total"]


def whole_model(flashnext, config, context):
    """Of each machine: the settings that fit, with plan's bytes and multiply-adds of a token."""
    found = []
    for memory in MACHINES:
        for bits in WHOLE:
            text = subprocess.run([flashnext, "plan", "--config", config, "--context", str(context), "--mem-limit", memory,
                                   "--json", *bits], capture_output=True, text=True).stdout
            plan = json.loads(text)
            exact = plan["exact"]
            found.append({"memory": memory, "options": " ".join(bits), "context": context, "fits": plan["fits"],
                          "resident": exact["resident"], "read_per_token": exact["read_per_token"]["total"],
                          "multiplied_per_token": exact["active"]["params"]})
    return found


def over_plan(row, bytes_a_token):
    """Measured over foretold time, of each round."""
    found = []
    for line in row["lines"]:
        if not line["samples"]:
            continue
        work, limits = line["work"], line["limits"]
        if line["test"].startswith("tg"):
            seconds = bytes_a_token / limits["read_bytes_per_second"]
        else:
            seconds = sum(work[f"{kind}_operations"] / limits[f"{kind}_operations_per_second"]
                          for kind in ("int8", "bf16", "f32")) / line["tokens"]
        found.append(1 / line["samples"][0] / seconds)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flashnext", required=True, help="our program")
    parser.add_argument("--work", type=Path, required=True, help="for the checkpoints; they stay there for the next run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tests", default="pp512,tg32")
    parser.add_argument("--config", help="config.json of the published model: what it would need is saved, too")
    parser.add_argument("--context", type=int, default=32768, help="of the published model")
    parser.add_argument("--prepare-only", action="store_true", help="write the checkpoints, measure nothing")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    turns.end_on_sigterm()
    args.work.mkdir(parents=True, exist_ok=True)
    folders = {name: prepare(args, name, size) for name, size in sizes().items()}
    if args.prepare_only:
        return
    places = {name: (folder, 0) for name, folder in folders.items()}
    places |= {f"depth {depth}": (folders["base"], depth) for depth in DEPTHS if depth > 0}
    sides = {name: f"--model-dir {folder} -t {args.threads} -d {depth}" for name, (folder, depth) in places.items()}
    rows = turns.measure(args.flashnext, sides, args.tests.split(","), args.rounds)
    results = turns.summaries(rows)
    for result, ((name, _), row) in zip(results, rows.items()):
        planned = planned_bytes(args.flashnext, *places[name])
        result |= {"size": sizes().get(name, BASE), "plan_bytes": planned,
                   "over_plan": over_plan(row, planned)}
        result["over_plan_median"] = statistics.median(result["over_plan"])
    results = turns.older(args.out, args.tests.split(",")) + results
    base = {r["test"]: r["over_plan_median"] for r in results if r["side"] == "base"}
    print("| variant | test | tokens/s | plan's GB | measured over plan | beside the base |\n| --- | --- | --: | --: | --: | --: |")
    for r in results:
        r["beside_base"] = r["over_plan_median"] / base[r["test"]]
        print(f"| {r['side']} | {r['test']} | {r['median']:.2f} | {r['plan_bytes'] / 1e9:.3f} | {r['over_plan_median']:.3f} | "
              f"{r['beside_base']:.3f} |")
    if args.out:
        turns.save(args.out, "Cost of a token", args.flashnext, results, base=BASE, bits=BITS,
                   whole_model=whole_model(args.flashnext, args.config, args.context) if args.config else [])


if __name__ == "__main__":
    main()
