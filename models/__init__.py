"""Pyro models: the ensemble likelihood and the hierarchical model of Eq. 1."""

from pyro_dynamics.models.ensemble import Ensemble, EnsembleConfig
from pyro_dynamics.models.hierarchical import HierarchicalModel
from pyro_dynamics.models.last_layer import LastLayerEnsemble
from pyro_dynamics.models.linear_gaussian import LinearGaussian

__all__ = ["Ensemble", "EnsembleConfig", "HierarchicalModel", "LastLayerEnsemble", "LinearGaussian"]
