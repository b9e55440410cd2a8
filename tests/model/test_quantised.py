"""Checkpoints in the published quantised formats, shuffled and damaged."""
import itertools
import random

import numpy as np
import pytest

import tensor_files

SCALES = [("mini-fp8", "weight_scale_inv"), ("mini-fp8", "ngram_embedding.weight_scale"), ("mini-nvfp4", "proj.weight_scale"),
          ("mini-nvfp4", "weight_scale_2"), ("mini-gptq", "scales"), ("mini-gptq", "qzeros")]


def logits(flashnext, folder, tmp_path):
    ids = tmp_path / "ids.json"
    ids.write_text("[[5, 17, 2, 99, 40, 41, 42, 8]]")
    flashnext.ok("logits", "--model-dir", folder, "--ids-file", ids, "--out", tmp_path / "out.safetensors")
    return tensor_files.read(tmp_path / "out.safetensors")["logits"]


def read_all(folder):
    entries = {}
    for path in sorted(folder.glob("*.safetensors")):
        tensor_files.rewrite(path, lambda found: entries.update(found) or found)
    return entries


@pytest.mark.parametrize("name", ["mini-fp8", "mini-nvfp4", "mini-gptq"])
def test_the_order_of_tensors_and_files_does_not_matter(name, flashnext, copy_of, tmp_path):
    """Scales before, behind and in other files than their weights, in every order of four files."""
    folder = copy_of(name)
    want, entries = logits(flashnext, folder, tmp_path), read_all(folder)
    for path in folder.glob("*.safetensors*"):
        path.unlink()
    shuffled = list(entries)
    for i, order in enumerate(itertools.permutations("abcd")):
        if i % 6:  # four of the 24: each file is once the first
            continue
        random.Random(i).shuffle(shuffled)
        for k, letter in enumerate(order):
            path = folder / f"{letter}.safetensors"
            tensor_files.write_raw(path, {}, b"")
            tensor_files.rewrite(path, lambda _: {n: entries[n] for n in shuffled[k::4]})
        assert np.array_equal(logits(flashnext, folder, tmp_path), want)


@pytest.mark.parametrize("name,ending", SCALES)
def test_a_lost_scale_is_named(name, ending, flashnext, copy_of, tmp_path):
    folder = copy_of(name)
    (folder / "model.safetensors.index.json").unlink(missing_ok=True)
    gone = next(n for n in read_all(folder) if n.endswith(ending))
    for path in folder.glob("*.safetensors"):
        tensor_files.rewrite(path, lambda entries: {n: e for n, e in entries.items() if n != gone})
    done = flashnext.run("inspect", "--model-dir", folder)
    assert done.returncode == 3
    assert gone in done.stderr and "missing" in done.stderr


@pytest.mark.parametrize("name", ["mini-fp8", "mini-nvfp4", "mini-gptq"])
def test_a_scale_is_not_ignored(name, flashnext, copy_of, tmp_path):
    """Any scale that is doubled shows in the logits: none is read from elsewhere or left at a default."""
    folder = copy_of(name)
    want, changed = logits(flashnext, folder, tmp_path), set()

    def double_bf16(entries):
        for n, (dtype, shape, data) in entries.items():
            kind = n.rpartition(".")[2]
            if kind in ("weight_scale_inv", "weight_scale_2", "scales") and dtype in ("BF16", "F32", "F16"):
                bits = np.frombuffer(data, "<u4" if dtype == "F32" else "<u2").copy()
                bits += {"BF16": 1 << 7, "F32": 1 << 23, "F16": 1 << 10}[dtype]
                entries[n] = (dtype, shape, bits.tobytes())
                changed.add(n)
        return entries

    for path in folder.glob("*.safetensors"):
        tensor_files.rewrite(path, double_bf16)
    assert len(changed) > 8
    assert np.max(np.abs(logits(flashnext, folder, tmp_path) - want)) > 0.01
