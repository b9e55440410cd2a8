#!/usr/bin/env python3
"""Makes the plots and tables of docs/performance.md from bench/results/*.json.

    bench/plots.py            writes docs/plots/*.svg, and the tables between the marks in docs/performance.md and README.md

    bench/plots.py --check    writes nothing; fails where a table is not what the results give

A table's place is  <!-- table NAME -->  ...  <!-- end -->. Plots need matplotlib."""
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS, PLOTS = ROOT / "bench" / "results", ROOT / "docs" / "plots"
OURS, PEER, PLAN = "#1f6fb2", "#b9b9b9", "#d1495b"
WORDS = {"pp512": "prompt of 512", "pp2048": "prompt of 2,048", "tg128": "one by one", "tg32x8@16": "eight sequences",
         "pp512@8192": "prompt of 512 after 8,192", "tg128@8192": "one by one after 8,192"}


def load(name):
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def save(plt, figure, name):
    PLOTS.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(PLOTS / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def grid(lines):
    return "\n".join(lines)


def versions(results):
    """A line below a table: what was measured."""
    found = dict.fromkeys(re.search(r"\((\w+)\)", r["version"])[1] for r in results)
    return f"\n\nCommit {', '.join(found)}; the least number of rounds: {min(rounds_of(r) for r in results)}."


def rounds_of(result):
    return len(result.get("samples") or result["ours"])


# ---- tables ------------------------------------------------------------------------------------


def compare_table(name):
    """Both sides' medians and the ratio."""
    whole = load(name)
    lines = ["| | flashnext | llama.cpp | ratio | share of the limit | read GB/s | INT8 GOP/s |",
             "|---|--:|--:|--:|--:|--:|--:|"]
    for r in whole["results"]:
        if not r["peer"]:
            continue
        limits = r["limits_median"]
        lines.append(f"| {WORDS.get(r['case'], r['case'])} | {r['ours_median']:.1f} | {r['peer_median']:.1f} | "
                     f"{r['ratio']:.2f} | {100 * r['share_median']:.0f} % | {limits['read_bytes_per_second'] / 1e9:.1f} | "
                     f"{limits['int8_operations_per_second'] / 1e9:.0f} |")
    return grid(lines) + versions(whole["results"])


def depth_table():
    whole = load("depth")
    zero = {r["test"]: r["median"] for r in whole["results"] if r["depth"] == 0}
    lines = ["| tokens before | prompt of 512 | beside none | one by one | beside none |", "|--:|--:|--:|--:|--:|"]
    depths = sorted({r["depth"] for r in whole["results"]})
    for depth in depths:
        cells = [f"{depth:,}"]
        for test in sorted(zero):
            rate = next(r["median"] for r in whole["results"] if r["depth"] == depth and r["test"] == test)
            cells += [f"{rate:.1f}", f"{100 * (rate / zero[test] - 1):+.1f} %"]
        lines.append("| " + " | ".join(cells) + " |")
    return grid(lines) + versions(whole["results"])


def turns_table(name):
    lines = ["| | test | tokens/s | ratio | share of the limit | GB a token |", "|---|---|--:|--:|--:|--:|"]
    results = load(name)["results"]
    for r in results:
        gigabytes = (r["work"]["weight_bytes"] + r["work"]["state_bytes"]) / 1e9
        lines.append(f"| {r['side']} | {r['test']} | {r['median']:.1f} | {r['ratio']:.2f} | {100 * r['share_median']:.0f} % | "
                     f"{gigabytes if r['test'].startswith('tg') else 0:.2f} |".replace(" 0.00 |", " |"))
    return grid(lines) + versions(results)


def cost_table():
    results = load("cost")["results"]
    lines = ["| size | test | tokens/s | plan, GB a token | measured over plan | beside the base |", "|---|---|--:|--:|--:|--:|"]
    for r in sorted(results, key=lambda r: r["test"], reverse=True):
        planned = f"{r['plan_bytes'] / 1e9:.3f}" if r["test"].startswith("tg") else ""
        lines.append(f"| {r['side']} | {r['test']} | {r['median']:.1f} | {planned} | {r['over_plan_median']:.2f} | "
                     f"{100 * (r['beside_base'] - 1):+.0f} % |")
    return grid(lines) + versions(results)


def whole_table():
    """The published model by plan's bytes, and what the base took beyond them."""
    cost = load("cost")
    base = next(r for r in cost["results"] if r["side"] == "base" and r["test"].startswith("tg"))
    rates = (base["limits_median"]["read_bytes_per_second"], 100e9, 250e9)
    lines = ["| memory | weights | resident | GB a token | " + " | ".join(f"at {rate / 1e9:.0f} GB/s" for rate in rates) + " |",
             "|---|---|--:|--:|--:|--:|--:|"]
    for w in cost["whole_model"]:
        bits = re.findall(r"\d+", w["options"])
        name = f"INT{bits[0]} experts, INT{bits[1]} trunk" if bits else "as stored (BF16)"
        speeds = [f"{rate / w['read_per_token'] / base['over_plan_median']:.1f}" for rate in rates]
        lines.append(f"| {w['memory'].replace('GiB', ' GiB')} | {name} | {w['resident'] / 1e9:.1f} GB | "
                     f"{w['read_per_token'] / 1e9:.2f} | " + " | ".join(speeds if w["fits"] else ["does not fit", "", ""]) + " |")
    return grid(lines)


def first_token_table():
    lines = ["| pages in memory | first token | in a running process | beyond it | end of the process | page faults |",
             "|---|--:|--:|--:|--:|--:|"]
    for name, pages in (("first-token", "4 KiB"), ("first-token-large", "2 MiB")):
        whole = load(name)
        first, prompt = whole["first_seconds_median"], whole["prompt_seconds"]
        lines.append(f"| {pages} | {first:.2f} s | {prompt:.2f} s | **{first - prompt:.2f} s** | {whole['whole_seconds_median']:.2f} s | "
                     f"{whole['page_faults_median']:,.0f} |")
    return grid(lines + ["", f"Medians of {len(whole['results'])}; {whole['version']}."])


def logit_error_table():
    e = load("logit-error")
    return (f"Logits of both over {e['positions']} random ids: largest difference {e['max_error']:.2f}, mean {e['mean_error']:.3f}, "
            f"where the logits' own standard deviation is {e['deviation_of_logits']:.2f}; mean KL divergence {e['mean_kl']:.4f}, the "
            f"same first choice at {100 * e['same_choice']:.0f} % of the positions.")


def machine_table():
    m = load("int8-int4")["machine"]
    ours, peer = load("int8-int4")["ours"], load("int8-int4")["peer"]
    return (f"{m['cpu']}, {m['cpus']} CPUs, {m['threads']} threads, {m['memory_bytes'] / 1e9:.0f} GB, kernel {m['kernel']}, "
            f"transparent huge pages: {m['huge_pages']}; {', '.join(m['flags'])}. Our kernels: {ours['isa']}, "
            f"the loaded model {ours['peak_rss_bytes'] / 1e9:.1f} GB at most. llama.cpp: commit {peer['commit']}.")


TABLES = {"machine": machine_table, "int8-int4": lambda: compare_table("int8-int4"), "bf16": lambda: compare_table("bf16"),
          "avx2": lambda: compare_table("avx2"), "depth": depth_table, "threads": lambda: turns_table("threads"),
          "trunk": lambda: turns_table("trunk"), "cost": cost_table, "whole": whole_table,
          "first-token": first_token_table, "logit-error": logit_error_table}


def filled(path):
    """A page's text with its tables as the results give them."""
    def table(match):
        return f"<!-- table {match[1]} -->\n{TABLES[match[1]]()}\n<!-- end -->"

    return re.sub(r"<!-- table ([\w-]+) -->\n.*?<!-- end -->", table, path.read_text(), flags=re.S)


# ---- plots -------------------------------------------------------------------------------------


def plot_peer(plt):
    """How many times the peer's speed; both sides' tokens a second beside each bar."""
    kinds = {"int8-int4": "INT8 + INT4", "bf16": "BF16", "avx2": "INT8 + INT4, AVX2"}
    rows = [(f"{words}: {WORDS.get(r['case'], r['case'])}", r) for name, words in kinds.items()
            for r in (load(name) or {"results": []})["results"] if r["peer"]]
    figure, axis = plt.subplots(figsize=(7, 0.36 * len(rows) + 0.9))
    axis.barh([name for name, _ in rows], [r["ratio"] for _, r in rows], color=OURS)
    for i, (_, r) in enumerate(rows):
        axis.annotate(f"{r['ours_median']:.0f} and {r['peer_median']:.0f} tokens/s", (r["ratio"], i), va="center",
                      xytext=(4, 0), textcoords="offset points", fontsize=8)
    axis.axvline(1, color=PEER, linestyle="--")
    axis.set_xlim(0, 1.45 * max(r["ratio"] for _, r in rows))
    axis.invert_yaxis()
    axis.set_xlabel("times the speed of llama.cpp (dashed)")
    save(plt, figure, "peer")


def plot_depth(plt):
    whole = load("depth")
    figure, axis = plt.subplots(figsize=(5, 3.2))
    for test, words, style in (("pp512", "prompt of 512", "o-"), ("tg128", "one by one", "s-")):
        rows = sorted((r for r in whole["results"] if r["test"] == test), key=lambda r: r["depth"])
        axis.plot([r["depth"] for r in rows], [100 * r["median"] / rows[0]["median"] for r in rows], style, label=words)
    axis.set_ylim(0, 110)
    axis.set_xlabel("tokens before")
    axis.set_ylabel("speed, % of none before")
    axis.legend()
    save(plt, figure, "depth")


def plot_cost(plt):
    """Measured time of a token beside plan's (bytes over bandwidth, operations over peaks) times what the base takes beyond that."""
    import cost

    results = load("cost")["results"]
    series = {"layers": "layers", "experts": "experts", "chosen": "experts chosen", "hidden": "width", "depth": "tokens before"}
    tests = {r["test"]: "one by one" if r["test"].startswith("tg") else f"prompt of {r['test'][2:]}" for r in results}
    figure, axes = plt.subplots(len(tests), len(series), figsize=(3 * len(series), 2.8 * len(tests)), sharey="row", squeeze=False)
    for line, (test, words) in zip(axes, tests.items()):
        of_test = [r for r in results if r["test"] == test]
        base = next(r for r in of_test if r["side"] == "base")
        for axis, (key, name) in zip(line, series.items()):
            rows = [r for r in of_test if r["side"].startswith(key + " ")] + [base]
            if len(rows) == 1:
                axis.set_visible(False)
                continue
            rows.sort(key=lambda r: r["depth"] if key == "depth" else r["size"][key])
            x = [r["depth"] if key == "depth" else r["size"][key] for r in rows]
            plan = [1e3 * base["over_plan_median"] * cost.planned_seconds(test, r["plan_bytes"], r["work"], base["limits_median"],
                                                                     cost.beside_of(test, r["size"]))
                    for r in rows]
            axis.plot(x, [ms * r["beside_base"] for ms, r in zip(plan, rows)], "o", color=OURS, label="measured")
            axis.plot(x, plan, "-", color=PLAN, label="plan")
            axis.set_xlabel(name)
            axis.set_ylim(bottom=0)
        line[0].set_ylabel(f"{words}: ms a token")
    axes[0][0].legend(fontsize=8)
    save(plt, figure, "cost")


def plot():
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "flashnext", "axes.spines.top": False, "axes.spines.right": False, "font.size": 9})
    plot_peer(plt)
    plot_depth(plt)
    if load("cost"):
        plot_cost(plt)


def main():
    pages = [ROOT / "docs" / "performance.md", ROOT / "README.md"]
    if sys.argv[1:] == ["--check"]:
        stale = [str(page) for page in pages if filled(page) != page.read_text()]
        sys.exit(f"not what bench/results gives: {', '.join(stale)}" if stale else 0)
    plot()
    for page in pages:
        page.write_text(filled(page))


if __name__ == "__main__":
    main()
