"""Pyro's inverse autoregressive flows, one for each environment, as one distribution."""

import math
from collections.abc import Sequence

import torch
from pyro.distributions.transforms import AffineAutoregressive
from pyro.distributions.transforms.utils import clamp_preserve_gradients
from torch import Tensor
from torch.types import _size

from pyro_dynamics.guides.transformed_normal import TransformedNormal


class InverseAutoregressive(TransformedNormal):
    """e = mu(z) + sigma(z) z with z ~ N(0, I), where mu_i and sigma_i see the z_j before z_i (Kingma et al. 2016).

    The same distributions as Pyro's, as functions of tensors alone, so that they can be compiled, and of all K
    environments at once. Pyro goes through the dimensions in the order of a permutation that it reads from the network.
    Here the order stands in the zeros of the weights.

    Args:
        hidden_weight: of the network of mu and log sigma, masked, ``[K, H, d]``.
        hidden_bias: ``[K, H]``.
        output_weight: masked, ``[K, 2 d, H]``: first mu, then log sigma.
        output_bias: ``[K, 2 d]``.
        log_scale_range: what log sigma is clamped to, with the gradient of one that is not.
        batch_shape: ``[..., K]``.
    """

    def __init__(
        self,
        hidden_weight: Tensor,
        hidden_bias: Tensor,
        output_weight: Tensor,
        output_bias: Tensor,
        log_scale_range: tuple[float, float],
        batch_shape: _size,
    ) -> None:
        super().__init__(batch_shape, like=hidden_weight)
        self.hidden_weight, self.hidden_bias = hidden_weight, hidden_bias
        self.output_weight, self.output_bias = output_weight, output_bias
        self.log_scale_range = log_scale_range

    @classmethod
    def of(cls, transforms: Sequence[AffineAutoregressive]) -> "InverseAutoregressive":
        """The distribution of all environments together.

        Args:
            transforms: K of them, with a network of one hidden layer, as AutoIAFNormal makes them.
        """
        hidden, output = zip(*(transform.arn.layers for transform in transforms), strict=True)
        return cls(
            torch.stack([layer.weight * layer.mask for layer in hidden]),
            torch.stack([layer.bias for layer in hidden]),
            torch.stack([layer.weight * layer.mask for layer in output]),
            torch.stack([layer.bias for layer in output]),
            (transforms[0].log_scale_min_clip, transforms[0].log_scale_max_clip),
            torch.Size([len(transforms)]),
        )

    def expand(self, batch_shape: _size, _instance: object = None) -> "InverseAutoregressive":
        weights = self.hidden_weight, self.hidden_bias, self.output_weight, self.output_bias
        return InverseAutoregressive(*weights, self.log_scale_range, batch_shape)

    def from_noise(self, z: Tensor) -> Tensor:
        location, log_scale = self._location_and_log_scale(z)
        return location + log_scale.exp() * z

    def log_prob(self, value: Tensor) -> Tensor:
        # One gradient of all passes leaves for the value, so that those of two equal densities cancel to the last bit:
        # Adam would make steps of what is left, in environments of which nothing was seen.
        value = value.view_as(value)
        z = torch.zeros_like(value)
        for _ in range(value.shape[-1]):  # each pass finds the next z_i
            location, log_scale = self._location_and_log_scale(z)
            z = (value - location) * (-log_scale).exp()
        return -(log_scale + 0.5 * (z.square() + math.log(2 * math.pi))).sum(-1)

    def _location_and_log_scale(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """mu and log sigma ``[..., K, d]`` at z ``[..., K, d]``."""
        hidden = _linear(z, self.hidden_weight, self.hidden_bias).relu()
        location, log_scale = _linear(hidden, self.output_weight, self.output_bias).chunk(2, -1)
        return location, clamp_preserve_gradients(log_scale, *self.log_scale_range)


def _linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A layer of K networks side by side: ``[..., K, O]`` of x ``[..., K, I]``, weight ``[K, O, I]`` and bias."""
    return (x[..., None, :] @ weight.mT).squeeze(-2) + bias
