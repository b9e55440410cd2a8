"""tools/make_golden.py, one layer at a time, gives what the official model gives whole."""
import json
import sys

import numpy as np
import pytest

from conftest import DATA, ROOT, SHARED
import tensor_files

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="torch is not installed (tools/requirements.txt)")
pytest.importorskip("transformers.models.qwen4_exp", reason="transformers is not installed (tools/requirements.txt)")

CASES = [DATA / n for n in ("mini-f32", "mini-bf16", "mini-tied", "mini-dense")]
CASES += [SHARED / "fixtures" / n for n in ("tiny-text", "tiny-stacked", "tiny-bf16", "mtp", "tiny-vlm")]


@pytest.fixture
def make_golden(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import make_golden
    return make_golden


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_layer_by_layer_equals_the_whole_model(case, make_golden):
    if not case.exists():
        pytest.skip("no ../shared here")
    want = tensor_files.read(case / "golden.safetensors")
    bounds = json.loads((case / "case.json").read_text())
    noise = bounds["measured"]["float32_vs_float64"]
    got = make_golden.run(case / "checkpoint", torch.tensor(want["ids"].astype(np.int64)), torch.float32)
    at = want["stream_positions"]
    got["streams"], got["hidden"] = got["streams"][:, at], got["hidden"][at]
    compared = 0
    for name in sorted(set(got) & set(want) - {"stream_positions"}):
        ours = got[name].numpy()
        assert ours.shape == want[name].shape, name
        if np.issubdtype(ours.dtype, np.integer):
            assert np.array_equal(ours, want[name]), name
        else:
            np.testing.assert_allclose(ours, want[name], rtol=0, atol=noise, err_msg=name)
        compared += 1
    assert compared >= 8


def test_float64_differs_from_float32_by_the_recorded_noise(make_golden):
    want = tensor_files.read(DATA / "twin" / "golden.safetensors")
    ids = torch.tensor(want["ids"].astype(np.int64))
    got = make_golden.run_as(DATA / "twin" / "checkpoint", ids, torch.float64, 1)
    np.testing.assert_allclose(got["logits"].numpy(), want["logits_float64"], rtol=0, atol=1e-8)  # stored as float32


def test_command_writes_golden_and_case(tmp_path, make_golden, monkeypatch):
    (tmp_path / "ids.json").write_text("[[1, 2, 3, 4, 5, 6, 7]]")
    monkeypatch.setattr(sys, "argv", ["make_golden.py", str(DATA / "mini-dense" / "checkpoint"), str(tmp_path / "ids.json"),
                                      str(tmp_path / "g.safetensors"), "--case", str(tmp_path / "case.json")])
    make_golden.main()
    case = json.loads((tmp_path / "case.json").read_text())
    kept = tensor_files.read(tmp_path / "g.safetensors")
    assert kept["logits"].shape == (1, 7, 110)
    assert 0 < case["measured"]["float32_vs_float64"] < 1e-4
    assert set(case["goldens"]) == set(kept)
