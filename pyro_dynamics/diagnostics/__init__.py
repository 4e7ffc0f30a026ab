"""Is the latent used, does it follow the context, is the belief calibrated and healthy, and the pictures of a run."""

from pyro_dynamics.diagnostics.collapse import collapse_gap
from pyro_dynamics.diagnostics.health import Finding, belief_health
from pyro_dynamics.diagnostics.predictive import coverage, mixture_pit, pit_histogram
from pyro_dynamics.diagnostics.probe import ContextProbe

__all__ = [
    "ContextProbe",
    "Finding",
    "belief_health",
    "collapse_gap",
    "coverage",
    "mixture_pit",
    "pit_histogram",
]
