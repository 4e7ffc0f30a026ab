"""Offline and streaming variational inference, and exact references to test them against."""

from pyro_dynamics.inference.exact import linear_gaussian_posterior
from pyro_dynamics.inference.offline import OfflineConfig, OfflineInference
from pyro_dynamics.inference.streaming import StreamingConfig, StreamingInference

__all__ = [
    "OfflineConfig",
    "OfflineInference",
    "StreamingConfig",
    "StreamingInference",
    "linear_gaussian_posterior",
]
