"""Gymnasium's own environments and wrappers train and adapt, or are refused in one line that is right."""

from pathlib import Path

import gymnasiums_own
import numpy as np
import pytest

from pyro_dynamics.rollouts.task_check import hidden_state
from pyro_dynamics.runners.main import main

TINY = (
    *("--rounds", "1", "--steps", "15", "--episodes", "1", "--offline.min-steps", "30", "--out", "run"),
    *("--ensemble.members", "2", "--ensemble.hidden", "16", "--ensemble.weight-decay", "0", "0"),
    *("--controller.horizon", "3", "--controller.particles", "2", "--planner.candidates", "10"),
    *("--planner.elites", "3"),
)


@pytest.fixture(autouse=True)
def _stand_beside_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "state", "action"),  # their sizes, with a reward and a termination that are learned
    [
        ("cartpole", 4 + 2, 2),
        ("acrobot", 7 + 2, 3),
        ("mountain_car", 6 + 2, 3),
        ("pendulum", 3 + 2, 5),
        ("half_precision", 3 + 2, 1),
        ("lake", 16 + 2, 4),
        ("blackjack", 45 + 2, 2),
    ],
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_it_trains_and_adapts(name: str, state: int, action: int) -> None:
    assert main(["train", f"gymnasiums_own:{name}", *TINY]) == 0
    for m in (0, 1):
        with np.load(f"run/transitions/round-00{m}.npz") as file:
            assert (file["state"].shape[1], file["action"].shape[1]) == (state, action)
            assert action == 1 or (np.sort(file["action"], 1)[:, -2:] == [0.0, 1.0]).all()
    context = sum(gymnasiums_own.OWN[name][3]) / 2
    assert main(["adapt", "run", "--context", str(context), "--steps", "4", "--quiet"]) == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("delayed", "in the wrapper DelayObservation the environment is ahead of what is observed"),
        ("sticky", "in the wrapper StickyAction the last action is repeated at random"),
        ("cartpole", ""),
    ],
)
def test_a_wrapper_that_hides_state_is_warned_of(name: str, words: str) -> None:
    family = gymnasiums_own.family(name)
    found = hidden_state(family.make_vector(family.train, 50))
    assert [line[: len(words)] for line in found] == [words] * bool(words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rescaled_choice", "raised TypeError: RescaleAction requires a Box action space, got"),
        ("fine", "a one-hot code of 531441 entries is too long to be learned (at most 10000)"),
        ("clipped", "action 0 lies between -inf and inf: the planner searches between the bounds"),
        ("rescaled_infinity", "raised ValueError: For unbounded components, the target bounds must match"),
        ("old", "raised ImportError: The mujoco v2 and v3 based environments have been moved"),
        ("racing", ""),  # an image; or Box2D is not installed
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*out of date")
def test_it_is_refused_in_one_line(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", f"gymnasiums_own:{name}", *TINY]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert words in line
    assert words or "images are not modelled" in line or "Box2D is not installed" in line
    assert not Path("run").exists()
