"""Posteriors of last layers as distributions: of all their entries for a planner, and of a few numbers for people."""

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution, MixtureSameFamily, MultivariateNormal
from torch.types import _size

from pyro_dynamics.inference.last_layer.regression import Layers


class LayerMixture(Distribution):
    """sum_c w_kc prod_m N(W_m; mean_kcm, noise_m^2 x covariance_kcm): batch shape ``[K]``, event shape ``[M F T]``.

    Args:
        log_weight: ``[K, C]``, normalised.
        layers: ``[K, C, M, F, T]`` and ``[K, C, M, F, F]``.
        noise: ``[M, T]``.
    """

    arg_constraints = {}  # noqa: RUF012  # torch's own convention

    def __init__(self, log_weight: Tensor, layers: Layers, noise: Tensor) -> None:
        super().__init__(log_weight.shape[:1], torch.Size([layers.mean[0, 0].numel()]), validate_args=False)
        self.log_weight, self.layers, self.noise = log_weight, layers, noise
        self._factors: dict[tuple[int, int], Tensor] = {}

    @torch.no_grad()
    def sample(self, sample_shape: _size = ()) -> Tensor:
        shape = torch.Size(sample_shape)
        count, (environments, _) = shape.numel(), self.log_weight.shape
        chosen = Categorical(logits=self.log_weight, validate_args=False).sample(torch.Size([count]))  # [n, K]
        normal = torch.randn(count, environments, *self.layers.mean.shape[2:]) * self.noise[:, None].float()
        drawn = torch.empty_like(normal)
        for k in range(environments):
            for c in chosen[:, k].unique().tolist():  # seldom more than one or two
                rows = chosen[:, k] == c
                drawn[rows, k] = self.layers.mean[k, c].float() + self._factor(k, c) @ normal[rows, k]
        return drawn.flatten(2).view(*shape, environments, -1)

    def _factor(self, k: int, c: int) -> Tensor:
        """A lower triangular factor of one covariance, ``[M, F, F]``."""
        if (k, c) not in self._factors:
            covariance = self.layers.covariance[k, c]
            # What rounding has taken away over thousands of updates.
            tiny = 1e-12 * covariance.diagonal(dim1=-2, dim2=-1).mean(-1)
            ridge = tiny[:, None, None] * torch.eye(covariance.shape[-1]).to(covariance)
            self._factors[k, c] = torch.linalg.cholesky(covariance + ridge).float()
        return self._factors[k, c]

    @property
    def mean(self) -> Tensor:
        mean: Tensor = torch.einsum("kc,kcmft->kmft", self.log_weight.exp(), self.layers.mean).flatten(1).float()
        return mean

    @property
    def variance(self) -> Tensor:
        within = self.layers.covariance.diagonal(dim1=-2, dim2=-1)[..., None] * self.noise.square()[:, None]
        second = torch.einsum("kc,kcmft->kmft", self.log_weight.exp(), within + self.layers.mean.square())
        mean = torch.einsum("kc,kcmft->kmft", self.log_weight.exp(), self.layers.mean)
        variance: Tensor = (second - mean.square()).flatten(1).float()
        return variance


def along(directions: Tensor, origin: Tensor, log_weight: Tensor, layers: Layers, noise: Tensor) -> MixtureSameFamily:
    """What a mixture of layers is along a few directions: batch shape ``[K]``, event shape ``[r]``.

    Each member has its own value; the members are mixed with equal weights, as they are in predictions.

    Args:
        directions: ``[r, M, F, T]``.
        origin: which layers have the value 0, ``[M, F, T]``.
        log_weight: ``[K, C]``.
        layers: ``[K, C, M, F, T]``.
        noise: ``[M, T]``.
    """
    members, (environments, count) = noise.shape[0], log_weight.shape
    mean = torch.einsum("rmft,kcmft->kcmr", directions, layers.mean - origin)
    scaled = directions * noise[:, None]
    covariance = torch.einsum("rmft,kcmfg,smgt->kcmrs", scaled, layers.covariance, scaled)
    weight = log_weight[..., None].expand(-1, -1, members).flatten(1)
    parts = MultivariateNormal(
        mean.reshape(environments, count * members, -1).float(),
        covariance.reshape(environments, count * members, *covariance.shape[-2:]).float(),
        validate_args=False,
    )
    return MixtureSameFamily(Categorical(logits=weight.float(), validate_args=False), parts, validate_args=False)
