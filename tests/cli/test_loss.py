"""What the program must not lose or ignore: files it is pointed at, and signals."""
import json
import os
import signal
import stat
import subprocess
import time

import pytest

from conftest import DATA, ROOT

DEMO = ROOT / "models" / "demo"
MINI = DATA / "mini-f32" / "checkpoint"
pytestmark = pytest.mark.skipif(not (DEMO / "model.safetensors.index.json").exists(), reason="models/demo has no weights")


def ids_file(tmp_path):
    path = tmp_path / "ids.json"
    path.write_text("[1, 2, 3, 4, 5]")
    return path


@pytest.mark.parametrize("command", [["logits", "--out"], ["perplexity", "--save-reference"]], ids=["logits", "perplexity"])
def test_pipes_and_links_are_not_replaced(command, flashnext, tmp_path):
    fifo, target, link = tmp_path / "fifo", tmp_path / "target", tmp_path / "link"
    os.mkfifo(fifo)
    target.write_text("old")
    link.symlink_to(target)
    options = ["--model-dir", MINI, "--ids-file", ids_file(tmp_path)]
    refused = flashnext.run(command[0], *options, command[1], fifo)
    assert refused.returncode == 1 and "not a regular file" in refused.stderr
    assert stat.S_ISFIFO(os.lstat(fifo).st_mode)
    flashnext.ok(command[0], *options, command[1], link)
    assert link.is_symlink() and target.stat().st_size > 100


def test_a_reference_may_be_replaced_by_the_run_that_reads_it(flashnext, tmp_path):
    options = ["perplexity", "--model-dir", MINI, "--ids-file", ids_file(tmp_path)]
    kept = tmp_path / "reference"
    flashnext.ok(*options, "--save-reference", kept)
    before = kept.read_bytes()
    result = json.loads(flashnext.ok(*options, "--reference", kept, "--save-reference", kept, "--json"))
    assert result["kl"] == 0 and kept.read_bytes() == before


@pytest.mark.parametrize("damage,word", [(lambda b: b[:48] + b"\xff" * 4 + b[52:], "not finite"), (lambda b: b + b, "bytes follow"),
                                         (lambda b: b[:-4], "ends early")], ids=["nan", "twice", "cut"])
def test_damaged_references_are_refused(damage, word, flashnext, tmp_path):
    options = ["perplexity", "--model-dir", MINI, "--ids-file", ids_file(tmp_path)]
    kept = tmp_path / "reference"
    flashnext.ok(*options, "--save-reference", kept)
    kept.write_bytes(damage(kept.read_bytes()))
    done = flashnext.run(*options, "--reference", kept, "--json")
    assert done.returncode == 3 and word in done.stderr and done.stdout == ""


@pytest.mark.parametrize("command", ["chat", "run"])
@pytest.mark.parametrize("number,code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"])
@pytest.mark.parametrize("first", [b"", b"hi"], ids=["nothing read", "something read"])
def test_signals_end_the_reading_of_input(command, number, code, first, flashnext):
    process = subprocess.Popen([flashnext.path, command, "--model-dir", DEMO], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.stdin.write(first)
    process.stdin.flush()
    time.sleep(0.5)
    process.send_signal(number)
    assert process.wait(timeout=10) == code
    process.stdin.close()
    assert process.stdout.read() == b""


def test_ctrl_c_in_a_long_prompt_does_not_wait_for_the_chunk(flashnext):
    def start():
        process = subprocess.Popen([flashnext.path, "run", "--model-dir", DEMO, "--isa", "ref", "-t", "1", "--chunk", "4000", "-n", "1"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdin.write(b"what is a lighthouse and a bridge? " * 50)
        process.stdin.close()
        return process, time.monotonic()

    process, begun = start()
    assert process.wait(timeout=100) == 0
    whole = time.monotonic() - begun  # one chunk, nearly all of it
    process, begun = start()
    time.sleep(whole * 0.2)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=100) == 130
    assert time.monotonic() - begun < whole * 0.7
