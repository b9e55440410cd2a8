"""Two trainings of one shape are two models: what was made from one is not used with the other.

Names, shapes, sizes and config are the same; the weights differ.
"""

import pytest

from conftest import DATA
import tensor_files


@pytest.fixture
def other(copy_of):
    """mini-f32 with other weights in its matrices."""
    folder = copy_of("mini-f32")
    for file in sorted(folder.glob("*.safetensors")):
        header, start = tensor_files.read_header(file)
        data = bytearray(file.read_bytes())
        for name, entry in header.items():
            if name != "__metadata__" and name.endswith("_proj.weight"):
                begin, end = (start + at for at in entry["data_offsets"])
                data[begin:end] = bytes(byte ^ 1 if i % 4 == 1 else byte for i, byte in enumerate(data[begin:end]))
        file.write_bytes(data)
    return folder


def test_quantize_neither_goes_on_nor_takes_it_for_done(other, flashnext, tmp_path):
    out = tmp_path / "out"
    flashnext.ok("quantize", "-m", DATA / "mini-f32" / "checkpoint", "--out", out, "--expert-bits", 4)
    manifest = (out / "flashnext-prepared.json").read_bytes()
    done = flashnext.run("quantize", "-m", other, "--out", out, "--expert-bits", 4)
    assert done.returncode != 0 and "source" in done.stderr, done.stderr
    assert (out / "flashnext-prepared.json").read_bytes() == manifest
    flashnext.ok("quantize", "-m", DATA / "mini-f32" / "checkpoint", "--out", out, "--expert-bits", 4)


def test_the_same_files_elsewhere_are_the_same_source(copy_of, flashnext, tmp_path):
    flashnext.ok("quantize", "-m", DATA / "mini-f32" / "checkpoint", "--out", tmp_path / "out", "--expert-bits", 4)
    flashnext.ok("quantize", "-m", copy_of("mini-f32"), "--out", tmp_path / "out", "--expert-bits", 4)
