"""The demo model, as a person meets it: ./run chat."""
import json
import random
import select
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from conftest import DATA, ROOT
import tensor_files

DEMO = ROOT / "models" / "demo"
GOLDENS = DATA / "demo"

pytestmark = pytest.mark.skipif(not (DEMO / "model.safetensors.index.json").exists(), reason="models/demo has no weights")


def definitions():
    return [line.split("\t") for line in (DEMO / "definitions.tsv").read_text().splitlines()]


def question(word):  # as the model was asked most often in training
    return f"What is a {word}?"


def chat(prompt, *options):
    return subprocess.run([ROOT / "run", "chat", "--prompt", prompt, "--temp", "0", *options], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60)


def test_definitions_come_back_word_for_word(flashnext):
    drawn = random.Random(20).sample(definitions(), 200)
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda entry: chat(question(entry[0]), "-t", "1"), drawn))
    assert all(answer.returncode == 0 for answer in answers)
    wrong = [(word, gloss, a.stdout) for (word, gloss), a in zip(drawn, answers) if a.stdout.strip() != gloss]
    assert len(wrong) <= 10, f"{200 - len(wrong)} of 200; for one: {wrong[0]}"


def test_first_text_within_a_second():
    taken = []
    for _ in range(3):  # the machine may be busy once
        started = time.monotonic()
        process = subprocess.Popen([ROOT / "run", "chat", "--prompt", "What is a lighthouse?", "--temp", "0"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        ready, _, _ = select.select([process.stdout], [], [], 30)
        taken.append(time.monotonic() - started)
        process.communicate()
        assert ready and process.returncode == 0
    assert min(taken) < 1.0, taken


def test_answer_alone_on_standard_output(flashnext):
    done = chat("What is a telescope?")
    thought_apart = chat("What is a telescope?", "--think", "off")
    assert done.returncode == thought_apart.returncode == 0
    assert done.stdout.strip() == thought_apart.stdout.strip() == dict(definitions())["telescope"]
    assert "<think>" not in done.stdout and "</think>" not in done.stdout and "<|im_end|>" not in done.stdout
    assert "telescope" in done.stderr  # the thought, "The word is telescope.", goes to standard error


def test_prompt_from_a_pipe_equals_prompt_option(flashnext):
    piped = flashnext.ok("chat", "--model-dir", DEMO, "--temp", 0, stdin="What is a canoe?\n")
    assert piped == flashnext.ok("chat", "--model-dir", DEMO, "--temp", 0, "--prompt", "What is a canoe?")


def test_unknown_words_are_refused(flashnext):
    assert "do not know" in chat("What is a blorptangle?").stdout


def test_one_seed_one_text(flashnext):
    command = ["chat", "--model-dir", DEMO, "--prompt", "Tell me something.", "--temp", 1.5, "--top-k", 0, "--top-p", 1,
               "--new-tokens", 30, "--seed"]
    texts = [flashnext.ok(*command, seed) for seed in (1, 1, 2, 3)]
    assert texts[0] == texts[1]
    assert len(set(texts)) > 1


def goldens(name):
    path = GOLDENS / name
    if not path.exists():
        pytest.skip("no official values of this model")
    return path


def test_logits_are_the_official_ones(flashnext, tmp_path):
    want = tensor_files.read(goldens("golden.safetensors"))
    limits = json.loads(goldens("case.json").read_text())["tolerances"]
    for name in sorted({key.partition(".")[0] for key in want}):
        ids, at, logits = (want[f"{name}.{part}"] for part in ("ids", "positions", "logits"))
        (tmp_path / "ids.json").write_text(json.dumps([ids.tolist()]))
        flashnext.ok("logits", "--model-dir", DEMO, "--ids-file", tmp_path / "ids.json", "--out", tmp_path / "got.safetensors")
        got = tensor_files.read(tmp_path / "got.safetensors")["logits"][0]
        allowed = 0.3 * (limits["float_absolute"] + limits["float_relative"] * np.abs(logits))
        worst = np.max(np.abs(got[at] - logits) / allowed)
        assert worst <= 1, f"{name}: {worst:.2f} times what is allowed"
        assert np.array_equal(got.argmax(-1), want[f"{name}.top"]), name
        shifted = got[:-1].astype(np.float64) - got[:-1].max(-1, keepdims=True)
        nll = np.log(np.exp(shifted).sum(-1)) - shifted[np.arange(len(ids) - 1), ids[1:]]
        np.testing.assert_allclose(nll, want[f"{name}.nll"], atol=1e-3, err_msg=name)


def test_greedy_texts_are_the_official_ones(flashnext, tmp_path):
    cases = json.loads(goldens("greedy.json").read_text())
    asked = [dict(messages=c["messages"], kwargs=dict(enable_thinking=c["thinking"]), **(dict(tools=c["tools"]) if c["tools"] else {}))
             for c in cases]
    rendered = flashnext.json("tokenize", "--chat", "--json", "--model-dir", DEMO, stdin=json.dumps(asked))
    for case, prompt in zip(cases, rendered, strict=True):
        assert prompt["ids"] == case["ids"]
        (tmp_path / "ids.json").write_text(json.dumps(case["ids"]))
        got = flashnext.json("run", "--model-dir", DEMO, "--ids-file", tmp_path / "ids.json", "--new-tokens", len(case["new_ids"]),
                             "--temp", 0, "--precision", "exact", "--ignore-eos", "--json")
        assert got["ids"] == case["new_ids"], case["answer"]
