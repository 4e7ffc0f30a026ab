from collections.abc import Iterator
from statistics import mean, stdev

import pytest
import torch
from torch import Tensor

from pyro_dynamics.control import TrajectorySampler
from pyro_dynamics.control.trajectory_sampling import Dynamics
from pyro_dynamics.errors import UserError
from pyro_dynamics.models import Ensemble, EnsembleConfig
from pyro_dynamics.tasks import Task

MEMBERS, PARTICLES, ROWS, CANDIDATES, HORIZON = 2, 6, 3, 4, 5


class Counter(Task):
    """A state of three numbers that a network can write marks into; the reward is the first of them."""

    state_dim, action_dim, feature_dim, target_dim = 3, 1, 3, 3

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return next_state[..., 0]


class Mortal(Counter):
    can_terminate = True

    def terminated(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return next_state[..., 0] >= 2.5


def test_particles_are_spread_evenly_and_keep_member_and_latent(generator: torch.Generator) -> None:
    seen: list[tuple[Tensor, Tensor]] = []

    def dynamics(inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        seen.append((inputs, latent))
        step = torch.zeros(*inputs.shape[:-1], 3)
        step[..., 1] = torch.arange(MEMBERS)[:, None].expand(inputs.shape[:-1])  # each member adds its number
        step[..., 2] = latent[..., 0]  # and the latent adds itself
        return step, torch.zeros_like(step)

    sampler = TrajectorySampler(dynamics, Counter(), MEMBERS, PARTICLES)
    latents = torch.randn(ROWS, PARTICLES, 2, generator=generator)
    sampler.returns(torch.zeros(ROWS, 3), torch.zeros(ROWS, CANDIDATES, HORIZON, 1), latents, generator)

    assert len(seen) == HORIZON
    first = seen[0][1].unflatten(1, (ROWS, CANDIDATES, PARTICLES // MEMBERS))
    for k in range(ROWS):
        for candidate in range(CANDIDATES):  # three particles a member, for every candidate; all six latents are used
            assert torch.equal(first[:, k, candidate].flatten(0, 1), latents[k])
    for t, (inputs, latent) in enumerate(seen):
        assert torch.equal(latent, seen[0][1])
        assert torch.allclose(
            inputs[..., 1], t * torch.arange(float(MEMBERS))[:, None].expand(MEMBERS, inputs.shape[1])
        )
        assert torch.allclose(inputs[..., 2], t * latent[..., 0], atol=1e-5)


def test_return_is_the_mean_over_particles_of_the_summed_reward(generator: torch.Generator) -> None:
    def dynamics(inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        step = torch.zeros(*inputs.shape[:-1], 3)
        step[..., 0] = inputs[..., 3] + latent[..., 0]  # the action, and the latent
        return step, torch.zeros_like(step)

    sampler = TrajectorySampler(dynamics, Counter(), MEMBERS, PARTICLES)
    actions = torch.randn(ROWS, CANDIDATES, HORIZON, 1, generator=generator)
    latents = torch.randn(ROWS, PARTICLES, 1, generator=generator)
    returns = sampler.returns(torch.ones(ROWS, 3), actions, latents, generator)
    steps = torch.arange(1.0, HORIZON + 1)
    position = 1 + actions[..., 0].cumsum(-1) + steps * latents.mean(1)[:, None]
    assert torch.allclose(returns, position.sum(-1), atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_returns_can_be_differentiated_where_gradients_are_wanted(
    dtype: torch.dtype, generator: torch.Generator
) -> None:
    net = Ensemble(4, 1, 3, EnsembleConfig(MEMBERS, (16,), (0.0, 0.0)))
    net.planning_dtype = dtype
    net.max_log_variance.data.fill_(-40.0)  # next to no noise: a plan may draw its own
    net.min_log_variance.data.fill_(-40.0)
    sampler = TrajectorySampler(net, Counter(), MEMBERS, PARTICLES)
    arguments = torch.ones(1, 3), torch.zeros(1, 2, HORIZON, 1, requires_grad=True), torch.zeros(1, PARTICLES, 1)
    returns = sampler.returns(*arguments, generator.manual_seed(0))
    (slope,) = torch.autograd.grad(returns.sum(), arguments[1])
    assert slope[0, :, 0].abs().min() > 0
    with torch.inference_mode():
        planned = sampler.for_planning().returns(*arguments, generator.manual_seed(0))
    assert torch.allclose(planned, returns, atol=1e-4 if dtype == torch.float32 else 0.1)


def test_noise_has_the_networks_scale(generator: torch.Generator) -> None:
    def dynamics(inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        step = torch.zeros(*inputs.shape[:-1], 3)
        return step, torch.full_like(step, 0.3)

    sampler = TrajectorySampler(dynamics, Counter(), 1, 1)
    actions = torch.zeros(1, 5000, 1, 1)
    returns = sampler.returns(torch.zeros(1, 3), actions, torch.zeros(1, 1, 0), generator)
    assert abs(float(returns.std()) - 0.3) < 0.02


class DrawsItself:
    """Dynamics with draws of their own, all 2, whose locations and scales say 1 and 0."""

    def __call__(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        return torch.ones(*inputs.shape[:-1], 3), torch.zeros(*inputs.shape[:-1], 3)

    def sample_targets(self, inputs: Tensor, latent: Tensor, generator: torch.Generator) -> Tensor:
        return torch.full((*inputs.shape[:-1], 3), 2.0)


@pytest.mark.parametrize(("common_noise", "step"), [(False, 2.0), (True, 1.0)])
def test_dynamics_that_draw_do_so_unless_noise_is_common(
    common_noise: bool, step: float, generator: torch.Generator
) -> None:
    sampler = TrajectorySampler(DrawsItself(), Counter(), MEMBERS, PARTICLES, common_noise)
    arguments = torch.zeros(1, 3), torch.zeros(1, 2, 1, 1), torch.zeros(1, PARTICLES, 1)
    assert torch.equal(sampler.returns(*arguments, generator), torch.full((1, 2), step))


def test_rewards_stop_at_termination(generator: torch.Generator) -> None:
    def dynamics(inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        step = torch.ones(*inputs.shape[:-1], 3)
        return step, torch.zeros_like(step)

    arguments = (torch.zeros(1, 3), torch.zeros(1, 1, HORIZON, 1), torch.zeros(1, 2, 0), generator)
    assert float(TrajectorySampler(dynamics, Counter(), 2, 2).returns(*arguments)) == 1 + 2 + 3 + 4 + 5
    assert float(TrajectorySampler(dynamics, Mortal(), 2, 2).returns(*arguments)) == 1 + 2 + 3


@pytest.mark.parametrize("particles", [0, 2, 5])
def test_particles_that_cannot_be_split_evenly_are_refused_in_words(particles: int) -> None:
    with pytest.raises(UserError, match="evenly"):
        TrajectorySampler(lambda inputs, latent: (inputs, inputs), Counter(), 3, particles)


def test_common_noise_is_a_particles_own_and_the_same_in_every_candidate(generator: torch.Generator) -> None:
    def dynamics(inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros(*inputs.shape[:-1], 3), torch.ones(*inputs.shape[:-1], 3)

    draw = torch.zeros(ROWS, CANDIDATES, HORIZON, 1)
    latents = torch.zeros(ROWS, PARTICLES, 2)
    common = TrajectorySampler(dynamics, Counter(), MEMBERS, PARTICLES, common_noise=True)
    returns = common.returns(torch.zeros(ROWS, 3), draw, latents, generator)
    assert torch.equal(returns, returns[:, :1].expand_as(returns))  # equal actions, equal returns
    assert len(returns[:, 0].unique()) == ROWS

    # The expectation and the spread of ONE candidate's return are those of noise that is drawn anew for each.
    many, own = ([*_many(dynamics, common_noise, generator)] for common_noise in (True, False))
    assert mean(many) == pytest.approx(0, abs=0.5)
    assert stdev(many) == pytest.approx(stdev(own), rel=0.15)


def _many(dynamics: Dynamics, common_noise: bool, generator: torch.Generator) -> Iterator[float]:
    sampler = TrajectorySampler(dynamics, Counter(), MEMBERS, PARTICLES, common_noise)
    for _ in range(400):
        yield float(sampler.returns(torch.zeros(1, 3), torch.zeros(1, 1, HORIZON, 1), torch.zeros(1, 6, 2), generator))
