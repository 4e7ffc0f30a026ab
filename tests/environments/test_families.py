"""One contract for every registered family."""

import copy
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from pyro_dynamics import FAMILIES, Family, find_family
from pyro_dynamics.environments import Schedule
from pyro_dynamics.environments.family import check_spaces
from pyro_dynamics.errors import UserError

every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


def trajectory(env: gymnasium.Env, steps: int = 20) -> np.ndarray:
    env.action_space.seed(0)
    observations = [env.reset(seed=0)[0]]
    return np.array(observations + [env.step(env.action_space.sample())[0] for _ in range(steps)])


@every_family
@pytest.mark.filterwarnings("ignore:.*Box (observation|action) space.*:UserWarning")
def test_passes_gymnasiums_checker_and_can_be_rebuilt_from_its_spec(family: Family) -> None:
    env = gymnasium.make(str(family.environment))
    check_env(env.unwrapped, skip_render_check=True)
    assert env.spec is not None
    rebuilt = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert np.array_equal(trajectory(rebuilt), trajectory(env))


@every_family
def test_the_simulator_holds_every_context(family: Family) -> None:
    for context in (*family.train, *family.test_contexts):
        assert family.make(context, 5).unwrapped.context == context  # type: ignore[attr-defined]


@every_family
def test_the_context_changes_the_trajectory_and_survives_reset(family: Family) -> None:
    first, second = (family.make(context, 50) for context in family.train[:2])
    expected = trajectory(second)
    assert not np.allclose(trajectory(first), expected)
    third = family.make(family.train[0], 50)
    trajectory(third)
    third.unwrapped.set_context(family.train[1])  # type: ignore[attr-defined]
    assert np.array_equal(trajectory(third.unwrapped), expected)


@every_family
def test_copies_keep_a_context_that_was_changed(family: Family) -> None:
    env = family.make(family.train[0], 50).unwrapped
    env.set_context(family.test_contexts[0])  # type: ignore[attr-defined]
    expected = trajectory(family.make(family.test_contexts[0], 50))
    twins: list[Any] = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    for twin in twins:
        assert twin.context == family.test_contexts[0]
        assert np.array_equal(trajectory(twin), expected)


@every_family
def test_contexts_never_add_up(family: Family) -> None:
    env = family.make(family.train[0], 50).unwrapped
    expected = trajectory(env)
    for context in (*family.train, *family.test_contexts, family.train[0]):
        env.set_context(context)  # type: ignore[attr-defined]
        assert env.context == context  # type: ignore[attr-defined]
    assert np.array_equal(trajectory(env), expected)


@every_family
def test_a_schedule_changes_the_context_in_mid_episode_and_info_tells_the_truth(family: Family) -> None:
    before, after = family.train[:2]
    env = family.make(Schedule(((0, before), (3, after))), 6)
    for _ in range(2):
        told = [env.reset(seed=0)[1]["context"]]
        told += [env.step(env.action_space.sample())[4]["context"] for _ in range(5)]
        assert told == [before] * 4 + [after] * 2  # reset, steps 0 to 2, then steps 3 and 4


@every_family
@pytest.mark.parametrize("value", ["nonsense", float("nan"), 1e6, None])
def test_a_context_that_the_simulator_does_not_accept_is_refused(family: Family, value: object) -> None:
    with pytest.raises(UserError, match=family.parameter):
        family.parse_context(value)


def test_positive_tilt_runs_downhill_in_the_direction_of_travel() -> None:
    family = find_family("halfcheetah-tilt")
    for tilt, sign in ((12.0, 1.0), (-12.0, -1.0)):
        env = family.make(tilt, 200)
        env.reset(seed=0)
        for _ in range(200):
            env.step(np.zeros(6, dtype=np.float32))
        assert 0.8 < sign * env.unwrapped.data.qpos[0] < 1.5  # type: ignore[attr-defined]  # about 1.1 m in 10 s
        assert np.allclose(np.linalg.norm(env.unwrapped.model.opt.gravity), 9.81)  # type: ignore[attr-defined]


def test_halfcheetah_observes_and_resets_as_in_pets() -> None:
    env = find_family("halfcheetah-tilt").make(0.0, 50)
    observation, _ = env.reset(seed=0)
    assert observation.shape == (18,)
    assert observation[0] == 0
    assert np.abs(observation).max() < 0.01
    x = env.unwrapped.data.qpos[0]  # type: ignore[attr-defined]
    observation, *_ = env.step(np.ones(6, dtype=np.float32))
    assert np.isclose(observation[0], (env.unwrapped.data.qpos[0] - x) / 0.05)  # type: ignore[attr-defined]


def test_the_deprecation_notice_of_the_model_file_stays_off_the_screen(capfd: pytest.CaptureFixture[str]) -> None:
    find_family("halfcheetah-tilt").make(0.0, 50)
    assert "settotalmass" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("text", ["", "6", "5:6", "0:1,0:2", "0:1,-3:2", "0:1,3:", "a:1"])
def test_a_malformed_schedule_is_refused_in_words(text: str) -> None:
    with pytest.raises(UserError, match="schedule"):
        Schedule.parse(text)


def test_discrete_actions_are_refused_in_words() -> None:
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(UserError, match=r"CartPole.*Discrete"):
        check_spaces("CartPole-v1", env.observation_space, env.action_space)


def test_an_unknown_family_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="pendulum-gravity"):
        find_family("walker")
