"""Beliefs by what they remember: one short file each, all behind :mod:`pyro_dynamics.inference.beliefs.contract`."""

from pyro_dynamics.inference.beliefs.changepoint import ChangepointBelief, ChangepointConfig
from pyro_dynamics.inference.beliefs.contract import BELIEFS, UPDATES, Belief, Update
from pyro_dynamics.inference.beliefs.diffusion import DiffusionBelief, DiffusionConfig
from pyro_dynamics.inference.beliefs.power import PowerBelief, PowerConfig
from pyro_dynamics.inference.beliefs.recursive import RecursiveBelief, RecursiveConfig
from pyro_dynamics.inference.beliefs.window import WindowBelief, WindowConfig
from pyro_dynamics.registry import import_all

__all__ = [
    "BELIEFS",
    "UPDATES",
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

import_all(__name__, __path__)  # a belief is one file of this folder
