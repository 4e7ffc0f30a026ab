"""Discrete actions: one-hot codes are planned, and what is planned is good under the true dynamics."""

import itertools
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from torch import Tensor
from torch.distributions import Independent, Normal

from pyro_dynamics.control import MPC, PLANNERS, CEMConfig, MPCConfig, MPPIConfig, TrajectorySampler
from pyro_dynamics.environments.vector_env import VectorEnv
from pyro_dynamics.tasks import BoxTask, Task
from pyro_dynamics.tasks.spaces import ActionVector, decide

NOWHERE = Independent(Normal(torch.zeros(1, 1), 1e-6), 1)
SETTINGS: dict[str, Any] = {"cem": CEMConfig(100, 10, 4), "mppi": MPPIConfig(100, 4)}
every_planner = pytest.mark.parametrize("name", ["cem", "icem", "mppi"])


def test_a_code_is_decided_by_its_largest_entry(generator: torch.Generator) -> None:
    space = ActionVector(Dict({"arm": Box(-2.0, 2.0, (2, 1)), "grip": MultiBinary(2), "gear": Discrete(3, start=-1)}))
    assert space.choices == ((2, 3), (5, 1), (6, 1))  # of a dictionary's entries gear comes before grip
    assert (space.low.tolist(), space.high.tolist()) == ([-2, -2, 0, 0, 0, 0, 0], [2, 2, 1, 1, 1, 1, 1])
    given = torch.rand(4, 6, 7, generator=generator)
    found = decide(given, space.choices)
    assert torch.equal(found[..., :2], given[..., :2])
    assert torch.equal(found[..., 2:5].argmax(-1), given[..., 2:5].argmax(-1))
    assert torch.equal(found[..., 2:5].sum(-1), torch.ones(4, 6))
    assert torch.equal(found[..., 5:], (given[..., 5:] > 0.5).float())
    assert ActionVector(MultiDiscrete([2, 4])).choices == ((0, 2), (2, 4))


def test_a_sample_is_a_code() -> None:
    """Code that draws from the environment's own space sends and logs what the environment takes it for."""
    space = ActionVector(Dict({"arm": Box(-2.0, 2.0, (2,)), "grip": MultiBinary(2), "gear": Discrete(3)}))
    space.seed(0)
    drawn = torch.from_numpy(np.stack([space.sample() for _ in range(200)]))
    assert torch.equal(decide(drawn, space.choices), drawn)
    assert (drawn.std(0) > 0).all()
    assert all(space.contains(one.numpy()) for one in drawn)


class Boards(Task):
    """A place in a plane, moved by one of n boards of unknown order; the reward is the distance to a goal."""

    state_dim = feature_dim = target_dim = 2

    def __init__(self, count: int, generator: torch.Generator) -> None:
        self.action_dim, self.choices = count, ((0, count),)
        self.moves = torch.randn(count, 2, generator=generator) / 2
        self.goal = 1.5 * torch.randn(2, generator=generator)

    def dynamics(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        place, code = inputs[..., :2], inputs[..., 2:]
        assert torch.equal(code.sum(-1), torch.ones(code.shape[:-1]))  # the network is asked of codes alone
        assert ((code == 0) | (code == 1)).all()
        step = code @ self.moves + 0.3 * torch.sin(3 * place.flip(-1))
        return step, torch.zeros_like(step)

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return -(next_state - self.goal).norm(dim=-1)


@every_planner
@pytest.mark.parametrize(("count", "horizon"), [(2, 8), (4, 5), (6, 4)])
def test_the_first_action_is_nearly_as_good_as_that_of_an_exhaustive_search(
    name: str, count: int, horizon: int, generator: torch.Generator
) -> None:
    """Its regret is the share of what lies between the best sequence and a random one."""
    regrets, by_chance = [], []
    codes = torch.eye(count)[torch.tensor(list(itertools.product(range(count), repeat=horizon)))]
    for _ in range(30):
        task, state = Boards(count, generator), torch.randn(1, 2, generator=generator)
        sampler = TrajectorySampler(task.dynamics, task, 1, 1)
        planner = PLANNERS[name](SETTINGS.get(name))
        mpc = MPC(sampler, torch.zeros(count), torch.ones(count), MPCConfig(horizon, 1), planner)
        action = mpc.act(state, NOWHERE, torch.zeros(1, dtype=torch.long), generator)[0]
        assert sorted(action.tolist()) == [0.0] * (count - 1) + [1.0]
        returns = sampler.returns(state, codes[None], torch.zeros(1, 1, 0), generator)[0]
        best = torch.stack([returns[codes[:, 0, first] == 1].max() for first in range(count)])
        regret = (best.max() - best) / (returns.max() - returns.mean())
        regrets.append(regret[action.argmax()])
        by_chance.append(regret.mean())
    assert torch.stack(regrets).mean() < 0.02
    assert torch.stack(regrets).mean() < 0.1 * torch.stack(by_chance).mean()


def cart_pole(env: Any) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Gymnasium's equations, of a one-hot code of left and right."""

    def dynamics(inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        _, speed, angle, rate, left, right = inputs.unbind(-1)
        push = (env.force_mag * (right - left) + env.polemass_length * rate**2 * angle.sin()) / env.total_mass
        turn = (env.gravity * angle.sin() - angle.cos() * push) / (
            env.length * (4 / 3 - env.masspole * angle.cos() ** 2 / env.total_mass)
        )
        step = torch.stack([speed, push - env.polemass_length * turn * angle.cos() / env.total_mass, rate, turn], -1)
        return env.tau * step, torch.zeros_like(step)

    return dynamics


@every_planner
def test_it_balances_gymnasiums_own_cart_pole(name: str, generator: torch.Generator) -> None:
    own = gymnasium.make("CartPole-v1")
    env = VectorEnv(own)
    task = BoxTask(own, lambda state, action, next_state: -(next_state[..., 2] ** 2 + 0.01 * next_state[..., 0] ** 2))
    sampler = TrajectorySampler(cart_pole(own.unwrapped), task, 1, 1)
    low, high = torch.zeros(2), torch.ones(2)
    mpc = MPC(sampler, low, high, MPCConfig(horizon=12, particles=1), PLANNERS[name](SETTINGS.get(name)))
    observation, _ = env.reset(seed=3)
    sent = []
    for _ in range(70):
        action = mpc.act(torch.as_tensor(observation)[None], NOWHERE, torch.zeros(1, dtype=torch.long), generator)[0]
        sent.append(int(action.argmax()))
        observation, _, fallen, _, _ = env.step(action.numpy())
        assert not fallen, (len(sent), observation)
    assert 0.3 < np.mean(sent) < 0.7
