"""Distributions of what a map makes of standard normal draws: flows."""

import functools
import math
from typing import Any

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints
from torch.quasirandom import SobolEngine
from torch.types import _size


class TransformedNormal(TorchDistribution):
    """The distribution of :meth:`from_noise` of z ~ N(0, I); mean and variance are those of fixed draws.

    A family writes :meth:`from_noise`, ``log_prob`` and ``expand``.

    Args:
        batch_shape: ``[..., K]``.
        like: any tensor ``[..., d]`` of the type, and on the device, of the draws.
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012  # torch's own convention
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, batch_shape: _size, like: Tensor) -> None:
        super().__init__(torch.Size(batch_shape), like.shape[-1:], validate_args=False)
        self._dtype, self._device = like.dtype, like.device

    def from_noise(self, z: Tensor) -> Tensor:
        """The latents that standard normal draws ``[..., K, d]`` become."""
        raise NotImplementedError

    def standard_noise(self, sample_shape: _size) -> tuple[Tensor]:
        """The standard normal draws ``[*sample_shape, *batch_shape, d]`` that a sample is made of."""
        return (torch.randn(self._extended_shape(torch.Size(sample_shape)), dtype=self._dtype, device=self._device),)

    def rsample(self, sample_shape: _size = torch.Size()) -> Tensor:  # noqa: B008  # torch's own signature
        return self.from_noise(*self.standard_noise(sample_shape))

    @property
    def mean(self) -> Tensor:
        return self._moments[0]

    @property
    def variance(self) -> Tensor:
        return self._moments[1]

    @functools.cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        z = normal_nodes(512, *self.event_shape).to(self._device, self._dtype)
        z = z.view(-1, *[1] * len(self.batch_shape), *self.event_shape).expand(-1, *self.batch_shape, -1)
        variance, mean = torch.var_mean(self.from_noise(z), dim=0, correction=0)
        return mean, variance


@functools.cache
def normal_nodes(count: int, dim: int) -> Tensor:
    """Evenly spread draws from N(0, I), always the same, ``[count, dim]``; their mean is 0 and their covariance is I.

    They are Hammersley points and their mirror images; in the first dimension both together are equidistant quantiles.
    """
    half = count // 2
    uniform = (torch.arange(half, dtype=torch.float64)[:, None] + 0.25) / half
    if dim > 1:
        uniform = torch.cat([uniform, SobolEngine(dim - 1).draw(half, dtype=torch.float64) + 0.5 / half], dim=1)
    z = math.sqrt(2) * torch.erfinv(2 * uniform - 1)
    z = torch.cat([z, -z])
    nodes: Tensor = torch.linalg.solve_triangular(torch.linalg.cholesky(z.mT @ z / count), z.mT, upper=False).mT
    return nodes
