"""What quantised weights cost the demo model, on conversations it was not trained on (tools/make_validation.py)."""
import subprocess

import pytest

from conftest import DATA, ROOT

DEMO = ROOT / "models" / "demo"
TEXT = DATA / "demo" / "validation.txt"
END = "<|endoftext|>"
pytestmark = pytest.mark.skipif(not (DEMO / "model.safetensors.index.json").exists(), reason="models/demo has no weights")

# bits of experts and trunk: mean KL to BF16 at most, same likeliest token at least; docs/quantisation.md has what is measured
LIMITS = {(8, 8): (0.00015, 0.998), (4, 8): (0.0013, 0.993), (4, 4): (0.0100, 0.965)}


def divergences(flashnext, text, folder):
    file, kept = folder / "text", folder / "reference"
    file.write_text(text)
    run = ["perplexity", "--model-dir", DEMO, "--file", file, "--by-document", "--precision", "exact", "--json"]
    base = flashnext.json(*run, "--save-reference", kept, timeout=600)
    found = {bits: flashnext.json(*run, "--reference", kept, "--expert-bits", bits[0], "--dense-bits", bits[1], timeout=600)
             for bits in LIMITS}
    kept.unlink()
    return base["positions"], found


def test_divergence_of_a_few_thousand_positions(flashnext, tmp_path):
    documents = TEXT.read_text().split(END)[:80]
    positions, found = divergences(flashnext, END.join(documents) + END, tmp_path)
    assert positions > 2500
    for bits, (kl, same) in LIMITS.items():  # a sample this small strays
        assert 0 < found[bits]["kl"] <= 2.5 * kl and found[bits]["same_top"] >= same - 0.01, (bits, found[bits])
    assert found[8, 8]["kl"] < found[4, 8]["kl"] < found[4, 4]["kl"]


@pytest.mark.slow
def test_divergence_of_thirty_thousand_positions(flashnext, tmp_path):
    positions, found = divergences(flashnext, TEXT.read_text(), tmp_path)
    assert positions >= 30000
    for bits, (kl, same) in LIMITS.items():
        assert 0 < found[bits]["kl"] <= kl and found[bits]["same_top"] >= same, (bits, found[bits])


def test_squared_error_is_below_absmax_rounding_in_every_class(flashnext):
    bench = flashnext.path.parent / "quantisation_bench"
    table = subprocess.run([bench, DEMO, TEXT, "40"], capture_output=True, text=True, check=True).stdout
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")][2:]
    assert len({row[0] for row in rows}) == 7 and len(rows) == 42
    for name, bits, group, _, of_absmax, _, _ in rows:
        assert float(of_absmax) < (0.99 if bits == "8" else 0.75), (name, bits, group)
