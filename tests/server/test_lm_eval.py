"""lm-eval itself, against the server: a multiple choice and the perplexity of texts, from files of ours, give the numbers that the
official implementation gives (tests/data/demo/lm_eval.json, by tools/demo_golden.py). Nothing is fetched."""
import json
import os
import subprocess

import pytest

from conftest import DATA, ROOT
from serving import DEMO, serving

PROGRAM = os.environ.get("FLASHNEXT_LM_EVAL", ROOT / "build" / "venv-lm-eval" / "bin" / "lm_eval")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not os.path.exists(PROGRAM), reason="lm-eval is not installed"),
              pytest.mark.skipif(not (DEMO / "model.safetensors.index.json").exists(), reason="models/demo has no weights")]


def evaluate(server, folder, **arguments):
    """The results file, and each document's answers by task."""
    values = {"model": "demo", "base_url": f"{server.url}/v1/completions", "num_concurrent": 4, "max_retries": 1, "max_length": 4096, **arguments}
    done = subprocess.run([PROGRAM, "run", "--model", "local-completions", "--model_args", ",".join(f"{k}={v}" for k, v in values.items()), "--tasks",
                           "demo_words,demo_talk", "--include_path", DATA / "lm_eval", "--output_path", folder, "--log_samples"], cwd=DATA / "lm_eval",
                          capture_output=True, text=True, timeout=280,
                          env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "home")})
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads(next(folder.rglob("results_*.json")).read_text())["results"]
    samples = {}
    for task in ("demo_words", "demo_talk"):
        lines = [json.loads(line) for line in next(folder.rglob(f"samples_{task}_*.jsonl")).read_text().splitlines()]
        samples[task] = sorted(lines, key=lambda line: line["doc_id"])
    return results, samples


def test_the_numbers_of_the_official_implementation(flashnext, tmp_path):
    golden = json.loads((DATA / "demo" / "lm_eval.json").read_text())
    with serving(flashnext, "--precision", "exact") as server:
        results, samples = evaluate(server, tmp_path)
    worst = 0
    for expected, sample in zip(golden["words"], samples["demo_words"], strict=True):
        found = [float(answer[0][0]) for answer in sample["resps"]]
        worst = max([worst, *(abs(a - b) for a, b in zip(found, expected, strict=True))])
    for expected, sample in zip(golden["talk"], samples["demo_talk"], strict=True):
        worst = max(worst, abs(float(sample["resps"][0][0]) - expected) / 10)  # a sum over hundreds of tokens
    print("largest difference of a log-likelihood:", worst, results)
    assert worst < 1e-3
    for task, name in (("demo_words", "acc"), ("demo_words", "acc_norm"), ("demo_talk", "bits_per_byte")):
        assert results[task][f"{name},none"] == pytest.approx(golden[name], abs=1e-5), (task, name)
    assert golden["acc"] > 0.5  # chance is a quarter: the task says something about the model
