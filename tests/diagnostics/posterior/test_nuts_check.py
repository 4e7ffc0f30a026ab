"""The guide against NUTS where the posterior is known in closed form."""

import math
from typing import cast

import pytest
import torch
from torch import Tensor

from pyro_dynamics.agent import Agent
from pyro_dynamics.control import MPCConfig
from pyro_dynamics.diagnostics.posterior import nuts_check
from pyro_dynamics.diagnostics.posterior.nuts_check import NutsCheck, compare_with_nuts, thinned
from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import DiagonalGuide, FullRankGuide, Guide
from pyro_dynamics.inference import OfflineConfig, SVIUpdateConfig, linear_gaussian_posterior
from pyro_dynamics.models import HierarchicalModel, LinearGaussian
from pyro_dynamics.tasks import Task
from pyro_dynamics.transitions import Transitions

NOISE, ROWS = 1.0, 12


@pytest.fixture(autouse=True)
def _short_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """These posteriors are wide, and near the prior: a quarter of the steps finds them."""
    monkeypatch.setattr(nuts_check, "FIT", (SVIUpdateConfig(200, 5e-2, 16), SVIUpdateConfig(150, 5e-3, 16)))


class Walk(Task):
    """A state and an action of one dimension."""

    state_dim = feature_dim = target_dim = action_dim = 1

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return torch.zeros(state.shape[:-1])


def make_agent(guide: Guide) -> Agent:
    """Both latents push the same way, so that only their weighted sum is well known."""
    likelihood = LinearGaussian(2, guide.latent_dim, 1, NOISE, 2, torch.Generator().manual_seed(0))
    likelihood.base.fill_(0.8)
    likelihood.slope.mul_(0.2)
    model = HierarchicalModel(likelihood, guide.environments, guide.latent_dim)
    return Agent(model, guide, Walk(), (-torch.ones(1), torch.ones(1)), OfflineConfig(), MPCConfig())


def make_data(agent: Agent) -> Transitions:
    """Thirty transitions of environment 1, in the order in which they were recorded, and one of environment 0."""
    generator = torch.Generator().manual_seed(3)
    state, action = torch.randn(31, 1, generator=generator), torch.randn(31, 1, generator=generator)
    latent = torch.tensor([1.0, -0.5])[: agent.latent_dim].expand(31, -1)
    location, scale = agent.model.likelihood(agent.task.inputs(state, action), latent)
    target = location + scale * torch.randn(31, 1, generator=generator)
    environment = (torch.arange(31) > 0).long()
    return Transitions(state, action, state + target, torch.zeros(31), environment, torch.arange(31))


def check(agent: Agent, generator: torch.Generator, chains: int) -> NutsCheck:
    return compare_with_nuts(agent, make_data(agent), 1, ROWS, 100, 40, chains, generator)


def exact(agent: Agent) -> tuple[Tensor, Tensor]:
    inputs, targets = thinned(agent, make_data(agent), 1, ROWS)
    d = agent.latent_dim
    design = cast(LinearGaussian, agent.model.likelihood).design(inputs).flatten(0, 1)
    return linear_gaussian_posterior(torch.zeros(d), torch.eye(d), design, targets.flatten(), NOISE)


def test_a_full_rank_guide_agrees_with_nuts_and_with_the_exact_posterior(generator: torch.Generator) -> None:
    agent = make_agent(FullRankGuide(2, 2))
    before = agent.posterior()
    found = check(agent, generator, chains=2)
    assert torch.equal(agent.posterior().mean, before.mean)  # it is another guide that is fitted
    assert torch.equal(agent.posterior().stddev, before.stddev)
    mean, covariance = exact(agent)
    assert (found.environment, found.rows) == (1, ROWS)
    # Within three standard errors of so many draws.
    assert found.effective > 30
    assert found.mean_error < 3 / math.sqrt(found.effective)
    assert found.sd_ratio == pytest.approx(1, abs=3 / math.sqrt(2 * found.effective))
    assert found.correlation is not None
    assert found.correlation < -0.6  # the case is worth the test
    assert found.correlation == pytest.approx(found.nuts_correlation, abs=0.15)
    assert found.k_hat < 0.5
    assert found.r_hat < 1.2  # so short chains
    sd = covariance.diagonal().sqrt()
    assert found.mean == pytest.approx(mean.tolist(), abs=0.1 * float(sd.min()))
    assert found.sd == pytest.approx(sd.tolist(), rel=0.05)


def test_a_mean_field_guide_is_overconfident_about_a_correlated_posterior(generator: torch.Generator) -> None:
    agent = make_agent(DiagonalGuide(2, 2))
    found = check(agent, generator, chains=1)
    assert found.sd_ratio < 0.8
    assert found.correlation == 0
    assert found.nuts_correlation is not None
    assert found.nuts_correlation < -0.5
    assert found.mean_error < 0.4


def test_a_latent_of_one_dimension_has_no_correlation(generator: torch.Generator) -> None:
    agent = make_agent(DiagonalGuide(2, 1))
    found = compare_with_nuts(agent, make_data(agent), 1, 5, 60, 40, 1, generator)
    assert found.correlation is None
    assert found.nuts_correlation is None
    assert len(found.nuts_sd) == 1
    assert found.sd_ratio == pytest.approx(1, abs=0.4)


def test_rows_are_evenly_spread_over_the_environment_alone() -> None:
    agent = make_agent(FullRankGuide(2, 2))
    data = make_data(agent)
    inputs, targets = thinned(agent, data, 1, 3)
    assert torch.equal(inputs[:, 0], data.state[[1, 15, 30], 0])
    assert targets.shape == (3, 1)
    assert len(thinned(agent, data, 0, 50)[0]) == 1
    with pytest.raises(UserError, match="no transitions of environment 2"):
        thinned(agent, data, 2, 3)


def test_what_cannot_be_compared_is_refused_in_words(generator: torch.Generator) -> None:
    agent = make_agent(FullRankGuide(2, 2))
    with pytest.raises(UserError, match="needs 20 draws"):
        compare_with_nuts(agent, make_data(agent), 1, ROWS, 19, 60, 2, generator)
    generalist = make_agent(FullRankGuide(2, 0))
    with pytest.raises(UserError, match="has no latent"):
        compare_with_nuts(generalist, make_data(agent), 1, ROWS, 20, 20, 2, generator)


def test_chains_that_are_too_short_are_refused(generator: torch.Generator) -> None:
    agent = make_agent(DiagonalGuide(2, 2))
    with pytest.raises(UserError, match="a comparison with NUTS needs 20 draws and warm-up steps or more"):
        compare_with_nuts(agent, make_data(agent), 1, ROWS, 100, 19, 2, generator)
