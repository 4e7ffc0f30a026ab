"""The registered families."""

from dataclasses import replace

from pyro_dynamics.environments.contexts import extrapolated, grid, interpolated
from pyro_dynamics.environments.family import Family
from pyro_dynamics.environments.mujoco.mujoco_family import mujoco_family
from pyro_dynamics.environments.mujoco.mujoco_parameters import Tilt, Wind, damping, friction, gain, mass
from pyro_dynamics.environments.suite.cadm_families import CADM
from pyro_dynamics.environments.suite.cartpole import ContinuousCartPoleEnv
from pyro_dynamics.environments.suite.halfcheetah import PETSHalfCheetahEnv
from pyro_dynamics.tasks import (
    AntTask,
    CartPoleTask,
    HalfCheetahTask,
    HopperTask,
    InvertedPendulumTask,
    PendulumTask,
    PusherTask,
    ReacherTask,
    SwimmerTask,
    Walker2dTask,
)

TILT = Family(
    name="halfcheetah-tilt",
    environment="pyro_dynamics/HalfCheetahTilt-v0",
    parameter="tilt",
    unit="degrees",
    train=(-12.0, -6.0, 0.0, 6.0, 12.0),
    test=(-15.0, -9.0, -3.0, 3.0, 9.0, 15.0),
    task=HalfCheetahTask,
    description="HalfCheetah on a slope: gravity tilted, downhill where positive (the paper)",
)

PAPER = (
    Family(
        name="pendulum-gravity",
        environment="pyro_dynamics/PendulumGravity-v0",
        parameter="gravity",
        unit="m/s^2",
        train=(2.0, 4.0, 6.0, 8.0, 10.0),
        test=(1.0, 3.0, 5.0, 7.0, 9.0, 11.0),
        task=PendulumTask,
        description="Gymnasium's Pendulum under gravity of varying size",
    ),
    TILT,
    replace(
        TILT,
        name="halfcheetah-tilt-6",
        train=(-6.0, 6.0),
        description="HalfCheetah on a slope, learned on two slopes alone (the paper's ablation)",
    ),
    replace(
        TILT,
        name="halfcheetah-tilt-12",
        train=(-12.0, 12.0),
        description="HalfCheetah on a slope, learned on the two steepest alone",
    ),
    Family(
        name="halfcheetah-crippled",
        environment="pyro_dynamics/HalfCheetahCrippled-v0",
        parameter="disabled",
        unit="actuator",
        train=("none", "back-thigh", "back-shin", "front-thigh", "front-shin"),
        test=("back-foot", "front-foot"),
        task=HalfCheetahTask,
        description="HalfCheetah with one disabled actuator, or none",
    ),
)

BODIES = grid(mass=[0.75, 1.0, 1.25], damping=[0.75, 1.0, 1.25])
CARTS = grid(force=[6, 10, 14], length=[0.4, 0.6])

GYMNASIUM = (
    mujoco_family(
        "halfcheetah-mass-damping",
        PETSHalfCheetahEnv,
        {"mass": mass(), "damping": damping()},
        train=BODIES,
        test={"interpolation": interpolated(BODIES), "extrapolation": extrapolated(BODIES, 0.5)},
        task=HalfCheetahTask,
        description="HalfCheetah with other masses (and inertias) and joint dampings",
    ),
    mujoco_family(
        "halfcheetah-gain",
        PETSHalfCheetahEnv,
        {"gain": gain()},
        train=(0.25, 0.6, 1.0, 1.5, 2.0),
        test={"interpolation": (0.4, 0.8, 1.25, 1.75), "extrapolation": (0.15, 2.5)},
        task=HalfCheetahTask,
        description="HalfCheetah with stronger and weaker actuators",
    ),
    mujoco_family(
        "hopper-mass",
        "Hopper-v5",
        {"mass": mass("torso")},
        train=(0.6, 0.8, 1.0, 1.2, 1.4),
        test=(0.5, 0.7, 0.9, 1.1, 1.3, 1.5),
        task=HopperTask,
        description="Hopper with another mass (and inertia) of the torso",
        last_velocity=True,
    ),
    mujoco_family(
        "walker2d-friction",
        "Walker2d-v5",
        {"friction": friction()},
        train=(0.4, 0.7, 1.0, 1.5, 2.0),
        test=(0.3, 0.55, 0.85, 1.25, 1.75, 2.5),
        task=Walker2dTask,
        description="Walker2d on ground, and with feet, of other sliding friction",
        last_velocity=True,
    ),
    mujoco_family(
        "ant-gain",
        "Ant-v5",
        {"gain": gain()},
        train=(0.4, 0.6, 0.8, 1.0, 1.2),
        test=(0.3, 0.5, 0.7, 0.9, 1.1, 1.3),
        task=AntTask,
        description="Ant with stronger and weaker actuators; without contact forces in observation and reward",
        last_velocity=True,
        include_cfrc_ext_in_observation=False,
        contact_cost_weight=0.0,
    ),
    mujoco_family(
        "swimmer-current",
        "Swimmer-v5",
        {"current": Wind()},
        train=(-0.2, -0.1, 0.0, 0.1, 0.2),
        test=(-0.25, -0.15, -0.05, 0.05, 0.15, 0.25),
        task=SwimmerTask,
        description="Swimmer in water that flows along x",
        last_velocity=True,
    ),
    mujoco_family(
        "reacher-damping",
        "Reacher-v5",
        {"damping": damping("joint0", "joint1")},
        train=(0.5, 1.0, 2.0, 4.0, 8.0),
        test=(0.25, 0.75, 1.5, 3.0, 6.0, 12.0),
        task=ReacherTask,
        description="Reacher with other dampings of both joints",
    ),
    mujoco_family(
        "pusher-gain",
        "Pusher-v5",
        {"gain": gain()},
        train=(0.4, 0.6, 0.8, 1.0, 1.2),
        test=(0.3, 0.5, 0.7, 0.9, 1.1, 1.3),
        task=PusherTask,
        description="Pusher with stronger and weaker actuators",
    ),
    mujoco_family(
        "inverted-pendulum-tilt",
        "InvertedPendulum-v5",
        {"tilt": Tilt()},
        train=(-8.0, -4.0, 0.0, 4.0, 8.0),
        test=(-10.0, -6.0, -2.0, 2.0, 6.0, 10.0),
        task=InvertedPendulumTask,
        description="InvertedPendulum on a slope",
    ),
    Family(
        name="cartpole-force-length",
        environment=ContinuousCartPoleEnv,
        parameter=ContinuousCartPoleEnv.parameter,
        unit=("N", "m"),
        train=CARTS,
        test={"interpolation": interpolated(CARTS), "extrapolation": extrapolated(CARTS)},
        task=CartPoleTask,
        description="CartPole with a force of any size up to another largest one, and another half length of the pole",
    ),
)

FAMILIES: dict[str, Family] = {family.name: family for family in (*PAPER, *GYMNASIUM, *CADM)}
