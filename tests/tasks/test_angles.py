import math
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import Tensor

from pyro_dynamics.errors import UserError
from pyro_dynamics.tasks import BoxTask


class Spaces:
    """Nothing but the spaces."""

    def __init__(self, low: Sequence[float], high: Sequence[float]) -> None:
        self.observation_space = Box(np.array(low, np.float32), np.array(high, np.float32))
        self.action_space = Box(-1.0, 1.0, (1,))


def none(state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
    return next_state[..., 0]


RANGES: dict[str, tuple[float, float, float]] = {
    "-pi to pi": (-math.pi, math.pi, 2 * math.pi),
    "0 to 2 pi": (0.0, 2 * math.pi, 2 * math.pi),
    "-3.15 to 3.15": (-3.15, 3.15, 2 * math.pi),
    "degrees": (-180.0, 180.0, 360.0),
    "0 to 360": (0.0, 360.0, 360.0),
}


@pytest.mark.parametrize("learned", [False, True], ids=["given", "learned"])
@pytest.mark.parametrize("name", RANGES)
def test_a_small_turn_over_the_end_of_the_range_is_small(name: str, learned: bool, generator: torch.Generator) -> None:
    low, high, turn = RANGES[name]
    how: Any = {"reward": "learned", "terminated": "learned"} if learned else {"reward": none}
    task = BoxTask(Spaces([-np.inf, low], [np.inf, high]), angles=[1], names=("speed", "angle"), **how)
    own_low = (low + high - turn) / 2  # where the angle itself wraps

    def wrapped(angle: Tensor) -> Tensor:
        return own_low + torch.remainder(angle - own_low, turn)

    state = torch.randn(400, task.state_dim, generator=generator)
    next_state = state + 0.1 * torch.randn(400, task.state_dim, generator=generator)
    angle = turn * torch.rand(400, generator=generator)
    change = 0.05 * turn * torch.randn(400, generator=generator)
    state[:, 1], next_state[:, 1] = wrapped(angle), wrapped(angle + change)
    if learned:
        state[:, -1], next_state[:, -1] = 0.0, 0.0
    assert ((next_state - state)[:, 1].abs() > 0.6 * turn).any()  # it does go over the end
    task.fit(state, next_state)
    targets = task.targets(state, next_state)
    raw = targets[:, 1] * task.state_dict()["scale"][1] + task.state_dict()["mean"][1]
    assert torch.allclose(raw, change, atol=1e-4 * turn)
    again = task.next_state(state, targets)
    assert torch.allclose(again, next_state, atol=1e-4 * turn)
    features = task.features(state)
    assert features.shape == (400, task.feature_dim) == (400, 3)
    radians = state[:, 1] * 2 * math.pi / turn
    assert torch.allclose(features, torch.stack([state[:, 0], radians.cos(), radians.sin()], 1), atol=1e-5)
    assert len(task.state_names) == task.state_dim


def test_an_angle_without_bounds_counts_through() -> None:
    task = BoxTask(Spaces([-np.inf, -np.inf], [np.inf, np.inf]), none, angles={1: 1.0})
    state = torch.tensor([[0.0, 6.9]])
    target = torch.tensor([[0.0, 0.2]])
    assert torch.allclose(task.next_state(state, target), torch.tensor([[0.0, 7.1]]))
    assert torch.allclose(task.targets(state, torch.tensor([[0.0, 0.1]])), torch.tensor([[0.0, 0.2]]), atol=1e-6)


def test_a_reward_sees_the_observation_and_not_the_features() -> None:
    seen = []

    def reward(state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        seen.append(next_state)
        return next_state[..., 1]

    task = BoxTask(Spaces([-9.0, -math.pi], [9.0, math.pi]), reward, angles=(1,))
    state = torch.tensor([[2.0, 1.0], [3.0, -1.0]])
    assert torch.equal(task.reward(state, state[:, :1], state), torch.tensor([1.0, -1.0]))
    assert torch.equal(seen[0], state)


@pytest.mark.parametrize(
    ("angles", "words"),
    [
        ((2,), "names the entry 2: an observation has the entries 0 to 1"),
        ((-1,), "names the entry -1"),
        (("angle",), "names the entry 'angle'"),
        ((0, 0), "names an entry twice"),
        ({0: 0.0}, "must be a positive number, not 0.0"),
        ({0: math.nan}, "must be a positive number"),
        ((True,), "names the entry True"),
    ],
)
def test_angles_that_are_not_there_are_refused(angles: Sequence[int] | Mapping[int, float], words: str) -> None:
    with pytest.raises(UserError, match=words):
        BoxTask(Spaces([-1.0, -1.0], [1.0, 1.0]), none, angles=angles)


def test_gymnasium_cartpole_like_bounds_are_no_turn() -> None:
    """A pole's angle between -0.42 and 0.42 does not wrap there."""
    env = gymnasium.make("CartPole-v1")
    spaces = Spaces(env.observation_space.low.tolist(), env.observation_space.high.tolist())  # type: ignore[attr-defined]
    task = BoxTask(spaces, none, angles=(2,))
    state = torch.tensor([[0.0, 0.0, 0.4, 0.0]])
    assert torch.allclose(task.next_state(state, torch.full((1, 4), 0.1)), state + 0.1)
