"""Inference: offline (Eq. 4), online by one of three updates and several beliefs (Eq. 5), and exact references."""

from pyro_dynamics.inference.beliefs import (
    BELIEFS,
    UPDATES,
    Belief,
    ChangepointConfig,
    RecursiveBelief,
    RecursiveConfig,
    Update,
)
from pyro_dynamics.inference.kalman_update import KalmanUpdate, KalmanUpdateConfig
from pyro_dynamics.inference.linear_gaussian import linear_gaussian_posterior
from pyro_dynamics.inference.natural_update import NaturalUpdate, NaturalUpdateConfig
from pyro_dynamics.inference.offline import OfflineConfig, OfflineInference
from pyro_dynamics.inference.svi_update import SVIUpdate, SVIUpdateConfig
from pyro_dynamics.registry import import_all

__all__ = [
    "BELIEFS",
    "UPDATES",
    "Belief",
    "ChangepointConfig",
    "KalmanUpdate",
    "KalmanUpdateConfig",
    "NaturalUpdate",
    "NaturalUpdateConfig",
    "OfflineConfig",
    "OfflineInference",
    "RecursiveBelief",
    "RecursiveConfig",
    "SVIUpdate",
    "SVIUpdateConfig",
    "Update",
    "linear_gaussian_posterior",
]

import_all(__name__, __path__)  # an update is one file of this folder
