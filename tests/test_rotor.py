"""An agent and a robot whose angle counts through, with float64 bounds of its actions that float32 does not have."""

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.testing import assert_allclose

import pyro_dynamics as pd
from pyro_dynamics.errors import UserError
from pyro_dynamics.tasks import BoxTask

SMALL: dict[str, Any] = {
    "rounds": 1,
    "steps": 25,
    "episodes": 1,
    "offline": {"min_steps": 60, "epochs": 2},
    "controller": {"horizon": 4},
    "planner_config": {"candidates": 12, "elites": 4},
}


class Rotor(gymnasium.Env):
    """An angle that counts through, a speed, and friction; the space of its actions is of float64."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gymnasium.spaces.Box(-0.1, 0.1, (1,), np.float64)

    def __init__(self, friction: float = 1.0) -> None:
        self.friction = friction

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.angle, self.speed = self.np_random.uniform(-1, 1), 0.0
        return np.array([self.angle, self.speed], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(np.asarray(action))
        self.speed += 2 * float(action[0]) + 0.1 * np.sin(self.angle) - 0.1 * self.friction * self.speed
        self.angle += 0.2 * self.speed
        return np.array([self.angle, self.speed], np.float32), self.speed, False, False, {}


def rotors(*train: float) -> pd.Family:
    task = lambda: BoxTask(Rotor(), lambda state, action, after: after[..., 1], angles=(0,))  # noqa: E731
    return pd.Family("rotor", Rotor, "friction", "1/s", train=train, test=(3.0,), task=task)


def test_whole_turns_of_an_angle_are_nothing(tmp_path: Path) -> None:
    agent = pd.train(rotors(0.5, 1.0, 2.0), out=tmp_path / "run", **SMALL)
    before = [-0.5, 0.1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.update(before, [0.05], [-0.48, 0.12])
        first = agent.belief.mean
        agent.reset_belief()
        agent.update([before[0] + 24 * np.pi, before[1]], [0.05], [24 * np.pi - 0.48, 0.12])
    assert_allclose(agent.belief.mean, first, atol=1e-3)
    with pytest.warns(UserWarning, match="in all that was trained on, and is 500 now"):
        agent.act([0.0, 500.0])


@pytest.mark.parametrize("execute", ["mean", "best"])
def test_actions_are_within_bounds_that_float32_does_not_have(execute: Any, tmp_path: Path) -> None:
    planner = {"candidates": 12, "elites": 4, "execute": execute}
    agent = pd.train(rotors(0.5, 1.0, 2.0), out=tmp_path / "run", planner="icem", **SMALL | {"planner_config": planner})
    env = Rotor()
    observation, _ = env.reset(seed=0)
    for _ in range(15):
        observation, *_ = env.step(agent.act(observation))  # which contains() checks


def test_one_context_decodes_nothing(tmp_path: Path) -> None:
    agent = pd.train(rotors(1.0), out=tmp_path / "run", **SMALL)
    agent.update([-0.5, 0.1], [0.05], [-0.48, 0.12])
    with pytest.raises(UserError, match="rotor was trained on one context, and what a latent means"):
        agent.belief.decode()
    assert "nearest 1" in repr(agent.belief)
    assert "friction" not in agent.to_datatree().posterior
