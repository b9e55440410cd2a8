"""The n-gram table in every row type, on disk and in memory: the same logits, bit for bit, in any pieces."""
import json
import shutil
import subprocess

import numpy as np
import pytest

import tensor_files
from conftest import DATA, ROOT
from small_floats import E4M3, bf16_bits, codes, from_bf16

PREFIX, STEM = "ngram_embedding.", "ngram_embedding.shard_"
IDS = [[int(i) for i in np.random.default_rng(3).integers(3, 100, 70)]]
IDS[0][20] = 2  # the EOS that cuts the history
SPLITS = [None, ",".join(["1"] * 70), "13,1,1,40,15"]


def as_f32(x):
    return "F32", x, None, x


def as_bf16(x):
    bits = bf16_bits(x)
    return "BF16", bits, None, from_bf16(bits)


def as_f16(x):
    half = x.astype(np.float16)
    return "F16", half, None, half.astype(np.float32)


def as_fp8(x):
    scale = np.float32(0.01171875)  # a BF16 number
    code = codes(E4M3, x / scale)
    return "F8_E4M3", code, bf16_bits(scale), E4M3[code] * scale


def as_int8(x):
    scale = (np.abs(x).max(axis=1, keepdims=True) / 127).astype(np.float32)
    codes = np.rint(x / np.maximum(scale, 1e-30)).astype(np.int8)
    return "I8", np.concatenate([codes.view(np.uint8), scale.view(np.uint8)], axis=1), None, codes.astype(np.float32) * scale


def with_tables(folder, convert, widened):
    """The folder's tables stored as convert says, or what they then stand for, as F32."""
    index = json.loads((folder / "model.safetensors.index.json").read_text())

    def change(entries):
        for name, (dtype, shape, data) in list(entries.items()):
            if STEM in name:
                dtype, stored, scale, values = convert(np.frombuffer(data, "<f4").reshape(shape))
                stored = np.ascontiguousarray(values, "<f4") if widened else stored
                entries[name] = ("F32" if widened else dtype, list(stored.shape), stored.tobytes())
                if scale is not None and not widened:
                    scale_name = name.split(PREFIX)[0] + PREFIX + "weight_scale"
                    entries[scale_name] = ("BF16", [], scale.tobytes())
                    index["weight_map"][scale_name] = index["weight_map"][name]
        return entries

    for path in folder.glob("*.safetensors"):
        tensor_files.rewrite(path, change)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.fixture
def logits(flashnext, tmp_path):
    def compute(folder, *options):
        (tmp_path / "ids.json").write_text(json.dumps(IDS))
        out = tmp_path / "out.safetensors"
        flashnext.ok("logits", "--model-dir", folder, "--ids-file", tmp_path / "ids.json", "--out", out, *options)
        return out.read_bytes()
    return compute


@pytest.mark.parametrize("convert", [as_f32, as_bf16, as_f16, as_fp8, as_int8])
def test_disk_memory_and_float32_give_the_same_bits(convert, logits, copy_of, tmp_path):
    stored, plain = copy_of("mini-f32"), tmp_path / "plain"
    stored.rename(plain)
    stored = copy_of("mini-f32")
    with_tables(stored, convert, widened=False)
    with_tables(plain, convert, widened=True)
    want = logits(plain, "--ngram-ram", "-t", 1)
    for place in ("--ngram-mmap", "--ngram-ram"):
        for split in SPLITS:
            for threads in (1, 3):
                options = ["--split", split] if split else []
                assert logits(stored, place, "-t", threads, *options) == want, (place, split, threads)


@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("name", ["mini-bf16", "mini-fp8", "mini-nvfp4", "mini-gptq", "twin"])
def test_published_formats_on_disk_and_in_memory(name, precision, logits):
    folder = DATA / name / "checkpoint"
    want = logits(folder, "--ngram-ram", "--precision", precision)
    for split in SPLITS:
        options = ["--split", split] if split else []
        assert logits(folder, "--ngram-mmap", "--precision", precision, *options) == want


def test_both_places_at_once_are_a_mistake(flashnext):
    done = flashnext.run("run", "--prompt", "x", "--ngram-mmap", "--ngram-ram")
    assert done.returncode == 2 and "exclude each other" in done.stderr


def table_class(plan):
    return next(c for c in plan["exact"]["classes"] if c["name"] == "ngram_table")


def test_a_table_in_memory_is_planned_and_refused(flashnext):
    """Counted where it is put, to the byte; what does not fit stays on disk unless that is forbidden."""
    fixed = ["--context", 512, "--chunk", 32, "--no-mtp"]  # nothing is left that the engine makes smaller by itself
    plan = ["plan", "--json", *fixed]
    disk, ram = flashnext.json(*plan, "--ngram-mmap"), flashnext.json(*plan, "--ngram-ram")
    table = table_class(disk)["mapped"]
    assert table > 0 and table_class(disk)["weights"] == 0 and not disk["exact"]["ngram_in_ram"]
    assert table_class(ram)["weights"] == table and table_class(ram)["mapped"] == 0 and ram["exact"]["ngram_in_ram"]
    assert ram["exact"]["resident"] == disk["exact"]["resident"] + table
    enough, little = ram["exact"]["resident"], ram["exact"]["resident"] - 1
    assert flashnext.json(*plan, "--mem-limit", enough)["exact"]["ngram_in_ram"]
    assert not flashnext.json(*plan, "--mem-limit", little)["exact"]["ngram_in_ram"]
    run = ["run", "--prompt", "the cat", "-n", 4, "--temp", 0, "--json", *fixed]
    in_ram, on_disk = flashnext.json(*run, "--mem-limit", enough), flashnext.json(*run, "--mem-limit", little)
    assert in_ram["ngram"]["in_ram"] and in_ram["ngram"]["bytes"] == table
    assert not on_disk["ngram"]["in_ram"] and on_disk["ids"] == in_ram["ids"]
    refused = flashnext.run(*run, "--mem-limit", little, "--ngram-ram")
    assert refused.returncode == 4 and "n-gram tables" in refused.stderr


def test_what_the_page_cache_holds_is_told(flashnext):
    flashnext.ok("run", "--prompt", "the cat", "-n", 4, "--ngram-mmap")
    ngram = flashnext.json("inspect", "--json")["ngram"]
    assert ngram["row_bytes"] == 16 and ngram["bytes"] % 16 == 0
    if ngram["cached_bytes"] is not None:
        assert 0 < ngram["cached_bytes"] <= ngram["bytes"]
        assert "page cache" in flashnext.ok("inspect")
    for arguments in (["run", "--prompt", "the cat", "-n", 4, "--stats"], ["chat", "--prompt", "hello", "-n", 4, "-v"]):
        done = flashnext.run(*arguments, "--ngram-mmap")
        assert done.returncode == 0 and "n-gram table: 516.00 KiB on disk" in done.stderr


def test_the_textbook_command_answers(flashnext):
    command = "chat --model-dir models/demo --expert-bits 4 --ngram-mmap --prompt".split()
    command[2] = ROOT / command[2]
    done = flashnext.run(*command, "What is a telescope?", "--new-tokens", 128)
    assert done.returncode == 0 and len(done.stdout.split()) > 2, done.stderr


@pytest.mark.slow
def test_a_cold_table_of_gigabytes_costs_a_page_or_two_a_row(flashnext, tmp_path):
    """100,000 random rows of a table of 4 GiB: at most two pages read for each, and no memory that grows with them."""
    bench = flashnext.path.parent / "ngram_bench"
    if shutil.disk_usage(tmp_path).free < 6 << 30:
        pytest.skip("needs 6 GiB of disk")
    out = subprocess.run([bench, tmp_path, "4", "100000"], capture_output=True, text=True, timeout=1800, check=True).stdout
    runs = [run for run in map(json.loads, out.splitlines()) if run["through"] == "table"]
    if all(run["read_bytes_per_row"] == 0 for run in runs):
        pytest.skip("no disk is behind this file system")
    assert {run["batch"] for run in runs} == {16, 8192}
    for run in runs:
        assert run["rows"] == 100000 and 320 <= run["read_bytes_per_row"] <= 8192, run
        assert run["rss_growth"] <= 16 << 20, run
