"""What the Python tests share: where things are, the program, and checkpoints that may be damaged."""
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
SHARED = ROOT.parent / "shared"  # further fixtures, where a workplace has them


class Program:
    """The built `flashnext`."""

    def __init__(self, path):
        self.path = path

    def run(self, *arguments, stdin="", timeout=120, **environment):
        """The finished process; standard input and outputs are text."""
        return subprocess.run([self.path, *map(str, arguments)], input=stdin, capture_output=True, text=True,
                              timeout=timeout, env={**os.environ, "FLASHNEXT_HOME": str(ROOT), **environment})

    def ok(self, *arguments, **options):
        done = self.run(*arguments, **options)
        assert done.returncode == 0, f"{' '.join(map(str, arguments))}: exit code {done.returncode}\n{done.stderr[-3000:]}"
        return done.stdout

    def json(self, *arguments, **options):
        return json.loads(self.ok(*arguments, **options))


@pytest.fixture(scope="session")
def flashnext():
    path = Path(os.environ.get("FLASHNEXT_BIN", ROOT / "build" / "release" / "flashnext"))
    assert path.exists(), f"{path} is not built"
    return Program(path)


@pytest.fixture
def copy_of(tmp_path):
    """Copies a checkpoint of tests/data to a place where it may be damaged."""
    def copy(name):
        folder = tmp_path / name
        shutil.copytree(DATA / name / "checkpoint", folder)
        return folder
    return copy
