"""Is the environment that a stream came from elsewhere than the belief? Latents that it does not hold are tried.

Draws of the belief show nothing of where it has none. Here they stand beside draws of the prior, of the trained
environments' posteriors, and of a Gaussian over all of these (:mod:`~pyro_dynamics.diagnostics.posterior.missed_mass`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pyro_dynamics.diagnostics.posterior.missed_mass import (
    OTHERS,
    OWN,
    Missed,
    Proposal,
    defensive,
    draw_defensively,
    missed_mass,
)
from pyro_dynamics.diagnostics.stream.reference import Reference

RECENT_PARTS = (25, 50, 100)
"""Last steps over which a change is looked for."""
BETTER = 10.0
"""Nats by which other latents must explain the last steps better than the belief before it is called stale. If the
belief is right, chance gives x nats with probability exp(-x) or less (Markov's inequality for a likelihood ratio); 10
leave room for a network that is wrong by some nats in 50 steps."""
AWAY = 0.5
"""Distances between neighbouring trained latents by which those latents must be away: nearer ones are the network's own
error, and no other environment."""


@dataclass(frozen=True)
class Better:
    """Other latents explain the last steps better than the belief does.

    Attributes:
        first: the first of these steps.
        nats: by so much.
        near: where those latents lie, for people.
    """

    first: int
    nats: float
    near: str


def missed_at(
    reference: Reference, own: np.ndarray, others: Sequence[Proposal], first: int, last: int, rng: np.random.Generator
) -> Missed | None:
    """How much of the posterior of some transitions lies where the belief's draws ``[S, d]`` are not.

    None where there are too many transitions for it.
    """
    if reference.affordable(first, last) < OTHERS + OWN:
        return None
    made = defensive(own, others, rng)
    return missed_mass(reference.log_joint(made.draws, first, last), made, own, others)


def explained_better(
    reference: Reference,
    own: np.ndarray,
    others: Sequence[Proposal],
    since: int,
    last: int,
    spacing: float,
    rng: np.random.Generator,
) -> Better | None:
    """Whether other latents explain the last steps better than the belief after them.

    Both are a mean likelihood: over the belief's draws, and over those of all proposals. Only steps since the last
    change that is known, or that the belief found, are looked at.

    Args:
        reference: the stream.
        own: draws of the belief after step ``last``, ``[S, d]``.
        others: from :func:`~pyro_dynamics.diagnostics.posterior.missed_mass.proposals`.
        since: the first step since that change.
        last: the last step.
        spacing: distance between neighbouring trained latents.
        rng: of the draws.
    """
    made, found = draw_defensively(others, rng), []
    centre = np.median(own, axis=0)
    for length in RECENT_PARTS:
        first = last - length + 1
        if first < since or reference.affordable(first, last) < len(own) + len(made.draws):
            continue
        mine = _log_mean_exp(reference.log_likelihood(own, first, last))
        theirs = reference.log_likelihood(made.draws, first, last)
        theirs = np.where(np.isfinite(theirs), theirs, -np.inf)
        nats = _log_mean_exp(theirs) - mine
        weights = np.exp(theirs - theirs.max())
        place = weights @ made.draws / weights.sum()
        if nats > BETTER and np.linalg.norm(place - centre) > AWAY * spacing:
            near = min(others, key=lambda one: float(np.linalg.norm(one.mean - place))).name
            found.append(Better(first, float(nats), near))
    return max(found, key=lambda one: one.nats, default=None)


def _log_mean_exp(values: np.ndarray) -> float:
    top = float(np.max(values))
    return top + float(np.log(np.mean(np.exp(values - top)))) if np.isfinite(top) else top
