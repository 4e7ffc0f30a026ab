"""Recursive least squares beside the batch's closed form, and its evidence beside scipy's Gaussian."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from pyro_dynamics.inference.last_layer import Layers, Moments
from pyro_dynamics.inference.last_layer.prior import posterior

MEMBERS, WIDTH, TARGETS, ROWS = 2, 4, 3, 12


def problem() -> tuple[Layers, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A prior, noise ``[M, T]``, features ``[N, M, F]`` and targets ``[N, T]``."""
    draws = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=draws, dtype=torch.float64)

    root = normal(MEMBERS, WIDTH, WIDTH)
    prior = Layers(normal(MEMBERS, WIDTH, TARGETS), root @ root.mT + 0.1 * torch.eye(WIDTH))
    return prior, 0.1 + normal(MEMBERS, TARGETS).abs(), normal(ROWS, MEMBERS, WIDTH), normal(ROWS, TARGETS)


def one_by_one(temperature: float = 1.0) -> tuple[Layers, torch.Tensor]:
    """The posterior after all rows, and the sum of their evidence, ``[M]``."""
    layers, noise, features, targets = problem()
    total = torch.zeros(MEMBERS, dtype=torch.float64)
    for phi, y in zip(features, targets, strict=True):
        layers, evidence = layers.absorb(phi, y, noise, temperature)
        total += evidence
    return layers, total


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_one_row_after_the_other_gives_ridge_regression(temperature: float) -> None:
    prior, _, features, targets = problem()
    found, _ = one_by_one(temperature)
    for m in range(MEMBERS):
        phi, inverse = features[:, m], torch.linalg.inv(prior.covariance[m])
        precision = inverse + temperature * phi.T @ phi
        expected = torch.linalg.solve(precision, inverse @ prior.mean[m] + temperature * phi.T @ targets)
        torch.testing.assert_close(found.mean[m], expected)
        torch.testing.assert_close(found.covariance[m], torch.linalg.inv(precision))


def test_evidence_of_all_rows_is_that_of_one_large_gaussian() -> None:
    prior, noise, features, targets = problem()
    _, total = one_by_one()
    for m in range(MEMBERS):
        phi = features[:, m]
        together = phi @ prior.covariance[m] @ phi.T + torch.eye(ROWS)
        expected = sum(
            multivariate_normal.logpdf(
                targets[:, t].numpy(), (phi @ prior.mean[m, :, t]).numpy(), (noise[m, t] ** 2 * together).numpy()
            )
            for t in range(TARGETS)
        )
        assert float(total[m]) == pytest.approx(expected)


def test_tempered_evidence_differs_from_the_integral_by_one_constant() -> None:
    """log of the integral of N(y; w, s^2)^temperature N(w; m, v), on a grid: hypotheses differ by m and v."""
    temperature, noise = 0.4, torch.tensor([[0.7]], dtype=torch.float64)
    grid = torch.linspace(-40, 40, 400_001, dtype=torch.float64)
    differences = []
    for mean, variance, y in ((0.0, 1.0, 0.5), (2.0, 9.0, -1.0), (-1.0, 0.1, 3.0)):
        layers = Layers(torch.full((1, 1, 1), mean).double(), torch.full((1, 1, 1), variance / 0.49).double())
        _, evidence = layers.absorb(torch.ones(1, 1).double(), torch.tensor([y]).double(), noise, temperature)
        likelihood = temperature * torch.distributions.Normal(grid, 0.7).log_prob(torch.tensor(y).double())
        prior = torch.distributions.Normal(mean, variance**0.5).log_prob(grid)
        integral = torch.trapezoid((likelihood + prior).exp(), grid).log()
        differences.append(float(evidence[0] - integral))
    assert np.ptp(differences) < 1e-6


def test_posteriors_out_of_moments_are_those_of_the_rows() -> None:
    prior, _, features, targets = problem()
    moments = Moments(
        torch.einsum("nmf,nmg->mfg", features, features)[None],
        torch.einsum("nmf,nt->mft", features, targets)[None],
        targets.square().sum(0)[None],
        torch.tensor([float(ROWS)]).double(),
    )
    found, (expected, _) = posterior(moments, prior), one_by_one()
    torch.testing.assert_close(found.mean[0], expected.mean)
    torch.testing.assert_close(found.covariance[0], expected.covariance)


def test_prediction_has_the_width_of_layer_and_noise() -> None:
    prior, noise, features, _ = problem()
    location, scale = prior.predict(features[0], noise)
    root = torch.linalg.cholesky(prior.covariance)
    normal = torch.randn(100_000, MEMBERS, WIDTH, TARGETS, generator=torch.Generator().manual_seed(0)).double()
    layers = prior.mean + root @ normal * noise[:, None]
    drawn = torch.einsum("mf,nmft->nmt", features[0], layers) + noise * torch.randn(100_000, MEMBERS, TARGETS)
    torch.testing.assert_close(drawn.mean(0), location, atol=0.05, rtol=0.02)
    torch.testing.assert_close(drawn.std(0), scale, atol=0.0, rtol=0.02)
