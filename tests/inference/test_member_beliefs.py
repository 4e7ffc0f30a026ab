"""A belief for each member of an ensemble, against the closed form of each member's own posterior."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, MultivariateNormal, Normal

from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import DiagonalGuide, FullRankGuide
from pyro_dynamics.inference import BELIEFS, Belief, KalmanUpdate, KalmanUpdateConfig, linear_gaussian_posterior
from pyro_dynamics.inference.beliefs import ChangepointConfig
from pyro_dynamics.inference.beliefs.member_mixture import MemberMixture, weighted_sample
from pyro_dynamics.models import HierarchicalModel

NOISE, OUTPUTS, MEMBERS, D = 0.7, 3, 4, 2


class Disagreeing(nn.Module):
    """delta ~ N((W_m + sum_i x_i V_mi) e, noise^2 I): the members have designs of their own."""

    members = MEMBERS

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.base = torch.randn(MEMBERS, OUTPUTS, D, generator=generator)
        self.slope = torch.randn(MEMBERS, 2, OUTPUTS, D, generator=generator)

    def design(self, inputs: Tensor) -> Tensor:
        """``[..., M, B, 2] -> [..., M, B, T, d]``."""
        return self.base[:, None] + torch.einsum("...mbi,mitd->...mbtd", inputs, self.slope)

    def forward(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        location = torch.einsum("...td,...d->...t", self.design(inputs), latent)
        return location, torch.full_like(location, NOISE)

    def fit_normaliser(self, inputs: Tensor) -> None: ...

    def penalty(self) -> Tensor:
        return torch.zeros(())

    def weight_decays(self) -> dict[nn.Parameter, float]:
        return {}


def make(name: str, likelihood: Any, environments: int, config: Any = None, **options: Any) -> Belief:
    guide = FullRankGuide(environments, D).for_environments(environments)
    rule = KalmanUpdate(KalmanUpdateConfig(iterations=1))
    model = HierarchicalModel(likelihood, environments, D)
    return BELIEFS[name](model, guide, rule, config, per_member=True, **options)


def steps(count: int, environments: int, generator: torch.Generator) -> list[tuple[Tensor, Tensor]]:
    return [
        (torch.randn(environments, 2, generator=generator), torch.randn(environments, OUTPUTS, generator=generator))
        for _ in range(count)
    ]


@pytest.mark.parametrize(("name", "temperature"), [("recursive", 1.0), ("recursive", 0.3), ("window", 1.0)])
def test_each_member_has_the_posterior_of_its_own_likelihood(
    name: str, temperature: float, generator: torch.Generator
) -> None:
    likelihood = Disagreeing(generator)
    belief = make(name, likelihood, 3, temperature=temperature)
    mean, covariance = torch.zeros(3, MEMBERS, D), torch.eye(D).repeat(3, MEMBERS, 1, 1)
    for inputs, targets in steps(12, 3, generator):
        belief.update(inputs, targets, torch.arange(3), generator)
        design = likelihood.design(inputs.expand(MEMBERS, -1, -1)).transpose(0, 1)  # [K, M, T, d]
        each = linear_gaussian_posterior(
            mean.flatten(0, 1),
            covariance.flatten(0, 1),
            design.flatten(0, 1),
            targets.repeat_interleave(MEMBERS, 0),
            NOISE / math.sqrt(temperature),
        )
        mean, covariance = each[0].view(3, MEMBERS, D), each[1].view(3, MEMBERS, D, D)
    joint: Any = belief.joint()
    assert torch.allclose(joint.mean.view(3, MEMBERS, D), mean, atol=2e-4)
    assert torch.allclose(joint.covariance_matrix.view(3, MEMBERS, D, D), covariance, atol=1e-4, rtol=1e-3)
    assert torch.allclose(belief.posterior().mean, mean.mean(1), atol=2e-4)


@pytest.mark.parametrize("name", list(BELIEFS))
def test_an_environment_that_is_not_seen_keeps_its_members_beliefs(name: str, generator: torch.Generator) -> None:
    belief = make(name, Disagreeing(generator), 2)
    for inputs, targets in steps(6, 2, generator):
        belief.update(inputs, targets, torch.arange(2), generator)
    before = belief.posterior()
    for inputs, targets in steps(5, 1, generator):
        belief.update(inputs, targets, torch.tensor([1]), generator)
    after = belief.posterior()
    assert torch.allclose(after.mean[0], before.mean[0], atol=1e-5)
    assert not torch.allclose(after.mean[1], before.mean[1], atol=1e-3)


@pytest.mark.parametrize("name", list(BELIEFS))
def test_a_snapshot_brings_all_members_back(name: str, generator: torch.Generator) -> None:
    belief = make(name, Disagreeing(generator), 2)
    for inputs, targets in steps(6, 2, generator):
        belief.update(inputs, targets, torch.arange(2), generator)
    kept, mean = belief.snapshot(), belief.posterior().mean
    ((inputs, targets),) = steps(1, 2, generator)
    belief.update(inputs, targets, torch.arange(2), torch.Generator().manual_seed(0))
    after = belief.posterior().mean
    belief.restore(kept)
    assert torch.equal(belief.posterior().mean, mean)
    belief.update(inputs, targets, torch.arange(2), torch.Generator().manual_seed(0))
    assert torch.equal(belief.posterior().mean, after)
    belief.reset()
    assert torch.allclose(belief.posterior().mean, torch.zeros(2, D))


def mixture() -> tuple[MemberMixture, Tensor, Tensor]:
    """Two environments and three members."""
    generator = torch.Generator().manual_seed(3)
    mean, scale = torch.randn(6, D, generator=generator), 0.2 + torch.rand(6, D, generator=generator)
    return MemberMixture(Independent(Normal(mean, scale), 1), 3), mean.view(2, 3, D), scale.view(2, 3, D)


def test_the_mixture_has_its_moments_and_its_density() -> None:
    found, mean, scale = mixture()
    assert torch.allclose(found.mean, mean.mean(1))
    second = (scale.square() + mean.square()).mean(1)
    assert torch.allclose(found.variance, second - mean.mean(1).square(), atol=1e-6)
    value = torch.randn(5, 2, D)
    parts = Independent(Normal(mean, scale), 1).log_prob(value[:, :, None])
    assert torch.allclose(found.log_prob(value), parts.exp().mean(-1).log(), atol=1e-5)


def test_draws_come_in_the_members_order_and_equal_numbers() -> None:
    torch.manual_seed(0)
    narrow = MemberMixture(Independent(Normal(torch.arange(6.0)[:, None], torch.full((6, 1), 1e-3)), 1), 3)
    draws = narrow.sample(torch.Size([12])).round().squeeze(-1)
    assert draws[:, 0].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert draws[:, 1].tolist() == [3] * 4 + [4] * 4 + [5] * 4
    single = torch.stack([narrow.sample()[0, 0].round() for _ in range(300)])  # one draw is of any member
    assert set(single.tolist()) == {0.0, 1.0, 2.0}


def test_a_new_run_is_among_the_weighted_draws(generator: torch.Generator) -> None:
    """The hazard's share is there in every prediction, not in one of 500."""
    belief = make("changepoint", Disagreeing(generator), 2, ChangepointConfig(hazard=0.01))
    for inputs, targets in steps(30, 2, generator):
        belief.update(inputs, targets, torch.arange(2), generator)
    latents, log_weight = weighted_sample(belief.ahead(), 64)
    assert latents.shape[1:] == (MEMBERS, 2, D)
    assert torch.allclose(log_weight.exp().sum(0), torch.ones(MEMBERS, 2))
    assert float(log_weight.exp()[16:].sum(0).max()) == pytest.approx(0.01, rel=1e-3)


class Silent(FullRankGuide):
    """A guide that reads transitions."""

    reads_transitions = True


def test_a_guide_with_one_memory_is_refused(generator: torch.Generator) -> None:
    model = HierarchicalModel(Disagreeing(generator), 1, D)
    rule = KalmanUpdate(KalmanUpdateConfig())
    with pytest.raises(UserError, match="--belief-per ensemble"):
        BELIEFS["recursive"](model, Silent(1, D), rule, per_member=True)


def test_a_diagonal_guide_takes_part(generator: torch.Generator) -> None:
    likelihood = Disagreeing(generator)
    guide = DiagonalGuide(1, D).for_environments(1)
    belief = BELIEFS["recursive"](
        HierarchicalModel(likelihood, 1, D), guide, KalmanUpdate(KalmanUpdateConfig()), per_member=True
    )
    for inputs, targets in steps(5, 1, generator):
        belief.update(inputs, targets, torch.arange(1), generator)
    assert belief.joint().batch_shape == (MEMBERS,)
    posterior: Distribution = belief.posterior()
    assert (posterior.batch_shape, posterior.event_shape) == ((1,), (D,))
    assert not isinstance(posterior, MultivariateNormal)
