"""Can posterior, belief and predictions be believed? Measures, ArviZ's DataTree, and the pictures of a run."""

from pyro_dynamics.diagnostics.collapse import collapse_gap
from pyro_dynamics.diagnostics.datatree import of_environment, to_datatree
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
    "of_environment",
    "pit_histogram",
    "to_datatree",
]
