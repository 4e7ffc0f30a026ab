"""One contract for the Gymnasium id of every family."""

import copy
import pickle
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.utils.env_checker import check_env

from pyro_dynamics import FAMILIES, Family
from pyro_dynamics.environments import numbers
from pyro_dynamics.environments.state_copy import put_where
from pyro_dynamics.errors import UserError
from pyro_dynamics.gymnasium_ids import IDS, gymnasium_id

every_id = pytest.mark.parametrize("name", FAMILIES)

GYMNASIUMS = {
    **{"pendulum": "Pendulum-v1", "cartpole": "CartPole-v1", "halfcheetah": "HalfCheetah-v5", "hopper": "Hopper-v5"},
    **{"walker2d": "Walker2d-v5", "ant": "Ant-v5", "swimmer": "Swimmer-v5", "reacher": "Reacher-v5"},
    **{"pusher": "Pusher-v5", "inverted-pendulum": "InvertedPendulum-v5", "slim-humanoid": "Humanoid-v5"},
}
"""By how a family's name begins: the environment that it is made of."""


def make(name: str, **keywords: Any) -> Any:
    return gymnasium.make(str(gymnasium_id(name)), **keywords)


def keywords(family: Family, context: Any) -> dict[str, Any]:
    values = (context,) if isinstance(context, str) else numbers(context)
    return dict(zip(family.parameters, values, strict=True))


def trajectory(env: Any, steps: int = 8) -> np.ndarray:
    env.action_space.seed(0)
    observations = [env.reset(seed=0)[0]]
    return np.array(observations + [env.step(env.action_space.sample())[0] for _ in range(steps)])


def test_the_table_is_that_of_the_families() -> None:
    assert list(IDS) == list(FAMILIES)
    assert len({name for name, *_ in IDS.values()}) == len(FAMILIES) == 21
    for name, family in FAMILIES.items():
        entry = gymnasium.spec(str(gymnasium_id(name))).entry_point
        if isinstance(family.environment, str):
            assert gymnasium.spec(family.environment).entry_point == entry
        elif isinstance(family.environment, type):
            assert load_env_creator(str(entry)) is family.environment
    assert gymnasium_id("my-own") is None


@every_id
def test_an_episode_is_as_long_as_gymnasiums_own(name: str) -> None:
    (kind,) = (theirs for start, theirs in GYMNASIUMS.items() if name.removeprefix("cadm-").startswith(start))
    steps = 200 if name == "cadm-cartpole" else gymnasium.spec(kind).max_episode_steps
    assert gymnasium.spec(str(gymnasium_id(name))).max_episode_steps == steps


@every_id
def test_it_is_the_familys_environment_in_that_context(name: str) -> None:
    family = FAMILIES[name]
    context = family.test_contexts[0]
    expected = trajectory(family.make(context, 1000))
    for how in (keywords(family, context), {"context": context}):
        env = make(name, **how)
        assert env.unwrapped.context == context
        assert np.array_equal(trajectory(env), expected)
    env.reset(seed=0)
    env.unwrapped.set_context(family.train[-1])
    env.step(env.action_space.sample())
    assert env.unwrapped.context == family.train[-1]
    with pytest.raises(UserError, match=rf"give either context or {family.parameters[0]}.*, not both"):
        make(name, context=context, **keywords(family, context))


@every_id
def test_by_default_the_physics_are_nominal(name: str) -> None:
    family = FAMILIES[name]
    env = make(name)
    nominal = env.unwrapped.context
    assert env.unwrapped.parse_context(nominal) == nominal
    expected = {"gravity": 10.0, "tilt": 0.0, "current": 0.0, "disabled": "none", "force": 10.0, "length": 0.5}
    if name == "cadm-pendulum":
        expected |= {"length": 1.0}
    assert keywords(family, nominal) == {parameter: expected.get(parameter, 1.0) for parameter in family.parameters}


@every_id
def test_it_passes_gymnasiums_checkers(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        # Infinite bounds are usual; the velocity over the last step is a wrapper's entry of the observation.
        warnings.filterwarnings("ignore", "(?s).*(Box (observation|action) space|normalize)")
        env = make(name)
        trajectory(env)
        check_env(env.unwrapped, skip_render_check=True)


@every_id
def test_it_is_rebuilt_from_its_specification_and_copied(name: str) -> None:
    family = FAMILIES[name]
    env = make(name, **keywords(family, family.test_contexts[0]))
    expected = trajectory(env)
    assert np.array_equal(trajectory(gymnasium.make(EnvSpec.from_json(env.spec.to_json()))), expected)
    env.unwrapped.set_context(family.train[-1])
    for duplicate in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert duplicate.unwrapped.context == family.train[-1]
        assert np.array_equal(trajectory(duplicate), trajectory(env))


def test_one_parameter_of_several_leaves_the_others_nominal() -> None:
    assert make("halfcheetah-mass-damping", damping=1.25).unwrapped.context == (1.0, 1.25)
    assert make("cartpole-force-length", length=0.6).unwrapped.context == (10.0, 0.6)


def test_the_simulators_own_settings_and_attributes_are_there() -> None:
    env = make("hopper-mass", mass=1.3, reset_noise_scale=0.0)
    assert np.array_equal(env.reset(seed=0)[0], env.reset(seed=1)[0])
    torso = env.unwrapped.model.body("torso").mass
    assert torso == pytest.approx(1.3 * make("hopper-mass").unwrapped.model.body("torso").mass)
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = env.unwrapped.no_such_thing
    with pytest.raises(TypeError, match="masses"):
        make("hopper-mass", masses=1.3)


def test_a_seed_is_the_simulators() -> None:
    env = make("hopper-mass")
    env.reset(seed=3)
    assert env.unwrapped.np_random_seed == 3
    env.unwrapped.np_random = np.random.default_rng(5)
    first, _ = env.reset()
    env.unwrapped.np_random = np.random.default_rng(5)
    assert np.array_equal(env.reset()[0], first)


def test_several_at_once() -> None:
    envs = gymnasium.make_vec(str(gymnasium_id("hopper-mass")), num_envs=2, mass=1.3)
    assert envs.reset(seed=0)[0].shape == (2, 12)
    assert [env.unwrapped.context for env in envs.envs] == [1.3, 1.3]  # type: ignore[attr-defined]


def test_a_family_of_ones_own_takes_an_id() -> None:
    """Its context is read back, and the state of one environment in its episode goes to another."""
    theirs = FAMILIES["hopper-mass"]
    family = Family("mine", str(gymnasium_id("hopper-mass")), "mass", "of nominal", (1.0, 1.2), (1.1,), theirs.task)
    original, clone, alike = (family.make(context, 20) for context in (1.0, 1.2, 1.2))
    for env in (original, clone, alike):
        assert env.reset(seed=0)[1]["context"] in (1.0, 1.2)
    action = np.full(3, 0.1)
    original.step(action)
    put_where(clone, original)
    put_where(alike, original)
    there, again = clone.step(action), alike.step(action)
    assert np.array_equal(there[0], again[0])
    assert not np.array_equal(there[0], original.step(action)[0])
    assert clone.get_wrapper_attr("context") == 1.2
