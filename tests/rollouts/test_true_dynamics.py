"""The simulator as the model: returns are the environment's own, and the planner swings pendulums up."""

import gymnasium
import numpy as np
import pytest
import torch

from pyro_dynamics.control import ICEM, ICEMConfig
from pyro_dynamics.environments import Context, Family, Schedule, find_family
from pyro_dynamics.environments.nominal import farthest, nominal_context
from pyro_dynamics.environments.state_copy import put_where
from pyro_dynamics.rollouts.simulator_episode import Search, episode
from pyro_dynamics.rollouts.true_dynamics import Simulator, believe, mujoco_paths
from pyro_dynamics.tasks import BoxTask

CASES: list[tuple[str, Context]] = [
    ("pendulum-gravity", 7.0),
    ("cadm-cartpole", (12.0, 0.45)),
    ("halfcheetah-tilt", 9.0),
    ("halfcheetah-crippled", "back-foot"),
    ("halfcheetah-gain", 0.4),
    ("hopper-mass", 1.3),
]


@pytest.mark.parametrize(("name", "context"), CASES)
def test_returns_are_those_of_the_environment_itself(name: str, context: Context) -> None:
    family, rng = find_family(name), np.random.default_rng(0)
    live = family.make(context, 30)
    live.reset(seed=3)
    space = live.action_space
    for _ in range(4):
        live.step(space.sample() if name == "cadm-cartpole" else rng.uniform(-1, 1, space.shape).astype(space.dtype))
    simulator = Simulator(family, [context], 30)
    low, high = space.low, space.high  # type: ignore[attr-defined]
    actions = torch.as_tensor(rng.uniform(low, high, (1, 3, 6, len(low))), dtype=torch.float32)
    found = simulator.returns([live], actions)[0]
    copy = family.make(context, 30)
    for sequence, value in zip(actions[0].numpy(), found.tolist(), strict=True):
        copy.reset(seed=0)
        put_where(copy, live)
        expected = 0.0
        for action in sequence.astype(space.dtype):
            _, reward, terminated, truncated, _ = copy.step(action)
            expected += float(reward)
            if terminated or truncated:
                break
        assert value == pytest.approx(expected, abs=1e-4)


def test_a_path_in_one_call_is_the_path_step_by_step() -> None:
    """Observations too, to rounding, and the environment stays where it is."""
    env = find_family("halfcheetah-gain").make(0.4, 50)
    env.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in range(5):
        env.step(rng.uniform(-1, 1, 6).astype(np.float32))
    actions = rng.uniform(-1, 1, (2, 7, 6)).astype(np.float32)
    before = env.unwrapped.data.qpos.copy()  # type: ignore[attr-defined]
    paths = mujoco_paths(env.unwrapped, actions.astype(np.float64))
    assert np.array_equal(env.unwrapped.data.qpos, before)  # type: ignore[attr-defined]
    for t, action in enumerate(actions[1]):
        observation, *_ = env.step(action)
        assert np.allclose(paths[1, t + 1], observation, atol=1e-6)


def test_what_is_taken_for_true_stays_and_the_simulator_learns_of_a_change() -> None:
    family = find_family("pendulum-gravity")
    live = family.make(9.0, 20)
    live.reset(seed=0)
    simulator = Simulator(family, [2.0], 20)
    actions = torch.zeros(1, 1, 5, 1)
    wrong = simulator.returns([live], actions)
    believe(simulator.copies[0], 9.0)
    right = simulator.returns([live], actions)
    assert (wrong - right).abs() > 1e-3
    assert torch.allclose(right, Simulator(family, [9.0], 20).returns([live], actions))


def test_an_episode_is_the_same_again_and_a_right_context_pays() -> None:
    family = find_family("halfcheetah-gain")
    search = ICEMConfig(candidates=20, elites=5)

    def rewards(believed: float) -> list[float]:
        steps = episode(family, [0.4], [believed], Search(lambda: ICEM(search), 10, 25), seed=0)
        return [float(step.reward[0]) for step in steps]

    right = rewards(0.4)
    assert rewards(0.4) == right
    assert sum(right) > sum(rewards(2.0))


def test_it_knows_of_a_change_when_it_comes() -> None:
    """Until then it plans as where nothing changes, and after it as in the environment that it is."""
    family = find_family("halfcheetah-gain")
    search = Search(lambda: ICEM(ICEMConfig(candidates=20, elites=5)), 5, 20)
    changing, never = Schedule(((0, 0.4), (8, 2.0))), Schedule.constant(0.4)

    def actions(believed: Schedule) -> torch.Tensor:
        return torch.stack([step.action[0] for step in episode(family, [changing], [believed], search, seed=0)])

    informed, without = actions(changing), actions(never)
    assert torch.equal(informed[:8], without[:8])
    assert not torch.equal(informed[8:], without[8:])


def test_discrete_actions_are_planned_as_such() -> None:
    """The best sample is executed: the elites' mean would be a sequence that none of them has."""

    def made(force_mag: float) -> gymnasium.Env:
        env = gymnasium.make("CartPole-v1", disable_env_checker=True)
        env.unwrapped.force_mag = force_mag  # type: ignore[attr-defined]
        return env

    family = Family(
        "cart", made, "force_mag", "N", (5.0, 10.0), (8.0,), lambda: BoxTask(made(10.0), terminated="learned")
    )
    planner = ICEM(ICEMConfig(candidates=16, elites=4, iterations=2))
    steps = list(episode(family, [8.0], [8.0], Search(lambda: planner, 12, 60), seed=0))
    assert planner.choices == ((0, 2),)
    assert all(bool(step.alive[0]) for step in steps)
    assert len(steps) == 60  # a random one falls after some 20


@pytest.mark.slow
@pytest.mark.parametrize("gravity", find_family("pendulum-gravity").train)
def test_the_planner_swings_up_every_gravity(gravity: float) -> None:
    """It stands for the last steps: the reward of a step is nearly 0."""
    family = find_family("pendulum-gravity")
    planner = ICEM(ICEMConfig(candidates=50, elites=8, iterations=3))
    steps = list(episode(family, [gravity], [gravity], Search(lambda: planner, 25, 100), seed=0))
    assert max(-float(step.reward[0]) for step in steps[-20:]) < 0.1


def test_the_nominal_context_is_the_simulators_own() -> None:
    assert nominal_context(find_family("halfcheetah-tilt")) == 0.0
    assert nominal_context(find_family("halfcheetah-gain")) == 1.0
    assert nominal_context(find_family("halfcheetah-mass-damping")) == (1.0, 1.0)
    assert nominal_context(find_family("halfcheetah-crippled")) == "none"
    assert nominal_context(find_family("pendulum-gravity")) == 10.0


def test_a_wrong_context_is_the_farthest_that_was_trained_on() -> None:
    assert farthest(9.0, (-10.0, 0.0, 10.0)) == -10.0
    assert farthest((1.25, 200.0), ((1.0, 100.0), (0.5, 200.0), (1.0, 200.0))) == (0.5, 200.0)
    assert farthest("b", ("a", "b", "c")) == "c"
    assert farthest("z", ("a", "b")) == "b"
