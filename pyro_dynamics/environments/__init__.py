"""Families of Gymnasium environments with named hidden parameters, and schedules that change them."""

from pyro_dynamics.environments.mujoco import mujoco_compat  # noqa: F401  # before anything else imports MuJoCo

# isort: split
from pyro_dynamics.environments.contexts import Context, extrapolated, grid, interpolated, latin, numbers, sample
from pyro_dynamics.environments.delayed_actions import DelayedActions
from pyro_dynamics.environments.entry_points import load_family
from pyro_dynamics.environments.family import Family
from pyro_dynamics.environments.hidden_parameter import HiddenParameter
from pyro_dynamics.environments.mujoco.mujoco_family import mujoco_family
from pyro_dynamics.environments.registry import FAMILIES
from pyro_dynamics.environments.schedule import Schedule, ScheduledContext
from pyro_dynamics.errors import UserError

__all__ = [
    "FAMILIES",
    "Context",
    "DelayedActions",
    "Family",
    "HiddenParameter",
    "Schedule",
    "ScheduledContext",
    "extrapolated",
    "find_family",
    "grid",
    "interpolated",
    "latin",
    "mujoco_family",
    "numbers",
    "sample",
]


def find_family(name: str) -> Family:
    """The registered family ``name``, or the one that ``package.module:callable`` gives.

    Raises:
        UserError: if there is none.
    """
    if ":" in name:
        return load_family(name)
    if name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise UserError(
            f"unknown family {name!r}: choose one of {known}, or give your own as package.module:callable; a run of a "
            "family that only a Python program has is opened by pyro_dynamics.load(folder, family=...)"
        )
    return FAMILIES[name]
