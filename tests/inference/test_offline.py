"""Eq. 4: gradients by hand, and the scale of the divergence."""

import math

import pyro
import pytest
import torch
from torch.distributions import Normal

from pyro_dynamics.guides import DiagonalGuide
from pyro_dynamics.inference import OfflineConfig, OfflineInference, linear_gaussian_posterior
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel, LinearGaussian
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.transitions import Minibatch

MEMBERS, ROWS, ENVIRONMENTS, LATENT, TOTAL = 2, 3, 2, 2, 12


def test_elbo_and_its_gradients_equal_hand_written_ones(generator: torch.Generator) -> None:
    torch.manual_seed(0)
    ensemble = Ensemble(2, LATENT, 3, EnsembleConfig(members=MEMBERS, hidden=(4,), weight_decay=(0.0, 0.0)))
    guide = DiagonalGuide(ENVIRONMENTS, LATENT)
    with torch.no_grad():
        guide.location.add_(torch.randn(ENVIRONMENTS, LATENT))
    inference = OfflineInference(HierarchicalModel(ensemble, ENVIRONMENTS, LATENT), guide, OfflineConfig())
    batch = Minibatch(
        torch.randn(MEMBERS, ROWS, 2),
        torch.randn(MEMBERS, ROWS, 3),
        torch.randint(ENVIRONMENTS, (MEMBERS, ROWS)),
        TOTAL,
    )
    with pyro.settings.context(module_local_params=True), drawing_from(torch.Generator().manual_seed(1)):
        loss = inference.loss(batch)
    parameters = [*ensemble.parameters(), *guide.parameters()]
    gradients = torch.autograd.grad(loss, parameters)

    noise = torch.randn(ENVIRONMENTS, LATENT, generator=torch.Generator().manual_seed(1))
    scale = guide.log_scale.exp()
    latent = guide.location + scale * noise
    location, sigma = ensemble(batch.inputs, latent[batch.environment])
    log_likelihood = Normal(location, sigma).log_prob(batch.targets).sum() * TOTAL / ROWS / MEMBERS
    divergence = 0.5 * (scale**2 + guide.location**2 - 1 - 2 * guide.log_scale).sum()
    by_hand = divergence - log_likelihood
    assert loss.item() == pytest.approx(by_hand.item(), rel=1e-5)
    for ours, theirs in zip(gradients, torch.autograd.grad(by_hand, parameters), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def fitted_scale(rows: int) -> tuple[float, float]:
    """Fitted and exact posterior standard deviation after ``rows`` transitions of one environment."""
    generator = torch.Generator().manual_seed(0)
    likelihood = LinearGaussian(2, 1, 3, 2.0, 5, generator)
    inputs = torch.randn(200, 2, generator=generator)[:rows]
    design = likelihood.design(inputs)
    targets = (design @ torch.tensor([0.7]))[:, :] + 2.0 * torch.randn(200, 3, generator=generator)[:rows]
    _, covariance = linear_gaussian_posterior(
        torch.zeros(1), torch.eye(1), design.flatten(0, 1), targets.flatten(), 2.0
    )
    guide = DiagonalGuide(1, 1)
    model = HierarchicalModel(likelihood, 1, 1)
    for rate, steps in ((0.02, 400), (0.001, 2000)):
        config = OfflineConfig(guide_learning_rate=rate, batch_size=50, epochs=1, min_steps=steps)
        inference = OfflineInference(model, guide, config)
        inference.train(inputs, targets, torch.zeros(rows, dtype=torch.long), generator)
    return float(guide.frozen().stddev), math.sqrt(float(covariance))


def test_doubling_the_data_halves_the_posterior_variance() -> None:
    """It fails if the divergence is counted once a minibatch, or once a transition, or divided by the batch."""
    (half, exact_half), (whole, exact_whole) = fitted_scale(100), fitted_scale(200)
    assert half == pytest.approx(exact_half, rel=0.07)
    assert whole == pytest.approx(exact_whole, rel=0.07)
    assert whole**2 / half**2 == pytest.approx(exact_whole**2 / exact_half**2, rel=0.15)
    assert 0.4 < exact_whole**2 / exact_half**2 < 0.6


def test_more_epochs_where_the_data_is_little(generator: torch.Generator) -> None:
    likelihood = LinearGaussian(2, 1, 3, 2.0, 2, generator)
    epochs: list[int] = []
    config = OfflineConfig(batch_size=4, epochs=2, min_steps=9)
    inference = OfflineInference(HierarchicalModel(likelihood, 1, 1), DiagonalGuide(1, 1), config)
    data = (torch.randn(10, 2), torch.randn(10, 3), torch.zeros(10, dtype=torch.long))
    inference.train(*data, generator, lambda epoch, elbo: epochs.append(epoch))
    assert epochs == [0, 1, 2]  # three steps an epoch


@pytest.mark.parametrize(("decay", "expected"), [(False, [1.0] * 8), (True, [1.0] * 5 + [0.75, 0.5, 0.25])])
def test_rates_fall_over_the_second_half_of_each_training_if_asked(decay: bool, expected: list[float]) -> None:
    generator = torch.Generator().manual_seed(0)
    likelihood = LinearGaussian(2, 1, 3, 2.0, 2, generator)
    config = OfflineConfig(batch_size=5, epochs=4, guide_learning_rate=0.01, lr_decay=decay)
    inference = OfflineInference(HierarchicalModel(likelihood, 1, 1), DiagonalGuide(1, 1), config)
    seen: list[float] = []
    inference.optimiser.register_step_pre_hook(
        lambda optimiser, *_: seen.append(optimiser.param_groups[-1]["lr"] / 0.01)
    )
    data = (torch.randn(10, 2), torch.randn(10, 3), torch.zeros(10, dtype=torch.long))
    for _ in range(2):  # the second training starts at the full rate again
        seen.clear()
        inference.train(*data, generator)
        assert seen == pytest.approx(expected)
