"""What the belief along a stream is compared with: the posterior of the transitions that it should rest on.

Where the true contexts are known that is the posterior of the oracle-reset baseline, which returns to the prior when
the context changes; of a belief that finds changes, that of the later steps alone which it rests on. Where they are
not, it is the posterior of what the belief itself remembers: a change that it does not see is looked for by other
means (:mod:`pyro_dynamics.diagnostics.stream.elsewhere`).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from pyro_dynamics.agent import Agent
from pyro_dynamics.diagnostics.posterior.datatree import draw_log_likelihood
from pyro_dynamics.environments import Context
from pyro_dynamics.inference.log_joint import log_joint_of_draws, whole_batch
from pyro_dynamics.inference.user_model import (
    has_default_forward,
    has_default_prior,
    has_population,
    over_environments,
    population,
)
from pyro_dynamics.transitions import Transitions

SHORT = 5
"""Steps: a context that stays for fewer, and whose predecessor did too, is one that changes all the time."""
WINDOW = 20
"""Steps that count where a context changes all the time."""
GROWTH = 0.1
"""A checkpoint with a tenth more transitions than the last adds little, and costs as much as it has of them."""
LIMIT = 7_000_000
"""Network evaluations of one diagnosis: 20 s on one core for 3 layers of 128 units."""


class Reference:
    """log p(e, data) of stretches of a stream, up to a constant.

    Args:
        agent: any agent with the run's network.
        transitions: the T transitions of the stream, of environment 0.
        temperature: power of the likelihood.
        forgetting_factor: the weight of a transition falls by this factor with each later one: a power prior's.
    """

    def __init__(
        self, agent: Agent, transitions: Transitions, temperature: float, forgetting_factor: float = 1.0
    ) -> None:
        self.agent, self.transitions, self.temperature = agent, transitions, temperature
        self.forgetting_factor = forgetting_factor

    def log_joint(self, latent: np.ndarray, first: int, last: int, own: bool = False) -> np.ndarray:
        """Of the transitions ``first`` to ``last`` at draws ``[S, d]``: ``[S]``, in nats.

        That of the mean over members; with ``own`` of each draw's own member, where draws come in M equal blocks.
        """
        return self.log_prior(latent) + self.log_likelihood(latent, first, last, own)

    def log_likelihood(self, latent: np.ndarray, first: int, last: int, own: bool = False) -> np.ndarray:
        """The same without the prior."""
        agent, draws = self.agent, torch.as_tensor(latent, dtype=torch.float32)
        rows = torch.arange(first, last + 1)
        seen = self.transitions.select(rows)
        weight = self.temperature * self.forgetting_factor ** (last - rows).double()
        if has_default_forward(agent.model):
            total = torch.zeros(len(draws), dtype=torch.double)
            for index, value in draw_log_likelihood(agent, seen, draws[:, None], own):
                total += value.double() @ weight[index]
            return total.numpy()
        inputs, targets = agent.task.inputs(seen.state, seen.action), agent.task.targets(seen.state, seen.next_state)
        model, members = over_environments(agent.model, 1), agent.model.likelihood.members
        batch = whole_batch(inputs, targets, torch.zeros(len(seen), dtype=torch.long), members, self.temperature)
        joint = log_joint_of_draws(model, batch, draws[:, None])[:, 0].double().numpy()
        return np.asarray(joint - self.log_prior(latent))

    def log_prior(self, latent: np.ndarray) -> np.ndarray:
        """log p(e) at draws ``[S, d]``: ``[S]``, in nats."""
        draws, model = torch.as_tensor(latent, dtype=torch.float32), self.agent.model
        if has_default_prior(model) and not has_population(model):
            return np.asarray(-0.5 * (draws.double().square() + math.log(2 * math.pi)).sum(-1))
        return np.asarray(population(over_environments(model, 1)).log_prob(draws[:, None])[:, 0].double())

    def affordable(self, first: int, last: int) -> int:
        """How many draws can be judged by these transitions within a fifth of the limit of a diagnosis."""
        return LIMIT // 5 // ((last - first + 1) * self.agent.model.likelihood.members)


def known_since(contexts: Sequence[Context | None]) -> tuple[list[int], bool]:
    """For each of T steps the first one of what the oracle-reset baseline learns from, ``[T]``.

    That is the first step with the present context. Where the context changes all the time, the last 20 steps count.
    The second value says whether they did anywhere.
    """
    starts = [t for t in range(len(contexts)) if t == 0 or contexts[t] != contexts[t - 1]]
    lengths = np.diff([*starts, len(contexts)])
    since: list[int] = []
    windowed = False
    for j, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        if length < SHORT and j and lengths[j - 1] < SHORT:
            since += [max(t - WINDOW + 1, 0) for t in range(start, start + length)]
            windowed = True
        else:
            since += [start] * length
    return since, windowed


def remembered_since(since: Sequence[int], begun: np.ndarray | None, window: int | None = None) -> list[int]:
    """For each of T steps the first one of those since ``since`` that the belief itself rests on, ``[T]``.

    A belief that finds changes says so; it may leave out the first steps after a change, where the network explains
    them by another latent than the later ones.

    Args:
        since: a first step for each, ``[T]``.
        begun: the first step of what the belief rests on after each, ``[T]``; None where it finds no changes.
        window: how many transitions it remembers at most; None where that has no end.
    """
    first = np.array(since)
    if begun is not None:
        first = np.maximum(first, begun)
    if window is not None:
        first = np.maximum(first, np.arange(len(first)) - window + 1)
    return [int(step) for step in first]


def checkpoints(since: Sequence[int], every: int, evaluations: int) -> list[int]:
    """Steps at which k-hat is found: dense after a change, sparser later, and always the last.

    No transition may be left out of a posterior, so the number of checkpoints is what is saved on. Steps whose belief
    rests on an earlier visit too have none: they have no posterior of steps alone.

    Args:
        since: from :func:`remembered_since`, ``[T]``.
        every: the least distance of two checkpoints.
        evaluations: of the network for each transition of a checkpoint: draws times members.
    """
    scale = 1.0
    while True:
        chosen, last, cost = [], -1, 0
        for t, start in enumerate(since):
            rows = t - start + 1
            if rows and (t - last >= scale * max(every, GROWTH * rows) or t == len(since) - 1):
                chosen.append(t)
                last, cost = t, cost + rows * evaluations
        if cost <= LIMIT or len(chosen) <= 1:
            return chosen
        scale *= 1.5


def all_unknown(contexts: Sequence[Any]) -> bool:
    """Whether no true context is known at any step."""
    return all(context is None for context in contexts)
