"""What happens to prepared checkpoints: kills, full and failing disks, damage, files that shrink under the program."""
import filecmp
import json
import os
import pty
import random
import resource
import shutil
import signal
import subprocess
import time

import pytest

from conftest import DATA, ROOT
from digests import hash_bytes, signed

DEMO = ROOT / "models" / "demo"
MINI = DATA / "mini-bf16" / "checkpoint"
MIX = ("--expert-bits", 4, "--dense-bits", 8)
MANIFEST = "flashnext-prepared.json"
needs_demo = pytest.mark.skipif(not (DEMO / "model.safetensors.index.json").exists(), reason="models/demo has no weights")


@pytest.fixture(scope="session")
def shim(flashnext):
    path = flashnext.path.parent / "libfn_io_shim.so"
    if not path.exists():
        pytest.skip("this build has no input/output shim")
    return lambda **settings: {"LD_PRELOAD": str(path), **{f"IO_SHIM_{k.upper()}": str(v) for k, v in settings.items()}}


def same_folders(a, b):
    names = sorted(p.name for p in a.iterdir())
    assert names == sorted(p.name for p in b.iterdir())
    assert filecmp.cmpfiles(a, b, names, shallow=False)[1:] == ([], [])


def quantize(model, out, *options):
    return ["quantize", "--model-dir", model, "--out", out, *MIX, *options]


@pytest.fixture
def whole(flashnext, tmp_path):
    """The mini checkpoint, prepared without any trouble."""
    flashnext.ok(*quantize(MINI, tmp_path / "whole"))
    return tmp_path / "whole"


# ---- writing ---------------------------------------------------------------------------------------


@needs_demo
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_ten_times_and_resumed_is_the_same_byte_for_byte(seed, flashnext, shim, tmp_path):
    rng = random.Random(seed)
    flashnext.ok(*quantize(DEMO, tmp_path / "want", "--ngram", "int8"))
    environment = {**os.environ, **shim(slow=20000)}
    command = [flashnext.path, *map(str, quantize(DEMO, tmp_path / "got", "--ngram", "int8"))]
    killed = 0
    for _ in range(10):
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.01, 0.35))
        process.kill()
        killed += process.wait(timeout=60) == -signal.SIGKILL
        if not (tmp_path / "got" / MANIFEST).exists() and (tmp_path / "got").exists():
            done = flashnext.run("plan", "--model-dir", tmp_path / "got")
            assert done.returncode == 3, "a directory that is not finished was accepted"
    assert killed >= 5
    flashnext.ok(*quantize(DEMO, tmp_path / "got", "--ngram", "int8"))
    same_folders(tmp_path / "want", tmp_path / "got")


@needs_demo
@pytest.mark.parametrize("number,code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"])
def test_a_signal_stops_it_and_the_same_command_goes_on(number, code, flashnext, shim, tmp_path):
    flashnext.ok(*quantize(DEMO, tmp_path / "want"))
    got = tmp_path / "got"
    command = [flashnext.path, *map(str, quantize(DEMO, got))]
    process = subprocess.Popen(command, env={**os.environ, **shim(slow=30000)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not list(got.glob("prepared-00003-*")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == code and "the same command goes on" in said
    assert not [p for p in got.iterdir() if ".partial-" in p.name]
    kept = {p.name: p.stat().st_mtime_ns for p in got.glob("*.safetensors")}
    assert kept
    flashnext.ok(*quantize(DEMO, got))
    assert all((got / name).stat().st_mtime_ns == at for name, at in kept.items()), "whole files were written again"
    same_folders(tmp_path / "want", got)


@needs_demo
def test_two_at_once_do_not_meet(flashnext, shim, tmp_path):
    got = tmp_path / "got"
    command = [flashnext.path, *map(str, quantize(DEMO, got))]
    first = subprocess.Popen(command, env={**os.environ, **shim(slow=50000)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(got.glob("prepared-00001-*")) and first.poll() is None:
        time.sleep(0.01)
    second = flashnext.run(*quantize(DEMO, got))
    assert second.returncode == 2 and "another process is writing there" in second.stderr
    assert first.wait(timeout=60) == 0


@pytest.mark.parametrize("begun", [False, True], ids=["no-directory", "empty-directory"])
def test_many_started_at_once_make_one(begun, flashnext, whole, tmp_path):
    """Whoever is first writes; the others are told so, or find it finished. Again and again, for the race."""
    for turn in range(8):
        got = tmp_path / str(turn)
        if begun:
            got.mkdir()
        command = [flashnext.path, *map(str, quantize(MINI, got))]
        run = dict(env={**os.environ, "FLASHNEXT_HOME": str(ROOT)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        started = [subprocess.Popen(command, **run) for _ in range(6)]
        said = [process.communicate(timeout=60)[1] for process in started]
        codes = [process.returncode for process in started]
        assert 0 in codes and set(codes) <= {0, 2}, said
        assert all("another process is writing there" in text for text, code in zip(said, codes) if code == 2), said
        same_folders(whole, got)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.6, 0.95, 0.999])
def test_a_full_disk_is_reported_and_nothing_is_lost(share, flashnext, shim, whole, tmp_path):
    total = sum(p.stat().st_size for p in whole.iterdir())
    got = tmp_path / "got"
    done = flashnext.run(*quantize(MINI, got), **shim(full=int(total * share)))
    assert done.returncode == 1 and "No space left on device" in done.stderr and str(got) in done.stderr
    assert not [p for p in got.iterdir() if ".partial-" in p.name]
    flashnext.ok(*quantize(MINI, got))
    same_folders(whole, got)


def test_a_file_size_limit_is_a_full_disk(flashnext, whole, tmp_path):
    """The kernel's own refusal, which would kill the program if it were not ready for it."""
    def limit(size):
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    got, environment = tmp_path / "got", {**os.environ, "FLASHNEXT_HOME": str(ROOT)}
    run = dict(capture_output=True, text=True, timeout=60, env=environment)
    done = subprocess.run([flashnext.path, *map(str, quantize(MINI, got))], preexec_fn=limit(20000), **run)
    assert done.returncode == 1 and "File too large" in done.stderr
    flashnext.ok(*quantize(MINI, got))
    same_folders(whole, got)
    ids, out = tmp_path / "ids.json", tmp_path / "logits.safetensors"
    ids.write_text("[1, 2, 3, 4, 5, 6, 7, 8]")
    for command in (["logits", "--out", out], ["perplexity", "--save-reference", out]):
        done = subprocess.run([flashnext.path, *map(str, command), "--model-dir", MINI, "--ids-file", ids], preexec_fn=limit(1000), **run)
        assert done.returncode == 1 and "File too large" in done.stderr
        assert not list(tmp_path.glob("logits*"))


@pytest.mark.parametrize("n", [0, 1, 4, 8])
def test_a_disk_that_does_not_synchronise_is_reported(n, flashnext, shim, whole, tmp_path):
    got = tmp_path / "got"
    done = flashnext.run(*quantize(MINI, got), **shim(sync=n))
    if n % 2 == 0:  # of a file; every other one is of the directory, which some file systems cannot do
        assert done.returncode == 1 and "Input/output error" in done.stderr
    flashnext.ok(*quantize(MINI, got))
    same_folders(whole, got)


def test_reading_errors_at_any_moment_are_reported(flashnext, shim, whole, tmp_path):
    """EIO from the n-th read on, for n over the whole run; the last n is beyond it."""
    n, failed = 0, 0
    while True:
        got = tmp_path / f"got{n}"
        done = flashnext.run(*quantize(MINI, got), **shim(eio=n))
        if done.returncode == 0:
            break
        assert done.returncode in (1, 3) and "Input/output error" in done.stderr
        failed += 1
        if got.exists():
            flashnext.ok(*quantize(MINI, got))
            same_folders(whole, got)
        n += 1 + n // 4
    assert failed > 10


def test_short_and_interrupted_reads_change_nothing(flashnext, shim, whole, tmp_path):
    flashnext.ok(*quantize(MINI, tmp_path / "got"), **shim(short=97))
    same_folders(whole, tmp_path / "got")
    flashnext.ok("inspect", "--check", "--model-dir", whole, **shim(short=97))
    ids = tmp_path / "ids.json"
    ids.write_text("[1, 2, 3, 4]")
    for i, environment in enumerate(({}, shim(short=97))):
        flashnext.ok("logits", "--model-dir", whole, "--ids-file", ids, "--out", tmp_path / f"{i}.safetensors", **environment)
    assert (tmp_path / "0.safetensors").read_bytes() == (tmp_path / "1.safetensors").read_bytes()


# ---- damage ----------------------------------------------------------------------------------------


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << at % 8
    path.write_bytes(data)


def test_one_flipped_byte_of_the_manifest_is_found_at_opening(flashnext, whole):
    path = whole / MANIFEST
    good = path.read_bytes()
    for at in range(0, len(good), 37):
        flip(path, at)
        done = flashnext.run("inspect", "--model-dir", whole)
        assert done.returncode == 3 and MANIFEST in done.stderr, (at, done.stderr)
        path.write_bytes(good)
    for bad in (b"", good[:-1], good + b"\n", good[:100]):
        path.write_bytes(bad)
        assert flashnext.run("inspect", "--model-dir", whole).returncode == 3
    path.write_bytes(good)
    flashnext.ok("inspect", "--model-dir", whole)


def test_one_flipped_byte_of_a_header_is_found_at_opening(flashnext, whole):
    for path in sorted(whole.glob("*.safetensors")):
        good = path.read_bytes()
        header = 8 + int.from_bytes(good[:8], "little")
        for at in [*range(8), *range(8, header, header // 9)]:
            flip(path, at)
            done = flashnext.run("inspect", "--model-dir", whole)
            assert done.returncode == 3 and path.name in done.stderr, (path.name, at, done.stderr)
            path.write_bytes(good)


def test_one_flipped_byte_of_data_is_found_by_check(flashnext, whole):
    flashnext.ok("inspect", "--check", "--model-dir", whole)
    rng = random.Random(5)
    for path in sorted(p for p in whole.iterdir() if p.name != MANIFEST):
        good = path.read_bytes()
        start = 8 + int.from_bytes(good[:8], "little") if path.suffix == ".safetensors" else 0
        at = rng.randrange(start, len(good))
        if path.suffix == ".safetensors":
            flip(path, at)
        else:
            path.write_bytes(good[:at] + b" " + good[at:])
        done = flashnext.run("inspect", "--check", "--model-dir", whole)
        assert done.returncode == 3 and path.name in done.stderr, (path.name, at, done.stderr)
        path.write_bytes(good)
    done = flashnext.run("inspect", "--check", "--model-dir", MINI)
    assert done.returncode == 1 and "no checksums" in done.stderr


def test_a_changed_config_is_refused_and_other_texts_may_be_edited(flashnext, copy_of, tmp_path):
    """config.json decides what the weights mean; a template or a default is the user's to change, and the check tells of it."""
    source, whole = copy_of("mini-bf16"), tmp_path / "prepared"
    texts = {"generation_config.json": '{"do_sample": false}', "chat_template.jinja": "{{ messages[0].content }}"}
    for name, text in texts.items():
        (source / name).write_text(text)
    flashnext.ok(*quantize(source, whole))
    config = whole / "config.json"
    good = config.read_bytes()
    changed = json.loads(good)
    (changed.get("text_config") or changed)["rms_norm_eps"] = 1e-3  # nothing that shapes or sizes would show
    for text in (json.dumps(changed).encode(), good + b"\n", b"{}", b""):
        config.write_bytes(text)
        for command in ("plan", "inspect"):
            done = flashnext.run(command, "--model-dir", whole)
            assert done.returncode == 3 and f"{config}: changed since" in done.stderr and "flashnext quantize" in done.stderr, done.stderr
    config.write_bytes(good)
    for name, text in texts.items():
        path = whole / name
        path.write_text(text + "\n")
        flashnext.ok("inspect", "--model-dir", whole)
        done = flashnext.run("inspect", "--check", "--model-dir", whole)
        assert done.returncode == 3 and f"{path}: changed since" in done.stderr, done.stderr
        path.write_text(text)
    flashnext.ok("inspect", "--check", "--model-dir", whole)


def spoil(folder, part):
    """Makes one value of a BF16 tensor whose name contains `part` no number; the file it is in, and its name."""
    for path in sorted(folder.glob("*.safetensors")):
        data = bytearray(path.read_bytes())
        start = 8 + int.from_bytes(data[:8], "little")
        for name, tensor in json.loads(data[8:start]).items():
            if part in name and tensor["dtype"] == "BF16":
                begin, end = tensor["data_offsets"]
                at = start + begin + (end - begin) // 4 * 2
                data[at:at + 2] = b"\xc0\x7f"
                path.write_bytes(data)
                return path, name
    raise AssertionError(part)


def test_a_linked_table_that_is_damaged_is_found_by_check(flashnext, copy_of, tmp_path):
    folder, out = copy_of("mini-bf16"), tmp_path / "prepared"
    flashnext.ok(*quantize(folder, out), "--ngram", "link")
    path, name = spoil(folder, "ngram_embedding")
    flashnext.ok("inspect", "--model-dir", out)
    done = flashnext.run("inspect", "--check", "--model-dir", out)
    assert done.returncode == 3 and f"{path}: {name}: row " in done.stderr and "not finite" in done.stderr, done.stderr


def test_a_weight_that_is_no_number_is_named_with_its_file(flashnext, copy_of, tmp_path):
    folder = copy_of("mini-bf16")
    path, name = spoil(folder, "down_proj")
    done = flashnext.run("quantize", "--model-dir", folder, "--out", tmp_path / "out", "--expert-bits", 4, "--dense-bits", 4)
    assert done.returncode == 3 and f"{path}: tensor {name}, row " in done.stderr, done.stderr


def test_missing_and_strange_files_are_named(flashnext, whole, tmp_path):
    first = sorted(whole.glob("*.safetensors"))[0]
    last = sorted(whole.glob("*.safetensors"))[-1]
    for path in (first, last, whole / MANIFEST, whole / "config.json"):
        kept = tmp_path / "kept"
        path.rename(kept)
        done = flashnext.run("plan", "--model-dir", whole)
        assert done.returncode == 3 and done.stderr.startswith("flashnext: ") and done.stderr.count("\n") == 1
        kept.rename(path)
    cut = first.read_bytes()
    first.write_bytes(cut[:-4096])
    done = flashnext.run("plan", "--model-dir", whole)
    assert done.returncode == 3 and first.name in done.stderr
    first.write_bytes(cut)
    shutil.copy(sorted(MINI.glob("*.safetensors"))[0], whole / "more.safetensors")
    assert flashnext.run("plan", "--model-dir", whole).returncode == 3


def test_the_same_command_mends_a_finished_directory(flashnext, whole, tmp_path):
    good = tmp_path / "good"
    shutil.copytree(whole, good)
    files = sorted(whole.glob("*.safetensors"))
    times = {p.name: p.stat().st_mtime_ns for p in files}
    for damage in (files[0].unlink, lambda: os.truncate(files[0], 4096), lambda: flip(files[0], 60),
                   (whole / "config.json").unlink, lambda: (whole / "config.json").write_text("{}")):
        damage()
        flashnext.ok(*quantize(MINI, whole))
        same_folders(good, whole)
    assert all(p.stat().st_mtime_ns == times[p.name] for p in files[1:])
    told = flashnext.ok(*quantize(MINI, whole))
    assert "were there, by their files' sizes and headers (inspect --check reads them)" in told


# ---- shrinking -------------------------------------------------------------------------------------


@needs_demo
@pytest.mark.parametrize("victim", ["prepared-00001-of-", "prepared-00004-of-"])
def test_a_file_that_shrinks_while_mapped_ends_with_its_name(victim, flashnext, tmp_path):
    folder = tmp_path / "prepared"
    flashnext.ok(*quantize(DEMO, folder))
    ours, theirs = pty.openpty()  # at a terminal the model is loaded before the first question
    process = subprocess.Popen([flashnext.path, "chat", "--model-dir", folder, "-v"], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE,
                               env={**os.environ, "TERM": "dumb", "HOME": str(tmp_path)})
    os.close(theirs)
    said = b""
    while b"mapped" not in said:
        piece = process.stderr.read1(4096)
        assert piece, said
        said += piece
    path = next(folder.glob(victim + "*"))
    os.truncate(path, 4096)
    os.write(ours, b"what is a bridge\r")
    said = process.communicate(timeout=60)[1].decode()
    os.close(ours)
    assert process.returncode == 3
    assert str(path) in said and "shrank" in said


# ---- manifests of other programs ---------------------------------------------------------------------


def test_the_digests_are_those_of_the_documentation(flashnext, whole):
    manifest = json.loads((whole / MANIFEST).read_text())
    digest = manifest.pop("digest")
    assert signed(manifest) == (whole / MANIFEST).read_bytes() and len(digest) == 16
    small = min((f for f in manifest["files"] if "header" in f), key=lambda f: f["bytes"])
    raw = (whole / small["name"]).read_bytes()
    n = int.from_bytes(raw[:8], "little")
    assert f"{hash_bytes(raw[8:8 + n]):016x}" == small["header"]
    data, state = raw[8 + n:], 0x9E3779B97F4A7C15
    for at in range(0, len(data) - len(data) % 4096, 4096):
        state = hash_bytes(data[at:at + 4096], state)
    assert f"{hash_bytes(data[len(data) - len(data) % 4096:], state):016x}" == small["data"]
    assert json.loads(raw[8:8 + n])["__metadata__"]["data"] == small["data"]


@pytest.mark.parametrize("change,word", [
    (lambda m: m.update(version=2), "version"), (lambda m: m.update(format="x"), "format"), (lambda m: m.pop("files"), "files"),
    (lambda m: m["settings"].update(expert_bits=5), "settings"), (lambda m: m["settings"].update(ngram="maybe"), "settings"),
    (lambda m: m["files"][0].update(name="../x"), "name"), (lambda m: m["files"][0].update(header="xyz"), "header"),
    (lambda m: m["files"][0].update(bytes=-1), "bytes"), (lambda m: m["files"].pop(0), "lists"),
    (lambda m: m["links"].append({}), "path")], ids=range(10))
def test_manifests_that_say_something_else_are_refused(change, word, flashnext, whole):
    manifest = json.loads((whole / MANIFEST).read_text())
    manifest.pop("digest")
    change(manifest)
    (whole / MANIFEST).write_bytes(signed(manifest))
    done = flashnext.run("inspect", "--model-dir", whole)
    assert done.returncode == 3 and word in done.stderr, done.stderr
