#!/usr/bin/env python3
"""What a token costs against layers, experts, experts chosen, width and context, beside what `plan` foretells.

Random checkpoints of several sizes are written below --work (up to 8 GB), quantised to INT8 with INT4 experts, and measured in turns
(turns.py). plan's model of a decoded token is its bytes over the bandwidth; of a token read, its operations over the peaks of the
multiply-adds, and the bytes that blocks hand on over the bandwidth. `over_plan` is the measured time over that, the limits as they
were in that very round: what the engine takes beyond them. Where the model holds, it is the same for every size.

    bench/cost.py --flashnext build/release/flashnext --work DIR --out bench/results/cost.json

--only SERIES measures the base and one series (layers, experts, chosen, hidden, depth), and adds that to what --out has of the
others: shorter runs, and of the checkpoints only that series' are needed. "Beside the base" is always beside the base of the same run.

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


def sizes(only=None):
    """{name: sizes}, the base first."""
    found = {"base": BASE}
    for key, values in SERIES.items():
        if only not in (None, key):
            continue
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


def beside_matrices(size, n):
    """What a prompt of n ids needs beside the products with matrices: the delta rule's operations in float32 (7 for each element of
    a head's state), attention's over the keys before each id, and bytes that every layer's blocks hand on: the streams through
    two mixers, in and out, and the experts' outputs."""
    c = random_checkpoint.config_of(argparse.Namespace(**size))["text_config"]
    attention = c["layer_types"].count("full_attention")
    state = c["linear_num_value_heads"] * c["linear_key_head_dim"] * c["linear_value_head_dim"]
    heads = c["num_attention_heads"] * c["head_dim"]
    handed_on = 4 * c["hc_count"] + 2 * c["num_experts_per_tok"]
    return {"f32_operations": 7.0 * n * state * (size["layers"] - attention),
            "bf16_operations": 4.0 * n * heads * (n / 2) * attention,
            "row_bytes": 4.0 * n * c["hidden_size"] * handed_on * size["layers"]}


def planned_seconds(test, bytes_a_token, work, limits, beside):
    """Of a token: `work` is that of one forward, `beside` of a prompt what it needs beside the matrices."""
    if test.startswith("tg"):
        return bytes_a_token / limits["read_bytes_per_second"]
    operations = sum((work[f"{kind}_operations"] + beside.get(f"{kind}_operations", 0)) / limits[f"{kind}_operations_per_second"]
                     for kind in ("int8", "bf16", "f32"))
    return (operations + beside["row_bytes"] / limits["read_bytes_per_second"]) / int(test[2:])


def beside_of(test, size):
    return beside_matrices(size, int(test[2:])) if test.startswith("pp") else {}


def over_plan(row, bytes_a_token, size):
    """Measured over foretold time, of each round."""
    return [1 / line["samples"][0] / planned_seconds(line["test"], bytes_a_token, line["work"], line["limits"],
                                                     beside_of(line["test"], size))
            for line in row["lines"] if line["samples"]]


def merged(path, results):
    """With what the file has of other sizes and tests, in the order of a whole run."""
    before = json.loads(path.read_text())["results"] if path and path.exists() else []
    new = {(r["side"], r["test"]) for r in results}
    order = list(sizes()) + [f"depth {depth}" for depth in DEPTHS]
    return sorted(results + [r for r in before if (r["side"], r["test"]) not in new],
                  key=lambda r: (r["test"].startswith("pp"), order.index(r["side"])))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flashnext", required=True, help="our program")
    parser.add_argument("--work", type=Path, required=True, help="for the checkpoints; they stay there for the next run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tests", default="pp512,tg32")
    parser.add_argument("--only", choices=[*SERIES, "depth"], help="the base and this series")
    parser.add_argument("--config", help="config.json of the published model: what it would need is saved, too")
    parser.add_argument("--context", type=int, default=32768, help="of the published model")
    parser.add_argument("--prepare-only", action="store_true", help="write the checkpoints, measure nothing")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    turns.end_on_sigterm()
    args.work.mkdir(parents=True, exist_ok=True)
    folders = {name: prepare(args, name, size) for name, size in sizes(args.only).items()}
    if args.prepare_only:
        return
    places = {name: (folder, 0) for name, folder in folders.items()}
    if args.only in (None, "depth"):
        places |= {f"depth {depth}": (folders["base"], depth) for depth in DEPTHS if depth > 0}
    sides = {name: f"--model-dir {folder} -t {args.threads} -d {depth}" for name, (folder, depth) in places.items()}
    rows = turns.measure(args.flashnext, sides, args.tests.split(","), args.rounds)
    results = turns.summaries(rows)
    base = {}
    print("| variant | test | tokens/s | plan's GB | measured over plan | beside the base |\n| --- | --- | --: | --: | --: | --: |")
    for r, ((name, test), row) in zip(results, rows.items()):
        planned = planned_bytes(args.flashnext, *places[name])
        size = sizes().get(name, BASE)
        r |= {"size": size, "plan_bytes": planned, "over_plan": over_plan(row, planned, size)}
        r["over_plan_median"] = statistics.median(r["over_plan"])
        r["beside_base"] = r["over_plan_median"] / base.setdefault(test, r["over_plan_median"])
        print(f"| {r['side']} | {test} | {r['median']:.2f} | {planned / 1e9:.3f} | {r['over_plan_median']:.3f} | {r['beside_base']:.3f} |")
    if args.out:
        results = merged(args.out, results)
        before = json.loads(args.out.read_text()) if args.out.exists() else {}
        whole = whole_model(args.flashnext, args.config, args.context) if args.config else before.get("whole_model", [])
        turns.save(args.out, "Cost of a token", args.flashnext, results, base=BASE, bits=BITS, whole_model=whole)


if __name__ == "__main__":
    main()
