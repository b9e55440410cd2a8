"""Drafting on the demo model: the text of plain decoding from every drafter, and how much of what they guess holds."""
import json
import random

import pytest

from conftest import ROOT

DEMO, DRAFT = ROOT / "models" / "demo", ROOT / "models" / "demo-draft"
DRAFTERS = {"mtp": ("--draft", "mtp"), "lookup": ("--draft", "lookup"), "model": ("--draft-model", DRAFT)}
NEVER_SEEN = ("Give me the definition of {}.", "Can you define {}?", "Tell me the meaning of {}.", "What is meant by {}?")

pytestmark = pytest.mark.skipif(not (DEMO / "model.safetensors.index.json").exists(), reason="models/demo has no weights")


@pytest.fixture(scope="module")
def prompts(flashnext):
    """Ids of questions in phrasings that the models were not trained on."""
    words = [line.split("\t")[0] for line in (DEMO / "definitions.tsv").read_text().splitlines()]
    drawn = random.Random(5).sample(words, 200)
    asked = [dict(messages=[dict(role="user", content=NEVER_SEEN[i % 4].format(word))],
                  kwargs=dict(enable_thinking=i % 2 == 0)) for i, word in enumerate(drawn)]
    made = json.loads(flashnext.ok("tokenize", "--model-dir", DEMO, "--chat", "--json", stdin=json.dumps(asked)))
    return [entry["ids"] for entry in made]


def answer(flashnext, folder, prompt, *options):
    (folder / "ids.json").write_text(json.dumps(prompt))
    return flashnext.json("run", "--model-dir", DEMO, "--ids-file", folder / "ids.json", "-t", 2, "--context", 512, "--json",
                          *options)


def compare(flashnext, folder, prompts):
    for i, prompt in enumerate(prompts):
        how = ["-n", 64, "--ignore-eos", "--temp", i % 2, "--seed", i]
        how += ["--presence-penalty", 1.5, "--repeat-penalty", 1.1] if i % 4 == 3 else []
        plain = answer(flashnext, folder, prompt, *how, "--draft", "off")
        for name, drafter in DRAFTERS.items():
            fixed = ["--draft-fixed"] if i // 6 % 2 else []
            got = answer(flashnext, folder, prompt, *how, *drafter, "--draft-tokens", i % 6 + 1, *fixed)
            assert got["ids"] == plain["ids"], (name, i)
            assert got["drafting"]["drafter"] == name
            assert got["drafting"]["passes"] + got["drafting"]["accepted"] == 64


def test_texts_are_those_of_plain_decoding(flashnext, tmp_path, prompts):
    compare(flashnext, tmp_path, prompts[:20])


@pytest.mark.slow
def test_two_hundred_texts_are_those_of_plain_decoding(flashnext, tmp_path, prompts):
    compare(flashnext, tmp_path, prompts)


def shares(flashnext, folder, prompts, drafter, tokens=3):
    """Share accepted at each place, and ids a pass, over whole answers at temperature 0."""
    drafted, accepted, ids, passes = [0] * tokens, [0] * tokens, 0, 0
    for prompt in prompts:
        got = answer(flashnext, folder, prompt, "--temp", 0, *DRAFTERS[drafter], "--draft-tokens", tokens, "--draft-fixed")
        for i, place in enumerate(got["drafting"]["positions"]):
            drafted[i] += place["drafted"]
            accepted[i] += place["accepted"]
        ids, passes = ids + len(got["ids"]), passes + got["drafting"]["passes"]
    return [a / max(d, 1) for a, d in zip(accepted, drafted)], ids / passes


def test_first_guesses_of_the_head_hold(flashnext, tmp_path, prompts):
    places, a_pass = shares(flashnext, tmp_path, prompts[:40], "mtp")
    assert places[0] >= 0.8, places
    assert places[0] >= places[1] >= places[2] and a_pass > 2
