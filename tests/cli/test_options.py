"""One table of options: help, environment, settings file, completion and manual page all speak of the same ones."""
import json
import re
import shutil
import subprocess

import pytest

from conftest import DATA, ROOT

MODEL = DATA / "mini-f32" / "checkpoint"
COMMANDS = ["chat", "run", "serve", "tokenize", "inspect", "plan", "logits", "verify", "perplexity", "bench", "quantize"]
OTHERS = ["help", "version", "completion", "man"]


def options_of(flashnext, command):
    """{long flag: its value's name or choices} from --help."""
    text = flashnext.ok(command, "--help")
    found = dict(re.findall(r"^  (?:-\w, |    )--([a-z-]+) ?(\S*)", text, re.M))
    return {name: value for name, value in found.items() if name not in ("help", "version")}


@pytest.fixture
def ids(tmp_path):
    path = tmp_path / "ids.json"
    path.write_text("[3, 1, 4, 1, 5]")
    return path


def new_ids(flashnext, ids, *options, **environment):
    got = flashnext.json("run", "--model-dir", MODEL, "--ids-file", ids, "--ignore-eos", "--json", *options, **environment)
    return got["ids"]


def test_help_lists_every_command(flashnext):
    for arguments in (["--help"], ["-h"], ["help"]):
        text = flashnext.ok(*arguments)
        assert re.findall(r"^  ([a-z]+) ", text, re.M) == COMMANDS + OTHERS
    assert flashnext.run().returncode == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_short_help_is_part_of_the_full_one(command, flashnext):
    full, short = flashnext.ok(command, "--help"), flashnext.ok(command, "-h")
    assert flashnext.ok("help", command) == full
    assert set(re.findall(r"--[a-z-]+", short)) <= set(re.findall(r"--[a-z-]+", full)) and len(short) < len(full)
    assert all(len(line) <= 100 for line in full.split("\n"))
    for code in ("0", "1", "2", "3", "4", "130", "143"):
        assert re.search(rf"^  {code} ", full, re.M)


@pytest.mark.parametrize("option", ["-n3", "--new-tokens=3", "--predict", "--n-predict", "--max-tokens"])
def test_aliases_mean_the_same(option, flashnext, ids):
    assert len(new_ids(flashnext, ids, option, *(["3"] if option.startswith("--") and "=" not in option else []))) == 3


def test_flag_beats_environment_beats_file(flashnext, ids, tmp_path):
    (tmp_path / "flashnext").mkdir()
    (tmp_path / "flashnext" / "config.ini").write_text("# lengths\nnew-tokens = 2\n[chat]\nnew-tokens = 9\n")
    home = dict(XDG_CONFIG_HOME=str(tmp_path))
    assert len(new_ids(flashnext, ids, **home)) == 2
    assert len(new_ids(flashnext, ids, FLASHNEXT_NEW_TOKENS="3", **home)) == 3
    assert len(new_ids(flashnext, ids, "-n", 4, FLASHNEXT_NEW_TOKENS="3", **home)) == 4
    other = tmp_path / "other.ini"
    other.write_text("[run]\nnew-tokens = 5\n")
    assert len(new_ids(flashnext, ids, "--config", other, **home)) == 5
    assert len(new_ids(flashnext, ids, FLASHNEXT_CONFIG=str(other))) == 5


def test_every_option_has_an_environment_variable(flashnext):
    for command in COMMANDS:
        for name, value in options_of(flashnext, command).items():
            if not re.fullmatch(r"N|X|SIZE|\w+(\|\w+)+", value):
                continue
            variable = "FLASHNEXT_" + name.upper().replace("-", "_")
            done = flashnext.run(command, **{variable: "certainly-wrong"})
            assert done.returncode == 2 and variable in done.stderr, done.stderr


@pytest.mark.parametrize("command,option,nearest", [
    ("run", "--tempp", "--temp"), ("run", "--new-token", "--new-tokens"), ("chat", "--systm", "--system"),
    ("verify", "--goldn", "--golden"), ("plan", "--expert-bit", "--expert-bits"), ("tokenize", "--jsn", "--json"),
    ("run", "--temprature", "--temperature"), ("logits", "--ids-fil", "--ids-file"),
])
def test_unknown_option_names_the_nearest(command, option, nearest, flashnext):
    done = flashnext.run(command, option, "1")
    assert done.returncode == 2 and f"did you mean {nearest}?" in done.stderr and done.stdout == ""


def test_options_of_other_commands_say_whose_they_are(flashnext):
    for option in ("--sequences", "--golden"):
        done = flashnext.run("chat", option, "4")
        assert done.returncode == 2 and "belongs to" in done.stderr


def test_what_the_program_says_names_options_that_exist(flashnext):
    """--a-name within a string literal of the program."""
    known = {"help", "version"}
    for command in COMMANDS:
        known |= set(re.findall(r"--([a-z-]+)", re.sub(r"(?s)\nExit codes.*", "", flashnext.ok(command, "--help"))))
    for path in sorted([*(ROOT / "apps").rglob("*.[ch]"), *(ROOT / "src").rglob("*.[ch]")]):
        if path.name == "option_table.h":  # where the help is from
            continue
        for literal in re.findall(r'"((?:[^"\\\n]|\\.)*)"', re.sub(r"(?s)/\*.*?\*/", "", path.read_text())):
            assert set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", literal)) <= known, (path.name, literal)


def test_unknown_command_names_the_nearest(flashnext):
    done = flashnext.run("tokenise")
    assert done.returncode == 2 and "tokenize" in done.stderr and done.stdout == ""


def test_version(flashnext):
    for arguments in (["--version"], ["version"], ["chat", "--version"]):
        first, *rest = flashnext.ok(*arguments).split("\n")
        assert re.match(r"flashnext \d+\.\d+\.\d+", first) and rest[0].startswith("build: ") and rest[1].startswith("cpu:")


def test_bash_completion_completes(flashnext, tmp_path):
    script = tmp_path / "flashnext.bash"
    script.write_text(flashnext.ok("completion", "bash"))

    def complete(*words):
        line = " ".join(words)
        command = (f"source {script}; COMP_WORDS=({line.replace(chr(34), '')}); [ -n '{words[-1]}' ] || COMP_WORDS+=('');"
                   f"COMP_CWORD={len(words) - 1}; _flashnext; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.split()

    assert complete("flashnext", "") == COMMANDS + OTHERS
    assert complete("flashnext", "ver") == ["verify", "version"]
    assert complete("flashnext", "run", "--isa", "a") == ["avx2", "avx512"]
    assert complete("flashnext", "chat", "--thi") == ["--think"]
    assert complete("flashnext", "completion", "") == ["bash", "zsh", "fish"]
    for command in COMMANDS:
        offered = complete("flashnext", command, "--")
        assert offered == [f"--{name}" for name in options_of(flashnext, command)] + ["--help"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_completions_name_every_option(shell, flashnext, tmp_path):
    script = flashnext.ok("completion", shell)
    for command in COMMANDS:
        for name in options_of(flashnext, command):
            assert name in script
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", tmp_path / "script"], check=True)


def test_completion_of_an_unknown_shell(flashnext):
    for arguments in (["completion"], ["completion", "tcsh"]):
        assert flashnext.run(*arguments).returncode == 2


def test_manual_page_names_every_option(flashnext):
    page = flashnext.ok("man")
    assert page.startswith(".TH FLASHNEXT 1 ")
    plain = page.replace("\\-", "-")
    for command in COMMANDS:
        for name in options_of(flashnext, command):
            assert f"\\fB--{name}\\fR" in plain
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=page, capture_output=True, text=True, check=True)
        assert done.stderr == "" and "EXIT STATUS" in re.sub(r".\x08|\x1b\[\d*m", "", done.stdout)


def test_drafting_and_timings_are_in_the_json(flashnext, ids):
    got = flashnext.json("run", "--model-dir", MODEL, "--ids-file", ids, "-n", 4, "--ignore-eos", "--json")
    assert set(got) >= {"text", "ids", "finish_reason", "timings", "drafting"}
    assert got["drafting"] == dict(drafter="none", drafted=0, accepted=0, positions=[], passes=4, tokens_per_pass=1.0,
                                   speed=got["drafting"]["speed"])
    assert got["timings"]["prompt_n"] == 5 and got["timings"]["predicted_n"] == 4
    assert got["text"] is None and got["finish_reason"] == "length" and len(got["ids"]) == 4


def test_ids_without_a_tokenizer_are_printed_as_ids(flashnext, ids):
    plain = json.loads(flashnext.ok("run", "--model-dir", MODEL, "--ids-file", ids, "-n", 4, "--ignore-eos"))
    assert plain == new_ids(flashnext, ids, "-n", 4)


def test_logprobs_agree_with_logits(flashnext, ids, tmp_path):
    import numpy as np
    import tensor_files
    out = tmp_path / "logprobs.jsonl"
    got = flashnext.json("run", "--model-dir", MODEL, "--ids-file", ids, "-n", 3, "--ignore-eos", "--json", "--logprobs", 4,
                             "--precision", "exact",
                         "--logprobs-out", out)
    assert [json.loads(line) for line in out.read_text().splitlines()] == got["logprobs"]
    whole = json.loads(ids.read_text()) + got["ids"]
    ids.write_text(json.dumps([whole]))
    flashnext.ok("logits", "--model-dir", MODEL, "--ids-file", ids, "--out", tmp_path / "l.safetensors")
    logits = tensor_files.read(tmp_path / "l.safetensors")["logits"][0].astype(np.float64)
    for step, entry in enumerate(got["logprobs"]):
        row = logits[4 + step]
        want = row - row.max() - np.log(np.exp(row - row.max()).sum())
        assert entry["id"] == got["ids"][step] == int(row.argmax()) and abs(entry["logprob"] - want[entry["id"]]) < 1e-5
        assert [top["id"] for top in entry["top"]] == np.argsort(-row, kind="stable")[:4].tolist()
        assert all(abs(top["logprob"] - want[top["id"]]) < 1e-5 for top in entry["top"])


def test_seed_is_told_and_repeats(flashnext, ids):
    sample = ["run", "--model-dir", MODEL, "--ids-file", ids, "-n", 12, "--ignore-eos", "--json", "--temp", 1]
    first = flashnext.json(*sample)
    assert flashnext.json(*sample, "--seed", first["seed"])["ids"] == first["ids"]
    assert flashnext.json(*sample)["seed"] != first["seed"]


def test_a_top_p_of_zero_is_the_likeliest_token(flashnext, ids):
    def text(*options):
        return flashnext.json("run", "--ids-file", ids, "--new-tokens", 12, "--json", *options)["ids"]

    assert text("--temp", 3, "--top-k", 0, "--top-p", 0, "--seed", 5) == text("--temp", 0)


def test_logit_bias_bans_and_forces(flashnext, ids):
    greedy = new_ids(flashnext, ids, "-n", 1)[0]
    assert new_ids(flashnext, ids, "-n", 1, "--logit-bias", f"{greedy}=-inf")[0] != greedy
    assert new_ids(flashnext, ids, "-n", 3, "--logit-bias", "77=+1000") == [77] * 3
    assert new_ids(flashnext, ids, "-n", 3, "--logit-bias", "77+1000") == [77] * 3
    for wrong in ("77", "77=x", "-3=+1", "99999=+1", "77=nan"):
        assert flashnext.run("run", "--model-dir", MODEL, "--ids-file", ids, "--logit-bias", wrong).returncode == 2
