"""Eq. 5 against the Kalman filter."""

import torch

from pyro_dynamics.guides import DiagonalGuide
from pyro_dynamics.inference import RecursiveBelief, SVIUpdate, SVIUpdateConfig, linear_gaussian_posterior
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel, LinearGaussian

ENVIRONMENTS, NOISE, STEPS = 32, 4.0, 25


def test_posterior_as_prior_follows_the_exact_kalman_posterior(generator: torch.Generator) -> None:
    """With a latent of one dimension the diagonal family holds the exact posterior."""
    likelihood = LinearGaussian(2, 1, 3, NOISE, 5, generator)
    guide = DiagonalGuide(ENVIRONMENTS, 1).for_environments(ENVIRONMENTS)
    # At this rate the 60 steps reach as far as these informative first transitions move the belief.
    config = SVIUpdateConfig(learning_rate=1e-2)
    belief = RecursiveBelief(HierarchicalModel(likelihood, ENVIRONMENTS, 1), guide, SVIUpdate(config))
    truth = torch.randn(ENVIRONMENTS, 1, generator=generator)
    mean, covariance = torch.zeros(ENVIRONMENTS, 1), torch.ones(ENVIRONMENTS, 1, 1)
    for _ in range(STEPS):
        inputs = torch.randn(ENVIRONMENTS, 2, generator=generator)
        design = likelihood.design(inputs)
        noise = NOISE * torch.randn(ENVIRONMENTS, 3, generator=generator)
        targets = (design @ truth[..., None]).squeeze(-1) + noise
        mean, covariance = linear_gaussian_posterior(mean, covariance, design, targets, NOISE)
        belief.update(inputs, targets, torch.arange(ENVIRONMENTS), generator)

    posterior = guide.frozen()
    exact_scale = covariance[..., 0].sqrt()
    assert exact_scale.max() < 0.5  # the data are informative: far from the prior
    ratio = posterior.stddev / exact_scale
    assert abs(float(ratio.mean()) - 1) < 0.07
    assert (ratio - 1).abs().max() < 0.2  # sampling noise of single environments
    error = (posterior.mean - mean) / exact_scale
    assert abs(float(error.mean())) < 0.1
    assert float(error.square().mean().sqrt()) < 0.3


def test_theta_stays_fixed_and_can_be_trained_again(generator: torch.Generator) -> None:
    ensemble = Ensemble(2, 1, 3, EnsembleConfig(members=2, hidden=(8,), weight_decay=(0.0, 0.0)))
    before = {name: value.clone() for name, value in ensemble.state_dict().items()}
    guide = DiagonalGuide(2, 1)
    belief = RecursiveBelief(HierarchicalModel(ensemble, 2, 1), guide, SVIUpdate(SVIUpdateConfig(steps=5)))
    belief.update(torch.randn(2, 2), torch.randn(2, 3), torch.arange(2), generator)
    assert all(torch.equal(value, before[name]) for name, value in ensemble.state_dict().items())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in ensemble.parameters())


def test_same_stream_same_belief(generator: torch.Generator) -> None:
    beliefs = []
    for _ in range(2):
        likelihood = LinearGaussian(2, 2, 3, 1.0, 2, torch.Generator().manual_seed(1))
        guide = DiagonalGuide(1, 2)
        belief = RecursiveBelief(HierarchicalModel(likelihood, 1, 2), guide, SVIUpdate(SVIUpdateConfig(steps=5)))
        belief.update(torch.ones(1, 2), torch.ones(1, 3), torch.arange(1), torch.Generator().manual_seed(2))
        beliefs.append(guide.frozen().mean)
    assert torch.equal(*beliefs)


def test_nothing_to_learn_changes_nothing(generator: torch.Generator) -> None:
    likelihood = LinearGaussian(2, 2, 3, 1.0, 2, generator)
    guide = DiagonalGuide(1, 2)
    before = guide.frozen().mean
    belief = RecursiveBelief(HierarchicalModel(likelihood, 1, 2), guide, SVIUpdate(SVIUpdateConfig(steps=5)))
    belief.update(torch.ones(0, 2), torch.ones(0, 3), torch.zeros(0, dtype=torch.long), generator)
    assert torch.equal(guide.frozen().mean, before)
