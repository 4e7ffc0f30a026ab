from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import AcrobotEnv

import pyro_dynamics
from pyro_dynamics import Family
from pyro_dynamics.environments import FAMILIES, Context, extrapolated, grid, interpolated, latin, sample
from pyro_dynamics.environments.context_text import exact, interval, label
from pyro_dynamics.environments.contexts import same_context, sizes_of, split_context
from pyro_dynamics.errors import UserError
from pyro_dynamics.tasks import BoxTask

TWO = ("mass", "damping")


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((7.021, 6.514, 7.53), "g 7.02 m (90 %: 6.51 to 7.53)"),
        ((0.003, 0.00251, 0.0036), "g 0.0030 m (90 %: 0.0025 to 0.0036)"),
        ((2e-9, -1e-9, 5.04e-9), "g 0.0000000020 m (90 %: -0.0000000010 to 0.0000000050)"),
        ((0.0, -3.0, 3.0), "g 0.00 m (90 %: -3.00 to 3.00)"),
        ((0.0, 0.0, 0.0), "g 0.00 m (90 %: 0.00 to 0.00)"),
        ((float("nan"), 0.0, 1.0), "g nan m (90 %: 0.00 to 1.00)"),
    ],
)
def test_what_is_believed_has_digits_in_every_unit(numbers: tuple[float, ...], text: str) -> None:
    assert interval("g", "m", *numbers) == text


@pytest.mark.parametrize(
    "value", ["1.5,0.8", "mass=1.5,damping=0.8", "damping=0.8, mass=1.5", {"damping": "0.8", "mass": "1.5"}]
)
def test_several_parameters_are_written_in_any_of_these_ways(value: object) -> None:
    assert [part.strip() for part in split_context(value, TWO)] == ["1.5", "0.8"]
    assert split_context([1.5, 0.8], TWO) == [1.5, 0.8]


def test_a_single_parameter_may_be_named() -> None:
    assert split_context("tilt=-6", ("tilt",)) == ["-6"]
    assert split_context(-6.0, ("tilt",)) == [-6.0]
    assert split_context("back-foot", ("disabled",)) == ["back-foot"]


@pytest.mark.parametrize("value", ["1.5", "1,2,3", "mass=1", "mass=1,mass=2", "mass=1,2", "mass=1,drag=2", 1.5, None])
def test_a_context_with_other_parameters_is_refused(value: object) -> None:
    with pytest.raises(UserError, match=r"mass=1\.5,damping=0\.8"):
        split_context(value, TWO)


@pytest.mark.parametrize("value", ["mass=1", "tilt=1,mass=2", {"mass": 1}])
def test_a_single_parameter_of_another_name_is_refused(value: object) -> None:
    with pytest.raises(UserError, match=r"tilt=1\.5"):
        split_context(value, ("tilt",))


def test_contexts_are_the_same_up_to_rounding() -> None:
    assert same_context((1.0, 2.0), (1.0 + 1e-9, 2.0))
    assert not same_context((1.0, 2.0), (1.0, 2.1))
    assert not same_context((1.0, 2.0), 1.0)
    assert not same_context(float("nan"), 1.0)
    assert not same_context("none", 1.0)


@pytest.mark.parametrize(
    ("one", "other", "sizes"),
    [
        (1e-7, 3e-7, (5e-7,)),  # kg of small parts
        (2e-12, 0.0, (4e-12,)),  # a farad is large
        ((1e-9, 5.0), (2e-9, 5.0), (2e-9, 5.0)),
        ((3e5, 1e-8), (3e5, 1.5e-8), (4e5, 1e-7)),
    ],
)
def test_small_contexts_differ_by_what_is_much_for_them(one: Context, other: Context, sizes: tuple[float, ...]) -> None:
    assert same_context(one, other)
    assert not same_context(one, other, sizes)
    assert same_context(one, one, sizes)


def test_rounding_errors_are_judged_by_the_size_of_the_contexts() -> None:
    assert sizes_of([(1e-9, -5.0), (2e-9, 3.0)]) == (1e-9, 8.0)
    assert sizes_of([1e-7, 1.0, 3e-7]) == (2e-7,)
    assert sizes_of(np.linspace(-0.3, 0.3, 7).tolist()) == pytest.approx((0.1,))  # the middle one is 5.6e-17
    assert sizes_of([0.3, 0.0, 0.1 + 0.2]) == (0.3,)
    assert sizes_of([0.0, 0.0]) == (1.0,)
    assert sizes_of([2e-8]) == (2e-8,)
    assert sizes_of(["none", "back foot"]) == ()
    assert same_context(1e-17, 0.0, (0.1,))  # an offset that is held as the difference of two masses
    assert same_context((5e-7, 1.0), (5e-7 + 1e-14, 1.0), (5e-7, 1.0))


def test_samples_of_small_ranges_are_not_rounded_away() -> None:
    drawn = np.array(sample(50, seed=3, mass=(1e-7, 5e-7)))
    assert len(np.unique(drawn)) == 50
    assert 1e-7 <= drawn.min() < 2e-7 < 4e-7 < drawn.max() <= 5e-7


def test_grids_and_samples() -> None:
    assert grid(a=[1, 2], b=[3]) == ((1.0, 3.0), (2.0, 3.0))
    assert grid(a=[1, 2]) == (1.0, 2.0)
    drawn = sample(50, seed=3, mass=(0.5, 1.5), damping=(2.0, 3.0))
    assert drawn == sample(50, seed=3, mass=(0.5, 1.5), damping=(2.0, 3.0))
    assert drawn != sample(50, seed=4, mass=(0.5, 1.5), damping=(2.0, 3.0))
    masses, dampings = np.array(drawn).T
    assert 0.5 <= masses.min() < 0.6 < 1.4 < masses.max() <= 1.5
    assert 2.0 <= dampings.min() < dampings.max() <= 3.0
    assert isinstance(sample(1, seed=0, tilt=(-6, 6))[0], float)


def test_a_latin_choice_has_every_value_equally_often_and_nothing_twice() -> None:
    chosen = latin(10, 0, mass=[1, 2, 3, 4, 5], damping=[1, 2, 3, 4, 5])
    assert len(set(chosen)) == 10
    for column in zip(*chosen, strict=True):
        assert sorted(column) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    with pytest.raises(UserError, match="only 4"):
        latin(5, 0, a=[1, 2], b=[1, 2])


def test_test_sets_between_and_outside_of_what_was_trained_on() -> None:
    assert interpolated((2.0, 4.0, 10.0)) == (3.0, 7.0)
    assert extrapolated((2.0, 4.0, 10.0), by=0.5) == (-2.0, 14.0)
    train = grid(mass=[1, 2], damping=[0, 10])
    assert interpolated(train) == ((1.5, 5.0),)
    assert extrapolated(train, by=0.1) == ((0.9, -1.0), (0.9, 11.0), (2.1, -1.0), (2.1, 11.0))


def test_no_more_combinations_are_drawn_than_there_are() -> None:
    with pytest.raises(UserError, match="there are only 6 combinations of mass, damping, not 7"):
        latin(7, seed=0, mass=(1.0, 2.0), damping=(1.0, 2.0, 3.0))


@pytest.mark.parametrize(
    ("family", "given", "context"),
    [
        ("pendulum-gravity", np.array([3.0]), 3.0),
        ("pendulum-gravity", torch.tensor([3.0]), 3.0),
        ("pendulum-gravity", (3,), 3.0),
        ("pendulum-gravity", {"gravity": 3}, 3.0),
        ("pendulum-gravity", "gravity = 3", 3.0),
        ("pendulum-gravity", np.float32(3), 3.0),
        ("pendulum-gravity", " 3 ", 3.0),
        ("hopper-mass", np.array([0.5]), 0.5),
        ("cadm-cartpole", np.array([3.0, 0.4]), (3.0, 0.4)),
        ("cadm-cartpole", [np.float32(3), torch.tensor(0.5)], (3.0, 0.5)),
        ("halfcheetah-mass-damping", torch.tensor([1.5, 0.5]), (1.5, 0.5)),
        ("halfcheetah-crippled", ["back-foot"], "back-foot"),
        ("halfcheetah-crippled", np.array(["back-foot"]), "back-foot"),
        ("halfcheetah-crippled", "disabled=back-foot", "back-foot"),
    ],
)
def test_a_context_of_any_kind_of_object(family: str, given: Any, context: Context) -> None:
    env = pyro_dynamics.make(family, given, max_steps=2)
    assert env.reset(seed=0)[1]["context"] == context
    env.close()


@pytest.mark.parametrize(
    ("family", "given", "words"),
    [
        ("pendulum-gravity", True, "gravity: True is neither a number nor a name"),
        ("pendulum-gravity", np.bool_(False), "gravity: False is neither a number nor a name"),
        ("pendulum-gravity", np.array([[3.0]]), r"gravity must be a number of m/s\^2"),
        ("pendulum-gravity", np.array([3.0, 4.0]), r"gravity must be a number of m/s\^2"),
        ("hopper-mass", [True], "mass: True is neither"),
        ("cadm-cartpole", (1.0, True), "force, length: True is neither"),
        ("cadm-cartpole", np.array([3.0]), "a context of force, length is written"),
        ("halfcheetah-crippled", np.array([3.0, 0.4]), "disabled must be one of none, back-thigh"),
        ("halfcheetah-crippled", False, "disabled: False is neither"),
    ],
)
def test_what_is_no_context_is_refused(family: str, given: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        pyro_dynamics.make(family, given, max_steps=2)


@pytest.fixture(autouse=True)
def _own_family_goes_again() -> Iterator[None]:
    """What ``make`` registers is not there for the tests of other files."""
    yield
    FAMILIES.pop("named", None)


class Named(AcrobotEnv):
    """A hidden parameter whose values are names with all that a name may have in it."""

    MASSES: ClassVar = {"a,b": 1.0, "c = d": 2.0, "x y": 0.5, "p:q": 1.2, "3": 0.7}

    def __init__(self, kind: str = "3") -> None:
        super().__init__()
        self.kind, self.LINK_MASS_1 = kind, self.MASSES[kind]


NAMED = Family("named", Named, "kind", "", tuple(Named.MASSES), ("x y",), lambda: BoxTask(Named()))


@pytest.mark.parametrize("name", Named.MASSES)
def test_a_name_may_have_commas_spaces_colons_and_equals_signs_in_it(name: str) -> None:
    for given in (name, [name], np.array(name), {"kind": name}, f"kind={name}"):
        if given == f"kind={name}" and {":", "="} & set(name):
            continue  # which may be a schedule, or several parameters
        env: Any = pyro_dynamics.make(NAMED, given, max_steps=2)
        assert env.reset(seed=0)[1]["context"] == name
        assert Named.MASSES[name] == env.unwrapped.LINK_MASS_1


def test_names_in_a_schedule() -> None:
    env = pyro_dynamics.make(NAMED, "0:a,b,1:c = d", max_steps=2)
    assert env.reset(seed=0)[1]["context"] == "a,b"
    env.step(np.zeros(3))
    assert env.step(np.zeros(3))[-1]["context"] == "c = d"


@pytest.mark.parametrize(
    ("context", "short", "full"),
    [
        (6.0, "6", "6"),
        (0.1 + 0.2, "0.3", "0.30000000000000004"),
        (float(np.float32(9.8)), "9.8", "9.800000190734863"),
        (7.000001, "7.000001", "7.000001"),
        ((101325.4, -1e-5), "101325.4,-1e-05", "101325.4,-1e-05"),
        (1e6 + 0.5, "1000000.5", "1000000.5"),
        ("back-foot", "back-foot", "back-foot"),
        (None, "unknown", "unknown"),
    ],
)
def test_contexts_as_text_for_people_and_to_be_read_back(context: Any, short: str, full: str) -> None:
    assert (label(context), exact(context)) == (short, full)
    if context is not None and not isinstance(context, str):
        assert [float(part) for part in full.split(",")] == list(np.atleast_1d(context))
