"""A normalising flow for each environment: for posteriors that are curved or skewed."""

import copy
import math
from dataclasses import dataclass
from typing import Literal

import pyro
import torch
from pyro.distributions import Normal
from torch import Tensor, nn
from torch.distributions import Distribution, Transform
from torch.types import _size

from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.guides.contract import GUIDES, Guide, require_initial_scale
from pyro_dynamics.guides.path_gradient import PathGradient
from pyro_dynamics.guides.transformed_normal import TransformedNormal
from pyro_dynamics.transitions import Minibatch

with pyro.validation_enabled():  # the import switches torch's validation off for everybody: put it back
    from zuko.nn import MaskedMLP  # type: ignore[import-untyped]
    from zuko.transforms import (  # type: ignore[import-untyped]
        MonotonicAffineTransform,
        MonotonicRQSTransform,
    )


@dataclass(frozen=True)
class FlowConfig:
    """Shape of the flow, and where training starts.

    Attributes:
        kind: what each dimension goes through: a rational-quadratic spline (Durkan et al. 2019), or an affine map, with
            which an update takes half the time and holds less: on a banana the divergence left is 0.5 nats, with
            splines 0.1, with a diagonal Gaussian 1.0 (measured).
        transforms: how many autoregressive transforms follow one another, each through the dimensions in the
            reverse order of the one before.
        hidden: width of each hidden layer of each transform's network.
        bins: of each spline.
        embedding: size of the vector c_k that gives the shape of q(e_k) to the networks.
        initial_scale: standard deviation of q(e_k) before the first training, up to what small random embeddings bend.
    """

    kind: Literal["spline", "affine"] = "spline"
    transforms: int = 2
    hidden: tuple[int, ...] = (32, 32)
    bins: int = 8
    embedding: int = 8
    initial_scale: float = 0.1

    def __post_init__(self) -> None:
        require_positive(self, "transforms", "embedding")
        require_initial_scale(self)
        if self.kind not in ("spline", "affine"):
            raise UserError(f"kind must be spline or affine, not {self.kind}")
        if not self.hidden or min(self.hidden) < 1:
            raise UserError(f"hidden must be one positive width or more, not {self.hidden}")
        if self.bins < 2:
            raise UserError(f"bins must be at least 2, not {self.bins}")


@GUIDES.register("flow")
class FlowGuide(Guide):
    """f((e_k - location_k) / scale_k; c_k) ~ N(0, I): a masked autoregressive flow f (Papamakarios et al. 2017).

    All environments share the networks inside f; location, scale and embedding c_k are each environment's own, and all
    that moves online. At c = 0 the flow f is the identity, whatever the networks' weights: a fresh guide is the prior.
    The shapes that q(e_k) can take online are those that the networks know from offline training.

    The density takes one pass through f, and a sample d passes, for the sake of the gradient steps: the divergence is
    estimated from the sample, at which each step needs the densities of two flows, the guide's and the prior's.

    Args:
        environments: number K of environments.
        latent_dim: size d of each latent.
        config: shape of the flow, and where training starts.
    """

    Config = FlowConfig
    shared = ("layers",)

    def __init__(self, environments: int, latent_dim: int, config: FlowConfig | None = None) -> None:
        super().__init__(environments, latent_dim)
        self.config = config = config or FlowConfig()
        self.location = nn.Parameter(torch.zeros(environments, latent_dim))
        self.log_scale = nn.Parameter(torch.full((environments, latent_dim), config.initial_scale).log())
        # Where all embeddings are 0 the networks have no gradient.
        self.embedding = nn.Parameter(0.1 * torch.randn(environments, config.embedding))
        depth = config.transforms if latent_dim else 0
        self.layers = nn.ModuleList(FlowLayer(latent_dim, config, backwards=bool(i % 2)) for i in range(depth))

    def posterior(self) -> Distribution:
        scale = self.log_scale.exp()
        if not self.latent_dim:
            empty: Distribution = Normal(self.location, scale).to_event(1)
            return empty
        return FlowPosterior(self.layers, self.embedding, self.location, scale, self.location.shape[:1])

    def forward(self, batch: Minibatch, prior: Distribution | None = None) -> Tensor:
        with pyro.plate("environment", self.environments, dim=-1):
            return pyro.sample("e", PathGradient(self, self.posterior()))

    def for_environments(self, environments: int) -> "FlowGuide":
        guide = copy.deepcopy(self)
        guide.environments = environments
        guide.layers.requires_grad_(False)
        for name, value in guide.own_tensors().items():
            setattr(guide, name, nn.Parameter(value.new_zeros(environments, value.shape[1])))
        return guide


class FlowLayer(nn.Module):
    """x -> y, where a monotonic function takes x_i to y_i; its parameters depend on c and on the x_j before x_i.

    Args:
        latent_dim: size d of x and y.
        config: shape of the flow.
        backwards: whether the last dimension is the first of the order.
    """

    def __init__(self, latent_dim: int, config: FlowConfig, backwards: bool) -> None:
        super().__init__()
        self.latent_dim, self.kind = latent_dim, config.kind
        self.sizes = [config.bins, config.bins, config.bins - 1] if config.kind == "spline" else [1, 1]
        order = torch.arange(latent_dim)
        order = order.flip(0) if backwards else order
        sees = torch.cat([order[:, None] > order, torch.ones(latent_dim, config.embedding, dtype=torch.bool)], dim=1)
        self.network = MaskedMLP(sees.repeat_interleave(sum(self.sizes), 0), config.hidden, nn.ELU)
        self.network[-1].bias = None  # it would cancel out

    def forward(self, x: Tensor, embedding: Tensor) -> tuple[Tensor, Tensor]:
        """y and log |det dy/dx| for x ``[..., K, d]`` and embeddings ``[K, E]``."""
        y, log_slopes = self.univariate(x, embedding).call_and_ladj(x)  # type: ignore[attr-defined]  # Zuko's
        return y, log_slopes.sum(-1)

    def inverse(self, y: Tensor, embedding: Tensor) -> Tensor:
        """x for y ``[..., K, d]``: each pass finds the next x_i."""
        x = y
        for _ in range(self.latent_dim):
            x = self.univariate(x, embedding).inv(y)
        return x

    def univariate(self, x: Tensor, embedding: Tensor) -> Transform:
        """The functions of all x_i. Parameters h(x, c) - h(x, 0) are 0, which makes the identity, where c is 0."""
        contexts = torch.stack([embedding, torch.zeros_like(embedding)])
        contexts = contexts.view(2, *[1] * (x.dim() - 2), *embedding.shape).expand(2, *x.shape[:-1], -1)
        h = self.network(torch.cat([x.expand(2, *x.shape), contexts], -1))
        parameters = (h[0] - h[1]).unflatten(-1, (self.latent_dim, -1)).split(self.sizes, -1)
        if self.kind == "spline":
            spline: Transform = MonotonicRQSTransform(*parameters)
            return spline
        affine: Transform = MonotonicAffineTransform(*(parameter.squeeze(-1) for parameter in parameters))
        return affine


class FlowPosterior(TransformedNormal):
    """The distribution of e where f((e - location) / scale; c) ~ N(0, I).

    Args:
        layers: of f.
        embedding: c, ``[K, E]``.
        location: ``[K, d]``.
        scale: ``[K, d]``.
        batch_shape: ``[..., K]``.
    """

    def __init__(
        self, layers: nn.ModuleList, embedding: Tensor, location: Tensor, scale: Tensor, batch_shape: _size
    ) -> None:
        super().__init__(batch_shape, like=location)
        self.layers, self.embedding, self.location, self.scale = layers, embedding, location, scale

    def expand(self, batch_shape: _size, _instance: object = None) -> "FlowPosterior":
        return FlowPosterior(self.layers, self.embedding, self.location, self.scale, batch_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        z = (value - self.location) / self.scale
        log_slope = -self.scale.log().sum(-1)
        for layer in self.layers:
            z, log_slopes = layer(z, self.embedding)
            log_slope = log_slope + log_slopes
        return log_slope - 0.5 * (z.square() + math.log(2 * math.pi)).sum(-1)

    def from_noise(self, z: Tensor) -> Tensor:
        for layer in reversed(self.layers):
            z = layer.inverse(z, self.embedding)  # type: ignore[operator]
        return self.location + self.scale * z
