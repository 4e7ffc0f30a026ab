from typing import Any

import pyro
import pytest
import torch
from pyro import poutine
from torch.distributions import Normal

from pyro_dynamics.models import HierarchicalModel, LinearGaussian
from pyro_dynamics.models.hierarchical import gather_rows
from pyro_dynamics.transitions import Minibatch

MEMBERS, ROWS, ENVIRONMENTS, LATENT, TOTAL = 3, 4, 5, 2, 40


def make(latent_dim: int = LATENT) -> tuple[HierarchicalModel, Minibatch]:
    generator = torch.Generator().manual_seed(0)
    likelihood = LinearGaussian(2, latent_dim, 3, 0.5, MEMBERS, generator)
    batch = Minibatch(
        torch.randn(MEMBERS, ROWS, 2, generator=generator),
        torch.randn(MEMBERS, ROWS, 3, generator=generator),
        torch.randint(ENVIRONMENTS, (MEMBERS, ROWS), generator=generator),
        TOTAL,
    )
    return HierarchicalModel(likelihood, ENVIRONMENTS, latent_dim), batch


def test_log_density_is_the_prior_and_the_scaled_mean_over_members() -> None:
    model, batch = make()
    likelihood = model.likelihood
    assert isinstance(likelihood, LinearGaussian)
    latent = torch.randn(ENVIRONMENTS, LATENT)
    trace = poutine.trace(poutine.condition(model, {"e": latent})).get_trace(batch)
    expected = Normal(0.0, 1.0).log_prob(latent).sum()
    for m in range(MEMBERS):
        for b in range(ROWS):
            design = likelihood.design(batch.inputs[m, b])
            location = design @ latent[batch.environment[m, b]]
            expected += TOTAL / ROWS / MEMBERS * Normal(location, 0.5).log_prob(batch.targets[m, b]).sum()
    assert float(trace.log_prob_sum()) == pytest.approx(float(expected), rel=1e-5)


def test_the_last_posterior_can_take_the_priors_place() -> None:
    model, batch = make()
    prior = pyro.distributions.Normal(torch.full((ENVIRONMENTS, LATENT), 3.0), 0.1).to_event(1)
    trace = poutine.trace(model).get_trace(batch, prior)
    fn: Any = trace.nodes["e"]["fn"]
    assert torch.equal(fn.mean, prior.mean)


def test_without_latent_it_is_the_generalist() -> None:
    model, batch = make(latent_dim=0)
    trace = poutine.trace(model).get_trace(batch)
    value: Any = trace.nodes["e"]["value"]
    assert value.shape == (ENVIRONMENTS, 0)
    trace.compute_log_prob()
    assert float(trace.nodes["e"]["log_prob_sum"]) == 0


def test_rows_get_the_latent_of_their_environment() -> None:
    index = torch.tensor([[0, 2], [1, 1]])
    latent = torch.randn(3, 2)
    assert torch.equal(gather_rows(latent, index), latent[index])
    sampled = torch.randn(6, 1, 3, 2)
    assert torch.equal(gather_rows(sampled, index)[4], sampled[4, 0][index])


def test_other_environments_share_the_likelihood() -> None:
    model, _ = make()
    other = model.for_environments(2)
    assert other.likelihood is model.likelihood
    assert other.prior().batch_shape == (2,)
