"""A simulator's hidden parameter, fitted to the last transitions."""

import numpy as np
import pytest
import torch

from pyro_dynamics.control import ICEM, ICEMConfig
from pyro_dynamics.environments import Context, find_family
from pyro_dynamics.rollouts.simulator_episode import Search, episode
from pyro_dynamics.rollouts.system_identification import Identification, bounds


def identified(name: str, context: Context, steps: int) -> Context:
    """After so many random steps."""
    family, rng = find_family(name), np.random.default_rng(0)
    live = family.make(context, steps + 1)
    live.reset(seed=0)
    model = Identification(family, steps + 1)
    space = live.action_space
    for _ in range(steps):
        model.before(live)
        action = rng.uniform(space.low, space.high).astype(space.dtype)  # type: ignore[attr-defined]
        observation, *_ = live.step(action)
        model.after(action, observation)
    return model.context


@pytest.mark.parametrize("gravity", [3.0, 7.0, 11.0])
def test_it_finds_a_pendulums_gravity_within_2_percent_in_20_steps(gravity: float) -> None:
    assert identified("pendulum-gravity", gravity, 20) == pytest.approx(gravity, rel=0.02)


@pytest.mark.parametrize(
    ("name", "context"),
    [("halfcheetah-gain", 0.4), ("halfcheetah-tilt", 9.0), ("halfcheetah-mass-damping", (1.1, 0.8))],
)
def test_it_finds_a_bodys_physics(name: str, context: Context) -> None:
    assert np.allclose(identified(name, context, 12), context, rtol=0.02)


def test_it_finds_the_dead_actuator() -> None:
    assert identified("halfcheetah-crippled", "front-thigh", 5) == "front-thigh"


def test_it_is_searched_for_where_the_simulator_goes() -> None:
    low, high = bounds(find_family("halfcheetah-gain"))
    assert 0 <= low[0] < 0.25
    assert high[0] == pytest.approx(2.0 + 0.5 * 1.75)


def test_an_agent_that_identifies_earns_what_one_that_knows_earns() -> None:
    family = find_family("halfcheetah-gain")

    def total(believed: list[Context] | None) -> float:
        search = Search(lambda: ICEM(ICEMConfig(candidates=20, elites=5)), 10, 40)
        steps = episode(family, [0.4], believed, search, seed=0)
        return float(torch.stack([step.reward[0] for step in steps]).sum())

    known, found, wrong = total([0.4]), total(None), total([2.0])
    assert found > wrong
    assert abs(found - known) < 0.5 * (known - wrong)
