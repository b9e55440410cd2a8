"""One arithmetic: the same bits however a prompt is cut, whoever shares the forward, on any number of threads."""
import json
import random

import numpy as np
import pytest

from conftest import DATA
from machine import kernel_tables
import tensor_files

CHECKPOINTS = ["mini-f32", "mini-bf16", "mini-tied", "mini-dense"]


@pytest.fixture
def logits(flashnext, tmp_path):
    """logits(name, ids, ...) runs the command and returns [B,T,V] as raw 32-bit words."""
    def run(name, ids, *options, folder=None):
        (tmp_path / "ids.json").write_text(json.dumps(ids))
        flashnext.ok("logits", "--model-dir", folder or DATA / name / "checkpoint", "--ids-file", tmp_path / "ids.json",
                     "--out", tmp_path / "out.safetensors", *options)
        return tensor_files.read(tmp_path / "out.safetensors")["logits"].view(np.uint32)
    return run


def golden_ids(name):
    return tensor_files.read(DATA / name / "golden.safetensors")["ids"].tolist()


def text(pieces):
    return ",".join(map(str, pieces))


@pytest.mark.parametrize("isa", kernel_tables())
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_any_split_gives_the_bits_of_one_pass(name, isa, logits):
    ids = golden_ids(name)
    length, draw = len(ids[0]), random.Random(5)
    whole = logits(name, ids, "--isa", isa)
    splits = [[13, 16] + [1] * (length - 29), [1] * length, [length - 1, 1], [2, length - 2]]
    for _ in range(3):
        cuts = sorted(draw.sample(range(1, length), 4))
        splits.append([b - a for a, b in zip([0] + cuts, cuts + [length])])
    for split in splits:
        assert np.array_equal(logits(name, ids, "--isa", isa, "--split", text(split)), whole), split


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_chunk_size_does_not_matter(name, logits):
    ids = golden_ids(name)
    whole = logits(name, ids)
    for chunk in (1, 3, 7, 16, 64):
        assert np.array_equal(logits(name, ids, "--chunk", chunk), whole), chunk


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_threads_do_not_matter(name, logits):
    ids = golden_ids(name)
    one = logits(name, ids, "-t", 1)
    for threads in (2, 3, 5):
        assert np.array_equal(logits(name, ids, "-t", threads), one), threads


@pytest.mark.parametrize("isa", kernel_tables())
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_rows_in_one_forward_equal_each_alone(name, isa, logits):
    ids = golden_ids(name)
    ids = [ids[0], ids[-1][::-1], [i // 2 + 1 for i in ids[0]]]
    split = text([13, 16] + [1] * (len(ids[0]) - 29))
    together = logits(name, ids, "--isa", isa, "--together")
    assert np.array_equal(logits(name, ids, "--isa", isa), together)
    assert np.array_equal(logits(name, ids, "--isa", isa, "--together", "--split", split), together)
    for row, alone in enumerate(ids):
        assert np.array_equal(logits(name, [alone], "--isa", isa)[0], together[row])


def test_what_follows_does_not_change_what_came_before(logits):
    ids = golden_ids("mini-bf16")
    whole = logits("mini-bf16", ids)
    for length in (1, 31, 33, 128):
        assert np.array_equal(logits("mini-bf16", [ids[0][:length]])[0], whole[0, :length]), length


@pytest.mark.parametrize("name", ["mini-f32", "mini-bf16", "mini-tied"])
def test_dense_attention_is_a_budget_that_holds_everything(name, logits, copy_of):
    """No indexer keys: the bits of the same weights with a budget of at least T."""
    ids = golden_ids(name)
    folder = copy_of(name)
    config = json.loads((folder / "config.json").read_text())
    keys = config.get("text_config", config)
    keys["indexer_budget"] = keys["indexer_compress_ratio"] * len(ids[0])
    (folder / "config.json").write_text(json.dumps(config))
    all_blocks = logits(name, ids, folder=folder)
    for key in [k for k in keys if k.startswith("indexer_")]:
        del keys[key]
    if keys.get("mtp_num_hidden_layers"):
        keys["mtp_num_hidden_layers"] = 0
    (folder / "config.json").write_text(json.dumps(config))
    unwanted = lambda tensor: ".indexer." in tensor or tensor.startswith("mtp.")
    for file in folder.glob("*.safetensors"):
        tensor_files.rewrite(file, lambda entries: {n: e for n, e in entries.items() if not unwanted(n)})
    for file in folder.glob("*.index.json"):
        index = json.loads(file.read_text())
        index["weight_map"] = {n: f for n, f in index["weight_map"].items() if not unwanted(n)}
        file.write_text(json.dumps(index))
    assert np.array_equal(logits(name, ids, folder=folder), all_blocks)


def test_layouts_of_the_same_weights_give_the_same_bits(logits, copy_of):
    """One file or three, experts apart or stacked, table whole or in shards: the arithmetic sees none of it."""
    ids, folder = golden_ids("mini-f32"), copy_of("mini-f32")
    before = logits("mini-f32", ids)
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensor_files.rewrite(file, lambda entries: tensors.update(entries) or entries)
        file.unlink()
    (folder / "model.safetensors.index.json").unlink()
    join = lambda parts, shape: ("F32", shape, b"".join(parts))
    for layer in range(5):
        stem = f"model.layers.{layer}.mlp.experts."
        take = lambda e, part: tensors.pop(f"{stem}{e}.{part}_proj.weight")[2]
        experts = [(take(e, "gate"), take(e, "up"), take(e, "down")) for e in range(7)]
        tensors[f"{stem}gate_up_proj"] = join([half for e in experts for half in e[:2]], [7, 40, 48])
        tensors[f"{stem}down_proj"] = join([e[2] for e in experts], [7, 48, 20])
    for layer in (0, 3):
        stem = f"model.layers.{layer}.ple.ple_embedding.ngram_embedding."
        shards = [tensors.pop(f"{stem}shard_{i}.weight") for i in range(11)]
        tensors[f"{stem}weight"] = join([s[2] for s in shards], [sum(s[1][0] for s in shards), shards[0][1][1]])
    tensor_files.write_raw(folder / "model.safetensors", {}, b"")
    tensor_files.rewrite(folder / "model.safetensors", lambda _: tensors)
    config = json.loads((folder / "config.json").read_text())
    config["split_ngram_parts"] = 1
    (folder / "config.json").write_text(json.dumps(config))
    assert np.array_equal(logits("mini-f32", ids, folder=folder), before)


def test_generation_repeats_itself(flashnext, tmp_path):
    (tmp_path / "ids.json").write_text(json.dumps(golden_ids("mini-bf16")[0][:40]))
    command = ["run", "--model-dir", DATA / "mini-bf16" / "checkpoint", "--ids-file", tmp_path / "ids.json", "--new-tokens", 30,
               "--temp", 1, "--top-k", 50, "--ignore-eos", "--json"]
    texts = [flashnext.json(*command, "--seed", 7, "-t", threads)["ids"] for threads in (1, 2, 3, 1)]
    assert texts[0] == texts[1] == texts[2] == texts[3]
    assert flashnext.json(*command, "--seed", 8)["ids"] != texts[0]
