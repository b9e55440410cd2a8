"""Longer than in every run of the suite: random conversations whose prefix-cache hits are compared with cold runs, with another seed
each time. The seed is printed; `test.engine.random_hits SEED REQUESTS` repeats it."""
import random
import subprocess

import pytest

from conftest import ROOT


@pytest.mark.slow
def test_hits_have_the_bits_of_cold_runs(flashnext):
    program = flashnext.path.parent / "test.engine.random_hits"
    if not program.exists():
        pytest.skip("this build has no tests")
    seed = random.SystemRandom().randrange(2, 1 << 40)
    done = subprocess.run([program, str(seed), "1500"], cwd=ROOT, capture_output=True, text=True, timeout=600)
    print(done.stdout + done.stderr)
    assert done.returncode == 0, f"seed {seed}"
