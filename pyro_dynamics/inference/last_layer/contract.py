"""What the last layer's inference takes a model to be."""

from typing import Protocol

from torch import Tensor

from pyro_dynamics.contracts import DynamicsModel, Likelihood


class LastLayerNetworks(Likelihood, Protocol):
    """Networks whose last layer may differ between environments: :class:`pyro_dynamics.models.LastLayerEnsemble`."""

    prior_mean: Tensor
    prior_covariance: Tensor
    noise: Tensor
    directions: Tensor

    def features(self, inputs: Tensor) -> Tensor:
        """What the last layer is given, ``[..., M, B, F + A] -> [..., M, B, F]``."""

    def trained_layer(self) -> Tensor:
        """The last layer for the mean as it was trained, ``[M, F, T]``."""


class LastLayerModel(DynamicsModel, Protocol):
    """A model with such networks."""

    @property
    def likelihood(self) -> LastLayerNetworks:
        """The networks."""
