"""Environments and families that somebody else declares."""

import copy
import json
import re
import sys
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pandas
import pytest
import torch
from gymnasium.envs.classic_control.pendulum import PendulumEnv

from pyro_dynamics import Family, find_family
from pyro_dynamics.environments import Schedule, mujoco_family
from pyro_dynamics.environments.hidden_parameter import hidden_parameter
from pyro_dynamics.environments.mujoco.mujoco_parameters import mass
from pyro_dynamics.errors import EnvironmentFault, UserError
from pyro_dynamics.tasks import BoxTask, PendulumTask, Task


class HeavyPendulum(PendulumEnv):
    """Keeps its hidden parameters as attributes, as any class does."""

    def __init__(self, m: float, l: float) -> None:  # noqa: E741
        super().__init__()
        self.m, self.l = m, l


FAMILY = Family("mine", HeavyPendulum, ("m", "l"), ("kg", "m"), ((1.0, 1.0), (2.0, 1.0)), ((1.5, 1.0),), PendulumTask)


def test_a_class_of_ones_own_has_the_whole_contract() -> None:
    env = FAMILY.make(Schedule(((0, (1.0, 1.0)), (2, (2.0, 0.5)))), 4)
    assert env.reset(seed=0)[1]["context"] == (1.0, 1.0)
    infos = [env.step(np.zeros(1))[4] for _ in range(4)]
    assert [info["context"] for info in infos] == [(1.0, 1.0)] * 2 + [(2.0, 0.5)] * 2
    inner: Any = env.unwrapped
    assert (inner.m, inner.l) == (2.0, 0.5)
    assert copy.deepcopy(env).context == (2.0, 0.5)  # type: ignore[attr-defined]
    assert not env.step(np.zeros(1))[2]
    assert FAMILY.make((1.0, 1.0), 1).step is not None


def test_episodes_of_ones_own_environment_are_truncated() -> None:
    env = FAMILY.make((1.0, 1.0), 3)
    env.reset(seed=0)
    assert [env.step(np.zeros(1))[3] for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": PendulumTask()}, r"must make a Task: write task=lambda: PendulumTask\(...\)"),
        ({"train": (0.5, 1.0, 0.5)}, "has the training context 0.5 twice"),
        ({"task": BoxTask}, r"called without arguments and must make a Task: write task=lambda: BoxTask\(...\)"),
        ({"task": Task}, r"write task=lambda: BoxTask"),
        ({"task": lambda env: BoxTask(env)}, r"called without arguments"),
        ({"task": None}, r"write task=lambda: BoxTask"),
        ({"unit": 3}, "unit must be a text, or a tuple of texts, not 3"),
        ({"unit": (3,)}, "unit must be a text"),
        ({"parameter": None}, "parameter must be a text, or a tuple of texts, not None"),
        ({"parameter": ""}, "parameter must be a keyword of the environment's constructor"),
        ({"parameter": ("g", "g"), "unit": ("", "")}, "a tuple of different ones"),
        ({"name": 3}, "the name of a family must be a text, not 3"),
        ({"name": None}, "the name of a family must be a text"),
        ({"description": 5}, "description must be a text"),
        ({"environment": None}, "environment must be a Gymnasium id, or a class or function"),
        ({"environment": gymnasium.Env()}, "not an object of type Env"),
        ({"test": {1: (2.0,)}}, "the names of test sets must be texts, not 1"),
    ],
)
def test_declarations_that_make_no_sense_are_reported(changes: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"environment": "Pendulum-v1", "train": (1.0,), "test": (2.0,), "task": PendulumTask}
    with pytest.raises(UserError, match=words):
        Family(**({"name": "mine", "parameter": "g", "unit": "m/s^2", **given} | changes))


def test_an_unknown_mujoco_environment_is_reported() -> None:
    with pytest.raises(UserError, match="no environment 'Walker9d-v5'"):
        mujoco_family("mine", "Walker9d-v5", {"mass": mass()}, (1.0,), (2.0,), PendulumTask).make(1.0, 3)


def test_a_task_that_is_none_is_reported() -> None:
    family = Family("mine", "Pendulum-v1", "g", "m/s^2", train=(1.0,), test=(2.0,), task=lambda: None)  # type: ignore
    with pytest.raises(UserError, match="its task must give a Task, not an object of type NoneType"):
        family.make_task()


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        (lambda g: None, "made as a gymnasium.Env, not as an object of type NoneType"),
        (lambda g: HeavyPendulum, "not as the class HeavyPendulum"),
        (lambda g: gymnasium.vector.SyncVectorEnv([PendulumEnv]), "not as an object of type SyncVectorEnv"),
        (lambda g: 1 / 0, "making an environment of family mine raised ZeroDivisionError"),
        (lambda g, mass: None, "raised TypeError"),
    ],
)
def test_an_environment_that_cannot_be_made_is_reported(environment: Any, words: str) -> None:
    family = Family("mine", environment, "g", "m/s^2", train=(1.0,), test=(2.0,), task=PendulumTask)
    with pytest.raises(UserError, match=words):
        family.make(1.0, 3)


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (lambda: PendulumTask, "its task must give a Task, not the class PendulumTask"),
        (lambda: 1 / 0, "making the task of family mine raised ZeroDivisionError"),
        (type("Unsized", (Task,), {"reward": PendulumTask.reward}), "Unsized.state_dim must be a whole number"),
        (type("Unwrapped", (PendulumTask,), {"wrap": lambda self, env: None}), r"Unwrapped.wrap\(\) must give the"),
    ],
)
def test_a_task_that_does_not_keep_its_contract_is_reported(task: Any, words: str) -> None:
    family = Family("mine", HeavyPendulum, ("m", "l"), ("kg", "m"), ((1.0, 1.0),), ((1.5, 1.0),), task)
    with pytest.raises(UserError, match=words):
        family.make((1.0, 1.0), 3)


class Forgetful(HeavyPendulum):
    """Takes a context, and does not keep it."""

    def __init__(self, m: float, l: float) -> None:  # noqa: E741
        super().__init__(1.0, l)


class Fixed(HeavyPendulum):
    """Has a parameter that cannot be changed later."""

    def __init__(self, size: float) -> None:
        super().__init__(size, 1.0)

    @property
    def size(self) -> float:
        return self.m


class Silent(PendulumEnv):
    """Keeps its parameter nowhere."""

    def __init__(self, wind: float) -> None:
        super().__init__()


class Vector(PendulumEnv):
    """Keeps something that is no number."""

    def __init__(self, wind: float) -> None:
        super().__init__()
        self.wind = np.zeros(3)


@pytest.mark.parametrize(
    ("environment", "parameter", "words"),
    [
        (Forgetful, ("m", "l"), "did not take the context m,l = .2.0, 1.0.: it holds .1.0, 1.0."),
        (Silent, "wind", "Silent has no attribute 'wind'"),
        (Vector, "wind", "did not take the context wind"),
        (HeavyPendulum, "wind", "does not take wind as keywords"),
        ("Nonsense-v0", "wind", "Nonsense"),
        ("Pendulum-v1", "wind", "does not take wind as keywords"),
    ],
)
def test_a_context_that_did_not_take_is_reported_in_one_line(environment: Any, parameter: Any, words: str) -> None:
    context: Any = 2.0 if isinstance(parameter, str) else (2.0, 1.0)
    unit = "m/s" if isinstance(parameter, str) else ("kg", "m")
    family = Family("mine", environment, parameter, unit, (context,), (context,), PendulumTask)
    with pytest.raises(UserError, match=words) as error:
        family.make(context, 5)
    assert "\n" not in str(error.value)


class Windy(gymnasium.Wrapper):
    """A wrapper that holds the hidden parameter: it blows against the torque."""

    def __init__(self, env: gymnasium.Env, wind: float) -> None:
        super().__init__(env)
        self.wind = wind

    def step(self, action: Any) -> Any:
        return self.env.step(np.asarray(action) - self.wind)


class Stormy(Windy):
    """The same as a property, with a setter of its own."""

    @property
    def wind(self) -> float:
        return self.strength

    @wind.setter
    def wind(self, value: float) -> None:
        self.strength = float(value)


def mild(wind: float) -> gymnasium.Env:
    return Windy(PendulumEnv(), wind)


def stormy(wind: float) -> gymnasium.Env:
    return Stormy(PendulumEnv(), wind)


def deep(wind: float) -> gymnasium.Env:
    return gymnasium.wrappers.TransformReward(Windy(gymnasium.wrappers.TimeLimit(PendulumEnv(), 99), wind), lambda r: r)


@pytest.mark.parametrize("environment", [mild, stormy, deep])
def test_a_parameter_may_live_on_a_wrapper(environment: Any) -> None:
    family = Family("mine", environment, "wind", "N m", (0.0, 2.0), (1.0,), PendulumTask)
    env = family.make(Schedule(((0, 0.0), (2, 2.0))), 5)
    env.reset(seed=0)
    velocities = [env.step(np.zeros(1))[0][2] for _ in range(3)]
    assert env.context == 2.0  # type: ignore[attr-defined]
    assert copy.deepcopy(env).context == 2.0  # type: ignore[attr-defined]
    calm = family.make(0.0, 5)
    calm.reset(seed=0)
    without = [calm.step(np.zeros(1))[0][2] for _ in range(3)]
    assert velocities[:2] == without[:2]
    assert velocities[2] == pytest.approx(without[2] - 3 * 2.0 * 0.05, abs=1e-5)  # 3 / (m l^2) x torque x seconds


def test_a_wrapper_whose_parameter_cannot_change_is_named() -> None:
    class Still(gymnasium.Wrapper):
        size = property(lambda self: 1.0)

    family = Family("mine", lambda size: Still(PendulumEnv()), "size", "m", (1.0,), (1.0,), PendulumTask)
    with pytest.raises(UserError, match=r"Still.size cannot be changed in mid-episode"):
        hidden_parameter(family.make(1.0, 5)).set_context(2.0)


def test_a_parameter_that_cannot_change_is_reported_when_it_should() -> None:
    family = Family("mine", Fixed, "size", "m", (1.0, 2.0), (3.0,), PendulumTask)
    assert family.make(2.0, 5).context == 2.0  # type: ignore[attr-defined]
    env = family.make(Schedule(((0, 1.0), (1, 2.0))), 5)
    env.reset(seed=0)
    env.step(np.zeros(1))
    with pytest.raises(UserError, match=r"Fixed.size cannot be changed"):
        env.step(np.zeros(1))


def test_a_registered_environment_may_keep_its_parameter_as_an_attribute() -> None:
    entry: Any = HeavyPendulum
    gymnasium.register("pyro_dynamics_tests/Heavy-v0", entry_point=entry, max_episode_steps=7)
    family = replace(FAMILY, environment="pyro_dynamics_tests/Heavy-v0")
    assert family.make((2.0, 1.0), 5).context == (2.0, 1.0)  # type: ignore[attr-defined]
    del gymnasium.registry["pyro_dynamics_tests/Heavy-v0"]


class Half(PendulumEnv):
    """Observes float16, in which an infinity once passed for a number; its generator takes seeds of 32 bits."""

    def __init__(self, m: float) -> None:
        super().__init__()
        self.m = m
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float16)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.draws = np.random.RandomState(seed)
        return np.array([1.0, self.draws.uniform(), 0.0], np.float16), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.array([1.0, action[0] / 0 if action[0] else 0.0, 0.0], np.float16), 0.0, False, False, {}


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_an_infinite_number_of_half_precision_is_found() -> None:
    env = Family("half", Half, "m", "", (1.0,), (2.0,), PendulumTask).make(1.0, 5)
    env.reset(seed=0)
    env.step(np.zeros(1, np.float32))
    with pytest.raises(EnvironmentFault, match=r"observation\[1\] is inf"):
        env.step(np.ones(1, np.float32))


def test_a_generator_of_32_bits_is_given_such_a_seed() -> None:
    env = Family("half", Half, "m", "", (1.0,), (2.0,), PendulumTask).make(1.0, 5)
    first, again, other = (env.reset(seed=seed)[0] for seed in (2**62 + 5, 2**62 + 5, 2**61 + 6))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    with pytest.raises(EnvironmentFault, match="reset\\(\\) raised ValueError"):
        env.reset(seed=-1)


@pytest.mark.parametrize(
    ("maker", "words"),
    [
        (lambda m: gymnasium.make("NoSuch-v0"), "an environment of family mine raised NameNotFound: Environment"),
        (
            lambda m: gymnasium.wrappers.RescaleAction(gymnasium.make("CartPole-v1"), np.float32(-1), np.float32(1)),
            "RescaleAction requires a Box",
        ),
        (lambda m: gymnasium.make("Pendulum-v1", nonsense=m), "nonsense"),
    ],
)
def test_what_gymnasium_refuses_to_make_is_refused_in_its_words(maker: Any, words: str) -> None:
    family = replace(FAMILY, environment=maker, parameter="m", unit="kg", train=(1.0,), test=(2.0,))
    with pytest.raises(UserError, match=words) as error:
        family.make(1.0, 5)
    assert not isinstance(error.value, EnvironmentFault)  # without a traceback
    with pytest.raises(UserError, match=words.replace("an environment", "the task")):
        replace(family, task=lambda: maker(1.0)).make_task()


def test_what_a_constructor_of_ones_own_raises_keeps_its_traceback() -> None:
    broken: Any = lambda m: 1 / 0  # noqa: E731
    family = replace(FAMILY, environment=broken, parameter="m", unit="kg", train=(1.0,), test=(2.0,))
    with pytest.raises(
        EnvironmentFault, match="making an environment of family mine raised ZeroDivisionError"
    ) as error:
        family.make(1.0, 5)
    assert isinstance(error.value.__cause__, ZeroDivisionError)


def test_names_of_a_category_are_those_that_were_declared() -> None:
    def make(kind: str) -> gymnasium.Env:
        env: Any = HeavyPendulum(1.0, 1.0)
        env.kind = kind
        return env

    family = Family("mine", make, "kind", "kind", ("red", "blue"), ("green",), PendulumTask)
    assert family.make("green", 5).context == "green"  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="kind must be one of red, blue, green"):
        family.parse_context("yellow")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"unit": "kg"}, "2 parameters have 1 units"),
        ({"train": ()}, "needs contexts"),
        ({"test": {}}, "needs contexts"),
        ({"train": (1.0, 2.0)}, "m=1.5,l=0.8"),
        ({"train": ((1.0, float("nan")),)}, "l must be finite"),
    ],
)
def test_a_wrong_declaration_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        replace(FAMILY, **changes).make_vector(changes.get("train", FAMILY.train), 5)


class Motor(HeavyPendulum):
    """Its mass is the bound of a space."""

    def __init__(self, m: float, l: float, space: str = "action_space") -> None:  # noqa: E741
        super().__init__(m, l)
        setattr(self, space, gymnasium.spaces.Box(-m, m, getattr(self, space).shape, np.float32))


@pytest.mark.parametrize("space", ["action_space", "observation_space"])
def test_spaces_that_depend_on_the_context_are_refused_in_a_line(space: str) -> None:
    family = replace(FAMILY, environment=lambda m, l: Motor(m, l, space))  # noqa: E741
    with pytest.raises(UserError, match=rf"the {space} is Box\(-1.0, .* and Box\(-2.0, .*: let it be the widest"):
        family.make_vector(family.train, 5)
    family.make_vector([(1.0, 1.0), (1.0, 2.0)], 5).close()


def test_lists_are_as_good_as_tuples() -> None:
    lists: Any = {"train": [[1, 1], [2, 1]], "test": {"far": [[3, 1]]}}
    family = replace(FAMILY, **lists)
    assert family.train == ((1.0, 1.0), (2.0, 1.0))
    assert family.test_sets == {"far": ((3.0, 1.0),)}


@pytest.mark.parametrize(
    ("given", "contexts"),
    [
        (np.array([0.5, 1, 2], np.float32), (0.5, 1.0, 2.0)),
        (torch.linspace(0, 1, 3), (0.0, 0.5, 1.0)),
        ([np.float64(1), torch.tensor(2.0), 3, np.int64(4)], (1.0, 2.0, 3.0, 4.0)),
        (range(1, 4), (1.0, 2.0, 3.0)),
        ([[1.0], (2.0,)], (1.0, 2.0)),
        (np.array(["front", "back"]), ("front", "back")),
    ],
)
def test_contexts_may_be_of_numpy_or_torch(given: Any, contexts: tuple[Any, ...]) -> None:
    no_unit: Any = None
    family = replace(FAMILY, parameter="m", unit=no_unit, train=given, test=given)
    assert family.train == family.test_contexts == contexts
    assert json.loads(json.dumps(family.train)) == list(contexts)
    assert family.units == ("",)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train": {1.0, 2.0}}, "family mine: train is a set, whose order differs from one run to the next"),
        ({"test": {"far": frozenset((1.0,))}}, "test set 'far' is a set"),
        ({"train": (True, False)}, "True is neither a number nor a name"),
        ({"train": np.array([True, False])}, "True is neither a number nor a name"),
        ({"train": "abc"}, "must be a tuple of contexts, not 'abc'"),
        ({"train": 3.0}, "must be a tuple of contexts, not 3.0"),
        ({"train": (1.0, "icy")}, "has both numbers and names"),
        ({"train": (1.0, None)}, "m must be a number, not None"),
        ({"train": np.ones((2, 2))}, "m must be a number, not [1.0, 1.0]"),
        ({"test": ("icy",)}, "train has numbers and test names"),
        ({"test": (float("inf"),)}, "m must be finite"),
    ],
)
def test_contexts_that_are_none_are_refused_when_the_family_is_made(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        replace(FAMILY, **{"parameter": "m", "unit": "", "train": (1.0, 2.0), "test": (1.5,)} | changes)


def test_test_sets_have_names() -> None:
    family = replace(FAMILY, test={"near": ((1.2, 1.0),), "far": ((3.0, 1.0), (4.0, 1.0))})
    assert list(family.test_sets) == ["near", "far"]
    assert family.test_contexts == ((1.2, 1.0), (3.0, 1.0), (4.0, 1.0))
    assert FAMILY.test_sets == {"test": ((1.5, 1.0),)}


SOURCE = """
from pyro_dynamics import FAMILIES
def good():
    return FAMILIES["hopper-mass"]
ready = FAMILIES["ant-gain"]
def wrong():
    return 3
def broken():
    raise ZeroDivisionError("their own fault")
def reward(state, action, next_state):
    return -next_state[..., 0]
def of_mass(mass):
    return FAMILIES["hopper-mass"]
class Simulator:
    def __init__(self, friction):
        self.friction = friction
def with_word(*, word):
    return FAMILIES["hopper-mass"]
def with_defaults(mass=1.0, *more):
    return FAMILIES["hopper-mass"]
"""


def test_a_family_is_loaded_from_a_module_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/nowhere", *sys.path])
    (tmp_path / "someones_families.py").write_text(SOURCE)
    (tmp_path / "someones_broken.py").write_text("import a_module_that_is_missing")
    assert find_family("someones_families:good").name == "hopper-mass"
    assert find_family("someones_families:ready").name == "ant-gain"
    assert find_family("someones_families:with_defaults").name == "hopper-mass"
    for text, words in (
        ("someones_familys:good", "no module 'someones_familys'"),
        ("someones_families.sub:good", "no module 'someones_families.sub'"),
        ("someones_families:best", "has no 'best'"),
        ("someones_families:wrong", "gives a int, not a pyro_dynamics.Family"),
        *(
            (f"someones_families:{name}", rf"'someones_families:{name}' needs arguments \(missing a required")
            for name in ("reward", "of_mass", "Simulator", "with_word")
        ),
        ("someones families:good", "package.module:callable"),
        ("someones_families:", "package.module:callable"),
    ):
        with pytest.raises(UserError, match=words) as error:
            find_family(text)
        assert "\n" not in str(error.value)
    with pytest.raises(ZeroDivisionError, match="their own fault"):
        find_family("someones_families:broken")
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_missing"):
        find_family("someones_broken:good")


class Reused(gymnasium.Env):
    """Writes each observation over the last one, and scales the action that it is given in place."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, gain: float) -> None:
        self.gain, self.place = gain, np.zeros(1, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place[:] = 0.0
        return self.place, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        action *= self.gain
        self.place += action
        return self.place, 0.0, False, False, {}


def moved(state: Any, action: Any, next_state: Any, context: Any) -> Any:
    return (next_state - state)[..., 0]


def test_what_an_environment_writes_over_stays_as_it_was_given() -> None:
    family = Family("reused", Reused, "gain", "", (0.5,), (1.0,), lambda: BoxTask(Reused(1.0), moved))
    env, action = family.make(0.5, 5), np.ones(1, np.float32)
    seen = [env.reset(seed=0)[0], *(env.step(action)[0] for _ in range(3))]
    np.testing.assert_allclose(seen, [[0.0, 0.0], [0.5, 0.5], [1.0, 0.5], [1.5, 0.5]])  # place, and how far it went
    assert action.tolist() == [1.0]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (torch.zeros(1, requires_grad=True), "the observation is no array but Tensor"),
        (np.ma.array([3.0], mask=[True], dtype=np.float32), "the observation is masked"),
        (np.ma.array([3.0], mask=True), "the observation is masked"),
    ],
)
def test_observations_that_hide_their_numbers_are_named(given: Any, words: str) -> None:
    class Hiding(Reused):
        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            return given, {}

    family = Family("hiding", Hiding, "gain", "", (0.5,), (1.0,), lambda: BoxTask(Reused(1.0)))
    with pytest.raises(EnvironmentFault, match=words):
        family.make(0.5, 5).reset(seed=0)


class Ground(str, Enum):  # noqa: UP042  a StrEnum prints its value, and this its name
    ICE, SAND = "ice", "sand"


def test_names_of_an_enumeration_are_texts() -> None:
    family = Family("ground", Reused, "gain", "", tuple(Ground), ("mud",), PendulumTask)
    assert [type(one) for one in family.train] == [str, str]
    assert [f"{one}" for one in family.train] == ["ice", "sand"]


@pytest.mark.parametrize(
    ("train", "words"),
    [
        ((0.3, 0.1 + 0.2), "the training context 0.30000000000000004 twice"),
        ((0.1, np.float32(0.1)), "the training context 0.1000000[0-9]* twice"),
        (((1.0,), 1.0 + 1e-12), "the training context 1.0[0-9]* twice"),
        ((b"a", b"b"), "m must be a number of kg, not b'a'"),
        (np.array(["x", "y"], dtype="S1"), "m must be a number of kg, not b'x'"),
        ({"light": 1.0, "heavy": 2.0}, "train must be a tuple of contexts, not {'light'"),
        (pandas.DataFrame({"m": [1.0, 2.0]}), "train must be a tuple of contexts"),
    ],
)
def test_contexts_that_would_be_others_are_refused(train: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        replace(FAMILY, parameter="m", unit="kg", train=train, test=(1.5,))


def test_small_contexts_are_different_ones() -> None:
    assert replace(FAMILY, parameter="m", unit="kg", train=(1e-8, 2e-8), test=(1.5,)).train == (1e-8, 2e-8)


@pytest.mark.parametrize(("light", "heavy"), [(1e-7, 3e-7), (2e-12, 8e-12), (1e-9, 1.5e-9)])
def test_a_change_between_small_contexts_comes_and_is_seen(light: float, heavy: float) -> None:
    small = replace(FAMILY, train=((light, 1.0), (heavy, 1.0)), test=((heavy, 1.0),))
    env = small.make(Schedule(((0, (light, 1.0)), (1, (heavy, 1.0)))), 3)
    env.reset(seed=0)
    assert [env.step(np.zeros(1))[4]["context"] for _ in range(2)] == [(light, 1.0), (heavy, 1.0)]
    with pytest.raises(UserError, match="holds"):
        replace(small, environment=Deaf).make((heavy, 1.0), 3)


class Deaf(HeavyPendulum):
    """Takes no notice of the mass that it is given."""

    def __init__(self, m: float, l: float) -> None:  # noqa: E741
        super().__init__(0.0, l)
