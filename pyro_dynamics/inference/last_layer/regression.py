"""Bayesian linear regression on the last layer of each member, one row at a time: recursive least squares.

y_t = phi @ W_t + noise_t eps, with W_t ~ N(mean_t, noise_t^2 covariance): the targets share the covariance of their
columns, in units of their own noise, so that one matrix [F, F] is updated for all of them, in F^2 operations.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Normal


@dataclass(frozen=True)
class Layers:
    """Gaussian beliefs about last layers, over any batch of them.

    Attributes:
        mean: ``[..., M, F, T]``.
        covariance: of each column, in units of its noise's variance, ``[..., M, F, F]``.
    """

    mean: Tensor
    covariance: Tensor

    def __getitem__(self, index: Any) -> "Layers":
        return Layers(self.mean[index], self.covariance[index])

    def replaced(self, index: Any, new: "Layers") -> "Layers":
        """A copy in which those of an index are others."""
        mean, covariance = self.mean.clone(), self.covariance.clone()
        mean[index], covariance[index] = new.mean, new.covariance
        return Layers(mean, covariance)

    def repeated(self, *shape: int) -> "Layers":
        """The same belief many times, ``[*shape, ..., M, F, T]``."""
        return Layers(
            self.mean.expand(*shape, *self.mean.shape).clone(),
            self.covariance.expand(*shape, *self.covariance.shape).clone(),
        )

    def predict(self, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation ``[..., M, T]`` of the targets, the noise among it.

        Args:
            features: ``[..., M, F]``.
            noise: ``[M, T]``.
        """
        location = torch.einsum("...mf,...mft->...mt", features, self.mean)
        spread = torch.einsum("...mf,...mfg,...mg->...m", features, self.covariance, features)
        return location, noise * (1 + spread).sqrt()[..., None]

    def absorb(
        self, features: Tensor, targets: Tensor, noise: Tensor, temperature: float = 1.0
    ) -> tuple["Layers", Tensor]:
        """The beliefs after one row each, and its log evidence.

        Args:
            features: ``[..., M, F]``.
            targets: ``[..., M, T]``, or what broadcasts to it.
            noise: ``[M, T]``.
            temperature: power of the likelihood: that of a row with noise^2 / temperature, but for a constant.

        Returns:
            The posterior, and log p(targets) of each member in nats, ``[..., M]``; with a temperature it is that of the
            larger noise, which differs from the integral of the tempered likelihood by the same constant everywhere.
        """
        rows = torch.einsum("...mfg,...mg->...mf", self.covariance, features)
        spread = 1 / temperature + (features * rows).sum(-1)
        surprise = targets - torch.einsum("...mf,...mft->...mt", features, self.mean)
        evidence = Normal(0.0, noise * spread.sqrt()[..., None], validate_args=False).log_prob(surprise).sum(-1)
        gain = rows / spread[..., None]
        return (
            Layers(
                self.mean + gain[..., None] * surprise[..., None, :],
                self.covariance - gain[..., None] * rows[..., None, :],
            ),
            evidence,
        )
