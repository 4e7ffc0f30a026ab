"""Planning: trajectory sampling through the learned ensemble, the cross-entropy method, and the MPC controller."""

from pyro_dynamics.control.cem import CEMConfig, plan_cem
from pyro_dynamics.control.mpc import MPC, MPCConfig
from pyro_dynamics.control.trajectory_sampling import TrajectorySampler

__all__ = ["MPC", "CEMConfig", "MPCConfig", "TrajectorySampler", "plan_cem"]
