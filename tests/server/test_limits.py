"""serve's limits that depend on each other: what was not asked for gives way, what was is refused by its option's name."""
import pytest

from conftest import ROOT
from serving import DEMO, serving

needs_demo = pytest.mark.skipif(not (DEMO / "model.safetensors.index.json").exists(), reason="models/demo has no weights")


@needs_demo
@pytest.mark.parametrize("options,words", [
    (("--parallel", 129), ("--parallel", "1 to 128", "129")),
    (("--parallel", 11, "-c", 20), ("--parallel", "found 11", "at most 10", "--context")),
    (("--parallel", 9, "--chunk", 16), ("--chunk", "--parallel 9")),
    (("-c", 1), ("--parallel", "--context")),
    (("--cache-dir", "{tmp}", "--cache-size", 0), ("--cache-dir", "--cache-size 0")),
])
def test_what_cannot_be_is_refused_by_name(options, words, flashnext, tmp_path):
    done = flashnext.run("serve", "--port", 0, *(str(o).format(tmp=tmp_path) for o in options))
    assert done.returncode == 2 and all(word in done.stderr for word in words), done.stderr
    complaint = done.stderr.strip().split("\n")[-1]
    assert not any(name in complaint for name in ("max_running", "cache_dir", "cache_bytes")), done.stderr


@needs_demo
@pytest.mark.parametrize("options,slots", [((), 16), (("-c", 20), 10), (("--chunk", 8), 4), (("--parallel", 128), 128), (("--parallel", 10, "-c", 20), 10)])
def test_as_many_answers_at_once_as_there_is_room_for(options, slots, flashnext):
    with serving(flashnext, "-t", 2, *options) as server:
        assert server.get("/props").json()["total_slots"] == slots
        reply = server.post("/v1/completions", {"prompt": "A lighthouse", "max_tokens": 4, "n": min(slots, 8)})
        assert reply.status_code == 200, reply.text


@needs_demo
def test_a_draft_model_of_the_environment_can_be_put_aside(flashnext):
    environment = dict(FLASHNEXT_DRAFT_MODEL=str(ROOT / "models" / "demo-draft"))
    done = flashnext.run("chat", "--draft", "off", "--prompt", "hi", "-n", 4, **environment)
    assert done.returncode == 0, done.stderr
