"""What stands beside the weights of a checkpoint: tokenizer.json, generation_config.json, the template.

The demo model's text files are linked beside its weights and one of them is replaced.
"""
import json

import pytest

from conftest import ROOT

DEMO = ROOT / "models" / "demo"
pytestmark = pytest.mark.skipif(not (DEMO / "model.safetensors.index.json").exists(), reason="models/demo has no weights")


@pytest.fixture
def model(tmp_path):
    """A function that gives a demo model with one file's content replaced."""
    def make(name, text):
        folder = tmp_path / "model"
        folder.mkdir()
        for file in DEMO.iterdir():
            if file.name != name:
                (folder / file.name).symlink_to(file)
        (folder / name).write_text(text)
        return folder
    return make


def generation(**keys):
    return json.dumps(json.loads((DEMO / "generation_config.json").read_text()) | {"do_sample": True} | keys)


@pytest.mark.parametrize("key,value", [("top_p", 2), ("top_p", 0), ("temperature", -1), ("min_p", 5), ("top_k", 1.5), ("top_k", -7), ("top_k", "40"),
                                       ("repetition_penalty", 0), ("do_sample", "yes"), ("eos_token_id", 10**6), ("eos_token_id", "x"),
                                       ("eos_token_id", list(range(65)))])
def test_a_bad_generation_default_names_the_file_and_the_key(key, value, model, flashnext):
    folder = model("generation_config.json", generation(**{key: value}))
    done = flashnext.run("chat", "-m", folder, "-p", "What is a dog?")
    assert done.returncode == 3 and key in done.stderr and str(folder) in done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""


def test_minus_one_turns_top_k_off(model, flashnext):
    folder = model("generation_config.json", generation(top_k=-1))
    flashnext.ok("chat", "-m", folder, "-p", "What is a dog?", "-n", 1)


def test_the_repetition_penalty_counts_in_greedy_decoding_too(model, flashnext):
    """As in transformers, where do_sample turns off the filters only."""
    folder = model("generation_config.json", json.dumps({"do_sample": False, "repetition_penalty": 1.7, "temperature": 0.9}))
    ask = ["run", "-p", "a a a a a a", "-n", 12, "--ignore-eos", "--json", "-m"]
    by_file = flashnext.json(*ask, folder)["ids"]
    assert by_file == flashnext.json(*ask, DEMO, "--temp", 0, "--repeat-penalty", 1.7)["ids"]
    assert by_file != flashnext.json(*ask, DEMO, "--temp", 0, "--repeat-penalty", 1)["ids"]


def test_a_tokenizer_of_another_kind_is_a_bad_model_file(model, flashnext):
    tokenizer = json.loads((DEMO / "tokenizer.json").read_text())
    tokenizer["model"]["type"] = "Unigram"
    folder = model("tokenizer.json", json.dumps(tokenizer))
    done = flashnext.run("chat", "-m", folder, "-p", "x")
    assert done.returncode == 3 and "Unigram" in done.stderr and "tokenizer.json" in done.stderr


def test_a_tokenizer_with_more_ids_than_the_model(model, flashnext):
    tokenizer = json.loads((DEMO / "tokenizer.json").read_text())
    vocab = json.loads((DEMO / "config.json").read_text())["text_config"]["vocab_size"]
    first = max(t["id"] for t in tokenizer["added_tokens"]) + 1
    plain = {"special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
    tokenizer["added_tokens"] += [{"id": i, "content": f"<|more {i}|>"} | plain for i in range(first, vocab + 1)]
    folder = model("tokenizer.json", json.dumps(tokenizer))
    done = flashnext.run("chat", "-m", folder, "-p", "x")
    assert done.returncode == 3 and "vocab_size" in done.stderr and "tokenizer.json" in done.stderr


def test_an_error_while_a_template_runs_names_the_line(model, flashnext):
    folder = model("chat_template.jinja", "a\nb {{ messages[0].content + 1 }}\n")
    done = flashnext.run("chat", "-m", folder, "-p", "x")
    assert done.returncode == 1 and "line 2" in done.stderr


def test_what_a_template_raises_is_said_in_its_own_words(model, flashnext):
    folder = model("chat_template.jinja", "{{ raise_exception('not like this') }}")
    done = flashnext.run("chat", "-m", folder, "-p", "x")
    assert done.returncode == 1 and done.stderr == "flashnext: not like this\n"


def test_a_template_that_makes_nothing_is_not_the_users_fault(model, flashnext):
    done = flashnext.run("chat", "-m", model("chat_template.jinja", ""), "-p", "x")
    assert done.returncode == 1 and "template" in done.stderr


def test_template_variables_cannot_replace_the_conversation(flashnext):
    done = flashnext.run("chat", "-m", DEMO, "-p", "x", "--chat-template-kwargs", '{"messages": []}')
    assert done.returncode == 2 and "messages" in done.stderr
