"""One contract for every registered family."""

import copy
import pickle
import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from pyro_dynamics import FAMILIES, Family, find_family
from pyro_dynamics.environments import Schedule
from pyro_dynamics.environments.hidden_parameter import HiddenParameter, hidden_parameter
from pyro_dynamics.errors import UserError
from pyro_dynamics.rollouts.rollout import rollout, uniform_policy

every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


@cache
def environment(name: str) -> Any:
    """One environment of a family, made once; each test resets it, and sets the context that it needs."""
    family = FAMILIES[name]
    return family.make(family.train[0], 1000)


def hidden(family: Family, context: Any) -> HiddenParameter:
    """The family's environment with this context, from the next reset on."""
    env = environment(family.name)
    env.schedule = Schedule.constant(context)
    inner = hidden_parameter(env)
    inner.set_context(context)
    return inner


def trajectory(env: gymnasium.Env, steps: int = 12) -> np.ndarray:
    env.action_space.seed(0)
    observations = [env.reset(seed=0)[0]]
    return np.array(observations + [env.step(env.action_space.sample())[0] for _ in range(steps)])


@every_family
def test_passes_gymnasiums_checker(family: Family) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        # Infinite bounds are usual, and the wrappers report the context.
        warnings.filterwarnings("ignore", "(?s).*(Box (observation|action) space|unwrapped version|normalize)")
        check_env(environment(family.name), skip_render_check=True)


@every_family
def test_the_simulator_holds_every_context(family: Family) -> None:
    for context in (*family.train, *family.test_contexts):
        assert hidden(family, context).context == context
        assert family.parse_context(context) == context
        listed = list(context) if isinstance(context, tuple) else context
        assert family.parse_context(listed) == context  # JSON has no tuples


@every_family
def test_seeds_and_the_context_decide_the_trajectory(family: Family) -> None:
    env = environment(family.name)
    hidden(family, family.train[0])
    first = trajectory(env)
    hidden(family, family.train[-1])
    assert not np.allclose(trajectory(env), first)
    hidden(family, family.train[0])
    assert np.array_equal(trajectory(env), first)  # it survived resets, and contexts never add up
    assert not np.array_equal(env.reset(seed=1)[0], first[0])


@every_family
def test_copies_keep_a_context_that_was_changed(family: Family) -> None:
    env = environment(family.name)
    hidden(family, family.test_contexts[0])
    expected = trajectory(env)
    for duplicate in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert duplicate.context == family.test_contexts[0]
        assert np.array_equal(trajectory(duplicate), expected)


@every_family
def test_copies_continue_where_the_original_is(family: Family) -> None:
    """In its state, its random stream and its count of steps, also from a made environment with its wrappers."""
    for env in (environment(family.name), family.make(family.train[0], 8)):
        env.reset(seed=0)
        env.action_space.seed(0)
        actions = [env.action_space.sample() for _ in range(8)]
        for action in actions[:4]:
            env.step(action)
        copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
        expected = [env.step(action)[:4] for action in actions[4:]]
        for duplicate in copies:
            found = [duplicate.step(action)[:4] for action in actions[4:]]
            assert all(np.array_equal(one[0], other[0]) for one, other in zip(found, expected, strict=True))
            assert [one[1:] for one in found] == [other[1:] for other in expected]
        after = env.reset()[0]
        assert all(np.array_equal(duplicate.reset()[0], after) for duplicate in copies)


@every_family
def test_a_schedule_changes_the_context_in_mid_episode_and_info_has_the_truth(family: Family) -> None:
    before, after = family.train[0], family.test_contexts[-1]
    env = environment(family.name)
    env.schedule = Schedule(((0, before), (2, after)))
    for _ in range(2):
        observation, info = env.reset(seed=0)
        seen = [info["context"]]
        for _ in range(3):
            observation, *_, info = env.step(0.1 * env.action_space.sample())
            seen.append(info["context"])
        assert seen == [before] * 3 + [after]  # reset, steps 0 and 1, then step 2
        assert observation.shape == (family.task().state_dim,)


@every_family
@pytest.mark.parametrize("value", ["nonsense", float("nan"), 1e6, None])
def test_a_context_that_the_simulator_does_not_accept_is_refused(family: Family, value: object) -> None:
    several = (value, *(1.0 for _ in family.parameters[1:]))
    with pytest.raises(UserError, match=family.parameters[0]):
        family.parse_context(value if len(several) == 1 else several)


@every_family
def test_reward_and_termination_of_the_task_are_the_environments_own(family: Family) -> None:
    task, env = family.task(), environment(family.name)
    hidden(family, family.train[-1])
    env.action_space.seed(0)
    state, _ = env.reset(seed=0)
    ends = 0
    for _ in range(80):
        action = env.action_space.sample()
        next_state, reward, terminated, *_ = env.step(action)
        s, a, s_next = (torch.as_tensor(x, dtype=torch.float64) for x in (state, action, next_state))
        assert np.isclose(float(task.reward(s, a, s_next)), float(reward), rtol=1e-5, atol=1e-5)
        assert bool(task.terminated(s, a, s_next)) == terminated
        state = next_state
        if terminated:
            ends += 1
            state, _ = env.reset()
    assert not ends or task.can_terminate


@every_family
def test_environments_in_lockstep_end_each_in_its_own_time(family: Family) -> None:
    contexts = (family.train[0], family.test_contexts[-1])
    envs = family.make_vector(contexts, 40)
    space: Any = envs.single_action_space
    policy = uniform_policy(space, 2, torch.Generator().manual_seed(0))
    steps = list(rollout(envs, policy, seeds=[0, 1]))
    envs.close()
    assert list(steps[0].context) == list(contexts)
    alive = torch.stack([step.alive for step in steps])
    lengths = alive.sum(0).tolist()
    assert (alive.int().diff(dim=0) <= 0).all()  # once over, an episode stays over
    assert len(steps) == max(lengths)
    if not family.task().can_terminate:
        assert lengths == [40, 40]
    elif family.name == "inverted-pendulum-tilt":
        assert max(lengths) < 40
        assert lengths[0] != lengths[1]


@pytest.mark.parametrize("name", ["hopper-mass", "walker2d-friction", "ant-gain", "cartpole-force-length"])
def test_early_ends_do_occur(name: str) -> None:
    family = FAMILIES[name]
    hidden(family, family.train[-1])
    env = environment(name)
    env.action_space.seed(1)
    env.reset(seed=0)
    ended = False
    for _ in range(400):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        ended = ended or terminated
        if terminated or truncated:
            break
    assert ended


@pytest.mark.parametrize("name", ["pendulum-gravity", "halfcheetah-tilt", "halfcheetah-crippled"])
def test_registered_environments_can_be_rebuilt_from_their_spec(name: str) -> None:
    family = FAMILIES[name]
    env = gymnasium.make(str(family.environment))
    assert env.spec is not None
    rebuilt = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert np.array_equal(trajectory(rebuilt), trajectory(env))
    copied: Any = copy.deepcopy(env.unwrapped)
    copied.set_context(family.test_contexts[0])
    assert pickle.loads(pickle.dumps(copied)).context == family.test_contexts[0]


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
    for name in ("halfcheetah-tilt", "cadm-halfcheetah"):
        env = find_family(name).make(find_family(name).train[0], 50)
        copy.deepcopy(env)
    assert "settotalmass" not in "".join(capfd.readouterr())


def test_an_unknown_family_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="pendulum-gravity"):
        find_family("walker")


@pytest.mark.parametrize(
    ("name", "height", "tilt"), [("hopper-mass", 1.25, 0.4), ("walker2d-friction", 1.4, 1.5), ("ant-gain", 0.6, 0.0)]
)
def test_what_is_healthy_is_what_gymnasium_calls_so(name: str, height: float, tilt: float) -> None:
    """In states on both sides of every bound, which play alone does not come to."""
    env: Any = environment(name)
    task: Any = FAMILIES[name].task()
    env.reset(seed=0)
    inner, rng, verdicts = env.unwrapped, np.random.default_rng(0), []
    for _ in range(300):
        qpos = inner.init_qpos + rng.normal(0, 0.1, inner.model.nq)
        qpos[1 if tilt else 2] = height + rng.uniform(-0.75, 0.75)
        if tilt:
            qpos[2] = rng.uniform(-tilt, tilt)
        inner.set_state(qpos, rng.normal(0, 3, inner.model.nv))
        state = torch.as_tensor(np.concatenate([[0.0], inner._get_obs()]))
        assert bool(task.healthy(state)) == inner.is_healthy
        verdicts.append(inner.is_healthy)
    assert 30 < sum(verdicts) < 270


@every_family
def test_the_encoding_separates_training_contexts(family: Family) -> None:
    code = family.encode(family.train)
    assert len({tuple(row) for row in code}) == len(family.train)
    assert code.shape[1] == (len(family.parameters) if family.numeric else len(family.train))
    assert np.isfinite(family.encode(family.test_contexts)).all()
    if family.numeric:
        assert code.mean(0) == pytest.approx(0, abs=1e-12)
        assert code.std(0) == pytest.approx(1)


def test_contexts_are_encoded_by_what_was_trained_on() -> None:
    tilt, crippled = find_family("halfcheetah-tilt"), find_family("halfcheetah-crippled")
    assert tilt.encode([0.0, 15.0])[:, 0] == pytest.approx([0, 15 / np.std([-12, -6, 0, 6, 12])])
    assert crippled.encode(["back-shin", "front-foot"]).tolist() == [[0, 0, 1, 0, 0], [0, 0, 0, 0, 0]]
    alone = replace(tilt, train=(6.0,))  # a parameter that never varies is only centred
    assert alone.encode([6.0, 9.0])[:, 0].tolist() == [0.0, 3.0]
