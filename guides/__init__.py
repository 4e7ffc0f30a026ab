"""Guide families q(e): one short file each, all behind the contract in :mod:`pyro_dynamics.guides.contract`."""

from pyro_dynamics.guides.amortized import AmortizedConfig, AmortizedGuide
from pyro_dynamics.guides.auto import AutoConfig, AutoGuide
from pyro_dynamics.guides.contract import GUIDES, Guide
from pyro_dynamics.guides.diagonal import DiagonalConfig, DiagonalGuide
from pyro_dynamics.guides.flow import FlowConfig, FlowGuide
from pyro_dynamics.guides.full_rank import FullRankConfig, FullRankGuide
from pyro_dynamics.guides.known import KnownGuide
from pyro_dynamics.guides.laplace import LaplaceConfig, LaplaceGuide
from pyro_dynamics.guides.low_rank import LowRankConfig, LowRankGuide
from pyro_dynamics.guides.mixture import MixtureConfig, MixtureGuide
from pyro_dynamics.guides.point import PointConfig, PointGuide
from pyro_dynamics.registry import import_all

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

import_all(__name__, __path__)  # a guide is one file of this folder, and divergences register themselves too
