"""The benchmark of CaDM (Lee, Seo, Lee, Lee and Shin 2020): what its code varies, and over which sets.

Its test sets are all combinations of the two values that bound each range. It draws a training context from a grid for
each of the ten episodes of an iteration: so does ``--episode-contexts list``. Where environments stay the same, each
with its own latent, we use ten or eleven points of that grid in which every value occurs.
"""

from collections.abc import Sequence
from functools import partial
from itertools import product

from pyro_dynamics.environments.contexts import Context, grid, latin
from pyro_dynamics.environments.family import Family
from pyro_dynamics.environments.mujoco.mujoco_family import mujoco_family
from pyro_dynamics.environments.mujoco.mujoco_parameters import Disabled, damping, mass
from pyro_dynamics.environments.suite.cadm import CaDMPendulumEnv, FullForceCartPoleEnv, SlimHumanoidEnv
from pyro_dynamics.environments.suite.halfcheetah import PETSHalfCheetahEnv
from pyro_dynamics.environments.suite.halfcheetah_crippled import ACTUATORS
from pyro_dynamics.tasks import AntTask, CaDMPendulumTask, CartPoleTask, HalfCheetahTask, SlimHumanoidTask


def corners(*boxes: tuple[tuple[float, float], tuple[float, float]]) -> tuple[Context, ...]:
    """All combinations of the two values of each parameter, for each box."""
    return tuple(context for box in boxes for context in product(*box))


TWENTIETHS = [round(0.75 + 0.05 * k, 2) for k in range(11)]
CARTS: dict[str, Sequence[float]] = {"force": range(5, 16), "length": [0.4, 0.45, 0.5, 0.55, 0.6]}
PENDULUMS = {"mass": TWENTIETHS, "length": TWENTIETHS}
CHEETAHS = {name: [0.75, 0.85, 1.0, 1.15, 1.25] for name in ("mass", "damping")}
HUMANOIDS = {name: [0.8, 0.9, 1.0, 1.15, 1.25] for name in ("mass", "damping")}

CADM = (
    Family(
        name="cadm-cartpole",
        environment=FullForceCartPoleEnv,
        parameter=FullForceCartPoleEnv.parameter,
        unit=("N", "m"),
        train=latin(11, 0, **CARTS),
        drawn_from=grid(**CARTS),
        test={
            "moderate": corners(((3.0, 3.5), (0.25, 0.3)), ((16.5, 17.0), (0.7, 0.75))),
            "extreme": corners(((2.0, 2.5), (0.15, 0.2)), ((17.5, 18.0), (0.8, 0.85))),
        },
        task=partial(CartPoleTask, full_force=True),
        description="CaDM's CartPole; the sign of a real action stands for its two discrete ones",
    ),
    Family(
        name="cadm-pendulum",
        environment=CaDMPendulumEnv,
        parameter=CaDMPendulumEnv.parameter,
        unit=("kg", "m"),
        train=latin(11, 0, **PENDULUMS),
        drawn_from=grid(**PENDULUMS),
        test={
            "moderate": corners(((0.5, 0.7), (1.3, 1.5)), ((1.3, 1.5), (0.5, 0.7))),
            "extreme": corners(((0.2, 0.4), (1.6, 1.8)), ((1.6, 1.8), (0.2, 0.4))),
        },
        task=CaDMPendulumTask,
        description="CaDM's Pendulum",
    ),
    mujoco_family(
        "cadm-halfcheetah",
        PETSHalfCheetahEnv,
        {"mass": mass(inertia=False), "damping": damping()},
        train=latin(10, 0, **CHEETAHS),
        drawn_from=grid(**CHEETAHS),
        test={
            "moderate": corners(((0.4, 0.5), (0.4, 0.5)), ((1.5, 1.6), (1.5, 1.6))),
            "extreme": corners(((0.2, 0.3), (0.2, 0.3)), ((1.7, 1.8), (1.7, 1.8))),
        },
        task=HalfCheetahTask,
        description="CaDM's HalfCheetah: mass without inertia",
    ),
    mujoco_family(
        "cadm-halfcheetah-crippled",
        PETSHalfCheetahEnv,
        {"disabled": Disabled(ACTUATORS)},
        train=("back-thigh", "back-shin", "back-foot", "front-thigh"),
        test={"moderate": ("front-shin", "front-foot"), "extreme": ("front-shin+front-foot",)},
        task=HalfCheetahTask,
        description="CaDM's crippled HalfCheetah, except that the action of a disabled actuator has its cost",
    ),
    mujoco_family(
        "cadm-ant",
        "Ant-v5",
        # Two legs get heavier as the others get lighter; the bodies 2 to 13 are four legs of three.
        {"mass": (mass(*range(2, 8), inertia=False), mass(*range(8, 14), inertia=False, power=-1.0))},
        train=(0.85, 0.9, 0.95, 1.0),
        test={"moderate": (0.4, 0.45, 0.5, 0.55, 0.6), "extreme": (0.2, 0.25, 0.3, 0.35, 0.4)},
        task=partial(AntTask, control_cost=0.005, healthy_reward=0.05, ends=False),
        description="CaDM's Ant: front legs of this mass, back legs of its inverse, without inertia",
        last_velocity=True,
        include_cfrc_ext_in_observation=False,
        contact_cost_weight=0.0,
        ctrl_cost_weight=0.005,
        healthy_reward=0.05,
        healthy_z_range=(-float("inf"), float("inf")),
        terminate_when_unhealthy=False,
    ),
    mujoco_family(
        "cadm-slim-humanoid",
        SlimHumanoidEnv,
        {"mass": mass(inertia=False), "damping": damping()},
        train=latin(10, 0, **HUMANOIDS),
        drawn_from=grid(**HUMANOIDS),
        test={
            "moderate": corners(((0.6, 0.7), (0.6, 0.7)), ((1.5, 1.6), (1.5, 1.6))),
            "extreme": corners(((0.4, 0.5), (0.4, 0.5)), ((1.7, 1.8), (1.7, 1.8))),
        },
        task=SlimHumanoidTask,
        description="CaDM's SlimHumanoid: mass without inertia",
    ),
)
