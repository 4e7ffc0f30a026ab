"""The error of the linear probe beside that of a linear regression."""

import numpy as np
import pytest

from pyro_dynamics.diagnostics.latents.probe import ContextProbe


def test_it_is_the_standard_error_of_a_regressions_prediction() -> None:
    rng = np.random.default_rng(0)
    means = rng.normal(size=(9, 2))
    contexts = 3 + means @ [2.0, -1.0] + 0.3 * rng.normal(size=9)
    probe = ContextProbe(means, contexts)
    design = np.column_stack([np.ones(9), means])
    coefficients, squares, *_ = np.linalg.lstsq(design, contexts)
    places = rng.normal(size=(4, 5, 2))
    rows = np.concatenate([np.ones((4, 5, 1)), places], -1)
    leverage = np.einsum("...i,ij,...j->...", rows, np.linalg.inv(design.T @ design), rows)
    np.testing.assert_allclose(probe.error(places), np.sqrt(squares[0] / 6 * (1 + leverage)), rtol=1e-8)
    np.testing.assert_allclose(probe.predict(places), rows @ coefficients, rtol=1e-8)


def test_it_covers_what_the_probe_was_not_fitted_to() -> None:
    """Contexts on a line with noise: 90 % of new ones lie within 1.645 errors, or a little less (Student's t)."""
    rng, inside = np.random.default_rng(1), []
    for _ in range(400):
        means = rng.normal(size=(12, 2))
        probe = ContextProbe(means, means[:, 0] + 0.2 * rng.normal(size=12))
        new = rng.normal(size=(5, 2))
        inside.append(np.abs(new[:, 0] + 0.2 * rng.normal(size=5) - probe.predict(new)) < 1.645 * probe.error(new))
    assert 0.84 < np.mean(inside) < 0.91


def test_draws_have_the_beliefs_spread_and_the_probes_error() -> None:
    rng = np.random.default_rng(2)
    means = rng.normal(size=(30, 2))
    probe = ContextProbe(means, np.stack([means[:, 0] + 0.5 * rng.normal(size=30), means[:, 1]], 1))
    latents = np.array([0.3, -0.2]) + 0.1 * rng.normal(size=(20_000, 2))
    drawn = probe.draws(latents)
    expected = np.sqrt(probe.spread(np.array([0.1, 0.1])) ** 2 + probe.error(np.array([0.3, -0.2])) ** 2)
    np.testing.assert_allclose(drawn.std(0), expected, rtol=0.03)
    assert probe.error(means)[:, 1].max() < 1e-6, "the second parameter lies on a line"
    together = probe.draws(np.stack([latents, latents], 0), axis=1)
    np.testing.assert_array_equal(together[0], together[1])


def test_too_few_environments_show_no_error() -> None:
    probe = ContextProbe(np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]), [1.0, 2.0, 3.0])
    assert probe.error(np.zeros(2)) == pytest.approx(0.0)
