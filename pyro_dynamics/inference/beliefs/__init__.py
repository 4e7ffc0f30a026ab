"""Beliefs by what they remember: one short file each, all behind :mod:`pyro_dynamics.inference.beliefs.contract`."""

from pyro_dynamics.inference.beliefs.changepoint import ChangepointBelief, ChangepointConfig
from pyro_dynamics.inference.beliefs.contract import Belief, Update
from pyro_dynamics.inference.beliefs.diffusion import DiffusionBelief, DiffusionConfig
from pyro_dynamics.inference.beliefs.power import PowerBelief, PowerConfig
from pyro_dynamics.inference.beliefs.recursive import RecursiveBelief, RecursiveConfig
from pyro_dynamics.inference.beliefs.window import WindowBelief, WindowConfig

__all__ = [
    "BELIEFS",
    "Belief",
    "ChangepointBelief",
    "ChangepointConfig",
    "DiffusionBelief",
    "DiffusionConfig",
    "PowerBelief",
    "PowerConfig",
    "RecursiveBelief",
    "RecursiveConfig",
    "Update",
    "WindowBelief",
    "WindowConfig",
]

BELIEFS: dict[str, type[Belief]] = {
    "recursive": RecursiveBelief,
    "power": PowerBelief,
    "diffusion": DiffusionBelief,
    "window": WindowBelief,
    "changepoint": ChangepointBelief,
}
"""The beliefs by the name that a user types."""
