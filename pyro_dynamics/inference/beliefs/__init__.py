"""Beliefs by what they remember: one short file each, all behind :mod:`pyro_dynamics.inference.beliefs.contract`."""

from pyro_dynamics.inference.beliefs.contract import Belief, Update
from pyro_dynamics.inference.beliefs.exact import ExactBelief, ExactConfig

__all__ = ["BELIEFS", "Belief", "ExactBelief", "ExactConfig", "Update"]

BELIEFS: dict[str, type[Belief]] = {"exact": ExactBelief}
"""The beliefs by the name that a user types."""
