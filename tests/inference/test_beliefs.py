"""Every belief against its closed form on a linear-Gaussian stream, where the extended Kalman update is exact."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Independent, MultivariateNormal, Normal, kl_divergence

from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import DiagonalGuide, FullRankGuide, PointGuide
from pyro_dynamics.inference import (
    BELIEFS,
    Belief,
    KalmanUpdate,
    KalmanUpdateConfig,
    NaturalUpdate,
    NaturalUpdateConfig,
    SVIUpdate,
    SVIUpdateConfig,
    linear_gaussian_posterior,
)
from pyro_dynamics.inference.beliefs import ChangepointConfig, DiffusionConfig, PowerConfig, WindowConfig
from pyro_dynamics.inference.beliefs.power import UnnormalisedMean, geometric_mean
from pyro_dynamics.inference.gaussians import gaussian_moments
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel, LinearGaussian

NOISE, OUTPUTS = 2.0, 3
EVERYONE = torch.arange(2)


def make(
    name: str,
    config: Any,
    likelihood: LinearGaussian,
    d: int,
    environments: int = 2,
    rule: Any = KalmanUpdate(KalmanUpdateConfig(iterations=1)),  # noqa: B008  # it has no state
    **options: Any,
) -> Belief:
    guide = FullRankGuide(environments, d).for_environments(environments)
    return BELIEFS[name](HierarchicalModel(likelihood, environments, d), guide, rule, config, **options)


def stream(likelihood: LinearGaussian, latent: Tensor, steps: int, generator: torch.Generator) -> list[Any]:
    """Inputs ``[K, 2]``, designs ``[K, 3, d]`` and noisy targets ``[K, 3]``."""
    result = []
    for _ in range(steps):
        inputs = torch.randn(len(latent), 2, generator=generator)
        design = likelihood.design(inputs)
        noise = NOISE * torch.randn(len(latent), OUTPUTS, generator=generator)
        result.append((inputs, design, (design @ latent[..., None]).squeeze(-1) + noise))
    return result


@pytest.fixture
def likelihood(generator: torch.Generator) -> LinearGaussian:
    return LinearGaussian(2, 2, OUTPUTS, NOISE, 5, generator)


def assert_gaussian(belief: Belief, mean: Tensor, covariance: Tensor) -> None:
    posterior = belief.posterior()
    assert isinstance(posterior, MultivariateNormal)
    assert torch.allclose(posterior.mean, mean, atol=2e-4)
    assert torch.allclose(posterior.covariance_matrix, covariance, atol=1e-4, rtol=1e-3)


def test_exact_belief_is_the_kalman_posterior(likelihood: LinearGaussian, generator: torch.Generator) -> None:
    belief = make("recursive", None, likelihood, 2)
    mean, covariance = torch.zeros(2, 2), torch.eye(2).repeat(2, 1, 1)
    for inputs, design, targets in stream(likelihood, torch.randn(2, 2, generator=generator), 20, generator):
        belief.update(inputs, targets, EVERYONE, generator)
        mean, covariance = linear_gaussian_posterior(mean, covariance, design, targets, NOISE)
    assert_gaussian(belief, mean, covariance)


def test_temperature_is_a_noise_that_many_times_larger(likelihood: LinearGaussian, generator: torch.Generator) -> None:
    belief = make("recursive", None, likelihood, 2, temperature=0.25)
    mean, covariance = torch.zeros(2, 2), torch.eye(2).repeat(2, 1, 1)
    for inputs, design, targets in stream(likelihood, torch.randn(2, 2, generator=generator), 20, generator):
        belief.update(inputs, targets, EVERYONE, generator)
        mean, covariance = linear_gaussian_posterior(mean, covariance, design, targets, NOISE / math.sqrt(0.25))
    assert_gaussian(belief, mean, covariance)


def test_power_belief_relaxes_towards_the_start(likelihood: LinearGaussian, generator: torch.Generator) -> None:
    belief = make("power", PowerConfig(0.9), likelihood, 2)
    mean, covariance = torch.zeros(2, 2), torch.eye(2).repeat(2, 1, 1)
    for inputs, design, targets in stream(likelihood, torch.randn(2, 2, generator=generator), 20, generator):
        belief.update(inputs, targets, EVERYONE, generator)
        precision = 0.9 * torch.linalg.inv(covariance)
        covariance = torch.linalg.inv(precision + 0.1 * torch.eye(2))
        mean = (covariance @ precision @ mean[..., None]).squeeze(-1)  # the start has mean 0
        mean, covariance = linear_gaussian_posterior(mean, covariance, design, targets, NOISE)
    assert_gaussian(belief, mean, covariance)


def test_diffusion_belief_is_the_kalman_filter_of_a_random_walk(
    likelihood: LinearGaussian, generator: torch.Generator
) -> None:
    belief = make("diffusion", DiffusionConfig(0.3), likelihood, 2)
    mean, covariance = torch.zeros(2, 2), torch.eye(2).repeat(2, 1, 1)
    for inputs, design, targets in stream(likelihood, torch.randn(2, 2, generator=generator), 20, generator):
        belief.update(inputs, targets, EVERYONE, generator)
        covariance = covariance + 0.09 * torch.eye(2)
        mean, covariance = linear_gaussian_posterior(mean, covariance, design, targets, NOISE)
    assert_gaussian(belief, mean, covariance)


def test_window_belief_knows_the_last_transitions_alone(likelihood: LinearGaussian, generator: torch.Generator) -> None:
    belief = make("window", WindowConfig(5), likelihood, 2)
    data = stream(likelihood, torch.randn(2, 2, generator=generator), 12, generator)
    for inputs, _, targets in data:
        belief.update(inputs, targets, EVERYONE, generator)
    mean, covariance = torch.zeros(2, 2), torch.eye(2).repeat(2, 1, 1)
    for _, design, targets in data[-5:]:
        mean, covariance = linear_gaussian_posterior(mean, covariance, design, targets, NOISE)
    assert_gaussian(belief, mean, covariance)


def test_changepoint_belief_is_the_exact_mixture_over_run_lengths(generator: torch.Generator) -> None:
    """All runs are kept here, so that the weights are those of Adams and MacKay's recursion."""
    likelihood, hazard, steps = LinearGaussian(2, 1, OUTPUTS, NOISE, 2, generator), 0.1, 9
    config = ChangepointConfig(hazard, steps + 2, spacing=1, patience=steps, recalled=0, most_nats=0)
    belief = make("changepoint", config, likelihood, 1, environments=1)
    data = stream(likelihood, torch.full((1, 1), 1.5), 5, generator)
    data += stream(likelihood, torch.full((1, 1), -1.5), steps - 5, generator)
    runs: list[tuple[float, Tensor, Tensor]] = []  # log weight, mean, covariance
    for inputs, design, targets in data:
        belief.update(inputs, targets, torch.zeros(1, dtype=torch.long), generator)
        total = torch.tensor([w for w, _, _ in runs]).logsumexp(0).item() if runs else 0.0
        runs = [(w + math.log(1 - hazard), m, c) for w, m, c in runs]
        runs.append((total + (math.log(hazard) if len(runs) else 0.0), torch.zeros(1, 1), torch.eye(1)[None]))
        updated = []
        for w, m, c in runs:
            predicted = MultivariateNormal(
                (design @ m[..., None]).squeeze(-1), design @ c @ design.mT + NOISE**2 * torch.eye(OUTPUTS)
            )
            updated.append(
                (w + float(predicted.log_prob(targets)), *linear_gaussian_posterior(m, c, design, targets, NOISE))
            )
        runs = updated
    weight = torch.tensor([w for w, _, _ in runs]).softmax(0)
    means = torch.stack([m.flatten()[0] for _, m, _ in runs])
    assert float(belief.posterior().mean) == pytest.approx(float((weight * means).sum()), abs=2e-3)
    second = (weight * (means.square() + torch.stack([c.flatten()[0] for _, _, c in runs]))).sum()
    variance = float(second - (weight * means).sum().square())
    assert float(belief.posterior().variance) == pytest.approx(variance, rel=5e-3)


def steps_to_recover(name: str, config: Any, share: float, before: int = 100, limit: int = 150, **options: Any) -> int:
    """Steps after a switch from 1 to -1 (without noise) until the belief's mean has made that share of the move."""
    generator = torch.Generator().manual_seed(0)
    likelihood = LinearGaussian(2, 1, OUTPUTS, 0.3, 1, generator)  # the data are far more informative than the prior
    belief = make(name, config, likelihood, 1, environments=1, **options)
    inputs = torch.zeros(1, 2)
    design = likelihood.design(inputs)
    for step in range(before + limit):
        latent = torch.ones(1, 1) if step < before else -torch.ones(1, 1)
        belief.update(inputs, (design @ latent[..., None]).squeeze(-1), torch.zeros(1, dtype=torch.long), generator)
        if step >= before and float(belief.posterior().mean) <= 1 - 2 * share:
            return step - before + 1
    return limit + 1


def test_tracking_law() -> None:
    # Half the move, in as many steps again.
    assert steps_to_recover("recursive", None, 0.5) == pytest.approx(100, abs=2.5)
    law = math.log(0.1) / math.log(0.95)
    assert steps_to_recover("power", PowerConfig(0.95), 0.9) == pytest.approx(law, abs=1)
    assert steps_to_recover("window", WindowConfig(20), 0.9) == pytest.approx(18, abs=2)
    assert steps_to_recover("changepoint", ChangepointConfig(), 0.9) <= 25
    natural = NaturalUpdate(NaturalUpdateConfig())
    assert steps_to_recover("changepoint", ChangepointConfig(), 0.9, rule=natural) <= 25
    assert steps_to_recover("diffusion", DiffusionConfig(0.2), 0.9) <= 30


@pytest.mark.parametrize("name", BELIEFS)
def test_an_environment_that_is_not_seen_keeps_its_belief(
    name: str, likelihood: LinearGaussian, generator: torch.Generator
) -> None:
    belief = make(name, None, likelihood, 2)
    data = stream(likelihood, torch.ones(2, 2), 6, generator)
    for inputs, _, targets in data:
        belief.update(inputs, targets, EVERYONE, generator)
    before = belief.posterior()
    inputs, _, targets = data[0]
    for _ in range(5):
        belief.update(inputs[:1], targets[:1] + 5, EVERYONE[:1], generator)
    after = belief.posterior()
    assert torch.allclose(after.mean[1], before.mean[1], atol=1e-4)
    assert torch.allclose(after.stddev[1], before.stddev[1], rtol=1e-3)
    assert (after.mean[0] - before.mean[0]).abs().max() > 0.1


@pytest.mark.parametrize("name", BELIEFS)
def test_forget_returns_to_the_beginning(name: str, likelihood: LinearGaussian, generator: torch.Generator) -> None:
    belief = make(name, None, likelihood, 2)
    for inputs, _, targets in stream(likelihood, torch.ones(2, 2), 3, generator):
        belief.update(inputs, targets, EVERYONE, generator)
    assert belief.posterior().mean.abs().max() > 0.1
    belief.reset()
    assert torch.allclose(belief.posterior().mean, torch.zeros(2, 2))
    assert torch.allclose(belief.posterior().stddev, torch.ones(2, 2), rtol=1e-3)


@pytest.mark.parametrize("name", BELIEFS)
def test_gradient_steps_and_the_kalman_update_agree(name: str, generator: torch.Generator) -> None:
    """In one dimension a diagonal guide holds the exact posterior, and both updates must find it."""
    likelihood = LinearGaussian(2, 1, OUTPUTS, NOISE, 2, generator)
    data = stream(likelihood, torch.full((2, 1), 0.7), 8, generator)
    beliefs = []
    for rule in (KalmanUpdate(KalmanUpdateConfig()), SVIUpdate(SVIUpdateConfig(learning_rate=1e-2))):
        guide = DiagonalGuide(2, 1).for_environments(2)
        belief = BELIEFS[name](HierarchicalModel(likelihood, 2, 1), guide, rule)
        for inputs, _, targets in data:
            belief.update(inputs, targets, EVERYONE, generator)
        beliefs.append(belief.posterior())
    kalman, svi = beliefs
    assert ((kalman.mean - svi.mean) / kalman.stddev).abs().max() < 0.5
    assert (svi.stddev / kalman.stddev - 1).abs().max() < 0.2


def test_mixing_densities_of_any_kind_agrees_with_the_gaussian_case() -> None:
    first = MultivariateNormal(torch.ones(1, 2), torch.tensor([[[1.0, 0.5], [0.5, 2.0]]]))
    second = Independent(Normal(torch.zeros(1, 2), torch.ones(1, 2)), 1)
    weight = torch.tensor([0.7])
    points = torch.randn(50, 1, 2)
    constant = geometric_mean(first, second, weight).log_prob(points) - UnnormalisedMean(
        first, second, weight
    ).log_prob(points)
    assert constant.std() < 1e-5
    same = geometric_mean(second, second, weight)
    assert float(kl_divergence(same, second)) == pytest.approx(0, abs=1e-6)


def test_wrong_use_is_reported_in_words(likelihood: LinearGaussian, generator: torch.Generator) -> None:
    for forgetting_factor in (0.0, 1.1, math.nan):
        with pytest.raises(UserError, match="forgetting_factor"):
            PowerConfig(forgetting_factor)
    with pytest.raises(UserError, match="temperature"):
        make("recursive", None, likelihood, 2, temperature=0.0)
    with pytest.raises(UserError, match="hypotheses"):
        ChangepointConfig(hypotheses=2)
    point = PointGuide(2, 2)
    belief = BELIEFS["recursive"](HierarchicalModel(likelihood, 2, 2), point, SVIUpdate(SVIUpdateConfig()))
    with pytest.raises(UserError, match="no density"):
        belief.update(torch.zeros(2, 2), torch.zeros(2, OUTPUTS), EVERYONE, generator)


def test_a_change_is_reported_once_and_in_its_environment_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    likelihood = LinearGaussian(2, 1, OUTPUTS, 0.3, 1, generator)
    belief = make("changepoint", ChangepointConfig(), likelihood, 1, environments=2)
    inputs, reported = torch.zeros(2, 2), []
    for step in range(120):
        latent = torch.tensor([[1.0], [1.0]]) if step < 60 else torch.tensor([[-1.0], [1.0]])
        noise = 0.3 * torch.randn(2, OUTPUTS, generator=generator)
        targets = (likelihood.design(inputs) @ latent[..., None]).squeeze(-1) + noise
        belief.update(inputs, targets, torch.arange(2), generator)
        reported += [(step, k) for k in belief.changed.nonzero().flatten().tolist()]
    assert len(reported) == 1
    assert 60 <= reported[0][0] < 90
    assert reported[0][1] == 0
    assert not make("recursive", None, likelihood, 1, environments=2).changed.any()


class Plain(nn.Module):
    """A likelihood that does not know its own linearisation."""

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__()
        self.ensemble, self.members = ensemble, ensemble.members

    def forward(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        return self.ensemble(inputs, latent)


def test_the_kalman_update_needs_no_linearisation_by_the_likelihood() -> None:
    torch.manual_seed(0)
    ensemble = Ensemble(2, 2, 3, EnsembleConfig(members=3, hidden=(8, 8), weight_decay=(0.0,) * 3))
    found = []
    both: tuple[Any, ...] = (ensemble, Plain(ensemble))
    for likelihood in both:
        guide = FullRankGuide(2, 2).for_environments(2)
        belief = BELIEFS["recursive"](HierarchicalModel(likelihood, 2, 2), guide, KalmanUpdate(KalmanUpdateConfig()))
        stream = torch.Generator().manual_seed(1)
        for _ in range(3):
            inputs, targets = torch.randn(2, 2, generator=stream), torch.randn(2, 3, generator=stream)
            belief.update(inputs, targets, EVERYONE, stream)
        found.append(gaussian_moments(guide.frozen()))
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    assert found[0][0].abs().min() > 0
