"""Beliefs that follow given streams, beside the exact posteriors of a linear-Gaussian model."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pyro_dynamics.agent import Agent
from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.benchmarks.belief.dispersion import dispersion
from pyro_dynamics.benchmarks.belief.figures import change_figures, recall_figures, steady_figures
from pyro_dynamics.benchmarks.belief.following import Followed, follow
from pyro_dynamics.benchmarks.belief.network import network_coverage
from pyro_dynamics.benchmarks.belief.streams import Streams, act
from pyro_dynamics.benchmarks.belief.trials import TRIALS, Trial, scale_of, trained_pair
from pyro_dynamics.benchmarks.belief.unseen import unseen_inside, unseen_outside
from pyro_dynamics.control import MPCConfig
from pyro_dynamics.environments import Schedule, find_family
from pyro_dynamics.environments.context_text import columns
from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import DiagonalGuide, FullRankGuide
from pyro_dynamics.inference import BELIEFS, KalmanUpdate, KalmanUpdateConfig, OfflineConfig
from pyro_dynamics.models import HierarchicalModel, LinearGaussian
from pyro_dynamics.tasks import Task
from pyro_dynamics.transitions import Transitions

NOISE = 0.5


class Number(Task):
    """A state and an action of one number, and no reward."""

    state_dim = action_dim = feature_dim = target_dim = 1

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return torch.zeros(state.shape[:-1])


def group(environments: int, noise: float = NOISE, guide: Any = FullRankGuide) -> AgentGroup:
    """delta ~ N(e, noise^2): the exact posterior after n steps is that of n observations of e under N(0, 1)."""
    likelihood = LinearGaussian(2, 1, 1, noise, 2, torch.Generator())
    likelihood.base.fill_(1.0)
    likelihood.slope.zero_()
    rule = KalmanUpdate(KalmanUpdateConfig(iterations=1))
    agent = Agent(
        HierarchicalModel(likelihood, environments, 1),
        guide(environments, 1).for_environments(environments),
        Number(),
        (-torch.ones(1), torch.ones(1)),
        OfflineConfig(),
        MPCConfig(particles=2),
        lambda model, own: BELIEFS["recursive"](model, own, rule),
    )
    return AgentGroup([agent], [range(environments)])


def streams(trial: Trial, noise: float = NOISE) -> Streams:
    """What is observed where e is the context."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.from_numpy(trial.truth()).float()
    state = torch.zeros_like(truth)
    delta = truth + noise * torch.randn(truth.shape, generator=generator)
    alive = torch.ones(truth.shape[:2], dtype=torch.bool)
    return Streams(state, state, delta, torch.zeros(truth.shape[:2]), alive)


class Exact:
    """The latent is the context."""

    def predict(self, latents: np.ndarray) -> np.ndarray:
        return latents[..., 0]

    draws = predict


def followed(trial: Trial, noise: float = NOISE, **how: Any) -> Followed:
    return follow(group(len(trial.schedules), noise), streams(trial, noise), Exact(), trial.schedules, **how)  # type: ignore[arg-type]


def steady(contexts: int, steps: int) -> Trial:
    drawn = np.random.default_rng(0).normal(size=contexts).tolist()
    return Trial("steady", tuple(Schedule.constant(e) for e in (*drawn, *drawn)), ("inside",) * (2 * contexts), steps)


def test_an_exact_belief_is_calibrated_and_its_density_is_the_known_one() -> None:
    trial = steady(300, 12)
    found = followed(trial, predicted=8)
    figures = steady_figures(trial, found, np.ones(1))
    n, precision = 12, 1 / NOISE**2
    assert np.mean(figures["inside"]["coverage"]) == pytest.approx(0.9, abs=0.03)
    assert np.mean(figures["inside"]["width"]) == pytest.approx(2 * 1.645 * (1 + 9 * precision) ** -0.5, rel=0.05)
    expected = n * precision / (1 + n * precision)  # below 1 by the prior, which both beliefs share
    for name in ("z2_latent", "z2_decoded"):
        assert np.mean(figures[name]) == pytest.approx(expected, abs=0.15)
    observed = streams(trial).next_state[:8, :, 0]
    covariance = NOISE**2 * torch.eye(8) + torch.ones(8, 8)
    exact = torch.distributions.MultivariateNormal(torch.zeros(8), covariance).log_prob(observed.T)
    error = figures["log_predictive"] - exact.numpy()  # of a mean over 400 draws, of which few fit a rare e
    assert np.quantile(np.abs(error), 0.9) < 0.3
    assert error.mean() == pytest.approx(0, abs=0.05)


def test_a_recursive_belief_follows_a_change_by_the_known_law_and_the_oracle_reset_at_once() -> None:
    """After n steps at one value and t at another a mean has made t / (n + t) of the move, with next to no noise."""
    trial = Trial("change", (Schedule(((0, -1.0), (3, 1.0))),) * 2, ("change", "change"), 40)
    late, at_once = (
        change_figures(trial, followed(trial, noise=1e-3, reset=reset), np.ones(1)) for reset in (False, True)
    )
    assert (late["steps"], late["left"]) == ([27, 27], 37)
    assert late["end_error"] == pytest.approx([np.mean([3 / k for k in range(21, 41)])] * 2, rel=0.01)
    assert late["end_coverage"] == [0, 0]
    assert at_once["steps"] == [1, 1]
    assert np.mean(at_once["end_coverage"]) > 0.5


def test_the_steps_of_both_visits_are_counted_from_their_begin() -> None:
    begins = (0, 10, 20, 30)
    values = [(-1.0, 1.0, -1.0, 1.0)] * 2
    schedules = tuple(Schedule(tuple(zip(begins, one, strict=True))) for one in values)
    trial = Trial("recall", schedules, ("unseen", "trained"), 40, begins)
    decoded = np.full((40, 2, 1), -1.0)
    decoded[14:20, 0], decoded[31:, 0] = (
        1.0,
        1.0,
    )  # the first visit is found at its fifth step, the second at its second
    nothing = np.zeros(0)
    found = Followed(decoded, decoded, decoded, nothing, nothing, nothing, nothing)
    assert recall_figures(trial, found, np.ones(1)) == {
        "left": 10,
        "unseen": {"first": [5], "second": [2]},
        "trained": {"first": [None], "second": [None]},
    }


def held_out(noise: float) -> Transitions:
    trial = Trial("steady", tuple(map(Schedule.constant, (-1.0, 0.5, 2.0))), ("inside",) * 3, 1000)
    made = streams(trial, noise)
    environment = torch.arange(3).expand(1000, 3)
    rows = (made.state, made.action, made.next_state, made.reward, environment, environment)
    return Transitions(*(value.flatten(0, 1) for value in rows))


@pytest.mark.parametrize(("noise", "share"), [(NOISE, 0.9), (NOISE / 2, 0.999), (NOISE * 2, 0.589)])
def test_the_networks_coverage_is_that_of_its_noise(noise: float, share: float) -> None:
    agent, data = group(3).agents[0], held_out(noise)
    agent.observe(data.state, data.action, data.next_state, data.environment, torch.Generator())
    found = network_coverage(agent, data)
    assert found["mixture"] == pytest.approx([share], abs=0.02)
    assert found["members"] == [pytest.approx([share], abs=0.02)] * 2


@pytest.mark.parametrize("guide", [DiagonalGuide, FullRankGuide])
def test_the_best_guide_has_a_dispersion_of_one(guide: Any) -> None:
    agent, data = group(3, guide=guide).agents[0], held_out(NOISE)
    sd = (1 + 1000 / NOISE**2) ** -0.5
    for factor in (1.0, 3.0):
        agent.guide.match(torch.zeros(3, 1), torch.full((3, 1, 1), (factor * sd) ** 2))
        assert dispersion(agent, data) == [[pytest.approx(factor, rel=1e-3)]] * 3


@pytest.mark.parametrize("name", ["pendulum-gravity", "halfcheetah-gain", "cadm-cartpole", "cartpole-force-length"])
def test_unseen_contexts_were_not_trained_on_and_lie_where_they_should(name: str) -> None:
    family = find_family(name)
    trained, inside = columns(family.train), columns(unseen_inside(family, 12))
    assert len(np.unique(inside, axis=0)) == 12
    assert ((trained.min(0) < inside) & (inside < trained.max(0))).all()
    apart = np.abs(inside[:, None] - trained) / np.ptp(trained, axis=0)
    assert apart.max(-1).min() >= 0.02
    thirds = np.digitize((inside - trained.min(0)) / np.ptp(trained, axis=0), [1 / 3, 2 / 3])
    assert all(np.bincount(column, minlength=3).min() >= 2 for column in thirds.T)  # they cover the range
    outside = columns(unseen_outside(family, 6))
    assert 1 <= len(outside) <= 6
    assert ((outside < trained.min(0)) | (trained.max(0) < outside)).any(1).all()


def test_a_family_without_room_between_its_contexts_is_refused() -> None:
    family = find_family("pendulum-gravity")
    packed = type(family)(**{**vars(family), "train": tuple(np.linspace(2, 10, 101).tolist())})
    with pytest.raises(UserError, match="leave no room"):
        unseen_inside(packed, 12)


def test_the_trials_of_a_family() -> None:
    family = find_family("pendulum-gravity")
    steady_, change, stay, recall, known = (make(family, 100, 3) for make in TRIALS.values())
    assert steady_.starts[:14] == steady_.starts[14:]
    assert (len(steady_.schedules), steady_.rows("outside")) == (28, [12, 13, 26, 27])
    assert change.truth()[[39, 40], :, 0].tolist() == [[9] * 3 + [3] * 3, [3] * 3 + [9] * 3]
    assert (stay.starts, stay.steps) == (change.starts, 200)
    assert not any(schedule.last_change for schedule in stay.schedules)
    assert recall.truth()[::50, [0, 3], 0].tolist() == [[9, 8], [3, 2], [9, 8], [3, 2]]
    assert list(pairwise((*recall.begins, recall.steps))) == [(0, 50), (50, 100), (100, 150), (150, 200)]
    assert trained_pair(family, 3.1, 3.2) == (4.0, 2.0)
    assert scale_of(family).tolist() == [8.0]
    assert known.starts == list(family.train)


@pytest.mark.parametrize("name", ["pendulum-gravity", "cadm-cartpole", "halfcheetah-mass-damping"])
def test_a_change_stays_within_the_trained_range(name: str) -> None:
    """CartPole's own example schedule does not: its test contexts are all outside."""
    family = find_family(name)
    ends = columns([context for _, context in TRIALS["change"](family, 50, 1).schedules[0].changes])
    trained = columns(family.train)
    assert len(np.unique(ends, axis=0)) == 2
    assert (ends >= trained.min(0)).all()
    assert (ends <= trained.max(0)).all()


def test_random_streams_are_those_of_their_seed_and_contexts(tmp_path: Any) -> None:
    family = find_family("pendulum-gravity")
    trial = Trial("recall", (Schedule(((0, 3.0), (4, 9.0))), Schedule.constant(3.0)), ("unseen",) * 2, 8, (0, 4))
    made = act(group(2), family, trial, seed=0, random=True)
    assert made.state.shape == (8, 2, 3)
    assert not torch.equal(made.next_state[3], made.state[4])  # a new episode began
    assert torch.equal(made.next_state[4], made.state[5])
    back = Trial("recall", (Schedule(((0, 3.0), (4, 9.0), (8, 3.0))),), ("unseen",), 12, (0, 4, 8))
    visits = act(group(1), family, back, seed=0, random=True)
    for name in ("state", "action", "next_state"):  # what comes again differs by what is known alone
        values = getattr(visits, name)
        assert torch.equal(values[:4], values[8:])
        assert not torch.equal(values[:4], values[4:8])
    made.save(tmp_path / "streams.npz")
    again = Streams.load(tmp_path / "streams.npz")
    assert all(torch.equal(value, getattr(again, name)) for name, value in vars(made).items())
    other = act(group(2), family, trial, seed=1, random=True)
    assert not torch.equal(other.state, made.state)
    (tmp_path / "streams.npz").write_bytes(b"not an archive")
    with pytest.raises(UserError, match="delete it"):
        Streams.load(tmp_path / "streams.npz")
