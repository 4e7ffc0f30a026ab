"""The learned prior of a last layer, on data drawn from a known one."""

import pytest
import torch
from torch import Tensor

from pyro_dynamics.inference.last_layer import Moments, fit_prior, leading_directions
from pyro_dynamics.inference.last_layer.prior import fit_with_share, held_out_evidence

WIDTH, TARGETS, NOISE = 5, 2, torch.tensor([[0.1, 0.5]]).double()


def drawn(environments: int, rows: int, spread: Tensor, draws: torch.Generator) -> tuple[Moments, Moments, Tensor]:
    """Moments of all rows and of the first ten, and the true layers ``[K, F, T]``: of mean 1, in noise units."""
    phi = torch.randn(environments, rows, WIDTH, generator=draws).double()
    normal = torch.randn(environments, WIDTH, TARGETS, generator=draws).double()
    layers = 1 + torch.linalg.cholesky(spread) @ normal * NOISE
    y = phi @ layers + NOISE * torch.randn(environments, rows, TARGETS, generator=draws).double()

    def moments(count: int) -> Moments:
        x, z = phi[:, :count], y[:, :count]
        counts = torch.full((environments,), float(count)).double()
        return Moments((x.mT @ x)[:, None], (x.mT @ z)[:, None], z.square().sum(1), counts)

    return moments(rows), moments(10), layers


def test_many_environments_give_their_own_distribution_back(generator: torch.Generator) -> None:
    spread = torch.diag(torch.tensor([50.0, 5.0, 0.5, 0.5, 0.5])).double()
    spread[0, 1] = spread[1, 0] = 10.0
    moments, _, layers = drawn(400, 60, spread, generator)
    found = fit_with_share(moments, torch.zeros(1, WIDTH, TARGETS), 0.001)
    torch.testing.assert_close(found.noise, NOISE, rtol=0.05, atol=0.0)
    torch.testing.assert_close(found.prior.mean[0], layers.mean(0), atol=0.05, rtol=0.0)
    away = (layers - layers.mean(0)) / NOISE
    of_these = torch.einsum("kft,kgt->fg", away, away) / (400 * TARGETS)
    torch.testing.assert_close(found.prior.covariance[0], of_these, atol=0.1, rtol=0.02)
    gains = torch.tensor(found.evidence, dtype=torch.float64).diff()
    assert gains.min() > -1e-8  # but for the share, EM never lowers it
    assert gains.sum() > 1


def test_posteriors_of_the_environments_are_calibrated(generator: torch.Generator) -> None:
    moments, _, layers = drawn(400, 8, 4 * torch.eye(WIDTH).double(), generator)
    found = fit_with_share(moments, torch.zeros(1, WIDTH, TARGETS), 0.001)
    scale = found.trained.covariance.diagonal(dim1=-2, dim2=-1).sqrt()[..., None] * found.noise[:, None]
    z = ((found.trained.mean - layers[:, None]) / scale).flatten()
    assert float(z.square().mean()) == pytest.approx(1, abs=0.1)


def test_the_share_is_that_under_which_left_out_beginnings_are_most_likely(generator: torch.Generator) -> None:
    """Of environments that differ along one direction alone, and along all of them alike."""
    one, alike = torch.full((WIDTH,), 1e-4), torch.full((WIDTH,), 25.0)
    one[0] = 1000.0
    chosen = []
    for diagonal in (one, alike):
        moments, first, _ = drawn(5, 200, torch.diag(diagonal).double(), generator)
        start, environment = torch.zeros(1, WIDTH, TARGETS), torch.arange(5)
        found = fit_prior(moments, first, environment, start)
        scores = {
            share: held_out_evidence(fit_with_share(moments, start, share), first, environment)
            for share in (1.0, 0.1, 0.01, 0.001, 0.0001)
        }
        assert found.share == max(scores, key=lambda share: scores[share])
        chosen.append(found.share)
    assert chosen[0] < chosen[1]


def test_directions_find_the_number_in_which_environments_differ(generator: torch.Generator) -> None:
    spread = torch.diag(torch.tensor([1000.0, 1e-4, 1e-4, 1e-4, 1e-4])).double()
    moments, first, layers = drawn(6, 200, spread, generator)
    layers[..., 1] = 1  # the data below differ in the first target alone
    found = fit_prior(moments, first, torch.arange(6), torch.zeros(1, WIDTH, TARGETS))
    directions = leading_directions(moments, found, 2)
    assert directions.shape == (2, 1, WIDTH, TARGETS)
    scores = torch.einsum("rmft,kmft->kr", directions, found.trained.mean - found.prior.mean)
    assert float(scores[:, 0].square().mean()) == pytest.approx(1, abs=0.02)
    assert abs(float((scores[:, 0] * scores[:, 1]).mean())) < 0.05


def test_one_environment_has_no_directions(generator: torch.Generator) -> None:
    moments, first, _ = drawn(1, 50, torch.eye(WIDTH).double(), generator)
    found = fit_prior(moments, first, torch.zeros(1, dtype=torch.long), torch.zeros(1, WIDTH, TARGETS))
    assert found.prior.covariance.isfinite().all()
    assert leading_directions(moments, found, 0).shape == (0, 1, WIDTH, TARGETS)
