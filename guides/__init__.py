"""Guide families q(e): one short file each, all behind the contract in :mod:`pyro_dynamics.guides.contract`."""

import pyro_dynamics.guides.divergences  # noqa: F401  # registers them
from pyro_dynamics.guides.amortized import AmortizedConfig, AmortizedGuide
from pyro_dynamics.guides.auto import AutoConfig, AutoGuide
from pyro_dynamics.guides.contract import Guide
from pyro_dynamics.guides.diagonal import DiagonalConfig, DiagonalGuide
from pyro_dynamics.guides.flow import FlowConfig, FlowGuide
from pyro_dynamics.guides.full_rank import FullRankConfig, FullRankGuide
from pyro_dynamics.guides.known import KnownGuide
from pyro_dynamics.guides.laplace import LaplaceConfig, LaplaceGuide
from pyro_dynamics.guides.low_rank import LowRankConfig, LowRankGuide
from pyro_dynamics.guides.mixture import MixtureConfig, MixtureGuide
from pyro_dynamics.guides.point import PointConfig, PointGuide

__all__ = [
    "GUIDES",
    "AmortizedConfig",
    "AmortizedGuide",
    "AutoConfig",
    "AutoGuide",
    "DiagonalConfig",
    "DiagonalGuide",
    "FlowConfig",
    "FlowGuide",
    "FullRankConfig",
    "FullRankGuide",
    "Guide",
    "KnownGuide",
    "LaplaceConfig",
    "LaplaceGuide",
    "LowRankConfig",
    "LowRankGuide",
    "MixtureConfig",
    "MixtureGuide",
    "PointConfig",
    "PointGuide",
]

GUIDES: dict[str, type[Guide]] = {
    "diagonal": DiagonalGuide,
    "full-rank": FullRankGuide,
    "low-rank": LowRankGuide,
    "mixture": MixtureGuide,
    "laplace": LaplaceGuide,
    "point": PointGuide,
    "auto": AutoGuide,
    "flow": FlowGuide,
    "amortized": AmortizedGuide,
}
"""The families by the name that a user types; :class:`KnownGuide` belongs to the oracle, and is chosen with it."""
