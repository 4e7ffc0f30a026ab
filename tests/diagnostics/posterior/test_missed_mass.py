"""A mode that the guide misses: importance weights of its own draws do not see it, and a defensive mixture does."""

import numpy as np
import pytest
from scipy import stats

from pyro_dynamics.diagnostics.posterior.importance import importance
from pyro_dynamics.diagnostics.posterior.missed_mass import (
    Missed,
    Proposal,
    defensive,
    draw_defensively,
    missed_mass,
    proposals,
)

SEEDS = range(20)
HERE, THERE, SD = np.array([-0.6, 0.2]), np.array([0.5, -0.3]), 0.08
"""The two modes, and their width in a prior of width 1."""


def log_two_modes(e: np.ndarray, share: float) -> np.ndarray:
    """A posterior that has ``share`` of its mass in the mode that the guide does not hold."""
    one, other = (stats.norm.logpdf(e, mode, SD).sum(-1) for mode in (HERE, THERE))
    return np.logaddexp(np.log1p(-share) + one, np.log(max(share, 1e-300)) + other)


def looked_for(share: float, seed: int, trained: bool = True) -> tuple[Missed, np.ndarray]:
    """The guide holds the first mode exactly; one trained environment is near the second."""
    rng = np.random.default_rng(seed)
    own = HERE + SD * rng.standard_normal((400, 2))
    places = [THERE + 0.05, np.array([0.9, 0.9])] if trained else []
    others = proposals(
        (np.zeros(2), np.eye(2)),
        [(place, 0.1**2 * np.eye(2)) for place in places],
        ["gravity 4", "gravity 9"][: len(places)],
    )
    made = defensive(own, others, rng)
    found = missed_mass(log_two_modes(made.draws, share), made, own, others)
    assert found is not None
    return found, own


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
def test_the_share_of_a_missed_mode_is_found_with_its_error(share: float) -> None:
    found = [looked_for(share, seed)[0] for seed in SEEDS]
    shares, errors = (np.array([getattr(one, name) for one in found]) for name in ("share", "error"))
    assert np.mean(shares) == pytest.approx(share, abs=0.03)
    assert (np.abs(shares - share) < 4 * errors).all()
    assert np.mean(np.square((shares - share) / errors)) == pytest.approx(1, abs=0.8)  # the errors are not mere words
    assert all(one.counts for one in found)
    assert {one.near for one in found} == {"gravity 4"}


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_weights_of_the_guides_own_draws_do_not_see_it(share: float) -> None:
    for seed in SEEDS:
        _, own = looked_for(share, seed)
        log_q = stats.norm.logpdf(own, HERE, SD).sum(1)
        by_weights = importance(log_two_modes(own, share), log_q, own)
        assert by_weights.fault == ""
        assert by_weights.k_hat < 0.1


def test_a_guide_that_holds_all_of_its_posterior_misses_nothing() -> None:
    for seed in SEEDS:
        found, _ = looked_for(0.0, seed)
        assert found.share < 0.03
        assert not found.counts


def test_without_a_trained_environment_there_the_prior_finds_a_mode_that_is_broad_enough() -> None:
    """Of 200 draws of the prior some 30 lie in a mode of width 0.5, and none in one of width 0.002."""
    rng = np.random.default_rng(0)
    own = HERE + SD * rng.standard_normal((400, 2))
    for sd, seen in ((0.4, True), (0.002, False)):
        made = defensive(own, proposals((np.zeros(2), np.eye(2)), [], []), rng)
        log_p = np.logaddexp(
            stats.norm.logpdf(made.draws, HERE, SD).sum(1), stats.norm.logpdf(made.draws, THERE, sd).sum(1)
        )
        found = missed_mass(log_p, made, own)
        assert found is not None
        assert found.counts == seen


def test_the_density_is_that_of_the_whole_mixture() -> None:
    """Weights p over the mixture's density then have mean 1 for any normalised p that the mixture covers."""
    parts = [Proposal(np.zeros(2), np.eye(2), 3000, "a"), Proposal(np.ones(2), 0.25 * np.eye(2), 1000, "b")]
    made = draw_defensively(parts, np.random.default_rng(0))
    log_p = stats.norm.logpdf(made.draws, 0.8, 0.6).sum(1)
    assert np.exp(log_p - made.log_density).mean() == pytest.approx(1, abs=0.05)
    bound = np.exp(log_p - made.log_density).max()
    assert bound <= np.exp(log_p - stats.norm.logpdf(made.draws, 0, 1).sum(1)).max() / 0.75


def test_what_is_not_finite_gives_nothing() -> None:
    made = draw_defensively([Proposal(np.zeros(1), np.eye(1), 100)], np.random.default_rng(0))
    assert missed_mass(np.full(100, np.nan), made, made.draws) is None
    some = np.where(np.arange(100) < 50, np.nan, stats.norm.logpdf(made.draws[:, 0], 0.1, 0.9))
    found = missed_mass(some, made, made.draws)
    assert found is not None
    assert np.isfinite(found.share)
