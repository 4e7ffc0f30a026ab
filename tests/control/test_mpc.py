"""The planner against the TRUE dynamics: if this fails, no learned model can save it."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.distributions import Independent, Normal

from pyro_dynamics.control import MPC, CEMConfig, MPCConfig, TrajectorySampler
from pyro_dynamics.tasks import PendulumTask

GRAVITY = torch.tensor([4.0, 10.0])
LOW, HIGH = torch.tensor([-2.0]), torch.tensor([2.0])


def belief(mean: Tensor, scale: float = 1e-6) -> Independent:
    return Independent(Normal(mean[:, None], scale), 1)


def true_pendulum(inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
    """Gymnasium's equations, with gravity as the latent and no noise."""
    _, sin, velocity, torque = inputs.unbind(-1)
    faster = (velocity + (1.5 * latent[..., 0] * sin + 3 * torque.clamp(-2, 2)) * 0.05).clamp(-8, 8)
    step = torch.stack([faster * 0.05, faster - velocity], -1)
    return step, torch.zeros_like(step)


def test_swings_two_pendulums_up_under_different_gravities(generator: torch.Generator) -> None:
    task = PendulumTask()
    config = MPCConfig(horizon=30, particles=2, cem=CEMConfig(candidates=200, elites=20, iterations=4))
    mpc = MPC(TrajectorySampler(true_pendulum, task, 2, 2), LOW, HIGH, config)
    state = torch.tensor([[-1.0, 0.0, 0.0]]).repeat(2, 1)  # hanging down at rest
    environment = torch.arange(2)
    upright = []
    for _ in range(150):
        action = mpc.act(state, belief(GRAVITY), environment, generator)
        assert (action.abs() <= 2).all()
        step, _ = true_pendulum(task.inputs(state, action), GRAVITY[:, None])
        state = task.next_state(state, step)
        upright.append(state[:, 0] > math.cos(0.2))
    assert torch.stack(upright)[-40:].all()


def test_latents_are_drawn_from_the_posterior_in_every_iteration(generator: torch.Generator) -> None:
    seen: list[Tensor] = []

    def dynamics(inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        seen.append(latent)
        return true_pendulum(inputs, latent)

    config = MPCConfig(horizon=3, particles=400, cem=CEMConfig(candidates=10, elites=2, iterations=4))
    mpc = MPC(TrajectorySampler(dynamics, PendulumTask(), 2, 400), LOW, HIGH, config)
    mean, environment = torch.tensor([-5.0, 5.0]), torch.tensor([1, 0, 1])
    mpc.act(torch.tensor([[1.0, 0.0, 0.0]]).repeat(3, 1), belief(mean, 0.5), environment, generator)
    assert len(seen) == 4 * 3
    draws = [latent.unflatten(1, (3, 10, 200))[:, :, 0].transpose(0, 1).flatten(1) for latent in seen[::3]]  # [B, P]
    for first, second in pairwise(draws):
        assert not torch.equal(first, second)
    every = torch.cat(draws, 1)
    assert torch.allclose(every.mean(1), mean[environment], atol=0.1)  # each robot draws from ITS environment
    assert torch.allclose(every.std(1), torch.full((3,), 0.5), atol=0.05)


def test_the_next_plan_starts_from_the_last_one_shifted_by_a_step(generator: torch.Generator) -> None:
    config = MPCConfig(horizon=4, particles=1, cem=CEMConfig(candidates=20, elites=5, iterations=1, smoothing=0.999999))
    mpc = MPC(TrajectorySampler(true_pendulum, PendulumTask(), 1, 1), LOW, HIGH, config)
    old = torch.tensor([0.1, 0.2, 0.3, 0.4]).view(1, 4, 1)
    mpc.plan = old
    action = mpc.act(torch.tensor([[1.0, 0.0, 0.0]]), belief(GRAVITY[:1]), torch.tensor([0]), generator)
    assert float(action) == pytest.approx(0.1 * 2, abs=1e-3)  # mapped from [-1, 1] to [-2, 2]
    assert mpc.plan.flatten().tolist() == pytest.approx([0.2, 0.3, 0.4, 0.0], abs=1e-3)
    mpc.reset()
    assert mpc.plan is None


def test_actions_are_mapped_to_bounds_that_are_not_symmetric() -> None:
    mpc = MPC(
        TrajectorySampler(true_pendulum, PendulumTask(), 1, 1), torch.tensor([0.0]), torch.tensor([5.0]), MPCConfig()
    )
    assert mpc.to_units(torch.tensor([-1.0, 0.0, 1.0]).unsqueeze(1)).flatten().tolist() == [0.0, 2.5, 5.0]
