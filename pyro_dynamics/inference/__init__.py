"""Inference: offline (Eq. 4), online by one of two updates and several beliefs (Eq. 5), and exact references."""

from pyro_dynamics.inference.beliefs import (
    BELIEFS,
    Belief,
    ChangepointConfig,
    RecursiveBelief,
    RecursiveConfig,
    Update,
)
from pyro_dynamics.inference.kalman_update import KalmanUpdate, KalmanUpdateConfig
from pyro_dynamics.inference.linear_gaussian import linear_gaussian_posterior
from pyro_dynamics.inference.offline import OfflineConfig, OfflineInference
from pyro_dynamics.inference.svi_update import SVIUpdate, SVIUpdateConfig

__all__ = [
    "BELIEFS",
    "UPDATES",
    "Belief",
    "ChangepointConfig",
    "KalmanUpdate",
    "KalmanUpdateConfig",
    "OfflineConfig",
    "OfflineInference",
    "RecursiveBelief",
    "RecursiveConfig",
    "SVIUpdate",
    "SVIUpdateConfig",
    "Update",
    "linear_gaussian_posterior",
]

UPDATES = {"svi": SVIUpdate, "kalman": KalmanUpdate}
"""The updates by the name that a user types."""
