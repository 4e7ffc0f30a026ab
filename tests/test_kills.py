"""Commands that are killed in mid-work leave what they leave undisturbed; of reproduce: runners/test_reproduce.py."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import files_of

from pyro_dynamics.runners.main import main

pytestmark = pytest.mark.slow

TRAIN = (
    *("train", "--rounds", "3", "--steps", "25", "--episodes", "1", "--ensemble.hidden", "16"),
    *("--ensemble.weight-decay", "0", "0", "--offline.min-steps", "50", "--offline.epochs", "2"),
    *("--controller.horizon", "5", "--planner.candidates", "20", "--planner.elites", "4"),
)
ADAPT = ("adapt", "RUN", "--schedule", "0:3,20:9", "--steps", "40", "--update", "kalman", "--belief", "changepoint")


@pytest.mark.parametrize(("command", "longest"), [(TRAIN, 2.0), (ADAPT, 1.0)], ids=["train", "adapt"])
def test_three_kills_leave_the_same_files(command: tuple[str, ...], longest: float, tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    if command == ADAPT:
        assert main([*TRAIN, "--out", str(run)]) == 0
    arguments = [str(run) if word == "RUN" else word for word in command] + ["--out", str(out)]
    assert main(arguments) == 0
    undisturbed = files_of(out)
    shutil.rmtree(out)
    program = [sys.executable, str(Path(__file__).with_name("killed.py")), "3", "0", str(longest), *arguments]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 1
    assert files_of(out) == undisturbed
