"""The controller: latents of each particle, warm start, units; the planners' own tests are in test_planners.py."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.distributions import Independent, Normal

from pyro_dynamics.control import CEM, MPC, CEMConfig, MPCConfig, TrajectorySampler
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


def test_latents_are_drawn_from_the_posterior_in_every_iteration(generator: torch.Generator) -> None:
    seen: list[Tensor] = []

    def dynamics(inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        seen.append(latent)
        return true_pendulum(inputs, latent)

    sampler, planner = TrajectorySampler(dynamics, PendulumTask(), 2, 400), CEM(CEMConfig(10, 2, iterations=4))
    mpc = MPC(sampler, LOW, HIGH, MPCConfig(horizon=3, particles=400), planner)
    mean, environment = torch.tensor([-5.0, 5.0]), torch.tensor([1, 0, 1])
    mpc.act(torch.tensor([[1.0, 0.0, 0.0]]).repeat(3, 1), belief(mean, 0.5), environment, generator)
    assert len(seen) == 4 * 3
    draws = [latent.unflatten(1, (3, 10, 200))[:, :, 0].transpose(0, 1).flatten(1) for latent in seen[::3]]  # [B, P]
    for first, second in pairwise(draws):
        assert not torch.equal(first, second)
    every = torch.cat(draws, 1)
    assert torch.allclose(every.mean(1), mean[environment], atol=0.1)  # each row draws from ITS environment
    assert torch.allclose(every.std(1), torch.full((3,), 0.5), atol=0.05)


def small(planner: CEM) -> MPC:
    return MPC(TrajectorySampler(true_pendulum, PendulumTask(), 1, 1), LOW, HIGH, MPCConfig(4, 1), planner)


def test_the_next_plan_starts_from_the_last_one_shifted_by_a_step(generator: torch.Generator) -> None:
    planner = CEM(CEMConfig(candidates=20, elites=5, iterations=1, smoothing=0.999999))
    mpc = small(planner)
    planner.mean = torch.tensor([0.1, 0.2, 0.3, 0.4]).view(1, 4, 1)
    action = mpc.act(torch.tensor([[1.0, 0.0, 0.0]]), belief(GRAVITY[:1]), torch.tensor([0]), generator)
    assert float(action) == pytest.approx(0.1 * 2, abs=1e-3)  # mapped from [-1, 1] to [-2, 2]
    assert planner.mean.flatten().tolist() == pytest.approx([0.2, 0.3, 0.4, 0.0], abs=1e-3)
    mpc.reset()
    assert planner.mean is None


def test_a_change_widens_the_search_in_that_environment_alone(generator: torch.Generator) -> None:
    planner = CEM(CEMConfig(candidates=20, elites=5))
    mpc = small(planner)
    mpc.reset_plans(torch.tensor([0]))  # nothing was planned yet: nothing to forget
    environment = torch.tensor([1, 0, 1])
    mpc.act(torch.tensor([[-1.0, 0.0, 0.0]]).repeat(3, 1), belief(GRAVITY), environment, generator)
    before = planner.mean
    mpc.reset_plans(torch.tensor([1]))
    assert before is not None
    assert planner.mean is not None
    assert (planner.mean[[0, 2]] == 0).all()
    assert before[1].any()
    assert torch.equal(planner.mean[1], before[1])


def test_actions_are_mapped_to_bounds_that_are_not_symmetric() -> None:
    sampler = TrajectorySampler(true_pendulum, PendulumTask(), 1, 1)
    mpc = MPC(sampler, torch.tensor([0.0]), torch.tensor([5.0]), MPCConfig(), CEM())
    assert mpc.to_units(torch.tensor([-1.0, 0.0, 1.0]).unsqueeze(1)).flatten().tolist() == [0.0, 2.5, 5.0]
