"""The memory plan is kept: what the process really takes, limits, and refusals."""
import json
import re
import subprocess
import sys

import pytest

from conftest import DATA, ROOT
from peak import measured

DEMO = ROOT / "models" / "demo"
MINI = DATA / "mini-f32" / "checkpoint"
LAYER_EXPERTS = 64 * 3 * 768 * 384 * 2  # of tests/support/random_checkpoint.py in BF16


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """514 MiB of random weights: a program's own few megabytes do not matter."""
    folder = tmp_path_factory.mktemp("random")
    subprocess.run([sys.executable, ROOT / "tests" / "support" / "random_checkpoint.py", folder], check=True)
    yield folder
    (folder / "model.safetensors").unlink()


SETTINGS = [["--expert-bits", 4], ["--expert-bits", 8, "--dense-bits", 8, "--ngram-mmap"],
            pytest.param([], marks=pytest.mark.slow), pytest.param(["--expert-bits", 8, "--ngram-ram"], marks=pytest.mark.slow),
            pytest.param(["--expert-bits", 4, "--dense-bits", 4, "--group-size", 32, "--chunk", 128], marks=pytest.mark.slow)]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: "-".join(map(str, s)).replace("--", "") or "as-stored")
def test_the_process_takes_what_the_plan_says(settings, checkpoint, flashnext, tmp_path):
    """Loading included: weights are narrowed as they are read, so there is no peak above the plan's total. The prompt fills
    the context, for memory that is reserved and not yet used does not count as resident."""
    (tmp_path / "ids.json").write_text(json.dumps([i % 6000 for i in range(700)]))
    options = ["--model-dir", checkpoint, "--context", 704, *settings]
    planned = flashnext.json("plan", *options, "--json")["exact"]["resident"]
    _, _, peak = measured(flashnext, "run", *options, "--ids-file", tmp_path / "ids.json", "-n", 1, "--json", "-t", 2)
    assert abs(peak / planned - 1) <= 0.05, f"plan {planned / 2**20:.1f} MiB, VmHWM {peak / 2**20:.1f} MiB"
    assert peak <= 1.05 * planned + LAYER_EXPERTS


def test_a_limit_that_suffices_is_taken_and_one_byte_less_refused(flashnext, tmp_path):
    (tmp_path / "ids.json").write_text("[1, 2, 3]")
    options = ["--model-dir", MINI, "--context", 64, "-t", 1]
    need = flashnext.json("plan", "--model-dir", MINI, "--context", 64, "--json")
    run = ["run", *options, "--ids-file", tmp_path / "ids.json", "-n", 1, "--ngram-mmap", "--mem-limit"]
    table = next(c for c in need["exact"]["classes"] if c["name"] == "ngram_table")
    need = need["exact"]["resident"] - table["weights"]
    slack = 1 << 20  # scratch follows the number of threads
    assert flashnext.run(*run, need + slack).returncode == 0
    refused = flashnext.run(*run, need - slack)
    assert refused.returncode == 4 and refused.stdout == ""
    assert "routed experts" in refused.stderr and "scratch" in refused.stderr


def test_a_small_limit_is_shown_in_bytes(flashnext):
    assert "the limit is 512 bytes" in flashnext.run("run", "--model-dir", MINI, "--prompt", "x", "--mem-limit", "512").stderr


@pytest.mark.parametrize("told", [False, True], ids=["by the plan", "by the allocation"])
def test_too_little_address_space_is_no_partial_run(told, checkpoint, flashnext, tmp_path):
    """`ulimit -v` below the weights: seen by the plan; where --mem-limit promises more, by the allocation."""
    (tmp_path / "ids.json").write_text("[1, 2, 3]")
    command = [flashnext.path, "run", "--model-dir", checkpoint, "--ids-file", tmp_path / "ids.json", "-n", "1", "--context", "64", "-t", "2"]
    command += ["--mem-limit", "8GiB"] if told else []
    done = subprocess.run(["sh", "-c", 'ulimit -v 300000; exec "$0" "$@"', *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 4 and done.stdout == ""
    assert ("out of memory" if told else "available are") in done.stderr


def test_quantising_is_announced_with_the_command_that_spares_it(flashnext):
    ask = ["chat", "--model-dir", DEMO, "--prompt", "What is a canoe?", "--think", "off", "--temp", 0]
    said = flashnext.run(*ask, "--expert-bits", 4, "--group-size", 64).stderr
    assert re.search(r"quantising 0\.0\d GB while loading takes about \d+\.\d s", said)
    assert f"flashnext quantize --model-dir {DEMO} --expert-bits 4 --group-size 64 --out" in said
    for quiet in (["--expert-bits", 4, "-q"], ["--expert-bits", 16], []):
        assert "quantising" not in flashnext.run(*ask, *quiet).stderr
