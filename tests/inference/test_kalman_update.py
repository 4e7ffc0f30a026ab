"""The extended Kalman update: exact on a linear-Gaussian model, and near a mode of any other."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pyro_dynamics.guides import FullRankGuide
from pyro_dynamics.inference import KalmanUpdate, KalmanUpdateConfig, linear_gaussian_posterior
from pyro_dynamics.inference.gaussians import gaussian_moments
from pyro_dynamics.inference.log_joint import log_joint, whole_batch
from pyro_dynamics.models import HierarchicalModel, LinearGaussian
from pyro_dynamics.transitions import Minibatch

K, D, ROWS = 3, 2, 12


def batch_of(members: int, generator: torch.Generator, temperature: float = 1.0) -> tuple[Tensor, Tensor, Minibatch]:
    """Inputs, targets, and the batch: four rows of each environment."""
    inputs, targets = torch.randn(ROWS, 3, generator=generator), torch.randn(ROWS, 4, generator=generator)
    return inputs, targets, whole_batch(inputs, targets, torch.arange(ROWS) % K, members, temperature)


def updated(likelihood: Any, batch: Minibatch, config: KalmanUpdateConfig) -> tuple[HierarchicalModel, Tensor, Tensor]:
    """The model, and the moments of a full-rank guide after one update from the prior."""
    guide, model = FullRankGuide(K, D).for_environments(K), HierarchicalModel(likelihood, K, D)
    KalmanUpdate(config).fit(model, guide, model.prior(), batch, torch.Generator())
    mean, covariance = gaussian_moments(guide.posterior())
    return model, mean.detach(), covariance.detach()


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_it_is_exact_where_the_model_is_linear(temperature: float, generator: torch.Generator) -> None:
    likelihood = LinearGaussian(3, D, 4, 0.7, 2, generator)
    inputs, targets, batch = batch_of(2, generator, temperature)
    _, mean, covariance = updated(likelihood, batch, KalmanUpdateConfig())
    for k in range(K):
        design = likelihood.design(inputs[k::K]).flatten(0, 1)
        noise = 0.7 / temperature**0.5
        expected = linear_gaussian_posterior(torch.zeros(D), torch.eye(D), design, targets[k::K].flatten(), noise)
        torch.testing.assert_close(mean[k], expected[0], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(covariance[k], expected[1], rtol=1e-3, atol=1e-4)


class Bent(nn.Module):
    """Targets that bend with the latent: tanh of a linear map."""

    members = 1

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.matrix = matrix

    def forward(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        location = (latent @ self.matrix).tanh() + inputs.sum(-1, keepdim=True)
        return location, torch.full_like(location, 0.5)


def test_its_mean_is_near_a_mode_where_the_model_is_bent(generator: torch.Generator) -> None:
    likelihood = Bent(torch.randn(D, 4, generator=generator))
    _, _, batch = batch_of(1, generator)
    model, mean, covariance = updated(likelihood, batch, KalmanUpdateConfig(iterations=100, backtracks=20))
    density = log_joint(model, model.prior(), batch, mean.requires_grad_())
    (slope,) = torch.autograd.grad(density.sum(), mean)
    left = (covariance @ slope[..., None])[..., 0]  # the step that is left; it ends below a tenth of a posterior sd
    assert (left.abs() / covariance.diagonal(dim1=-2, dim2=-1).sqrt()).max() < 0.1
    assert (density > log_joint(model, model.prior(), batch, torch.zeros(K, D))).all()


class TwoBumps(nn.Module):
    """A target of 1 at a latent of 0.7, and a bump at -1 that reaches 0.55: two modes, of which the first holds all."""

    members = 1

    def forward(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        location = (-8 * (latent - 0.7) ** 2).exp() + 0.55 * (-8 * (latent + 1) ** 2).exp()
        return location, torch.full_like(location, 0.1)


def test_of_several_starts_the_greater_mode_is_kept() -> None:
    """From the belief's mean the Kalman update climbs to the lesser mode, with certainty."""
    bumps: Any = TwoBumps()
    model, ones = HierarchicalModel(bumps, 1, 1), torch.ones(1, 1)
    batch = whole_batch(torch.zeros(1, 1), ones, torch.zeros(1, dtype=torch.long), 1, 1.0)
    grid = torch.linspace(-3, 3, 6001)[:, None, None]
    weight = torch.stack([log_joint(model, model.prior(), batch, place)[0] for place in grid]).softmax(0)
    assert weight[grid.flatten() > 0].sum() > 0.99
    found = {}
    for starts in (1, 8):
        guide = FullRankGuide(1, 1).for_environments(1)
        guide.match(torch.full((1, 1), -0.7), torch.full((1, 1, 1), 0.1))
        config = KalmanUpdateConfig(iterations=30, starts=starts)
        KalmanUpdate(config).fit(model, guide, model.prior(), batch, torch.Generator().manual_seed(0))
        found[starts] = gaussian_moments(guide.posterior())[0].item()
    assert found[1] < -0.9
    assert found[8] == pytest.approx(float((weight * grid.flatten()).sum()), abs=0.1)
