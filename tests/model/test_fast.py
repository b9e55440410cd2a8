"""The fast precision against the official values and against exact."""
import json
import random

import numpy as np
import pytest

from conftest import DATA, ROOT
import tensor_files

DEMO = ROOT / "models" / "demo"
CASES = sorted(folder.name for folder in DATA.glob("mini-*") if (folder / "golden.safetensors").exists())
BEYOND_WEIGHTS = 0.0005  # nats that INT8 and BF16 inputs and BF16 keys may cost on top of what the weights cost


@pytest.mark.parametrize("name", CASES)
def test_official_logits_within_five_percent(name, flashnext, tmp_path):
    """Root mean square of the error, against that of the official float32 logits: tiny random models, whose router
    and indexer choose by scores that lie close together, so that rounding sometimes changes the choice. Exact
    precision is a thousand times nearer (test_goldens.py)."""
    golden = tensor_files.read(DATA / name / "golden.safetensors")
    ids = tmp_path / "ids.json"
    ids.write_text(json.dumps(golden["ids"].tolist()))
    flashnext.ok("logits", "--model-dir", DATA / name / "checkpoint", "--ids-file", ids, "--precision", "fast",
                 "--out", tmp_path / "out.safetensors")
    want = golden["logits"].astype(np.float64)
    error = tensor_files.read(tmp_path / "out.safetensors")["logits"] - want
    assert np.sqrt(np.mean(error ** 2) / np.mean(want ** 2)) < 0.05


@pytest.fixture(scope="module")
def conversations(flashnext, tmp_path_factory):
    """Ids of 240 questions with their answers: text as the demo model knows it."""
    entries = [line.split("\t") for line in (DEMO / "definitions.tsv").read_text().splitlines()]
    requests = [{"messages": [{"role": "user", "content": f"What is a {word}?"}, {"role": "assistant", "content": gloss}],
                 "kwargs": {}, "add_generation_prompt": False} for word, gloss in random.Random(1).sample(entries, 240)]
    answers = json.loads(flashnext.ok("tokenize", "--chat", "--json", "-m", DEMO, stdin=json.dumps(requests)))
    path = tmp_path_factory.mktemp("fast") / "ids.json"
    path.write_text(json.dumps([i for answer in answers for i in answer["ids"]]))
    return path


@pytest.mark.skipif(not (DEMO / "model.safetensors.index.json").exists(), reason="models/demo has no weights")
@pytest.mark.parametrize("bits", [(), ("--dense-bits", 8, "--expert-bits", 8), ("--dense-bits", 8, "--expert-bits", 4)])
def test_fast_costs_little_beyond_the_weights(bits, flashnext, conversations):
    reference = conversations.with_suffix(".reference")
    text = ("perplexity", "-m", DEMO, "--ids-file", conversations, "--json")
    if not reference.exists():  # the weights as stored, in exact precision
        flashnext.ok(*text, "--precision", "exact", "--save-reference", reference)
    exact, fast = (flashnext.json(*text, "--reference", reference, "--precision", precision, *bits)
                   for precision in ("exact", "fast"))
    print(f"{bits}: KL {exact['kl']:.6f} in exact, {fast['kl']:.6f} in fast precision")
    assert fast["positions"] > 7000
    assert fast["kl"] - exact["kl"] <= BEYOND_WEIGHTS
