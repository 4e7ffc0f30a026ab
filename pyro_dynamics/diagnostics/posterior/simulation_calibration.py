"""Simulation-based calibration of online inference (Talts et al. 2018, arXiv:1804.06788).

Environments are drawn from the prior and transitions from the model; if the belief is the posterior, the rank of the
true latent among draws from the belief is uniform. Each simulation takes one member of the ensemble, both to simulate
and to infer. The objective's mean over members (the paper's appendix B) belongs to no simulator: its posterior would
not give uniform ranks even if inference were exact.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pyro_dynamics.agent import Agent
from pyro_dynamics.diagnostics.posterior.datatree import refuse_without_posterior
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference import Belief
from pyro_dynamics.inference.user_model import (
    begin_at_prior,
    has_default_prior,
    has_population,
    over_environments,
    population,
)
from pyro_dynamics.observation import observation
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.transitions import Transitions

CHUNK = 50
"""Simulations of one member that are updated in one call; it bounds the memory."""
LEVEL = 0.01
"""A p-value below this, the ranks are not uniform."""
EXPECTED, MOST_BINS = 5, 20
"""Least expected count of a bin, below which the chi-square test is not to be relied upon; and most bins."""


@dataclass(frozen=True)
class SBC:
    """What n simulations showed, for each of the d latent dimensions.

    Attributes:
        ranks: of the true latents among draws from the belief, 0 to ``draws``, ``[n, d]``.
        draws: from the belief of each simulation.
        bins: of equal width, in which the ranks were counted.
        p_values: of the chi-square test that the ranks are uniform, ``[d]``.
        shape: "uniform", or what is wrong with the belief: "too narrow", "over-dispersed" or "shifted", ``[d]``.
    """

    ranks: list[list[int]]
    draws: int
    bins: int
    p_values: list[float]
    shape: list[str]


def simulation_calibration(
    agent: Agent,
    data: Transitions,
    simulations: int,
    length: int,
    draws: int,
    generator: torch.Generator,
    at_once: bool = False,
    on_step: Callable[[int], object] | None = None,
) -> SBC:
    """Simulate, and test the ranks; the arguments and errors are those of :func:`sbc_ranks`.

    A belief that forgets, or one with a temperature below 1, is wider than the posterior of all transitions on
    purpose: "over-dispersed" is then no fault.

    Raises:
        UserError: if there are too few simulations for a test.
    """
    bins = choose_bins(simulations, draws)  # refuses before the work, not after it
    ranks = sbc_ranks(agent, data, simulations, length, draws, generator, at_once, on_step)
    p_values = uniformity(ranks, draws, bins)
    shape = [describe(column, draws, p) for column, p in zip(ranks.unbind(1), p_values, strict=True)]
    return SBC(ranks.tolist(), draws, bins, p_values, shape)


def sbc_ranks(
    agent: Agent,
    data: Transitions,
    simulations: int,
    length: int,
    draws: int,
    generator: torch.Generator,
    at_once: bool = False,
    on_step: Callable[[int], object] | None = None,
) -> Tensor:
    """Ranks ``[n, d]``, 0 to ``draws``, of n true latents among draws from beliefs that saw what they gave rise to.

    Args:
        agent: whose model, guide family and belief are tested; it is not changed.
        data: where states and actions come from.
        simulations: n, shared out evenly over the members.
        length: transitions of each simulation.
        draws: from the belief of each simulation.
        generator: source of latents, targets, and of the belief's samples.
        at_once: bring all transitions of a simulation into its belief in one update, not one after the other.
        on_step: called after each update with how many simulations it was for; n times ``length`` in all, or n at once.

    Raises:
        UserError: if the agent has no posterior, or the data fewer than ``length`` transitions.
    """
    refuse_without_posterior(agent)
    if min(simulations, length, draws) < 1:
        raise UserError(f"simulations, length and draws must be positive, not {simulations}, {length} and {draws}")
    windows = input_windows(data, length)
    ranks = []
    for member, count in shares(simulations, agent.model.likelihood.members):
        rows = windows[torch.randint(len(windows), (count,), generator=generator)]
        inputs = agent.task.inputs(data.state[rows], data.action[rows])
        likelihood = OneMember(agent.model.likelihood, member)
        belief = fresh_belief(agent, likelihood, count)
        latent, targets = simulate(belief.model, inputs, generator)
        for one_inputs, one_targets, environment in updates(inputs, targets, at_once):
            belief.update(one_inputs, one_targets, environment, generator)
            if on_step is not None:
                on_step(count)
        with torch.no_grad(), drawing_from(generator):
            drawn = belief.posterior().sample(torch.Size([draws]))
        ranks.append((drawn < latent).sum(0))
    return torch.cat(ranks)


class OneMember(nn.Module):
    """One member of an ensemble as a likelihood of its own.

    All members are computed and one is kept: that asks nothing of how an ensemble stores its members.

    Args:
        likelihood: a module ``(inputs, latent) -> (location, scale)`` with an attribute ``members``.
        member: which of them.
    """

    members = 1

    def __init__(self, likelihood: Any, member: int) -> None:
        super().__init__()
        self.likelihood = likelihood
        self.member = member

    def forward(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Location and scale ``[..., 1, B, T]`` for inputs ``[..., 1, B, F + A]`` and latents ``[..., 1, B, d]``."""
        location, scale = self.likelihood(self._for_all(inputs), self._for_all(latent))
        own = slice(self.member, self.member + 1)
        return location[..., own, :, :], scale[..., own, :, :]

    def _for_all(self, rows: Tensor) -> Tensor:
        return rows.expand(*rows.shape[:-3], self.likelihood.members, *rows.shape[-2:])


def input_windows(data: Transitions, length: int) -> Tensor:
    """Every run of ``length`` consecutive rows of one episode, ``[W, length]``.

    Where no episode is so long: of the data, in the order in which they were recorded.

    Raises:
        UserError: if there are fewer transitions than that.
    """
    if len(data) < length:
        raise UserError(f"simulations of {length} transitions need as many in the data, which have {len(data)}")
    episodes = [rows for rows in data.episodes() if len(rows) >= length] or [torch.arange(len(data))]
    return torch.cat([rows.unfold(0, length, 1) for rows in episodes])


def shares(simulations: int, members: int) -> Iterator[tuple[int, int]]:
    """Member and number of simulations of each chunk."""
    for member in range(members):
        left = simulations // members + (member < simulations % members)
        while left > 0:
            yield member, min(left, CHUNK)
            left -= CHUNK


@torch.no_grad()
def simulate(model: Any, inputs: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Latents ``[n, d]`` from the prior, and targets ``[n, length, T]`` of inputs ``[n, length, F + A]``.

    The inputs are not those that the targets would lead to. They need not be: they are given to simulation and
    inference alike, and do not depend on the latent.
    """
    count, length = inputs.shape[:2]
    if has_default_prior(model) and not has_population(model):
        latent = torch.randn(count, model.latent_dim, generator=generator)
    else:
        with drawing_from(generator):
            latent = population(model).sample()
    predicted = observation(model, inputs.flatten(0, 1)[None], latent.repeat_interleave(length, 0)[None])
    with drawing_from(generator):
        targets = predicted.sample()
    return latent, targets[0].unflatten(0, (count, length))


def fresh_belief(agent: Agent, likelihood: nn.Module, environments: int) -> Belief:
    """The agent's kind of belief, at the prior, about environments of another likelihood."""
    model = over_environments(agent.model, environments)  # a new object: the agent's own keeps its likelihood
    model.likelihood = likelihood  # type: ignore[assignment,misc]  # others may only read it
    guide = agent.guide.for_environments(environments)
    begin_at_prior(model, guide)
    return agent.make_belief(model, guide)


def updates(inputs: Tensor, targets: Tensor, at_once: bool) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Inputs, targets and environment of each update, out of those of n simulations ``[n, length, ...]``."""
    count, length = inputs.shape[:2]
    everyone = torch.arange(count)
    if at_once:
        yield inputs.flatten(0, 1), targets.flatten(0, 1), everyone.repeat_interleave(length)
        return
    for step in range(length):
        yield inputs[:, step], targets[:, step], everyone


def choose_bins(simulations: int, draws: int) -> int:
    """The most bins, up to 20, that divide the ``draws + 1`` ranks evenly and expect 5 of n simulations or more.

    Raises:
        UserError: if there are none.
    """
    fitting = [b for b in range(2, MOST_BINS + 1) if (draws + 1) % b == 0 and simulations >= EXPECTED * b]
    if not fitting:
        raise UserError(
            f"{simulations} simulations of {draws} draws cannot be tested: take 50 simulations or more, and 99 draws"
        )
    return max(fitting)


def uniformity(ranks: Tensor, draws: int, bins: int | None = None) -> list[float]:
    """P-values of chi-square tests that ranks ``[n, d]`` are uniform on 0 to ``draws``, ``[d]``.

    Args:
        ranks: of n independent simulations.
        draws: among which they were found.
        bins: how many; they divide ``draws + 1``. :func:`choose_bins` by default.

    Raises:
        UserError: if the bins do not divide the ranks evenly, or there are too few simulations.
    """
    bins = choose_bins(len(ranks), draws) if bins is None else bins
    if (draws + 1) % bins:
        raise UserError(f"{bins} bins do not divide {draws + 1} ranks evenly: choose a divisor")
    from scipy.stats import chisquare  # here, as it takes long

    counted = [(column * bins // (draws + 1)).bincount(minlength=bins) for column in ranks.unbind(1)]
    return [float(chisquare(counts.numpy()).pvalue) for counts in counted]


def describe(ranks: Tensor, draws: int, p_value: float) -> str:
    """A word for the ranks ``[n]`` of one dimension: what is wrong with the belief, if anything is."""
    if p_value >= LEVEL:
        return "uniform"
    centred = (ranks + 0.5) / (draws + 1) - 0.5
    # First the mean, because a shift moves ranks away from the middle as well. Its error is that of these ranks: at
    # the ends, where a narrow belief has them, they scatter more than uniform ones.
    if abs(float(centred.mean())) > 3 * float(centred.std()) / math.sqrt(len(ranks)):
        return "shifted"
    return "too narrow" if float(centred.square().mean()) > 1 / 12 else "over-dispersed"
