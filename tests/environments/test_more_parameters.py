"""Joints, tendons, centres of mass, gravity that lifts, and actions that come late."""

import copy
import pickle
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.envs.classic_control.pendulum import PendulumEnv
from gymnasium.spaces import Box

from pyro_dynamics import Family, find_family
from pyro_dynamics.environments import Schedule
from pyro_dynamics.environments.delayed_actions import DelayedActions
from pyro_dynamics.environments.hidden_parameter import hidden_parameter
from pyro_dynamics.environments.mujoco.mujoco_family import MujocoPhysics, mujoco_family
from pyro_dynamics.environments.mujoco.mujoco_parameters import (
    ActionDelay,
    CentreOfMass,
    Gravity,
    Physical,
    Tilt,
    armature,
    friction_loss,
    mass,
    tendon_stiffness,
)
from pyro_dynamics.environments.state_copy import put_where
from pyro_dynamics.errors import UserError
from pyro_dynamics.tasks import BoxTask

ARM = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <body name="upper" pos="0 0 1">
      <joint name="shoulder" axis="0 1 0" armature="{armature}" frictionloss="{friction_loss}"/>
      <inertial pos="0.25 0 {centre}" mass="1" diaginertia="0.01 0.02 0.03"/>
      <geom type="capsule" size="0.04" fromto="0 0 0 0.5 0 0" contype="0" conaffinity="0"/>
      <body name="lower" pos="0.5 0 0">
        <joint name="elbow" axis="0 1 0" armature="0.02"/>
        <inertial pos="0 0 0" mass="0.5" diaginertia="0.01 0.01 0.01"/>
        <geom type="sphere" size="0.06" contype="0" conaffinity="0"/>
      </body>
    </body>
    <body name="ball" pos="2 0 2"><freejoint/><geom type="sphere" size="0.1"/></body>
  </worldbody>
  <tendon><fixed name="spring" stiffness="{stiffness}"><joint joint="shoulder" coef="1"/><joint joint="elbow" coef="1"/>
  </fixed></tendon>
  <actuator><motor joint="shoulder" ctrlrange="-1 1"/></actuator>
</mujoco>
"""
AS_COMPILED = {"armature": 0.1, "friction_loss": 0.0, "centre": 0.0, "stiffness": 0.0}


class Arm(gymnasium.Env):
    """Two links, one motor, a spring over both joints, and a ball that falls."""

    observation_space = Box(-np.inf, np.inf, (17,), np.float64)
    action_space = Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, **compiled: float) -> None:
        self.model = mujoco.MjModel.from_xml_string(ARM.format(**AS_COMPILED | compiled))
        self.data = mujoco.MjData(self.model)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:2] = 0.3, -0.7
        return self.observe(), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data)
        return self.observe(), 0.0, False, False, {}

    def observe(self) -> np.ndarray:
        return np.concatenate([self.data.qpos, self.data.qvel])


def trajectory(env: gymnasium.Env, steps: int = 50) -> np.ndarray:
    pushes = np.sin(np.arange(steps))[:, None]
    return np.array([env.reset(seed=0)[0], *(env.step(push)[0] for push in pushes)])


PARAMETERS: dict[str, tuple[Physical, Any, Any, dict[str, float]]] = {
    "armature": (armature("shoulder"), 1.0, 3.0, {"armature": 0.3}),
    "friction loss": (friction_loss("shoulder"), 0.0, 0.4, {"friction_loss": 0.4}),
    "tendon stiffness": (tendon_stiffness("spring"), 0.0, 2.0, {"stiffness": 2.0}),
    "tendon stiffness of all": (tendon_stiffness(), 0.0, 2.0, {"stiffness": 2.0}),
    "centre of mass": (CentreOfMass("upper", "z"), 0.0, 0.1, {"centre": 0.1}),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_does_what_another_model_file_does_and_goes_back(name: str) -> None:
    part, nominal, other, compiled = PARAMETERS[name]
    env, fresh = MujocoPhysics(Arm(), {"p": part}), Arm(**compiled)
    before = trajectory(env)
    model: Any = env.unwrapped
    constants = {field: np.copy(getattr(model.model, field)) for field in ("dof_M0", "dof_invweight0", "body_ipos")}
    assert np.array_equal(before, trajectory(Arm()))
    assert env.context == nominal
    for _ in range(2):
        env.set_context(other)
        assert env.context == other
        assert np.allclose(trajectory(env), trajectory(fresh), rtol=0, atol=1e-9)
        assert env.context == other  # a reset keeps it
        for field in constants:
            assert np.allclose(getattr(model.model, field), getattr(fresh.model, field), atol=1e-12), field
        env.set_context(nominal)
        assert np.array_equal(trajectory(env), before)
        for field, values in constants.items():
            assert np.array_equal(getattr(model.model, field), values), field
    assert np.abs(trajectory(fresh) - before).max() > 0.01


def test_parameters_that_are_not_there_are_named() -> None:
    arm: Any = Arm()
    pendulum = gymnasium.make("InvertedPendulum-v5")
    for env, part, words in (
        (pendulum, tendon_stiffness(), "the simulator has no tendon"),
        (arm, tendon_stiffness("rope"), "the simulator has no tendon 'rope'; it has spring"),
        (arm, friction_loss("knee"), "the simulator has no joint 'knee'"),
        (arm, CentreOfMass("ball"), "the centre of mass of 'ball' cannot be moved"),
        (arm, CentreOfMass("upper", "w"), "an axis is x, y or z"),
    ):
        with pytest.raises(UserError, match=words):
            MujocoPhysics(env, {"p": part})
    with pytest.raises(UserError, match="p must lie between 0 and 1e\\+06 N m, not -1"):
        MujocoPhysics(arm, {"p": friction_loss()}, -1.0)


def test_gravity_may_be_zero_or_lift_tilted_too() -> None:
    env: Any = MujocoPhysics(Arm(), {"gravity": Gravity(), "tilt": Tilt()})
    for size, tilt in ((9.81, 0.0), (-3.0, 0.0), (-3.0, 20.0), (5.0, -89.0), (-5.0, 89.0), (0.0, 0.0), (9.81, 0.0)):
        env.set_context((size, tilt))
        assert env.context == (size, tilt)
        env.reset(seed=0)
        start = env.unwrapped.data.qpos[2:5].copy()
        for _ in range(20):
            env.step(np.zeros(1))
        fall = (env.unwrapped.data.qpos[2:5] - start)[[0, 2]] / (0.5 * 0.2**2)
        angle = np.radians(tilt)
        assert np.allclose(fall, size * np.array([np.sin(angle), -np.cos(angle)]), rtol=0.1, atol=1e-6)
    weightless = MujocoPhysics(Arm(), {"gravity": Gravity()}, 0.0)
    assert weightless.context == 0.0
    with pytest.raises(UserError, match="gravity must lie between -100 and 100"):
        weightless.set_context(-1000)


def test_the_pendulum_may_hang_upwards() -> None:
    family = find_family("pendulum-gravity")
    for gravity in (0.0, -5.0):
        env: Any = family.make(gravity, 5)
        env.reset(seed=0)
        env.unwrapped.state = np.array([np.pi / 2, 0.0])
        env.step(np.zeros(1, np.float32))
        assert env.unwrapped.state[1] == pytest.approx(1.5 * gravity * 0.05)


def pendulum(delay: float = 0.0) -> DelayedActions:
    return DelayedActions(PendulumEnv(), 2, delay)


def test_a_delayed_action_acts_later_and_is_observed_until_then() -> None:
    env, plain = pendulum(2), PendulumEnv()
    assert env.observation_space.shape == (5,)
    torques = [np.array([value], np.float32) for value in (1.0, -2.0, 0.5, 1.5)]
    observation, _ = env.reset(seed=0)
    expected, _ = plain.reset(seed=0)
    for step, torque in enumerate(torques):
        assert observation[:3].tolist() == expected.tolist()
        assert observation[3:].tolist() == [*[float(sent[0]) for sent in torques[:step][::-1]], 0.0, 0.0][:2]
        observation, *_ = env.step(torque)
        expected, *_ = plain.step(torques[step - 2] if step >= 2 else np.zeros(1, np.float32))
    assert env.reset(seed=1)[0][3:].tolist() == [0.0, 0.0]  # nothing is left of the last episode


def test_state_and_action_decide_the_next_state_whatever_was_before() -> None:
    """Two histories that come to the same observation continue alike under the same delay."""
    for delay in (0, 1, 2):
        one, other = pendulum(delay), pendulum(delay)
        for env, history in ((one, (0.3, -1.0, 0.7)), (other, (-2.0, -1.0, 0.7))):
            env.reset(seed=0)
            for torque in history:
                env.step(np.array([torque], np.float32))
            env.env.unwrapped.state = np.array([0.4, -0.2])  # type: ignore[attr-defined]
        assert np.array_equal(one.step(np.array([1.1], np.float32))[0], other.step(np.array([1.1], np.float32))[0])


def test_discrete_actions_are_delayed_as_codes() -> None:
    env, plain = DelayedActions(CartPoleEnv(), 1, 1), CartPoleEnv()
    env.reset(seed=0)
    plain.reset(seed=0)
    observation, *_ = env.step(np.array([0.0, 1.0]))
    assert observation[4:].tolist() == [0.0, 1.0]
    assert observation[:4].tolist() == plain.step(0)[0].tolist()  # at rest the first choice
    assert env.step(np.array([1.0, 0.0]))[0][:4].tolist() == plain.step(1)[0].tolist()


def test_a_delay_is_a_context_of_a_family_with_its_schedules_and_copies() -> None:
    family = Family("late", pendulum, "delay", "steps", (0, 1, 2), (1,), lambda: BoxTask(pendulum()))
    with pytest.raises(UserError, match=r"delay must be a whole number of steps, not 0\.5"):
        family.make(0.5, 5)
    with pytest.raises(UserError, match="delay must lie between 0 and 2 steps, not 3"):
        family.make(3, 5)
    env = family.make(Schedule(((0, 2.0), (2, 0.0))), 9)
    env.reset(seed=0)
    contexts = [env.step(np.ones(1, np.float32))[4]["context"] for _ in range(3)]
    assert contexts == [2.0, 2.0, 0.0]
    clone = family.make(1, 9)
    clone.reset(seed=5)
    put_where(clone, env)
    assert hidden_parameter(clone).context == 1.0
    push = np.array([-1.0], np.float32)
    assert clone.step(push)[0][3:].tolist() == env.step(push)[0][3:].tolist()


@pytest.mark.parametrize("how", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_delay_beside_other_parameters_of_mujoco(how: Any) -> None:
    vary = {"delay": ActionDelay(2), "mass": mass("pole")}
    make = lambda: gymnasium.make("InvertedPendulum-v5")  # noqa: E731
    family = mujoco_family("late-poles", make, vary, ((0, 1), (2, 1)), ((1, 2),), lambda: BoxTask(make()))
    assert family.axis == "delay (steps), mass (of nominal)"
    env: Any = MujocoPhysics(make(), vary, (2, 1.5))
    plain: Any = MujocoPhysics(make(), {"mass": mass("pole")}, 1.5)
    assert env.observation_space.shape == (6,)
    env.reset(seed=0)
    plain.reset(seed=0)
    pushes = [np.array([push], np.float32) for push in (1.0, -1.0, 0.5, 0.0)]
    for step in range(3):
        observation, *_ = env.step(pushes[step])
        expected, *_ = plain.step(pushes[step - 2] if step >= 2 else np.zeros(1, np.float32))
        assert np.allclose(observation[:4], expected)
    duplicate = how(env)
    assert duplicate.context == (2.0, 1.5)
    assert np.array_equal(duplicate.step(pushes[3])[0], env.step(pushes[3])[0])
    env.set_context((0, 1))
    assert (env.context, duplicate.context) == ((0.0, 1.0), (2.0, 1.5))
    with pytest.raises(UserError, match="delayed by one parameter"):
        MujocoPhysics(make(), {"a": ActionDelay(), "b": ActionDelay()})
