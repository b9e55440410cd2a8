"""A drift of state, cache or n-gram history that only shows after many steps: 2,000 greedy steps of the official
implementation, each with a lead far above rounding noise (tools/make_test_data.py --long)."""
import json

import pytest

from conftest import DATA

CASE = DATA / "mini-f32"


@pytest.mark.parametrize("isa", ["ref", "avx2", "avx512"])
def test_two_thousand_greedy_steps_are_the_official_ones(isa, flashnext, tmp_path):
    golden = json.loads((CASE / "long_greedy.json").read_text())
    assert golden["smallest_lead"] > 1e-4 and len(golden["ids"]) == 2000
    (tmp_path / "ids.json").write_text(json.dumps(golden["prompt"]))
    done = flashnext.run("run", "-m", CASE / "checkpoint", "--ids-file", tmp_path / "ids.json", "-n", 2000, "--temp", 0, "--ignore-eos",
                         "--precision", "exact", "--isa", isa, "--json")
    if "does not have it" in done.stderr:
        pytest.skip(f"this CPU has no {isa}")
    assert json.loads(done.stdout)["ids"] == golden["ids"]
