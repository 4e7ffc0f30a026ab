"""The influence of hidden parameters against closed forms."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control.pendulum import PendulumEnv

from pyro_dynamics import Family, find_family
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.reproduction.sensitivity import crossed_targets, influence_in_run, influence_of, random_play, summary
from pyro_dynamics.runners.main import main
from pyro_dynamics.tasks import PendulumTask

PENDULUM = find_family("pendulum-gravity")
GRAVITIES = np.array(PENDULUM.train)


def test_one_step_of_the_pendulum_is_its_closed_form() -> None:
    """A change of gravity by dg changes the velocity by 3 / (2 l) sin(angle) dt dg, and the turn by dt times that."""
    data, seeds = random_play(PENDULUM, states=400, steps=100, horizon=1, seed=1)
    slow = torch.nonzero(data.state[:, 2].abs() < 6.5)[:, 0]  # the simulator cuts velocities at 8 rad/s
    rows = slow[::3].tolist()
    targets = crossed_targets(PENDULUM, data, seeds, rows, 100, (1,))[:, 0]
    in_order = [int(row) for episode in data.episodes() for row in episode if int(row) in set(rows)]
    sine = data.state[in_order, 1].double()
    expected = (1.5 * 0.05 * sine)[:, None] * torch.as_tensor(GRAVITIES - GRAVITIES.mean())
    velocity = targets[..., 1] - targets[..., 1].mean(1, keepdim=True)
    assert torch.allclose(velocity, expected, atol=2e-6)
    found = summary(targets, PendulumTask.target_names)["targets"]
    spread = 1.5 * 0.05 * float(sine.square().mean().sqrt()) * GRAVITIES.std()
    assert found[1]["spread"] == pytest.approx(spread, rel=1e-4)
    assert found[0]["spread"] == pytest.approx(0.05 * spread, rel=1e-3)
    assert found[1]["influence"] == pytest.approx(spread**2 / float(targets[..., 1].var(correction=0)), rel=1e-4)


def test_many_steps_are_the_pendulums_equations_under_the_same_actions() -> None:
    data, seeds = random_play(PENDULUM, states=20, steps=30, horizon=7, seed=0)
    rows = data.episodes()[3][:20:6].tolist()
    targets = crossed_targets(PENDULUM, data, seeds, rows, 30, (1, 7))
    actions = data.action[data.episodes()[3]].double().numpy()
    for i, row in enumerate(rows):
        cos, sin, rate = data.state[row].double().numpy()
        angle, rates = np.full(5, np.arctan2(sin, cos)), np.full(5, rate)
        for (torque,) in actions[6 * i : 6 * i + 7]:
            rates = np.clip(rates + 0.05 * (15 / 10 * GRAVITIES * np.sin(angle) + 3 * torque), -8, 8)
            angle = angle + 0.05 * rates
        assert np.allclose(targets[i, 1, :, 1], rates - rate, atol=1e-4)
        turn = (angle - np.arctan2(sin, cos) + np.pi) % (2 * np.pi) - np.pi
        assert np.allclose(targets[i, 1, :, 0], turn, atol=1e-4)


class ColouredPendulum(PendulumEnv):
    """Its colour explains nothing."""

    def __init__(self, colour: str) -> None:
        super().__init__()
        self.colour = colour


def test_a_context_that_explains_nothing_has_no_influence() -> None:
    family = Family("coloured", ColouredPendulum, "colour", "", ("red", "blue", "green"), ("grey",), PendulumTask)
    for row in influence_of(family, states=30, steps=40)["horizons"]:
        assert row["influence"] == row["root"] == 0
        assert [target["influence"] for target in row["targets"]] == [0, 0]


def test_a_context_that_explains_everything_has_all_and_a_constant_target_has_none() -> None:
    targets = torch.zeros(50, 4, 3)
    targets[..., 0] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    targets[..., 1] = torch.randn(50, 1)
    found = summary(targets, ("decided", "left alone", "constant"))
    assert [row["influence"] for row in found["targets"]] == [1.0, 0.0, None]
    assert found["influence"] == 0.5
    assert found["largest"]["target"] == "decided"


def test_a_steeper_pair_of_slopes_has_more_and_the_same_seed_the_same() -> None:
    mild, steep, again = (
        influence_of(name, states=30, steps=60) for name in ("halfcheetah-tilt-6", *["halfcheetah-tilt-12"] * 2)
    )
    assert steep == again
    assert json.loads(json.dumps(steep)) == steep
    one, many = steep["horizons"]
    # Gravity along the slope, g sin(tilt), changes the velocity at once and the place only after a while.
    assert one["largest"]["target"] == "change of speed (m/s)"
    assert 1.5 < one["root"] / mild["horizons"][0]["root"] < 2.5  # sin(12 degrees) / sin(6 degrees) = 1.99
    assert many["influence"] > 5 * one["influence"]


TINY = [
    *("--rounds", "1", "--episodes", "2", "--steps", "12"),
    *("--ensemble.members", "2", "--ensemble.hidden", "16", "--ensemble.weight-decay", "1e-5", "1e-5"),
    *("--offline.epochs", "1", "--offline.min-steps", "20"),
    *("--controller.horizon", "3", "--controller.particles", "2"),
    *("--planner.candidates", "20", "--planner.elites", "4", "--planner.iterations", "2", "--precision", "float32"),
]


@pytest.mark.parametrize("name", ["halfcheetah-tilt-6", "hopper-mass"])
def test_episodes_of_a_run_are_played_again_exactly(name: str, tmp_path: Path) -> None:
    assert main(["train", name, *TINY, "--out", str(tmp_path / "run")]) == 0
    folder = RunFolder.open(tmp_path / "run")
    random, planned = (influence_in_run(folder, m, states=20, horizons=(1, 5)) for m in (0, 1))
    assert random["horizons"] != planned["horizons"]
    assert influence_in_run(folder, states=20, horizons=(1, 5)) == planned
    assert planned["states"] == 20
    with pytest.raises(UserError, match="no round 2: it has 2 rounds"):
        influence_in_run(folder, 2)
    folder.config["seed"] = 1
    with pytest.raises(UserError, match="differs from the stored one"):
        influence_in_run(folder)


class SecretivePendulum(PendulumEnv):
    """Keeps in an object of its own what its next step depends on."""

    def __init__(self, drift: float) -> None:
        super().__init__()
        self.drift = drift

    def reset(self, **how: Any) -> Any:
        self.clock: Any = iter(range(1000))
        return super().reset(**how)

    def step(self, action: np.ndarray) -> Any:
        return super().step(action + self.drift * next(self.clock) % 2)


class StiffPendulum(PendulumEnv):
    """Computes from its context, when it is made, what its steps use."""

    def __init__(self, size: float) -> None:
        super().__init__()
        self.size, self.l = size, 2 * size


@pytest.mark.parametrize(
    ("environment", "parameter", "words"),
    [(SecretivePendulum, "drift", "cannot be copied in mid-episode"), (StiffPendulum, "size", r"StiffPendulum\.l is")],
)
def test_environments_that_cannot_be_put_elsewhere_are_refused(environment: Any, parameter: str, words: str) -> None:
    family = Family("mine", environment, parameter, "", (0.5, 1.0), (2.0,), PendulumTask)
    with pytest.raises(UserError, match=words):
        influence_of(family, states=20, steps=20, horizons=(1,))


def test_too_short_episodes_are_refused() -> None:
    with pytest.raises(UserError, match="shorter horizons"):
        influence_of("pendulum-gravity", steps=5)
    with pytest.raises(UserError, match="1 step or more"):
        influence_of("pendulum-gravity", steps=5, horizons=(0,))
