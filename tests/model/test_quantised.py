"""Checkpoints in the published quantised formats, shuffled and damaged."""
import itertools
import json
import random

import numpy as np
import pytest

import tensor_files
from conftest import DATA
from small_floats import fp8_block, nvfp4

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
    """Scales before, behind and in other files than their weights, in orders of four files."""
    folder = copy_of(name)
    want, entries = logits(flashnext, folder, tmp_path), read_all(folder)
    for path in folder.glob("*.safetensors*"):
        path.unlink()
    shuffled = list(entries)
    for i, order in enumerate(itertools.permutations("abcd")):
        if i % (1 if name == "mini-fp8" else 6):  # of the others, four in which each file is once the first
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


@pytest.mark.parametrize("name", ["mini-fp8", "mini-nvfp4", "mini-gptq"])
def test_the_last_number_of_every_scale_counts(name, flashnext, copy_of, tmp_path):
    """Scales whose rows are no multiple of anything: the last of each module is read, and is its own."""
    folder = copy_of(name)
    (tmp_path / "ids.json").write_text(json.dumps(tensor_files.read(DATA / name / "golden.safetensors")["ids"].tolist()))
    run = ["logits", "--model-dir", folder, "--ids-file", tmp_path / "ids.json", "--out", tmp_path / "out.safetensors",
           "--precision", "exact", "--ngram-mmap"]
    flashnext.ok(*run)
    want, kinds = (tmp_path / "out.safetensors").read_bytes(), ("weight_scale_inv", "weight_scale", "weight_scale_2", "scales")
    step = {"BF16": (2, 1 << 6), "F16": (2, 1 << 9), "F32": (4, 1 << 22), "F8_E4M3": (1, 1 << 2)}  # half as much again
    changed = 0
    for path in sorted(folder.glob("*.safetensors")):
        header, start = tensor_files.read_header(path)
        before = path.read_bytes()
        for tensor, entry in header.items():
            if tensor.rpartition(".")[2] not in kinds:
                continue
            size, add = step[entry["dtype"]]
            at = start + entry["data_offsets"][1] - size
            number = int.from_bytes(before[at:at + size], "little") ^ add
            if entry["dtype"] == "F8_E4M3" and number & 0x7F == 0x7F:  # no number at all
                number ^= add | add << 1
            path.write_bytes(before[:at] + number.to_bytes(size, "little") + before[at + size:])
            flashnext.ok(*run)
            assert (tmp_path / "out.safetensors").read_bytes() != want, tensor
            changed += 1
        path.write_bytes(before)
    assert changed > 20


@pytest.mark.parametrize("name", ["mini-bf16", "mini-fp8", "mini-nvfp4", "mini-gptq"])
def test_each_lost_file_is_noticed_before_anything_is_loaded(name, flashnext, copy_of):
    """With an index by its name; without one by the tensors that were in it."""
    folder = copy_of(name)
    for path in sorted(folder.glob("*.safetensors")):
        tensors = [n for n in tensor_files.read_header(path)[0] if n != "__metadata__"]
        aside = path.rename(folder / "aside")
        done = flashnext.run("inspect", "--model-dir", folder)
        aside.rename(path)
        assert done.returncode == 3 and not done.stdout
        if (folder / "model.safetensors.index.json").exists():
            assert path.name in done.stderr
        else:
            assert "missing" in done.stderr and ("download" in done.stderr or any(n in done.stderr for n in tensors))


def split_stack(name, shape, data):
    """{module: weight} of the experts in a stacked BF16 tensor."""
    stack = (np.frombuffer(data, "<u2").reshape(shape).astype(np.uint32) << 16).view(np.float32)
    stem = name.rpartition(".")[0]
    for e, w in enumerate(stack):
        halves = {"down_proj": w} if name.endswith("down_proj") else \
            {"gate_proj": w[:shape[1] // 2], "up_proj": w[shape[1] // 2:]}
        for part, half in halves.items():
            yield f"{stem}.{e}.{part}", half


def test_the_head_has_its_own_format(flashnext, copy_of, tmp_path):
    """NVFP4 experts, FP8 blocks in the MTP head, the rest BF16, no index: as float32 files of the same values."""
    stored, plain = copy_of("mini-bf16"), tmp_path / "plain"
    stored.rename(plain)
    stored = copy_of("mini-bf16")

    def change(widened):
        def apply(entries):
            for name, (dtype, shape, data) in list(entries.items()):
                if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                    continue
                del entries[name]
                for module, w in split_stack(name, shape, data):
                    parts, values = fp8_block(w) if name.startswith("mtp.") else nvfp4(w)
                    if widened:
                        parts = {".weight": ("F32", values.astype("<f4"))}
                    for suffix, (kind, array) in parts.items():
                        entries[module + suffix] = (kind, list(array.shape), np.ascontiguousarray(array).tobytes())
            return entries
        return apply

    results = []
    for folder, widened in ((stored, False), (plain, True)):
        (folder / "model.safetensors.index.json").unlink(missing_ok=True)
        for path in folder.glob("*.safetensors"):
            tensor_files.rewrite(path, change(widened))
        (tmp_path / "ids.json").write_text("[[5, 17, 2, 9, 40, 41, 42, 8, 11, 12, 13, 60]]")
        out = tmp_path / "out.safetensors"
        flashnext.ok("logits", "--model-dir", folder, "--ids-file", tmp_path / "ids.json", "--out", out, "--trace",
                     "--precision", "exact")
        results.append(tensor_files.read(out))
    assert "mtp_logits" in results[0]
    for name in ("logits", "mtp_streams", "mtp_logits"):
        got, want = (r[name] for r in results)
        assert np.allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max()), name
    formats = flashnext.json("inspect", "--model-dir", stored, "--json")["formats"]
    assert {"U8", "F8_E4M3", "BF16"} <= set(formats)
