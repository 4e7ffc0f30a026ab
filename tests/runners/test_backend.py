"""Figures go to files whatever MPLBACKEND says; and used as a library, the user's own backend is left alone."""

import os
import subprocess
import sys
from pathlib import Path

OF_A_NOTEBOOK = {**os.environ, "MPLBACKEND": "module://a_backend_that_is_not_here"}


def run(*arguments: str, folder: Path) -> str:
    command = [sys.executable, "-m", *arguments]
    ran = subprocess.run(command, cwd=folder, env=OF_A_NOTEBOOK, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_notebooks_backend_breaks_no_command(tmp_path: Path) -> None:
    assert "usage" in run("pyro_dynamics.runners.main", "diagnose", "--help", folder=tmp_path)


def test_a_figure_is_drawn_under_it(tmp_path: Path) -> None:
    small = ["--rounds", "1", "--steps", "4", "--episodes", "1", "--agent", "generalist", "--ensemble.hidden", "8"]
    small += ["--ensemble.weight-decay", "0", "0", "--offline.min-steps", "2", "--offline.epochs", "1"]
    small += ["--controller.horizon", "2", "--planner.candidates", "8", "--planner.elites", "2"]
    run("pyro_dynamics.runners.train", *small, "--out", "run", folder=tmp_path)
    assert (tmp_path / "run" / "training.png").stat().st_size > 1000


def test_an_import_leaves_the_backend_alone() -> None:
    program = "import os, matplotlib, pyro_dynamics.runners.main, pyro_dynamics.runners.train\n"
    program += "print(os.environ['MPLBACKEND'], matplotlib.get_backend())"
    environment = {**os.environ, "MPLBACKEND": "svg"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["svg", "svg"]
