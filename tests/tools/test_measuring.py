"""The scripts of bench/: turns are taken in order, figures are medians of what was printed."""
import json
import subprocess
import sys

import pytest

from conftest import ROOT

BENCH = ROOT / "bench"
sys.path.insert(0, str(BENCH))
DEMO = ROOT / "models" / "demo"

# Prints like llama-bench and llama-batched-bench, and notes when it was asked to measure.
PEER = """#!{python}
import json, sys, time
def option(name):
    return sys.argv[sys.argv.index(name) + 1]
log = open({log!r}, "a")
rate = 0
if "-npl" in sys.argv:
    for n in option("-npl").split(","):
        rate += 1
        print(json.dumps(dict(pl=int(n), speed_tg=rate)), flush=True)
        time.sleep(0.2)
else:
    tests = [("pp", int(n)) for n in option("-p").split(",")] + [("tg", int(n)) for n in option("-n").split(",")]
    for kind, n in tests:
        if n > 0:
            rate += 1
            log.write(f"{{kind}}{{n}}\\n")
            log.flush()
            print(json.dumps(dict(avg_ts=rate, build_commit="c0ffee", model_type="fake", n_ubatch=512)), flush=True)
            time.sleep(0.2)
"""


@pytest.fixture
def peer(tmp_path):
    folder = tmp_path / "peer"
    folder.mkdir()
    for name in ("llama-bench", "llama-batched-bench"):
        (folder / name).write_text(PEER.format(python=sys.executable, log=str(tmp_path / "log")))
        (folder / name).chmod(0o755)
    return folder


def script(name, *words):
    done = subprocess.run([sys.executable, BENCH / name, *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def test_both_take_turns_and_medians_are_compared(flashnext, peer, tmp_path):
    out = tmp_path / "out.json"
    done = script("compare_llama_cpp.py", "--flashnext", flashnext.path, "--model-dir", DEMO, "--peer-dir", peer,
                  "--gguf", "fake.gguf", "--cases", "tg3,pp7,pp7@9,tg2x3@5", "--own-cases", "tg3@9", "--rounds", 3,
                  "--threads", 1, "--name", "fake", "--out", out)
    turns = [line.split(":")[0] for line in done.stderr.splitlines()]
    assert turns == [f"{case} round {i}" for cases in (["pp7", "pp7@9"], ["tg2x3@5"], ["tg3", "tg3@9"])
                     for i in (1, 2, 3) for case in cases]
    whole = json.loads(out.read_text())
    results = {r["case"]: r for r in whole["results"]}
    assert results["pp7"]["peer"] == [1, 2, 3] and results["tg3"]["peer"] == [1, 2, 3]
    assert results["tg2x3@5"]["peer_median"] == 2 and results["tg3@9"]["peer"] == []
    for r in results.values():
        assert len(r["ours"]) == 3 and r["ours_median"] == sorted(r["ours"])[1]
        if r["peer"]:
            assert r["ratio"] == pytest.approx(r["ours_median"] / r["peer_median"])
    assert whole["peer"]["commit"] == "c0ffee" and whole["ours"]["version"].startswith("flashnext")
    assert str(ROOT) not in out.read_text()


def test_a_case_that_is_measured_again_replaces_the_older_figure(flashnext, peer, tmp_path):
    out = tmp_path / "out.json"
    words = ("--flashnext", flashnext.path, "--model-dir", DEMO, "--peer-dir", peer, "--gguf", "fake.gguf", "--rounds", 1,
             "--threads", 1, "--name", "fake", "--out", out)
    script("compare_llama_cpp.py", *words, "--cases", "pp7,tg2")
    script("compare_llama_cpp.py", *words, "--cases", "tg2")
    assert [r["case"] for r in json.loads(out.read_text())["results"]] == ["pp7", "tg2"]


def test_a_case_that_was_stopped_goes_on(flashnext, peer, tmp_path):
    out = tmp_path / "out.json"
    words = ("--flashnext", flashnext.path, "--model-dir", DEMO, "--peer-dir", peer, "--gguf", "fake.gguf", "--threads", 1,
             "--name", "fake", "--out", out, "--cases", "pp7")
    script("compare_llama_cpp.py", *words, "--rounds", 2)
    first = json.loads(out.read_text())["results"][0]
    script("compare_llama_cpp.py", *words, "--rounds", 3)
    whole = json.loads(out.read_text())["results"]
    assert len(whole) == 1 and whole[0]["ours"][:2] == first["ours"] and len(whole[0]["ours"]) == whole[0]["rounds"] == 3


def test_variants_take_turns(flashnext, tmp_path):
    out = tmp_path / "out.json"
    done = script("turns.py", "--flashnext", flashnext.path, "--tests", "pp9,tg2", "--rounds", 2, "--name", "n", "--out", out,
                  "--side", f"one=--model-dir {DEMO} -t 1", "--side", f"two=--model-dir {DEMO} -t 1 -d 6")
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == [
        f"{test} round {i} {side}" for test in ("pp9", "tg2") for i in (1, 2) for side in ("one", "two")]
    results = json.loads(out.read_text())["results"]
    assert [(r["side"], r["test"], r["depth"]) for r in results] == [
        ("one", "pp9", 0), ("two", "pp9", 6), ("one", "tg2", 0), ("two", "tg2", 6)]
    assert results[0]["ratio"] == 1 and results[3]["ratio"] == pytest.approx(results[3]["median"] / results[2]["median"])
    assert str(ROOT) not in out.read_text()


def test_random_checkpoints_are_accepted(flashnext, tmp_path):
    pytest.importorskip("numpy")
    folder = tmp_path / "random"
    script("random_checkpoint.py", folder, "--hidden", 640, "--layers", 4, "--experts", 4, "--chosen", 2, "--vocab", 1000)
    got = flashnext.json("bench", "--model-dir", folder, "-t", 1, "-r", 1, "-p", 4, "-n", 2, "-o", "json")
    assert [r["test"] for r in got["results"]] == ["pp4", "tg2"]


def test_one_series_joins_what_was_measured_of_the_others(tmp_path):
    cost = pytest.importorskip("cost", reason="needs numpy")
    out = tmp_path / "cost.json"
    out.write_text(json.dumps({"results": [{"side": side, "test": test, "run": 1} for test in ("tg32", "pp512")
                                           for side in ("base", "layers 4", "hidden 1280", "depth 2048")]}))
    found = cost.merged(out, [{"side": side, "test": "tg32", "run": 2} for side in ("base", "hidden 1280", "hidden 1920")])
    assert [(r["test"], r["side"], r["run"]) for r in found] == [
        ("tg32", "base", 2), ("tg32", "layers 4", 1), ("tg32", "hidden 1280", 2), ("tg32", "hidden 1920", 2), ("tg32", "depth 2048", 1),
        ("pp512", "base", 1), ("pp512", "layers 4", 1), ("pp512", "hidden 1280", 1), ("pp512", "depth 2048", 1)]


def test_plan_is_bytes_over_bandwidth_and_operations_over_peaks():
    cost = pytest.importorskip("cost", reason="needs numpy")
    limits = {"read_bytes_per_second": 50e9, "int8_operations_per_second": 2e12, "bf16_operations_per_second": 1e12,
              "f32_operations_per_second": 5e11}
    work = {"int8_operations": 4e12, "bf16_operations": 1e12, "f32_operations": 5e11}
    assert cost.planned_seconds("tg32", 1e9, work, limits, cost.beside_of("tg32", cost.BASE)) == pytest.approx(0.02)
    beside = {"f32_operations": 1e12, "bf16_operations": 5e11, "row_bytes": 25e9}
    assert cost.planned_seconds("pp512", 1e9, work, limits, beside) == pytest.approx((4 + 2 + 0.5 + 0.5) / 512)


def test_a_prompt_needs_more_than_its_matrices():
    """Counted by hand for the published width, eight layers of which two attend."""
    cost = pytest.importorskip("cost", reason="needs numpy")
    beside = cost.beside_of("pp512", {"hidden": 2560, "layers": 8, "experts": 24, "chosen": 10, "vocab": 102400})
    assert beside["f32_operations"] == 7 * 512 * 48 * 128 * 128 * 6  # 48 heads, their states read and written once an id
    assert beside["bf16_operations"] == 2 * 2 * 24 * 256 * 512 * 256 * 2  # 24 heads of 256, scores and values, half the keys
    assert beside["row_bytes"] == 512 * 8 * (2 * 2 * 4 * 2560 * 4 + 2 * 10 * 2560 * 4)


def test_the_tables_in_the_docs_are_what_was_measured():
    script("plots.py", "--check")
