"""Ten ready environments learn from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

from pyro_dynamics import FAMILIES
from pyro_dynamics.runners.main import main
from pyro_dynamics.transitions import Transitions

TINY = [
    *("--rounds", "2", "--episodes", "1"),
    *("--ensemble.members", "2", "--ensemble.hidden", "16", "--ensemble.weight-decay", "1e-5", "1e-5"),
    *("--offline.epochs", "1", "--offline.min-steps", "20"),
    *("--controller.horizon", "3", "--controller.particles", "2"),
    *("--planner.candidates", "20", "--planner.elites", "4", "--planner.iterations", "2"),
]
STEPS = {
    "pendulum-gravity": 12,
    "cartpole-force-length": 60,
    "inverted-pendulum-tilt": 30,
    "reacher-damping": 12,
    "pusher-gain": 12,
    "swimmer-current": 12,
    "hopper-mass": 60,
    "walker2d-friction": 60,
    "ant-gain": 12,
    "halfcheetah-mass-damping": 12,
}
FALL = {"cartpole-force-length", "inverted-pendulum-tilt", "hopper-mass", "walker2d-friction"}


def train(family: str, folder: Path, *flags: str) -> list[dict]:
    assert main(["train", family, *TINY, *flags, "--out", str(folder)]) == 0
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", STEPS)
def test_a_ready_environment_trains_for_two_rounds(name: str, tmp_path: Path) -> None:
    steps, family = STEPS[name], FAMILIES[name]
    rows = train(name, tmp_path / "run", "--steps", str(steps))
    assert [(row["round"], row["environment"]) for row in rows] == [
        (m, k) for m in range(3) for k in range(len(family.train))
    ]
    assert [family.parse_context(row["context"]) for row in rows[: len(family.train)]] == list(family.train)
    assert all(np.isfinite(row["return"]) for row in rows)
    assert all(np.isfinite(row["log_likelihood"]) for row in rows if row["round"])
    lengths = [row["steps"] for row in rows]
    assert max(lengths) <= steps
    assert (min(lengths) < steps) == (name in FALL)
    if family.task().can_terminate:
        ends_are_the_tasks(name, tmp_path / "run", steps)


def ends_are_the_tasks(name: str, folder: Path, steps: int) -> None:
    """Nothing was stored after an end: every stored episode ends where the task says, or at the limit."""
    task = FAMILIES[name].task()
    for file in sorted((folder / "transitions").iterdir()):
        data = Transitions.load(file)
        ended = task.terminated(data.state, data.action, data.next_state)
        for rows in data.episodes():
            assert not ended[rows[:-1]].any()
            assert bool(ended[rows[-1]]) or len(rows) == steps


@pytest.mark.parametrize("name", ["cadm-cartpole", "cadm-ant"])
def test_one_of_cadms_is_scored_on_its_named_test_sets(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(name, tmp_path / "run", "--rounds", "1", "--steps", "6")
    assert main(["evaluate", str(tmp_path / "run"), "--steps", "3"]) == 0
    printed = capsys.readouterr().out
    places = [printed.index(words) for words in ("moderate:", "extreme:", "mean (moderate)", "mean (extreme)")]
    assert places == sorted(places)
    table = json.loads((tmp_path / "run" / "evaluation-steps=3.json").read_text())["contexts"]
    expected = [(name, context) for name, chosen in FAMILIES[name].test_sets.items() for context in chosen]
    assert [(row["set"], FAMILIES[name].parse_context(row["context"])) for row in table] == expected
