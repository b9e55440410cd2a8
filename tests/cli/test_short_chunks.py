"""A pass that verifies drafts may be longer than a chunk of the prompt."""
import pytest

from conftest import DATA


@pytest.mark.parametrize("draft", [["--draft", "auto"], ["--draft", "lookup", "--draft-fixed"], ["--draft", "mtp", "--draft-fixed", "--draft-tokens", 4]])
@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_chunks_shorter_than_the_drafts_change_nothing(draft, chunk, flashnext, tmp_path):
    (tmp_path / "ids.json").write_text("[5, 6, 7, 5, 6, 7, 5, 6]")
    ask = ["run", "-m", DATA / "mini-bf16" / "checkpoint", "--ids-file", tmp_path / "ids.json", "-n", 24, "--temp", 0, "--ignore-eos", "--json"]
    plain = flashnext.json(*ask, "--draft", "off")["ids"]
    assert len(plain) == 24 and flashnext.json(*ask, *draft, "--chunk", chunk)["ids"] == plain
