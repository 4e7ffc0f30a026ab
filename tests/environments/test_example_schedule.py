"""The change that `adapt` shows where none is asked for."""

from dataclasses import replace

import pytest

from pyro_dynamics import FAMILIES
from pyro_dynamics.environments.example_schedule import example_schedule, in_words
from pyro_dynamics.environments.schedule_text import schedule_text

PENDULUM = FAMILIES["pendulum-gravity"]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_every_family_has_one_between_two_contexts_that_it_accepts(family: object) -> None:
    schedule = example_schedule(family, 200)  # type: ignore[arg-type]
    (start, first), (step, last) = schedule.changes
    assert (start, step, schedule.length) == (0, 40, 200)
    assert first != last
    again = family.parse_schedule(schedule_text(schedule))  # type: ignore[attr-defined]
    assert again.changes == schedule.changes
    assert not {first, last} & set(family.train)  # type: ignore[attr-defined]


def test_it_stays_in_the_trained_range_where_it_can() -> None:
    schedule = example_schedule(PENDULUM, 200)
    assert schedule_text(schedule) == "0:9,40:3"
    assert in_words(schedule, PENDULUM) == "gravity changes from 9 to 3 m/s^2 at step 40"
    outside = example_schedule(replace(PENDULUM, test=(11.0, 12.0)), 200)
    assert schedule_text(outside) == "0:12,40:11"


def test_one_test_context_is_reached_from_a_trained_one() -> None:
    schedule = example_schedule(replace(PENDULUM, test=(5.0,)), 10)
    assert schedule_text(schedule) == "0:5,2:2"
    alone = replace(PENDULUM, train=(5.0,), test=(5.0,))
    assert in_words(example_schedule(alone, 10), alone) == "gravity is 5 m/s^2"


def test_several_parameters_and_names_are_said_in_words() -> None:
    bodies, crippled = FAMILIES["halfcheetah-mass-damping"], FAMILIES["halfcheetah-crippled"]
    words = in_words(example_schedule(bodies, 100), bodies)
    assert words == "mass and damping change from 1.125,1.125 to 0.875,0.875 at step 20"
    assert schedule_text(example_schedule(crippled, 100)) == "0:front-foot,20:back-foot"
