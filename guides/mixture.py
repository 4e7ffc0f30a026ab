"""A mixture of diagonal Gaussians for each environment: several hypotheses about the same physics."""

from dataclasses import dataclass, replace
from typing import Self

import pyro
import torch
from pyro import distributions
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.types import _size

from pyro_dynamics.errors import require_positive
from pyro_dynamics.guides.contract import GUIDES, Guide, require_initial_scale
from pyro_dynamics.guides.path_gradient import PathGradient
from pyro_dynamics.transitions import Minibatch


@dataclass(frozen=True)
class MixtureConfig:
    """How many hypotheses, and where training starts.

    Attributes:
        components: number C of Gaussians in each environment's mixture.
        initial_scale: standard deviation of q(e_k) before the first training.
    """

    components: int = 3
    initial_scale: float = 0.1

    def __post_init__(self) -> None:
        require_positive(self, "components")
        require_initial_scale(self)


@GUIDES.register("mixture")
class MixtureGuide(Guide):
    """q(e_k) = sum_c w_kc N(mu_kc, diag(sigma_kc^2)); its divergences are estimated from its samples.

    Args:
        environments: number K of environments.
        latent_dim: size d of each latent.
        config: number of components, and where training starts.
    """

    Config = MixtureConfig

    def __init__(self, environments: int, latent_dim: int, config: MixtureConfig | None = None) -> None:
        super().__init__(environments, latent_dim)
        self.config = config or MixtureConfig()
        # Components that are alike have the same gradients and never part: they start a quarter of a standard
        # deviation to either side, in an order of its own in each dimension, and as much narrower.
        components = self.config.components
        steps = torch.linspace(-0.25, 0.25, components) if components > 1 else torch.zeros(1)
        offset = steps[(torch.arange(components)[:, None] + torch.arange(latent_dim)) % components]  # [C, d]
        scale = (1 - offset.square().mean(0)).sqrt().expand_as(offset)
        self.location = nn.Parameter(self.config.initial_scale * offset.repeat(environments, 1, 1))
        self.log_scale = nn.Parameter((self.config.initial_scale * scale).log().repeat(environments, 1, 1))
        self.logit = nn.Parameter(torch.zeros(environments, components))

    def posterior(self) -> Distribution:
        return Mixture(
            distributions.Categorical(logits=self.logit),
            distributions.Normal(self.location, self.log_scale.exp()).to_event(1),
        )

    def for_environments(self, environments: int) -> Self:
        config = replace(self.config, initial_scale=1.0)
        return type(self)(environments, self.latent_dim, config).to(self.location)

    def forward(self, batch: Minibatch, prior: Distribution | None = None) -> Tensor:
        """The Pyro guide, with the gradient that is quiet where there is nothing to learn."""
        with pyro.plate("environment", self.environments, dim=-1):
            return pyro.sample("e", PathGradient(self, self.posterior()))


class Mixture(distributions.MixtureSameFamily):
    """A mixture of diagonal Gaussians whose samples carry gradients to means, scales and weights.

    By implicit reparameterisation [2] of the map of a sample to uniform numbers, each dimension given those before [1].
    Pyro 1.9.2 has pathwise gradients in ``MixtureOfDiagNormals``, but those of the weights are wrong where scales are
    not 1 (measured: about half as large as they should be at scales near 0.3), it refuses to draw several samples of a
    batch, and it has no mean and no d = 1.

    References:
        [1] Alex Graves: Stochastic backpropagation through mixture density distributions. arXiv:1607.05690
        [2] Michael Figurnov, Shakir Mohamed, Andriy Mnih: Implicit reparameterization gradients. arXiv:1805.08498
    """

    has_rsample = True

    def rsample(self, sample_shape: _size = torch.Size()) -> Tensor:  # noqa: B008  # torch's own signature
        """Samples ``[*sample_shape, *batch, d]`` that can be differentiated."""
        return self.from_noise(*self.standard_noise(sample_shape))

    def standard_noise(self, sample_shape: _size) -> tuple[Tensor, Tensor]:
        """What a sample is made of: uniform draws for its component, and standard normal ones ``[..., d]``."""
        like, shape = self.mixture_distribution.logits, self._extended_shape(torch.Size(sample_shape))
        return like.new_empty(shape[:-1]).uniform_(), like.new_empty(shape).normal_()

    def from_noise(self, uniform: Tensor, normal: Tensor) -> Tensor:
        """The sample ``[..., d]`` out of its noise."""
        sample = self._chosen(uniform, normal).detach()
        normals = self.component_distribution.base_dist
        log_weight = self.mixture_distribution.logits
        columns: list[Tensor] = []
        for i in range(sample.shape[-1]):
            each = distributions.Normal(normals.loc[..., i], normals.scale[..., i], validate_args=False)
            x = sample[..., i, None]
            weight = log_weight.softmax(-1)  # of the components, given the dimensions before
            cdf = (weight * each.cdf(x)).sum(-1, keepdim=True)
            density = (weight * each.log_prob(x).exp()).sum(-1, keepdim=True)
            x = x - (cdf - cdf.detach()) / density.detach()  # x itself, with the gradient that holds the cdf fixed
            log_weight = log_weight + each.log_prob(x)
            columns.append(x)
        return torch.cat(columns, -1) if columns else sample

    def sample(self, sample_shape: _size = torch.Size()) -> Tensor:  # noqa: B008  # torch's own signature
        """Samples ``[*sample_shape, *batch, d]``."""
        with torch.no_grad():
            return self._chosen(*self.standard_noise(sample_shape))

    def _chosen(self, uniform: Tensor, normal: Tensor) -> Tensor:
        """A draw of the component that the uniform number falls to, by the weights."""
        upper = self.mixture_distribution.logits.softmax(-1).cumsum(-1)[..., :-1]
        index = (uniform[..., None] > upper).sum(-1)
        chosen = (index[..., None] == torch.arange(upper.shape[-1] + 1, device=index.device)).to(normal)[..., None]
        normals = self.component_distribution.base_dist
        draw: Tensor = (chosen * normals.loc).sum(-2) + (chosen * normals.scale).sum(-2) * normal
        return draw
