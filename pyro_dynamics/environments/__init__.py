"""Families of Gymnasium environments with a named hidden parameter, and schedules that change it."""

from gymnasium.envs.registration import register

from pyro_dynamics.environments.contexts import Context, numbers
from pyro_dynamics.environments.family import Family
from pyro_dynamics.environments.hidden_parameter import HiddenParameter
from pyro_dynamics.environments.loading import load_family
from pyro_dynamics.environments.schedule import Schedule, ScheduledContext
from pyro_dynamics.errors import UserError
from pyro_dynamics.tasks import HalfCheetahTask, PendulumTask

__all__ = [
    "FAMILIES",
    "Context",
    "Family",
    "HiddenParameter",
    "Schedule",
    "ScheduledContext",
    "find_family",
    "numbers",
]

register(
    "pyro_dynamics/PendulumGravity-v0",
    entry_point="pyro_dynamics.environments.pendulum_gravity:PendulumGravityEnv",
    max_episode_steps=200,
)
register(
    "pyro_dynamics/HalfCheetahTilt-v0",
    entry_point="pyro_dynamics.environments.halfcheetah_tilt:HalfCheetahTiltEnv",
    max_episode_steps=1000,
)
register(
    "pyro_dynamics/HalfCheetahCrippled-v0",
    entry_point="pyro_dynamics.environments.halfcheetah_crippled:HalfCheetahCrippledEnv",
    max_episode_steps=1000,
)

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
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
        Family(
            name="halfcheetah-tilt",
            environment="pyro_dynamics/HalfCheetahTilt-v0",
            parameter="tilt",
            unit="degrees",
            train=(-12.0, -6.0, 0.0, 6.0, 12.0),
            test=(-15.0, -9.0, -3.0, 3.0, 9.0, 15.0),
            task=HalfCheetahTask,
            description="HalfCheetah on a slope: gravity tilted, downhill where positive (the paper)",
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
}


def find_family(name: str) -> Family:
    """The registered family ``name``, or the one that ``package.module:callable`` gives.

    Raises:
        UserError: if there is none.
    """
    if ":" in name:
        return load_family(name)
    if name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise UserError(f"unknown family {name!r}: choose one of {known}, or give your own as package.module:callable")
    return FAMILIES[name]
