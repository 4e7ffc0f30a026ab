"""Physical parameters of MuJoCo models: they act, are read back, and never add up."""

import copy
import pickle
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.envs.mujoco.inverted_pendulum_v5 import InvertedPendulumEnv

from pyro_dynamics import find_family
from pyro_dynamics.environments.mujoco.mujoco_family import MujocoMaker, MujocoPhysics, mujoco_family
from pyro_dynamics.environments.mujoco.mujoco_parameters import (
    Disabled,
    Force,
    Gravity,
    Physical,
    Tilt,
    Wind,
    damping,
    friction,
    gain,
    mass,
)
from pyro_dynamics.errors import UserError
from pyro_dynamics.tasks import HopperTask

PARAMETERS: dict[str, tuple[Physical, Any, Any]] = {  # with its nominal value, and another
    "mass of all": (mass(), 1.0, 1.5),
    "mass of one body": (mass("torso"), 1.0, 0.5),
    "mass without inertia": (mass(inertia=False), 1.0, 1.5),
    "damping": (damping("thigh_joint"), 1.0, 5.0),
    "friction": (friction(), 1.0, 0.2),
    "gain": (gain("foot_joint"), 1.0, 0.5),
    "gravity": (Gravity(), 9.81, 3.7),
    "tilt": (Tilt(), 0.0, 6.0),
    "tilt sideways": (Tilt("y"), 0.0, 6.0),
    "force": (Force("torso"), 0.0, 20.0),
    "disabled": (Disabled(), "none", "leg_joint"),
}


def hopper(**vary: Any) -> Any:
    env: Any = MujocoPhysics(gymnasium.make("Hopper-v5", terminate_when_unhealthy=False), vary)
    return env


def trajectory(env: gymnasium.Env, steps: int = 40, reset: bool = True) -> np.ndarray:
    env.action_space.seed(0)
    states = [env.reset(seed=0)[0]] if reset else []
    return np.array(states + [env.step(env.action_space.sample())[0] for _ in range(steps)])


NOMINAL = trajectory(gymnasium.make("Hopper-v5", terminate_when_unhealthy=False))


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_acts_and_its_nominal_value_changes_nothing(name: str) -> None:
    part, nominal, other = PARAMETERS[name]
    env = hopper(p=part)
    assert env.context == nominal
    for _ in range(3):
        env.set_context(other)
        assert env.context == other
        changed = trajectory(env)
        assert env.context == other  # a reset keeps it
        env.set_context(nominal)
        assert np.array_equal(trajectory(env), NOMINAL)  # nothing adds up
    if name != "tilt sideways":  # a planar robot cannot fall sideways, but its weight is a little less
        assert np.abs(changed - NOMINAL).max() > 1e-3


@pytest.mark.parametrize("value", [0.2, -0.2])
def test_wind_acts_through_a_medium_and_pushes_where_it_blows(value: float) -> None:
    env: Any = MujocoPhysics(gymnasium.make("Swimmer-v5"), {"current": Wind()})
    env.set_context(value)
    env.reset(seed=0)
    start = env.unwrapped.data.qpos[0]
    for _ in range(100):
        env.step(np.zeros(2, dtype=np.float32))
    assert np.sign(value) * (env.unwrapped.data.qpos[0] - start) > 0.1
    walker: Any = MujocoPhysics(gymnasium.make("Walker2d-v5"), {"wind": Wind()})
    calm = trajectory(walker)
    walker.set_context(30.0)
    assert walker.unwrapped.model.opt.density == 1.2
    assert not np.allclose(trajectory(walker), calm)
    with pytest.raises(UserError, match="medium"):
        MujocoPhysics(gymnasium.make("Walker2d-v5"), {"wind": Wind(density=0.0)})


def test_mass_changes_what_mujoco_derives_from_it_unless_it_is_asked_not_to() -> None:
    env, bare = hopper(mass=mass()), hopper(mass=mass(inertia=False))
    before = env.unwrapped.model.body_subtreemass.copy(), env.unwrapped.model.body_inertia.copy()
    for one in (env, bare):
        one.set_context(2.0)
        assert np.allclose(one.unwrapped.model.body_mass.sum(), 2 * before[0][0])
    assert np.allclose(env.unwrapped.model.body_subtreemass, 2 * before[0])
    assert np.allclose(env.unwrapped.model.body_inertia, 2 * before[1])
    assert np.array_equal(bare.unwrapped.model.body_subtreemass, before[0])
    assert np.array_equal(bare.unwrapped.model.body_inertia, before[1])


def test_a_change_in_mid_episode_leaves_the_robot_where_it_is() -> None:
    env = hopper(mass=mass(), damping=damping())
    trajectory(env, 10)
    before = env.unwrapped.state_vector()
    env.set_context("mass=1.5,damping=0.8")
    assert env.context == (1.5, 0.8)
    assert np.array_equal(env.unwrapped.state_vector(), before)
    with_change = trajectory(env, 10, reset=False)
    assert not np.allclose(with_change, NOMINAL[11:21])
    env.set_context((1, 1))
    trajectory(env, 10)
    assert np.array_equal(trajectory(env, 10, reset=False), trajectory_of(NOMINAL, env))


def trajectory_of(nominal: np.ndarray, env: Any) -> np.ndarray:
    """The nominal robot with the same actions: ten steps, then the same ten actions again."""
    plain = gymnasium.make("Hopper-v5", terminate_when_unhealthy=False)
    trajectory(plain, 10)
    return trajectory(plain, 10, reset=False)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_continues_where_the_original_is_in_its_episode(how: Any) -> None:
    env = hopper(mass=mass("torso"), push=Force("torso"))
    env.set_context((1.4, 15.0))
    trajectory(env, 15)
    duplicate = how(env)
    assert duplicate.context == (1.4, 15.0)
    expected = trajectory(env, 15, reset=False)
    assert np.array_equal(trajectory(duplicate, 15, reset=False), expected)
    assert np.array_equal(duplicate.reset()[0], env.reset()[0])  # their random numbers are the same too
    env.set_context((1.0, 0.0))
    assert duplicate.context == (1.4, 15.0)  # and they share nothing


@pytest.mark.parametrize("how", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
@pytest.mark.parametrize("name", ["cadm-ant", "cadm-slim-humanoid", "cadm-halfcheetah"])
def test_a_copy_takes_the_very_next_step_as_the_original_does(name: str, how: Any) -> None:
    """Ant's velocity is a difference of places that MuJoCo has derived: a state without them jumped by metres."""
    family = find_family(name)
    env = family.make(family.train[-1], 50)
    env.reset(seed=3)
    env.action_space.seed(3)
    for _ in range(12):
        env.step(env.action_space.sample())
    duplicate = how(env)
    for _ in range(3):
        action = env.action_space.sample()
        own, other = env.step(action), duplicate.step(action)
        assert np.array_equal(own[0], other[0])
        assert own[1] == other[1]


def test_a_copy_of_an_environment_that_copies_its_model_keeps_the_nominal_values() -> None:
    """Without EzPickle a copy has the CHANGED model: what is nominal must not be read from that."""

    class Plain(InvertedPendulumEnv):
        __getstate__ = object.__getstate__  # type: ignore[assignment]

        def __setstate__(self, state: dict[str, Any]) -> None:
            self.__dict__.update(state)

        def __init__(self) -> None:
            super().__init__()
            self.mujoco_renderer: Any = None

    env: Any = MujocoPhysics(Plain(), {"mass": mass()}, {"mass": 2.0})
    duplicate = copy.deepcopy(env)
    assert duplicate.context == 2.0
    assert np.array_equal(duplicate.unwrapped.model.body_mass, env.unwrapped.model.body_mass)
    duplicate.set_context(1.0)
    assert np.array_equal(2 * duplicate.unwrapped.model.body_mass, env.unwrapped.model.body_mass)


@pytest.mark.parametrize("vary", [{}, {"dead": Disabled(), "mass": mass()}])
def test_nothing_to_vary_and_names_beside_numbers_are_refused(vary: Any) -> None:
    with pytest.raises(UserError, match="one parameter or several numbers"):
        hopper(**vary)


def test_gravity_and_its_direction_go_together() -> None:
    env = hopper(gravity=Gravity(), tilt=Tilt())
    env.set_context((5.0, -10.0))
    assert env.context == (5.0, -10.0)
    assert np.allclose(env.unwrapped.model.opt.gravity, [-5 * np.sin(np.pi / 18), 0, -5 * np.cos(np.pi / 18)])


@pytest.mark.parametrize(
    ("environment", "part", "words"),
    [
        ("Hopper-v5", mass("trunk"), "no body 'trunk'; it has world, torso, thigh, leg, foot"),
        ("Hopper-v5", damping("knee"), "no joint 'knee'; it has rootx"),
        ("Hopper-v5", gain("knee"), "no actuator 'knee'; it has thigh_joint, leg_joint, foot_joint"),
        ("Hopper-v5", friction("ice"), "no geom 'ice'; it has floor"),
        ("Hopper-v5", mass(17), "no body 17"),
        ("Hopper-v5", damping("rootx"), "dof_damping of rootx is 0"),
        ("Swimmer-v5", damping(), "dof_damping of every joint is 0"),
        ("Hopper-v5", Force("arm"), "no body 'arm'"),
        ("Hopper-v5", Force("torso", "up"), "an axis is x, y or z"),
        ("Hopper-v5", Tilt("z"), "along x or y"),
        ("Pusher-v5", Tilt(), "gravity is 0"),
        ("Hopper-v5", Disabled(("knee",)), "1 names for 3 actuators"),
        ("Pendulum-v1", mass(), "not an environment on MuJoCo"),
    ],
)
def test_what_the_model_does_not_have_is_reported_in_one_line(environment: str, part: Physical, words: str) -> None:
    contexts = (part.parse("none", "p"), "a") if isinstance(part, Disabled) else (1.0, 2.0)
    with pytest.raises(UserError, match=words) as error:
        mujoco_family("mine", environment, {"p": part}, contexts, contexts, HopperTask).make(contexts[0], 10)
    assert "\n" not in str(error.value)


def test_a_dead_actuator_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UserError, match="no actuator 'wing'"):
        hopper(p=Disabled()).set_context("wing")


def test_parameters_that_change_the_same_thing_are_refused() -> None:
    env = hopper(all=mass(), torso=mass("torso"))
    with pytest.raises(UserError, match="did not take"):
        env.set_context((1.0, 2.0))


def test_a_simulator_that_does_not_take_a_context_is_refused() -> None:
    class Stubborn(gymnasium.Wrapper):
        """Puts its own gravity back at every reset."""

        def reset(self, **kwargs: Any) -> Any:
            inner: Any = self.unwrapped
            inner.model.opt.gravity[:] = [0, 0, -9.81]
            return self.env.reset(**kwargs)

    env = MujocoPhysics(Stubborn(gymnasium.make("Hopper-v5")), {"tilt": Tilt()})
    env.set_context(5.0)
    env.reset(seed=0)
    assert env.context == 5.0  # written again after the reset


def test_inner_wrappers_are_no_hindrance_and_nothing_is_put_into_the_observation() -> None:
    maker = MujocoMaker("Hopper-v5", {"mass": mass()}, last_velocity=True, settings={"frame_skip": 2})
    env: Any = maker(mass=2.0)
    assert env.unwrapped.frame_skip == 2
    assert env.observation_space.shape == (12,)
    low, high = env.reset(seed=0)[0], maker(mass=1.0).reset(seed=0)[0]
    assert np.array_equal(low, high)


def test_set_const_on_data_of_its_own_equals_a_model_compiled_that_way() -> None:
    """The trap that mj_setConst resets the robot is avoided, and its results are the same."""
    env = hopper(mass=mass())
    env.set_context(2.0)
    model = copy.deepcopy(env.unwrapped.model)
    mujoco.mj_setConst(model, mujoco.MjData(model))
    for field in ("body_subtreemass", "dof_invweight0", "body_invweight0", "dof_M0", "actuator_acc0"):
        assert np.array_equal(getattr(model, field), getattr(env.unwrapped.model, field)), field
    assert np.allclose(model.dof_M0, 2 * hopper(mass=mass()).unwrapped.model.dof_M0 - model.dof_armature, atol=1e-9)
