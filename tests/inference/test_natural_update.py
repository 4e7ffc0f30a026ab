"""The natural-gradient update: exact on a linear-Gaussian model, at the optimum of the ELBO on any other."""

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, Normal, StudentT

from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import DiagonalGuide, FullRankGuide, Guide, LaplaceGuide, LowRankGuide
from pyro_dynamics.inference import (
    BELIEFS,
    KalmanUpdate,
    KalmanUpdateConfig,
    NaturalUpdate,
    NaturalUpdateConfig,
    expected_likelihood,
    linear_gaussian_posterior,
)
from pyro_dynamics.inference.expected_likelihood import expected_log_likelihood
from pyro_dynamics.inference.gaussians import gaussian_moments
from pyro_dynamics.inference.log_joint import log_joint, whole_batch
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel, LinearGaussian
from pyro_dynamics.transitions import Minibatch

NOISE = 0.7
GAUSSIAN = (DiagonalGuide, FullRankGuide, LowRankGuide, LaplaceGuide)
natural = NaturalUpdate(NaturalUpdateConfig())


def moments(guide: Guide) -> tuple[Tensor, Tensor]:
    return gaussian_moments(guide.frozen())


@pytest.mark.parametrize("temperature", [1.0, 0.3])
@pytest.mark.parametrize("family", GAUSSIAN)
def test_it_is_exact_in_the_family_over_a_stream_where_the_model_is_linear(
    family: type[Guide], temperature: float, generator: torch.Generator
) -> None:
    """A diagonal q loses the correlations after each transition, the others nothing."""
    environments, d = 3, 2
    likelihood = LinearGaussian(3, d, 2, NOISE, 2, generator)
    guide = family(environments, d).for_environments(environments)
    belief = BELIEFS["recursive"](HierarchicalModel(likelihood, environments, d), guide, natural, None, temperature)
    truth = torch.randn(environments, d, generator=generator)
    mean, covariance = torch.zeros(environments, d), torch.eye(d).repeat(environments, 1, 1)
    for _ in range(50):
        inputs = torch.randn(environments, 3, generator=generator)
        design = likelihood.design(inputs)
        targets = (design @ truth[..., None]).squeeze(-1) + NOISE * torch.randn(environments, 2, generator=generator)
        belief.update(inputs, targets, torch.arange(environments), generator)
        mean, covariance = linear_gaussian_posterior(mean, covariance, design, targets, NOISE / temperature**0.5)
        if family is DiagonalGuide:
            covariance = torch.diag_embed(1 / torch.linalg.inv(covariance).diagonal(dim1=1, dim2=2))
    found = moments(guide)
    sd = covariance.diagonal(dim1=1, dim2=2).sqrt()
    assert ((found[0] - mean) / sd).abs().max() < 1e-3
    assert ((found[1] - covariance) / sd[:, :, None] / sd[:, None, :]).abs().max() < 1e-3


class Line(nn.Module):
    """Targets x e with a known noise, one member."""

    members = 1

    def __init__(self, noise: float) -> None:
        super().__init__()
        self.noise = noise

    def forward(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        return inputs * latent, torch.full_like(latent, self.noise)


@pytest.mark.parametrize("family", GAUSSIAN)
def test_one_informative_transition_is_not_lost(family: type[Guide], generator: torch.Generator) -> None:
    """What a fixed number of gradient steps loses, as its result is the next prior."""
    guide, noise, precision, weighted = family(1, 1).for_environments(1), 0.05, 1.0, 0.0
    belief = BELIEFS["recursive"](HierarchicalModel(cast(Any, Line(noise)), 1, 1), guide, natural)
    for x in [1.0] + 49 * [0.01]:
        y = 1.5 * x + noise * float(torch.randn((), generator=generator))
        belief.update(torch.tensor([[x]]), torch.tensor([[y]]), torch.tensor([0]), generator)
        precision, weighted = precision + x**2 / noise**2, weighted + x * y / noise**2
    posterior = belief.posterior()
    assert float(posterior.mean) == pytest.approx(weighted / precision, abs=1e-4)
    assert float(posterior.stddev) == pytest.approx(precision**-0.5, rel=1e-4)


class Bent(nn.Module):
    """Targets and noise that bend with the latent."""

    members = 1

    def __init__(self, slopes: Tensor, bend: float = 1.0) -> None:
        super().__init__()
        self.slopes, self.bend = slopes, bend

    def forward(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        pushed = latent @ self.slopes
        location = (self.bend * pushed).tanh() / self.bend + inputs.sum(-1, keepdim=True)
        return location, 0.5 + 0.2 * torch.sigmoid(pushed)


class HeavyTails(HierarchicalModel):
    """A likelihood that the Kalman update refuses."""

    def observation(self, inputs: Tensor, latent: Tensor) -> Distribution:
        location, scale = self.likelihood(inputs, latent)
        return Independent(StudentT(4.0, location, scale), 1)


def bent_data(generator: torch.Generator, environments: int = 1, d: int = 1, rows: int = 12) -> tuple[Any, Minibatch]:
    likelihood = Bent(torch.randn(d, 4, generator=generator))
    inputs = torch.randn(rows, 3, generator=generator)
    latent = torch.randn(environments, d, generator=generator)[torch.arange(rows) % environments]
    location, scale = likelihood(inputs, latent)
    targets = location + scale * torch.randn(rows, 4, generator=generator)
    return likelihood, whole_batch(inputs, targets, torch.arange(rows) % environments, 1)


def optimum_by_quadrature(model: HierarchicalModel, batch: Minibatch) -> tuple[float, float, Callable[..., float]]:
    """Mean and sd of the Gaussian of highest ELBO in one dimension, and the negative ELBO: by 40-point quadrature."""
    nodes, weights = (torch.tensor(part) for part in np.polynomial.hermite_e.hermegauss(40))
    weights, rows = weights / math.sqrt(2 * math.pi), len(batch.environment[0])
    by_node = model.double().for_environments(len(nodes))  # an environment for each, with the same transitions
    double = Minibatch(
        batch.inputs.double().repeat(1, len(nodes), 1),
        batch.targets.double().repeat(1, len(nodes), 1),
        torch.arange(len(nodes)).repeat_interleave(rows)[None],
        len(nodes) * batch.total,
    )

    def negative(at: Any) -> float:
        mean, log_sd = (float(x) for x in at)
        latents = mean + math.exp(log_sd) * nodes
        return -float(weights @ log_joint(by_node, by_node.prior(), double, latents[:, None])) - log_sd

    best = min((minimize(negative, (m, -1.0), method="Nelder-Mead") for m in (-1.0, 0.0, 1.0)), key=lambda r: r.fun)
    return float(best.x[0]), math.exp(best.x[1]), negative


@pytest.mark.parametrize("kind", [HierarchicalModel, HeavyTails])
@pytest.mark.parametrize(("rows", "wide"), [(4, 1.4), (12, 1.2)])
def test_it_finds_the_optimum_of_the_elbo_where_the_model_is_bent(kind: Any, rows: int, wide: float) -> None:
    """With few rows q is so wide that two points feel the bends of the tails: there its sd is up to a third off."""
    shifts, ratios, losses, of_kalman = [], [], [], []
    for seed in range(8):
        likelihood, batch = bent_data(torch.Generator().manual_seed(seed), rows=rows)
        guide, model = FullRankGuide(1, 1).for_environments(1), kind(likelihood, 1, 1)
        NaturalUpdate(NaturalUpdateConfig(12)).fit(model, guide, model.prior(), batch, torch.Generator())
        mean, sd = float(guide.frozen().mean), float(guide.frozen().stddev)
        kalman = FullRankGuide(1, 1).for_environments(1)
        if kind is HierarchicalModel:
            KalmanUpdate(KalmanUpdateConfig(12)).fit(model, kalman, model.prior(), batch, torch.Generator())
        likelihood.slopes = likelihood.slopes.double()
        best_mean, best_sd, negative = optimum_by_quadrature(model, batch)
        shifts.append(abs(mean - best_mean) / best_sd)
        ratios.append(sd / best_sd)
        lowest = negative((best_mean, math.log(best_sd)))
        losses.append(negative((mean, math.log(sd))) - lowest)
        at_mode = float(kalman.frozen().mean), math.log(float(kalman.frozen().stddev))
        of_kalman.append(negative(at_mode) - lowest)  # for heavy tails that of the prior, where it stayed
    assert max(shifts) < 0.4
    assert 0.9 < min(ratios) <= max(ratios) < wide
    assert max(losses) < 0.1  # nats
    assert np.mean(losses) < np.mean(of_kalman) / 5


@pytest.mark.parametrize("family", GAUSSIAN)
def test_its_end_is_a_fixed_point(family: type[Guide], generator: torch.Generator) -> None:
    """Mean and variances of a diagonal q belong together: neither moves by more than the ELBO knows of them."""
    likelihood, batch = bent_data(generator, environments=3, d=2)
    guide, model = family(3, 2).for_environments(3), HierarchicalModel(likelihood, 3, 2)
    prior = model.prior()
    NaturalUpdate(NaturalUpdateConfig(100)).fit(model, guide, prior, batch, generator)
    before = moments(guide)
    natural.fit(model, guide, prior, batch, generator)
    sd = before[1].diagonal(dim1=1, dim2=2).sqrt()
    assert ((moments(guide)[0] - before[0]) / sd).abs().max() < 0.1
    assert ((moments(guide)[1] - before[1]) / sd[:, :, None] / sd[:, None, :]).abs().max() < 0.1
    root = torch.linalg.cholesky(before[1])
    slope = expected_log_likelihood(model, batch, before[0], root).gradient - before[0]
    assert (sd * slope).abs().max() < 0.15  # in standard deviations, of the mean under q's own variances
    if family is DiagonalGuide:
        curvature = expected_log_likelihood(model, batch, before[0], root).curvature.diagonal(dim1=1, dim2=2)
        assert torch.allclose(curvature + sd.square(), torch.ones(3, 2), atol=0.15)


def test_environments_do_not_touch_each_other(generator: torch.Generator) -> None:
    likelihood, batch = bent_data(generator, environments=3, d=2)
    together, alone = FullRankGuide(3, 2).for_environments(3), FullRankGuide(1, 2).for_environments(1)
    model = HierarchicalModel(likelihood, 3, 2)
    natural.fit(model, together, model.prior(), batch, generator)
    one = HierarchicalModel(likelihood, 1, 2)
    rows = batch.environment[0] == 1
    its_own = whole_batch(batch.inputs[0, rows], batch.targets[0, rows], 0 * batch.environment[0, rows], 1)
    natural.fit(one, alone, one.prior(), its_own, generator)
    for all_three, single in zip(moments(together), moments(alone), strict=True):
        torch.testing.assert_close(all_three[1], single[0], rtol=1e-2, atol=1e-3)


def test_data_that_go_through_the_networks_in_parts_count_the_same(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensemble = Ensemble(2, 2, 3, EnsembleConfig(members=3, hidden=(8,), weight_decay=(0.0, 0.0)))
    model = HierarchicalModel(ensemble, 2, 2)
    environment = torch.randint(2, (3, 30), generator=generator)  # each member has rows of its own
    batch = Minibatch(torch.randn(3, 30, 2), torch.randn(3, 30, 3), environment, 90.0)
    where = torch.randn(2, 2, generator=generator), 0.5 * torch.eye(2).repeat(2, 1, 1)
    whole = expected_log_likelihood(model, batch, *where)
    monkeypatch.setattr(expected_likelihood, "ROWS_AT_ONCE", 28)  # 7 rows of 4 points each
    for name, value in vars(expected_log_likelihood(model, batch, *where)).items():
        torch.testing.assert_close(value, getattr(whole, name), rtol=1e-4, atol=1e-3)
    by_point = [
        log_joint(model, model.prior(), batch, where[0] + s * 0.5 * 2**0.5 * e)
        - model.prior().log_prob(where[0] + s * 0.5 * 2**0.5 * e)
        for s in (1, -1)
        for e in torch.eye(2)
    ]
    torch.testing.assert_close(whole.value.float(), torch.stack(by_point).mean(0).detach(), rtol=1e-4, atol=1e-3)
    assert all(parameter.requires_grad and parameter.grad is None for parameter in ensemble.parameters())


@pytest.mark.parametrize("kind", [HierarchicalModel, HeavyTails])
def test_no_precision_falls_below_the_priors_and_no_elbo_below_the_start(kind: Any) -> None:
    """Even where a target is far out, and the likelihood's curvature of the wrong sign."""
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        likelihood: Any = Bent(2 * torch.randn(2, 4, generator=generator), bend=3.0)
        inputs, targets = torch.randn(2, 3, generator=generator), 5 * torch.randn(2, 4, generator=generator)
        batch = whole_batch(inputs, targets, torch.arange(2), 1)
        guide, model = FullRankGuide(2, 2).for_environments(2), kind(likelihood, 2, 2)

        def elbo(guide: Guide = guide, model: HierarchicalModel = model, batch: Minibatch = batch) -> Tensor:
            mean, covariance = moments(guide)
            divergence = (covariance.diagonal(dim1=1, dim2=2).sum(1) + mean.square().sum(1) - covariance.logdet()) / 2
            return expected_log_likelihood(model, batch, mean, torch.linalg.cholesky(covariance)).value - divergence

        before = elbo()
        natural.fit(model, guide, model.prior(), batch, generator)
        assert (elbo() > before - 1e-3).all()
        assert torch.linalg.eigvalsh(moments(guide)[1]).max() < 1 + 1e-4


def test_nothing_is_left_to_chance(generator: torch.Generator) -> None:
    ends = []
    for _ in range(2):
        likelihood, batch = bent_data(torch.Generator().manual_seed(3), environments=2, d=2)
        guide, model = DiagonalGuide(2, 2).for_environments(2), HierarchicalModel(likelihood, 2, 2)
        natural.fit(model, guide, model.prior(), batch, generator)
        ends.append(moments(guide))
    assert all(torch.equal(*pair) for pair in zip(*ends, strict=True))


def test_settings_that_make_no_sense_are_refused_in_words() -> None:
    with pytest.raises(UserError, match="iterations must be positive"):
        NaturalUpdateConfig(iterations=0)


def test_a_normal_hook_is_the_default_likelihood(generator: torch.Generator) -> None:
    class Same(HierarchicalModel):
        def observation(self, inputs: Tensor, latent: Tensor) -> Distribution:
            return Independent(Normal(*self.likelihood(inputs, latent)), 1)

    ensemble = Ensemble(2, 2, 3, EnsembleConfig(members=3, hidden=(8,), weight_decay=(0.0, 0.0)))
    inputs, targets = torch.randn(4, 2, generator=generator), torch.randn(4, 3, generator=generator)
    found = []
    for kind in (HierarchicalModel, Same):
        guide, model = FullRankGuide(2, 2).for_environments(2), kind(ensemble, 2, 2)
        natural.fit(model, guide, model.prior(), whole_batch(inputs, targets, torch.arange(4) % 2, 3), generator)
        found.append(moments(guide))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
