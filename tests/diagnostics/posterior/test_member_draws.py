"""Draws of a belief for each member are weighed by the posterior of their own member."""

import numpy as np
import pytest
import torch
from torch.distributions import Independent, Normal

from pyro_dynamics.diagnostics.posterior.datatree import levelled
from pyro_dynamics.diagnostics.posterior.importance import importance
from pyro_dynamics.inference.beliefs.member_mixture import MemberMixture, own_log_prob

MEMBERS, DRAWS = 4, 400


def mixture(scale: float = 1.0) -> MemberMixture:
    """One environment; the members are far apart."""
    mean = torch.tensor([[-3.0, 0.0], [0.0, 2.0], [3.0, 0.0], [0.0, -2.0]])
    return MemberMixture(Independent(Normal(mean, scale * torch.tensor([[0.5, 1.0]]).expand(4, -1)), 1), MEMBERS)


def weighed(belief: MemberMixture, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log p with a constant of its own for each member, log q and draws, where p is the mixture of unit scale."""
    torch.manual_seed(0)
    draws = belief.sample(torch.Size([DRAWS]))
    log_q = own_log_prob(belief, draws)[:, 0].numpy().astype(float)
    log_p = own_log_prob(mixture(), draws - torch.tensor([shift, 0.0]))[:, 0].numpy().astype(float)
    constants = np.repeat([-100.0, 3.0, 40.0, 0.0], DRAWS // MEMBERS)
    return log_p + constants, log_q, draws[:, 0].numpy().astype(float)


def test_the_right_belief_has_weights_that_are_alike() -> None:
    log_p, log_q, draws = weighed(mixture())
    level = levelled(log_p, log_q, MEMBERS)
    assert np.ptp(level - log_q) < 1e-4
    assert importance(level, log_q, draws).k_hat == -np.inf


def test_without_levels_one_member_would_have_all_the_weight() -> None:
    log_p, log_q, draws = weighed(mixture())
    assert importance(log_p, log_q, draws).effective < DRAWS / 2


def test_a_shift_of_all_members_is_seen() -> None:
    log_p, log_q, draws = weighed(mixture(), shift=1.0)  # two of the standard deviations of each member
    found = importance(levelled(log_p, log_q, MEMBERS), log_q, draws)
    centre = np.average(draws[:, 0], weights=np.exp(levelled(log_p, log_q, MEMBERS) - log_q))
    assert centre - draws[:, 0].mean() == pytest.approx(1.0, abs=0.25)
    assert found.k_hat > found.threshold or found.off


def test_each_draw_has_the_density_of_its_own_member() -> None:
    belief = mixture()
    draws = belief.sample(torch.Size([8]))
    found = own_log_prob(belief, draws)[:, 0]
    parts = belief.parts
    for n in range(8):
        expected = parts.log_prob(draws[n].expand(MEMBERS, -1))[n // 2]
        assert float(found[n]) == pytest.approx(float(expected), abs=1e-5)
    plain = Independent(Normal(torch.zeros(1, 2), torch.ones(1, 2)), 1)
    assert torch.equal(own_log_prob(plain, draws), plain.log_prob(draws))
