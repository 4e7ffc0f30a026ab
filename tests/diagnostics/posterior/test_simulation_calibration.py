"""Ranks of the truth: uniform for the exact posterior, and showing what is wrong with another."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Distribution, MultivariateNormal

from pyro_dynamics.agent import Agent
from pyro_dynamics.control import MPCConfig
from pyro_dynamics.diagnostics.posterior.simulation_calibration import (
    OneMember,
    choose_bins,
    describe,
    fresh_belief,
    input_windows,
    sbc_ranks,
    shares,
    simulation_calibration,
    uniformity,
)
from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import FullRankGuide
from pyro_dynamics.inference import KalmanUpdate, KalmanUpdateConfig, OfflineConfig, RecursiveBelief
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel, LinearGaussian
from pyro_dynamics.plots.uniformity_figures import draw_sbc
from pyro_dynamics.seeding import derive_generator
from pyro_dynamics.tasks import Task
from pyro_dynamics.transitions import Transitions

DRAWS = 99


class Walk(Task):
    """A state of two dimensions and an action of one."""

    state_dim = feature_dim = target_dim = 2
    action_dim = 1

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return torch.zeros(state.shape[:-1])


class NarrowBelief(RecursiveBelief):
    """Half the standard deviation that it should have."""

    def posterior(self) -> Distribution:
        right: Any = self.guide.frozen()
        return MultivariateNormal(right.mean, scale_tril=right.scale_tril / 2)


class WideBelief(RecursiveBelief):
    """Twice the standard deviation that it should have."""

    def posterior(self) -> Distribution:
        right: Any = self.guide.frozen()
        return MultivariateNormal(right.mean, scale_tril=2 * right.scale_tril)


class ShiftedBelief(RecursiveBelief):
    """Off by one standard deviation, in every direction."""

    def posterior(self) -> Distribution:
        right: Any = self.guide.frozen()
        return MultivariateNormal(right.mean + right.stddev, scale_tril=right.scale_tril)


def make_agent(kind: type[RecursiveBelief] = RecursiveBelief, members: int = 4) -> Agent:
    """An agent whose Kalman update is exact."""
    likelihood = LinearGaussian(3, 2, 2, 2.0, members, torch.Generator().manual_seed(1))
    model, guide = HierarchicalModel(likelihood, 4, 2), FullRankGuide(4, 2)
    bounds = (-torch.ones(1), torch.ones(1))
    rule = KalmanUpdate(KalmanUpdateConfig(iterations=1))
    return Agent(model, guide, Walk(), bounds, OfflineConfig(), MPCConfig(), lambda m, g: kind(m, g, rule))


def make_data(episodes: int = 4, steps: int = 30) -> Transitions:
    generator = torch.Generator().manual_seed(2)
    state = torch.randn(episodes, steps + 1, 2, generator=generator)
    environment = torch.arange(episodes).repeat_interleave(steps)
    return Transitions(
        state[:, :-1].flatten(0, 1),
        torch.randn(episodes * steps, 1, generator=generator),
        state[:, 1:].flatten(0, 1),
        torch.zeros(episodes * steps),
        environment,
        torch.arange(steps).repeat(episodes),
    )


@pytest.mark.parametrize("at_once", [False, True])
def test_ranks_in_the_exact_posterior_are_uniform(at_once: bool, generator: torch.Generator) -> None:
    reported: list[int] = []
    found = simulation_calibration(make_agent(), make_data(), 400, 8, DRAWS, generator, at_once, reported.append)
    assert len(found.ranks) == 400
    assert all(0 <= rank <= DRAWS for row in found.ranks for rank in row)
    assert found.bins == 20
    assert min(found.p_values) > 0.01
    assert found.shape == ["uniform", "uniform"]
    assert sum(reported) == (400 if at_once else 400 * 8)
    assert draw_sbc(found).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("kind", "word"), [(NarrowBelief, "too narrow"), (WideBelief, "over-dispersed"), (ShiftedBelief, "shifted")]
)
def test_a_wrong_belief_is_named_by_its_kind(
    kind: type[RecursiveBelief], word: str, generator: torch.Generator
) -> None:
    found = simulation_calibration(make_agent(kind), make_data(), 400, 8, DRAWS, generator)
    assert max(found.p_values) < 0.001
    assert found.shape == [word, word]


def test_the_agent_and_the_global_stream_stay_as_they_were(generator: torch.Generator) -> None:
    agent = make_agent()
    agent.guide.match(torch.ones(4, 2), 0.3 * torch.eye(2).expand(4, 2, 2))
    agent.belief.set_prior()
    likelihood, belief, stream = agent.model.likelihood, agent.belief, torch.get_rng_state()
    before = {name: value.clone() for part in (agent.model, agent.guide) for name, value in part.state_dict().items()}
    sbc_ranks(agent, make_data(), 10, 3, DRAWS, generator)
    after = {name: value for part in (agent.model, agent.guide) for name, value in part.state_dict().items()}
    assert before.keys() == after.keys()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert agent.model.likelihood is likelihood
    assert agent.belief is belief
    assert torch.equal(agent.posterior().mean, torch.ones(4, 2))
    assert torch.equal(torch.get_rng_state(), stream)


def test_same_seed_same_ranks() -> None:
    agent, data = make_agent(), make_data()
    first, second, other = (sbc_ranks(agent, data, 20, 3, DRAWS, derive_generator(seed, "sbc")) for seed in (0, 0, 1))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_one_member_is_that_member_of_the_ensemble() -> None:
    ensemble = Ensemble(3, 2, 2, EnsembleConfig(members=3, hidden=(8,), weight_decay=(0.0, 0.0)))
    inputs, latent = torch.randn(6, 1, 5, 3), torch.randn(6, 1, 5, 2)  # as the draws of an SVI update come
    every = ensemble(inputs.expand(6, 3, 5, 3), latent.expand(6, 3, 5, 2))
    for member in range(3):
        found = OneMember(ensemble, member)(inputs, latent)
        for ours, all_members in zip(found, every, strict=True):
            assert ours.shape == (6, 1, 5, 2)
            torch.testing.assert_close(ours[:, 0], all_members[:, member])
    belief = fresh_belief(make_agent(), OneMember(ensemble, 1), 7)
    assert belief.model.likelihood.members == 1
    torch.testing.assert_close(belief.posterior().stddev, torch.ones(7, 2))


def test_simulations_are_shared_out_evenly_in_chunks() -> None:
    assert list(shares(7, 3)) == [(0, 3), (1, 2), (2, 2)]
    assert list(shares(2, 3)) == [(0, 1), (1, 1)]
    assert list(shares(120, 1)) == [(0, 50), (0, 50), (0, 20)]


def test_windows_lie_in_one_episode_where_they_can() -> None:
    windows = input_windows(make_data(2, 5), 4)
    assert windows.tolist() == [[0, 1, 2, 3], [1, 2, 3, 4], [5, 6, 7, 8], [6, 7, 8, 9]]
    assert len(input_windows(make_data(2, 5), 8)) == 3  # no episode is so long
    with pytest.raises(UserError, match="simulations of 11 transitions"):
        input_windows(make_data(2, 5), 11)


def test_bins_divide_the_ranks_and_expect_enough() -> None:
    assert [choose_bins(n, 99) for n in (50, 100, 1000)] == [10, 20, 20]
    for simulations, draws in ((9, 99), (200, 100)):  # too few; and 101 ranks, a prime number
        with pytest.raises(UserError, match="50 simulations or more, and 99 draws"):
            choose_bins(simulations, draws)
    with pytest.raises(UserError, match="choose a divisor"):
        uniformity(torch.zeros(50, 1, dtype=torch.long), 99, 7)


def test_even_ranks_have_a_p_value_of_1() -> None:
    ranks = torch.arange(100)[:, None]
    assert uniformity(ranks, 99) == [1]
    assert describe(ranks[:, 0], 99, 1.0) == "uniform"


def test_simulations_of_no_length_are_refused(generator: torch.Generator) -> None:
    with pytest.raises(UserError, match="simulations, length and draws must be positive, not 400, 0 and 99"):
        simulation_calibration(make_agent(), make_data(), 400, 0, DRAWS, generator)
