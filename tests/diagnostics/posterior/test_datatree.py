"""The DataTree: its densities are those of the model, and ArviZ can work with it."""

from pathlib import Path
from typing import cast

import arviz_stats
import numpy as np
import pytest
import torch
import xarray
from torch import Tensor
from torch.distributions import Normal

from pyro_dynamics.agent import Agent
from pyro_dynamics.control import MPCConfig
from pyro_dynamics.diagnostics.diagnosis import look_at_latents, posterior_quality
from pyro_dynamics.diagnostics.posterior.datatree import environment_labels, evenly_spread, of_environment, to_datatree
from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import DiagonalGuide, FullRankGuide, PointGuide
from pyro_dynamics.guides.contract import Guide
from pyro_dynamics.inference import OfflineConfig, linear_gaussian_posterior
from pyro_dynamics.io.files import write_tree
from pyro_dynamics.models import HierarchicalModel, LinearGaussian
from pyro_dynamics.tasks import Task
from pyro_dynamics.transitions import Transitions

NOISE, ROWS = 2.0, 40


class Walk(Task):
    """A state of two dimensions and an action of one."""

    state_dim = feature_dim = target_dim = 2
    action_dim = 1

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return torch.zeros(state.shape[:-1])


def make_agent(kind: type[Guide] = FullRankGuide, environments: int = 3, latent_dim: int = 2) -> Agent:
    likelihood = LinearGaussian(3, latent_dim, 2, NOISE, 2, torch.Generator().manual_seed(1))
    model, guide = HierarchicalModel(likelihood, environments, latent_dim), kind(environments, latent_dim)
    return Agent(model, guide, Walk(), (-torch.ones(1), torch.ones(1)), OfflineConfig(), MPCConfig())


def make_data(agent: Agent, rows: int = ROWS) -> Transitions:
    """Transitions out of the model itself, with a latent of each environment."""
    generator = torch.Generator().manual_seed(3)
    count = agent.environments * rows
    environment = torch.arange(count) % agent.environments
    state, action = torch.randn(count, 2, generator=generator), torch.randn(count, 1, generator=generator)
    truth = torch.randn(agent.environments, agent.latent_dim, generator=generator)
    location, scale = agent.predict(state, action, truth[None, environment])
    targets = location[0, 0] + scale[0, 0] * torch.randn(count, 2, generator=generator)
    step = torch.arange(count) // agent.environments
    return Transitions(state, action, state + targets, torch.zeros(count), environment, step)


def make_exact(agent: Agent, data: Transitions, width: float = 1.0) -> None:
    """Let the guide be the exact posterior, or that times ``width``."""
    d = agent.latent_dim
    moments = []
    for k in range(agent.environments):
        own = data.select(data.environment == k)
        mean, covariance = torch.zeros(1, d), torch.eye(d)[None]
        inputs, targets = agent.task.inputs(own.state, own.action), agent.task.targets(own.state, own.next_state)
        design = cast(LinearGaussian, agent.model.likelihood).design(inputs).reshape(1, -1, d)
        moments.append(linear_gaussian_posterior(mean, covariance, design, targets.reshape(1, -1), NOISE))
    agent.guide.match(torch.cat([mean for mean, _ in moments]), width**2 * torch.cat([cov for _, cov in moments]))
    agent.belief.set_prior()


def test_log_p_is_prior_and_all_transitions_and_log_q_the_guides() -> None:
    agent = make_agent()
    data = make_data(agent)
    tree = to_datatree(agent, data, draws=50, pointwise=ROWS, predictive_draws=10)
    e = torch.from_numpy(tree["posterior"]["e"].to_numpy()[0])
    prior = Normal(0.0, 1.0).log_prob(e).sum(-1).double().numpy()
    pointwise = tree["log_likelihood"]["delta"].to_numpy()[0].astype(float)
    owner = tree["constant_data"]["transition_environment"].to_numpy()
    summed = np.stack([pointwise[:, owner == str(k)].sum(1) for k in range(3)], 1)
    assert np.allclose(tree["sample_stats"]["log_p"].to_numpy()[0], prior + summed, atol=1e-3)
    assert np.allclose(
        tree["sample_stats"]["log_q"].to_numpy()[0], agent.posterior().log_prob(e).detach().numpy(), atol=1e-4
    )


def test_dimensions_are_named_and_contexts_stand_in_it() -> None:
    agent = make_agent()
    data = make_data(agent)
    tree = to_datatree(agent, data, 30, contexts=[-6.0, 0.0, 6.0], pointwise=5, predictive_draws=7, attrs={"unit": "m"})
    assert tree["posterior"]["e"].dims == ("chain", "draw", "environment", "latent")
    assert tree["posterior"].coords["environment"].to_numpy().tolist() == ["-6", "0", "6"]
    assert tree["prior"]["e"].sizes == {"chain": 1, "draw": 30, "environment": 3, "latent": 2}
    assert tree["sample_stats"]["log_p"].dims == ("chain", "draw", "environment")
    assert tree["log_likelihood"]["delta"].sizes == {"chain": 1, "draw": 30, "transition": 15}
    assert tree["posterior_predictive"]["delta"].sizes == {"chain": 1, "draw": 7, "transition": 15, "target": 2}
    assert tree["observed_data"]["delta"].sizes == {"transition": 15, "target": 2}
    assert tree["constant_data"]["context"].to_numpy().tolist() == [-6, 0, 6]
    assert tree.attrs["unit"] == "m"
    assert tree.attrs["guide"] == "FullRankGuide"
    assert to_datatree(agent, data, 30, seed=1).identical(to_datatree(agent, data, 30, seed=1))


def test_posterior_predictive_has_the_models_spread() -> None:
    agent = make_agent()
    tree = to_datatree(agent, make_data(agent), 600, pointwise=3, predictive_draws=600)
    e = tree["posterior"]["e"].sel(chain=0)
    row = int(tree["observed_data"].coords["transition"][0])
    data = make_data(agent)
    inputs = agent.task.inputs(data.state, data.action)
    design = cast(LinearGaussian, agent.model.likelihood).design(inputs)[row].numpy()
    covariance = np.cov(e.to_numpy()[:, int(data.environment[row])].T)
    expected = np.sqrt(np.diag(design @ covariance @ design.T) + NOISE**2)
    found = tree["posterior_predictive"]["delta"].sel(chain=0, transition=row).std("draw").to_numpy()
    assert found == pytest.approx(expected, rel=0.1)


def test_exact_posterior_is_believed_and_a_narrow_one_is_not() -> None:
    agent = make_agent()
    data = make_data(agent)
    make_exact(agent, data)
    tree = to_datatree(agent, data, 500, pointwise=ROWS)
    exact = posterior_quality(tree)
    assert all(one.importance.reliable for one in exact)
    assert all(one.unstable == 0 for one in exact)
    # The guide is exact: LOO that is corrected for it is plain LOO.
    plain = arviz_stats.loo(of_environment(tree, "0"), var_name="delta")
    assert exact[0].elpd == pytest.approx(plain.elpd / ROWS, abs=0.01)
    make_exact(agent, data, width=0.4)
    assert not any(one.importance.reliable for one in posterior_quality(to_datatree(agent, data, 500)))


def test_refits_are_chains_and_only_they_give_r_hat() -> None:
    agent = make_agent(DiagonalGuide)
    data = make_data(agent)
    config = OfflineConfig(guide_learning_rate=0.02, min_steps=400, lr_decay=True)
    fits = [agent.refit(data, DiagonalGuide(3, 2), config, torch.Generator().manual_seed(seed)) for seed in range(2)]
    weights = [value.clone() for value in agent.model.state_dict().values()]
    tree = to_datatree(fits, data, 200, contexts=["a", "b", "c"])
    assert tree["posterior"]["e"].sizes["chain"] == 2
    latents = look_at_latents(tree, ["a", "b", "c"])
    assert latents.r_hat is not None
    assert np.array(latents.r_hat).shape == (3, 2)
    assert np.array(latents.r_hat).max() < 1.1
    assert len(latents.refit_k_hat) == 1
    assert latents.rank_correlation is None
    assert look_at_latents(to_datatree(agent, data, 200), ["a", "b", "c"]).r_hat is None
    after = agent.model.state_dict().values()
    assert all(torch.equal(one, other) for one, other in zip(weights, after, strict=True))


@pytest.mark.parametrize(("environments", "latent_dim"), [(1, 2), (2, 1), (1, 1)])
def test_small_shapes_and_netcdf_round_trip(environments: int, latent_dim: int, tmp_path: Path) -> None:
    agent = make_agent(environments=environments, latent_dim=latent_dim)
    tree = to_datatree(agent, make_data(agent), 50, contexts=["front foot", "none"][:environments])
    write_tree(tmp_path / "posterior.nc", tree)
    again = xarray.open_datatree(tmp_path / "posterior.nc", engine="h5netcdf")
    assert set(again.children) == set(tree.children)
    assert np.array_equal(again["posterior"]["e"], tree["posterior"]["e"])
    assert again["constant_data"]["context"].to_numpy().tolist() == ["front foot", "none"][:environments]
    assert not list(tmp_path.glob("*.part"))
    assert len(posterior_quality(tree)) == environments
    assert look_at_latents(tree, ["front foot", "none"][:environments]).r_squared is None


def test_what_has_no_posterior_is_refused_in_words() -> None:
    agent = make_agent(latent_dim=0)
    with pytest.raises(UserError, match="no latent"):
        to_datatree(agent, make_data(agent), 50)
    point = make_agent(PointGuide)
    with pytest.raises(UserError, match="no density"):
        to_datatree(point, make_data(make_agent()), 50)
    missing = make_data(make_agent())
    with pytest.raises(UserError, match="environment 1"):
        to_datatree(make_agent(), missing.select(missing.environment != 1), 50)


def test_labels_and_even_spread() -> None:
    assert environment_labels(None, 2) == ["0", "1"]
    assert environment_labels([1.5, 1.5, "none"], 3) == ["1.5 (0)", "1.5 (1)", "none"]
    environment = torch.arange(10) % 2
    assert evenly_spread(environment, 2, 3).tolist() == [0, 1, 4, 5, 8, 9]
    assert evenly_spread(environment, 2, 99).tolist() == list(range(10))
