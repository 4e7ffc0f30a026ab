"""Commands that are killed in mid-work; ``tests/kills.py`` does the same many times more."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("command", ["train", "adapt", "diagnose"])
def test_two_kills_leave_the_same_files(command: str) -> None:
    program = Path(__file__).with_name("kills.py")
    done = subprocess.run(
        [sys.executable, str(program), "2", "0", command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    name, kills, ended, others = done.stdout.splitlines()[-1].split()
    assert (name, kills, others) == (command, "2", "0")
    assert int(ended) >= 1
