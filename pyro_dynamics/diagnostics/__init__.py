"""Is the latent used, does it follow the context, and the pictures of a run."""

from pyro_dynamics.diagnostics.collapse import collapse_gap
from pyro_dynamics.diagnostics.probe import ContextProbe

__all__ = ["ContextProbe", "collapse_gap"]
