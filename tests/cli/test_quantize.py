"""`flashnext quantize`: prepared checkpoints give the bits of quantising while loading, and survive what happens to files."""
import filecmp
import json
import shutil

import pytest

import tensor_files
from conftest import DATA, ROOT

DEMO = ROOT / "models" / "demo"
SOURCES = ["mini-bf16", "mini-f32", "mini-fp8", "mini-nvfp4", "mini-gptq", "mini-tied", "mini-dense"]
SETTINGS = [(), ("--expert-bits", 4, "--dense-bits", 8), ("--expert-bits", 8, "--dense-bits", 4, "--group-size", 32),
            ("--expert-bits", 16, "--dense-bits", 16), ("--expert-bits", 4)]
MIX = SETTINGS[1]


def source(name):
    return DEMO if name == "demo" else DATA / name / "checkpoint"


@pytest.fixture
def prepare(flashnext, tmp_path):
    def run(name, *options, to="prepared"):
        flashnext.ok("quantize", "--model-dir", source(name), "--out", tmp_path / to, *options)
        return tmp_path / to
    return run


@pytest.fixture
def logits(flashnext, tmp_path):
    """The bytes of the file that `logits --trace` writes."""
    def run(folder, *options):
        ids, out = tmp_path / "ids.json", tmp_path / "out.safetensors"
        ids.write_text("[[5, 17, 2, 60, 40, 41, 42, 8, 1, 1, 30]]")
        flashnext.ok("logits", "--model-dir", folder, "--ids-file", ids, "--out", out, "--trace", *options)
        return out.read_bytes()
    return run


def same_folders(a, b):
    names = sorted(p.name for p in a.iterdir())
    assert names == sorted(p.name for p in b.iterdir())
    match, different, odd = filecmp.cmpfiles(a, b, names, shallow=False)
    assert not different and not odd
    return len(match)


@pytest.mark.parametrize("options", SETTINGS, ids=lambda o: " ".join(map(str, o)) or "as stored")
@pytest.mark.parametrize("name", SOURCES)
def test_prepared_is_quantised_on_load_bit_for_bit(name, options, prepare, logits):
    folder = prepare(name, *options)
    want = logits(source(name), *options)
    assert logits(folder) == want
    assert logits(folder, *options) == want
    assert logits(folder, "-t", 1, "--split", "4,7") == want


@pytest.mark.skipif(not (DEMO / "model.safetensors.index.json").exists(), reason="models/demo has no weights")
def test_the_demo_model_prepared_gives_the_same_text(flashnext, prepare, logits):
    folder = prepare("demo", *MIX)
    assert logits(folder) == logits(DEMO, *MIX)
    ask = ["chat", "--prompt", "what is a lighthouse", "--seed", 3, "--temp", 0.7]
    assert flashnext.ok(*ask, "--model-dir", folder) == flashnext.ok(*ask, "--model-dir", DEMO, *MIX)
    text = ["the cat sat", "a bridge"]
    tokenized = [flashnext.json("tokenize", "--json", "--model-dir", f, stdin=json.dumps(text)) for f in (folder, DEMO)]
    assert tokenized[0] == tokenized[1]


def test_packed_matrices_lie_on_pages_and_sizes_are_foretold(flashnext, prepare, tmp_path):
    options = ["--model-dir", source("mini-bf16"), "--out", tmp_path / "prepared", *MIX]
    told = flashnext.json("quantize", *options, "--dry-run", "--json")
    assert not (tmp_path / "prepared").exists()
    folder = prepare("mini-bf16", *MIX)
    files = sorted(folder.glob("*.safetensors"))
    assert [(f["name"], f["bytes"]) for f in told["files"]] == [(p.name, p.stat().st_size) for p in files]
    packed = 0
    for path in files:
        header, start = tensor_files.read_header(path)
        assert start % 4096 == 0
        for name, entry in header.items():
            if ".packed." in name:
                assert entry["data_offsets"][0] % 4096 == 0 and entry["dtype"] == "U8"
                packed += 1
    assert packed > 50


@pytest.mark.parametrize("options", [("--expert-bits", 8), ("--dense-bits", 4), ("--group-size", 64)], ids=lambda o: o[0])
def test_other_bits_than_prepared_are_refused(options, flashnext, prepare, tmp_path):
    folder = prepare("mini-bf16", *MIX)
    ids = tmp_path / "ids.json"
    ids.write_text("[1, 2]")
    for command in (["logits", "--ids-file", ids, "--out", tmp_path / "o"], ["plan"], ["perplexity", "--ids-file", ids]):
        done = flashnext.run(*command, "--model-dir", folder, *options)
        assert done.returncode == 2, done.stderr
        assert "was prepared with" in done.stderr and str(folder) in done.stderr


def test_a_prepared_directory_is_planned_like_its_source(flashnext, prepare):
    """Bytes in memory are the same, whether they are mapped or made."""
    folder = prepare("mini-bf16", *MIX)
    made = flashnext.json("plan", "--json", "--model-dir", source("mini-bf16"), *MIX)["exact"]
    mapped = flashnext.json("plan", "--json", "--model-dir", folder)["exact"]
    for key in ("weights", "scales", "read"):
        assert made["total"][key] == mapped["total"][key]
    assert made["resident"] == mapped["resident"]


def test_what_is_in_use_is_left_alone(flashnext, prepare, tmp_path):
    folder = prepare("mini-bf16", *MIX)
    before = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
    for options, word in (([], "with other options"), ([*MIX, "--ngram", "int8"], "with other options")):
        done = flashnext.run("quantize", "--model-dir", source("mini-bf16"), "--out", folder, *options)
        assert done.returncode == 2 and word in done.stderr
    done = flashnext.run("quantize", "--model-dir", source("mini-f32"), "--out", folder, *MIX)
    assert done.returncode == 2 and "another source" in done.stderr
    done = flashnext.run("quantize", "--model-dir", folder, "--out", tmp_path / "again")
    assert done.returncode == 2 and "prepared already" in done.stderr
    flashnext.ok("quantize", "--model-dir", source("mini-bf16"), "--out", folder, *MIX)  # whole: nothing to do
    assert before == {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
    other = tmp_path / "other"
    other.mkdir()
    (other / "diary.txt").write_text("mine")
    done = flashnext.run("quantize", "--model-dir", source("mini-bf16"), "--out", other)
    assert done.returncode == 2 and "not empty" in done.stderr and [p.name for p in other.iterdir()] == ["diary.txt"]


@pytest.mark.parametrize("name", ["mini-bf16", "mini-fp8"])
def test_a_linked_table_is_the_sources(name, flashnext, copy_of, tmp_path, logits):
    folder, out = copy_of(name), tmp_path / "prepared"
    flashnext.ok("quantize", "--model-dir", folder, "--out", out, "--ngram", "link")
    assert logits(out) == logits(folder)
    assert "the linked n-gram table can be read and holds numbers" in flashnext.ok("inspect", "--check", "--model-dir", out)
    folder.rename(tmp_path / "moved")
    done = flashnext.run("inspect", "--model-dir", out)
    assert done.returncode == 3 and str(folder) in done.stderr


@pytest.mark.parametrize("name", ["mini-bf16", "mini-fp8"])
def test_an_omitted_table_may_be_put_beside(name, flashnext, prepare, tmp_path, logits):
    folder = prepare(name, "--ngram", "omit")
    done = flashnext.run("inspect", "--model-dir", folder)
    assert done.returncode == 3 and "prepared without its n-gram table" in done.stderr
    table = {}
    for path in source(name).glob("*.safetensors"):
        copy = tmp_path / path.name
        shutil.copy(path, copy)
        tensor_files.rewrite(copy, lambda entries: table.update({n: e for n, e in entries.items() if ".ngram_embedding." in n}) or entries)
    tensor_files.write_raw(folder / "table.safetensors", {}, b"")
    tensor_files.rewrite(folder / "table.safetensors", lambda _: table)
    assert logits(folder) == logits(source(name))


@pytest.mark.parametrize("name", ["mini-bf16", "mini-fp8"])
def test_an_int8_table_is_close(name, flashnext, prepare, logits, tmp_path):
    """Each value within half a step of its row's scale; the rest of the model is untouched."""
    folder = prepare(name, "--ngram", "int8")
    stored = flashnext.json("inspect", "--json", "--model-dir", folder)["tensors"]
    rows = [t for t in stored if ".ngram_embedding." in t["name"]]
    assert rows and all(t["dtype"] == "I8" for t in rows)
    (tmp_path / "a.safetensors").write_bytes(logits(folder))
    (tmp_path / "b.safetensors").write_bytes(logits(source(name)))
    a, b = (tensor_files.read(tmp_path / f"{x}.safetensors")["logits"] for x in "ab")
    assert 0 < abs(a - b).max() < 0.05 * abs(b).max()
