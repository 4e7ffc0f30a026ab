import numpy as np
import pytest

from pyro_dynamics.diagnostics.latents.probe import ContextProbe

CONTEXTS = [-12.0, -6.0, 0.0, 6.0, 12.0]


def test_a_linear_latent_is_read_back_whatever_its_rotation() -> None:
    angle = 0.7
    means = np.outer(CONTEXTS, [np.cos(angle), np.sin(angle)]) * 0.05 + [0.3, -0.2]
    probe = ContextProbe(means, CONTEXTS)
    assert probe.rank_correlation == pytest.approx(1)
    assert probe.r_squared == pytest.approx(1)
    assert probe.predict(means[1]) == pytest.approx(-6)
    assert probe.spread(np.array([0.05, 0.05])) == pytest.approx(1.0)


def test_a_latent_that_knows_nothing_explains_little() -> None:
    rng = np.random.default_rng(0)
    contexts = np.arange(40.0)
    probe = ContextProbe(rng.normal(size=(40, 2)), contexts.tolist())
    assert probe.r_squared < 0.3
    assert abs(probe.rank_correlation) < 0.6


def test_several_parameters_have_a_direction_each() -> None:
    rng = np.random.default_rng(0)
    contexts = rng.uniform(size=(12, 2))
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    means = contexts @ turn + 3.0
    probe = ContextProbe(means, [tuple(row) for row in contexts])
    assert np.allclose(probe.predict(means), contexts)
    assert probe.predict(means[None, :5]).shape == (1, 5, 2)
    assert np.allclose(probe.spread(np.ones(2)), 1)  # a turn keeps lengths
    assert probe.r_squared == pytest.approx([1, 1])
    assert probe.rank_correlation == pytest.approx([1, 1])
    single = ContextProbe(means, contexts[:, 0])
    assert np.allclose(single.predict(means), probe.predict(means)[:, 0])
