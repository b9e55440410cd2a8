"""The whole model, from the command line, against what the official implementation computed.

Cases come from tests/data and, where a workplace has them, from ../shared/fixtures. Each value may be
off by 0.3 of the bound in its case.json, which is ten times the official implementation's own noise.
"""
import json

import numpy as np
import pytest

from conftest import DATA, SHARED
from machine import kernel_tables
import tensor_files

CASES = [DATA / name for name in ("mini-f32", "mini-bf16", "mini-tied", "mini-dense", "mini-fp8", "mini-nvfp4", "mini-gptq")]
CASES += [SHARED / "fixtures" / name for name in ("tiny-text", "tiny-stacked", "tiny-bf16", "mtp", "tiny-fp8", "tiny-fp8-wide", "tiny-vlm")]
SCALE = 0.3
# Values of images have tests of their own.
TRACED = {"logits", "streams", "hidden", "mixer_out", "mlp_out", "ple_out", "router_ids", "router_weights", "delta_state",
          "qsa_selected", "ngram_rows", "mtp_fused", "mtp_streams", "mtp_logits", "mtp_qsa_selected", "draft_tokens",
          "draft_logits", "draft_streams"}


@pytest.fixture(params=CASES, ids=lambda path: path.name)
def case(request):
    if not request.param.exists():
        pytest.skip("no ../shared here")
    return request.param


def bounds(case):
    return json.loads((case / "case.json").read_text())["tolerances"]


def ids_file(folder, ids):
    path = folder / "ids.json"
    path.write_text(json.dumps(ids.tolist()))
    return path


@pytest.mark.parametrize("isa", kernel_tables())
def test_every_traced_value(case, isa, flashnext, tmp_path):
    want = tensor_files.read(case / "golden.safetensors")
    drafts = ["--draft-position", want["draft_position"][0], "--drafts", len(want["draft_logits"])] if "draft_tokens" in want else []
    flashnext.ok("logits", "--model-dir", case / "checkpoint", "--ids-file", ids_file(tmp_path, want["ids"]), "--trace",
                 "--isa", isa, "--out", tmp_path / "got.safetensors", *drafts)
    got, limit = tensor_files.read(tmp_path / "got.safetensors"), bounds(case)
    names = sorted(TRACED & set(want))
    assert len(names) >= 7
    assert not set(names) - set(got)
    for name in names:
        ours, golden = got[name], want[name]
        if name in ("streams", "hidden"):
            ours = ours[:, want["stream_positions"]] if name == "streams" else ours[want["stream_positions"]]
        assert ours.shape == golden.shape, name
        if np.issubdtype(golden.dtype, np.integer):
            assert np.array_equal(ours, golden), f"{name}: {np.argwhere(ours != golden)[:3]}"
        else:
            allowed = SCALE * (limit["float_absolute"] + limit["float_relative"] * np.abs(golden))
            worst = np.max(np.abs(ours.astype(np.float64) - golden) / allowed)
            assert worst <= 1, f"{name}: {worst:.2f} times what is allowed"


@pytest.mark.parametrize("isa", kernel_tables())
def test_verify_accepts(case, isa, flashnext):
    flashnext.ok("verify", "--model-dir", case / "checkpoint", "--golden", case / "golden.safetensors", "--scale", SCALE,
                 "--isa", isa)


def test_greedy_continuation(case, flashnext, tmp_path):
    want = tensor_files.read(case / "golden.safetensors")
    prompt, chosen = ids_file(tmp_path, want["greedy_prompt"]), want["greedy_ids"].tolist()
    got = flashnext.json("run", "--model-dir", case / "checkpoint", "--ids-file", prompt, "--new-tokens", len(chosen),
                         "--temp", 0, "--precision", "exact", "--ignore-eos", "--json")
    assert got["ids"] == chosen
    assert got["text"] is None and got["finish_reason"] == "length"


@pytest.mark.parametrize("isa", kernel_tables())
def test_textbook_twin_is_as_close_to_float64_as_the_official_float32(isa, flashnext, tmp_path):
    case = DATA / "twin"
    want = tensor_files.read(case / "golden.safetensors")
    flashnext.ok("logits", "--model-dir", case / "checkpoint", "--ids-file", ids_file(tmp_path, want["ids"]), "--isa", isa,
                 "--out", tmp_path / "got.safetensors")
    exact = want["logits_float64"]
    official = np.max(np.abs(want["logits"] - exact))
    ours = np.max(np.abs(tensor_files.read(tmp_path / "got.safetensors")["logits"] - exact))
    assert 0.05 < np.max(np.abs(exact)) < 0.5
    assert ours <= max(1e-7, 3 * official), f"{ours:.2e} from float64; the official float32 run is {official:.2e} away"


@pytest.mark.parametrize("name", ["router_ids", "qsa_selected", "ngram_rows", "logits", "mlp_out", "delta_state"])
def test_verify_names_the_tensor_that_differs(name, flashnext, tmp_path):
    case = DATA / "mini-f32"
    golden = tmp_path / "golden.safetensors"
    golden.write_bytes((case / "golden.safetensors").read_bytes())

    def change(entries):
        dtype, shape, data = entries[name]
        array = np.frombuffer(data, tensor_files.TYPES[dtype]).copy()
        array[len(array) // 2] += 1
        entries[name] = (dtype, shape, array.tobytes())
        return entries

    tensor_files.rewrite(golden, change)
    done = flashnext.run("verify", "--model-dir", case / "checkpoint", "--golden", golden, "--case", case / "case.json")
    assert done.returncode == 1
    assert name in done.stdout + done.stderr
