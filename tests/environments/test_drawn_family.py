"""Contexts drawn for each episode: from the right places, equally often, and the same ones again."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from pyro_dynamics.environments import find_family, grid
from pyro_dynamics.environments.context_text import columns
from pyro_dynamics.environments.drawn_family import DrawnFamily, draw_contexts
from pyro_dynamics.errors import UserError

PENDULUM, CART = find_family("pendulum-gravity"), find_family("cadm-cartpole")


@pytest.mark.parametrize("name", ["pendulum-gravity", "halfcheetah-crippled", "cadm-cartpole", "cadm-halfcheetah"])
def test_every_context_of_the_list_is_drawn_equally_often(name: str) -> None:
    family = find_family(name)
    listed = family.drawn_from or family.train
    drawn = [one for m in range(60) for one in draw_contexts(family, "list", 60, seed=0, m=m)]
    counts = [drawn.count(context) for context in listed]
    assert sum(counts) == 3600  # nothing else was drawn
    assert chisquare(counts).pvalue > 0.01


@pytest.mark.parametrize("name", ["pendulum-gravity", "cadm-cartpole", "halfcheetah-tilt"])
def test_draws_from_a_range_are_uniform_and_independent_of_each_other(name: str) -> None:
    family = find_family(name)
    drawn = columns([one for m in range(40) for one in draw_contexts(family, "range", 50, seed=1, m=m)])
    trained = columns(family.train)
    for values, listed in zip(drawn.T, trained.T, strict=True):
        low, size = listed.min(), np.ptp(listed)
        assert kstest((values - low) / size, "uniform").pvalue > 0.01
    if drawn.shape[1] > 1:
        assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.1
    assert abs(np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]) < 0.1


def test_cadms_families_draw_from_its_whole_grid() -> None:
    assert CART.drawn_from == grid(force=range(5, 16), length=[0.4, 0.45, 0.5, 0.55, 0.6])
    assert len(find_family("cadm-pendulum").drawn_from) == 121
    assert set(CART.train) < set(CART.drawn_from)


def test_a_context_depends_on_seed_round_and_episode_alone() -> None:
    many, few = (draw_contexts(PENDULUM, "range", count, seed=3, m=2) for count in (8, 3))
    assert many[:3] == few
    assert len({*many, *draw_contexts(PENDULUM, "range", 8, 4, 2), *draw_contexts(PENDULUM, "range", 8, 3, 1)}) == 24
    longer, shorter = (DrawnFamily.of(PENDULUM, "range", rounds, 3, seed=3) for rounds in (5, 3))
    assert longer.train[:9] == shorter.train
    assert shorter.train[6:] == shorter.newest == few
    assert shorter.of_newest().train == few


def test_a_context_is_given_to_networks_as_the_family_gives_it_whatever_was_drawn() -> None:
    for family, how in ((PENDULUM, "range"), (find_family("halfcheetah-crippled"), "list"), (CART, "list")):
        drawn = DrawnFamily.of(family, how, 7, 4, seed=0)  # type: ignore[arg-type]
        assert len(drawn.train) == 28
        np.testing.assert_array_equal(drawn.encode(family.test_contexts), family.encode(family.test_contexts))
        assert drawn.parse_context(family.train[0]) == family.train[0]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(UserError, match="have no range: give --episode-contexts list"):
        draw_contexts(find_family("halfcheetah-crippled"), "range", 1, 0, 0)
    with pytest.raises(UserError, match="train has numbers and drawn_from names"):
        replace(PENDULUM, drawn_from=("light", "heavy"))
    with pytest.raises(UserError, match="drawn_from"):
        replace(PENDULUM, drawn_from=(float("nan"),))
