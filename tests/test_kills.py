"""An adaptation that is killed in mid-work; ``tests/kills.py`` does it many times more, and to other commands too."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_two_kills_leave_the_same_files() -> None:
    program = [sys.executable, str(Path(__file__).with_name("kills.py"))]
    done = subprocess.run([*program, "2", "0", "adapt"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    name, kills, ended, others = done.stdout.splitlines()[-1].split()
    assert (name, kills, others) == ("adapt", "2", "0")
    assert int(ended) >= 1
