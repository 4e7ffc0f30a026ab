"""Bayesian linear regression on the last layer of a generalist's networks, with change points."""

from pyro_dynamics.inference.last_layer.belief import LastLayerBelief
from pyro_dynamics.inference.last_layer.prior import LayerPrior, Moments, fit_prior, leading_directions
from pyro_dynamics.inference.last_layer.regression import Layers

__all__ = ["LastLayerBelief", "LayerPrior", "Layers", "Moments", "fit_prior", "leading_directions"]
