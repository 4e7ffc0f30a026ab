"""Planning: trajectory sampling through the learned ensemble, the planners by name, and the MPC controller."""

from pyro_dynamics.control.cem import CEM, CEMConfig, plan_cem
from pyro_dynamics.control.contract import PLANNERS, Objective, Planner
from pyro_dynamics.control.icem import ICEM, ICEMConfig
from pyro_dynamics.control.mpc import MPC, MPCConfig
from pyro_dynamics.control.mppi import MPPI, MPPIConfig
from pyro_dynamics.control.precision import Device, Precision, describe_precision, planning_dtype
from pyro_dynamics.control.trajectory_sampling import TrajectorySampler
from pyro_dynamics.registry import import_all

__all__ = [
    "CEM",
    "ICEM",
    "MPC",
    "MPPI",
    "PLANNERS",
    "CEMConfig",
    "Device",
    "ICEMConfig",
    "MPCConfig",
    "MPPIConfig",
    "Objective",
    "Planner",
    "Precision",
    "TrajectorySampler",
    "describe_precision",
    "plan_cem",
    "planning_dtype",
]

import_all(__name__, __path__)  # a planner is one file of this folder
