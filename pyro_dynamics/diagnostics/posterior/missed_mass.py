"""Does the posterior have mass where q has no draws? Importance sampling from a defensive mixture of proposals.

Weights of q's own draws cannot show a mode that q misses: no draw falls there, and k-hat is low. Here draws of several
proposals (a Gaussian as wide as q's draws, the prior, the guides of the other environments) are weighted by the
posterior over the density of the WHOLE mixture, whichever proposal a draw came from: the balance heuristic of Veach and
Guibas (1995), deterministic mixture weights in Owen and Zhou (2000). A weight is then at most 1 / share of a proposal
times what that proposal alone would give, so that one good proposal is enough and bad ones do no harm.

What none of the proposals reaches stays unseen here as well.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pyro_dynamics.diagnostics.posterior.importance import smoothed_log_weights

MISSED = 0.1
"""Share of the posterior that must lie where q has no draws, surely (less two standard errors), before it counts: a
90 % region that leaves out another tenth covers at most 81 %."""
ENOUGH = 10.0
"""Effective draws in that part: fewer are a chance hit."""
NOTHING = 500.0
"""Nats below the best draw, from which on all draws are alike: weights would become numbers that none can divide by."""
NEVER = 1e-12
"""A share of which nothing is worth saying."""
OTHERS, OWN = 400, 200
"""Draws of all other proposals together, and of a Gaussian about q's own draws."""


@dataclass(frozen=True)
class Proposal:
    """A Gaussian to draw from.

    Attributes:
        mean: ``[d]``.
        covariance: ``[d, d]``.
        draws: how many.
        name: what lies there, for people: "the latent of gravity 4".
    """

    mean: np.ndarray
    covariance: np.ndarray
    draws: int
    name: str = ""


@dataclass(frozen=True)
class DefensiveDraws:
    """Draws of all proposals, and the mixture's density at each.

    Attributes:
        draws: ``[n, d]``.
        log_density: of the mixture, in nats, ``[n]``.
    """

    draws: np.ndarray
    log_density: np.ndarray


@dataclass(frozen=True)
class Missed:
    """How much of the posterior lies where q has no draws.

    Attributes:
        share: its probability under the posterior, as far as the proposals reach.
        error: standard error of that.
        effective: effective number of draws in that part.
        near: the proposal whose mean is nearest to it, in words; empty where there is no such part.
    """

    share: float
    error: float
    effective: float
    near: str

    @property
    def counts(self) -> bool:
        """Whether surely so much is missed that q is not to be believed."""
        return self.effective >= ENOUGH and self.share - 2 * self.error > MISSED

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.share:.0%} of the posterior lies where the belief has no draws, near {self.near}"


def draw_defensively(proposals: Sequence[Proposal], rng: np.random.Generator) -> DefensiveDraws:
    """Draw from every proposal."""
    parts = [
        one.mean + rng.standard_normal((one.draws, len(one.mean))) @ np.linalg.cholesky(one.covariance).T
        for one in proposals
    ]
    draws = np.concatenate(parts)
    total = len(draws)
    densities = np.stack([_log_normal(draws, one) + math.log(one.draws / total) for one in proposals])
    top = densities.max(0)
    return DefensiveDraws(draws, top + np.log(np.exp(densities - top).sum(0)))


def proposals(
    prior: tuple[np.ndarray, np.ndarray], trained: Sequence[tuple[np.ndarray, np.ndarray]], names: Sequence[str]
) -> list[Proposal]:
    """Where else the environment may be: the prior, each trained environment, and all of these as one Gaussian.

    Args:
        prior: mean ``[d]`` and covariance ``[d, d]``.
        trained: the same of each trained environment's posterior.
        names: what these are called.
    """
    share = max(OTHERS // (len(trained) + 4), 10)
    found = [Proposal(prior[0], wide(prior[1]), 2 * share, "the prior's mean")]
    each = zip(trained, names, strict=True)
    found += [Proposal(mean, wide(covariance), share, name) for (mean, covariance), name in each]
    if len(trained) > 1:
        means = np.stack([mean for mean, _ in trained])
        spread = np.atleast_2d(np.cov(means.T)) + np.mean([covariance for _, covariance in trained], axis=0)
        found.append(Proposal(means.mean(0), wide(2 * spread), 2 * share, "the trained latents' mean"))
    return found


def wide(covariance: np.ndarray) -> np.ndarray:
    """A covariance that can be factored, if need be a little wider."""
    covariance = np.atleast_2d(covariance).astype(float)
    return covariance + (1e-9 + 1e-6 * float(np.trace(covariance))) * np.eye(len(covariance))


def defensive(own: np.ndarray, others: Sequence[Proposal], rng: np.random.Generator) -> DefensiveDraws:
    """Draws of the proposals and of a Gaussian about a belief's own draws ``[S, d]``."""
    gaussian = Proposal(own.mean(0), wide(np.cov(own.T)), OWN)
    return draw_defensively([gaussian, *others], rng)


def missed_mass(
    log_p: np.ndarray, made: DefensiveDraws, own: np.ndarray, places: Sequence[Proposal] = ()
) -> Missed | None:
    """The posterior's mass where q has no draws.

    A place counts as one without draws if its nearest draw of q is farther than any draw of q has its own nearest, in
    units of q's standard deviations.

    Args:
        log_p: log p(e, data) up to a constant, at the defensive draws, ``[n]``, in nats.
        made: those draws.
        own: draws of q, ``[S, d]``; the more, the finer.
        places: what the part is said to be near to; of these the one whose mean is nearest.

    Returns:
        None where nothing is finite.
    """
    from scipy.spatial import cKDTree  # here, as it takes long

    if not np.isfinite(log_p).any() or not np.isfinite(own).all():
        return None
    log_p = np.where(np.isfinite(log_p), log_p, -np.inf)
    log_weights, _ = smoothed_log_weights(np.maximum(log_p, log_p.max() - NOTHING), made.log_density)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    scale = _whitening(own)
    tree = cKDTree(own @ scale)
    reach = tree.query(own @ scale, k=2)[0][:, 1].max()
    outside = tree.query(made.draws @ scale)[0] > reach
    share = float(weights[outside].sum())
    # Of a ratio of sums over the same draws, to first order.
    error = float(np.sqrt(np.square(weights * (outside - share)).sum()))
    effective, near = 0.0, ""
    if share > NEVER:
        there = weights * outside / share
        effective = float(1 / np.square(there).sum())
        centre = there @ made.draws
        near = "" if not places else min(places, key=lambda one: float(np.linalg.norm(one.mean - centre))).name
    return Missed(share, error, effective, near)


def _log_normal(draws: np.ndarray, one: Proposal) -> np.ndarray:
    """Log density of a Gaussian at draws ``[n, d]``: ``[n]``."""
    root = np.linalg.cholesky(one.covariance)
    solved = np.linalg.solve(root, (draws - one.mean).T)
    constant = np.log(np.diag(root)).sum() + 0.5 * len(root) * math.log(2 * math.pi)
    return -0.5 * np.square(solved).sum(0) - constant


def _whitening(own: np.ndarray) -> np.ndarray:
    """A matrix ``[d, d]`` by which draws ``[S, d]`` become uncorrelated and of unit variance."""
    covariance = np.atleast_2d(np.cov(own.T, ddof=0))
    values, vectors = np.linalg.eigh(covariance)
    return vectors / np.sqrt(np.maximum(values, 1e-300))
