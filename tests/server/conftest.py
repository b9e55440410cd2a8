"""One server with the demo model for all tests that need no options of their own."""
import pytest

from serving import DEMO, serving


@pytest.fixture(scope="session")
def server(flashnext):
    if not (DEMO / "model.safetensors.index.json").exists():
        pytest.skip("models/demo has no weights")
    with serving(flashnext, "-t", 2) as running:
        yield running
        assert running.process.poll() is None, running.read_log()[-3000:]
    assert running.process.returncode == 0, running.seen[-3000:]
