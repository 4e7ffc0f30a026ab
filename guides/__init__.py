"""Guide families q(e): one short file each, all behind the contract in :mod:`pyro_dynamics.guides.contract`."""

from pyro_dynamics.guides.contract import Guide
from pyro_dynamics.guides.diagonal import DiagonalConfig, DiagonalGuide

__all__ = ["GUIDES", "DiagonalConfig", "DiagonalGuide", "Guide"]

GUIDES: dict[str, type[Guide]] = {"diagonal": DiagonalGuide}
"""The families by the name that a user types."""
