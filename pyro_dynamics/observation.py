"""The distribution of the targets that a model's hook ``observation`` gives, and what every path asks of it."""

import pyro
import torch
from torch import Tensor, nn
from torch.distributions import (
    Distribution,
    Independent,
    LowRankMultivariateNormal,
    MultivariateNormal,
    Normal,
    StudentT,
)

from pyro_dynamics.contracts import DynamicsModel, Likelihood
from pyro_dynamics.errors import UserError
from pyro_dynamics.seeding import drawing_from


def observation(model: DynamicsModel, inputs: Tensor, latent: Tensor) -> Distribution:
    """p(delta | s, a, e) by the model's hook; a model without one has the Gaussian of its ``likelihood``.

    Args:
        model: see :class:`pyro_dynamics.models.HierarchicalModel`.
        inputs: ``[..., M, B, F + A]``.
        latent: ``[..., M, B, d]``.

    Returns:
        Batch shape ``[..., M, B]``, event shape ``[T]``.
    """
    if hasattr(model, "observation"):
        return model.observation(inputs, latent)
    return Independent(Normal(*model.likelihood(inputs, latent)), 1)


def has_default_observation(model: object) -> bool:
    """Whether the targets are the Gaussian of the model's ``likelihood``, so that the network's own shortcuts serve."""
    return bool(getattr(model, "has_default_observation", not hasattr(model, "observation")))


class Observation(nn.Module):
    """A model's hook as the dynamics of a planner: a module, which a planner on a GPU can copy.

    Args:
        model: has a hook ``observation``.
    """

    def __init__(self, model: DynamicsModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, latent: Tensor) -> Distribution:
        """The distribution of the targets; see :func:`observation`. NaN gives NaN, as the network alone does."""
        with pyro.validation_enabled(False):
            return observation(self.model, inputs, latent)


def dynamics_of(model: DynamicsModel) -> "Likelihood | Observation":
    """What a planner rolls particles through: the network itself, with its fast forms, unless the hook is another."""
    return model.likelihood if has_default_observation(model) else Observation(model)


def gaussian_parameters(distribution: Distribution) -> tuple[Tensor, Tensor] | None:
    """Location and scale, each ``[..., T]``, of independent Gaussians; None for any other distribution."""
    if isinstance(distribution, Independent) and isinstance(distribution.base_dist, Normal):
        return distribution.base_dist.loc, distribution.base_dist.scale
    return None


def location_and_scale(distribution: Distribution) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each target, ``[..., T]``."""
    return gaussian_parameters(distribution) or (distribution.mean, distribution.stddev)


def kind(distribution: Distribution) -> str:
    """The distribution's name, for people."""
    return type(distribution.base_dist if isinstance(distribution, Independent) else distribution).__name__


def draw(distribution: Distribution, generator: torch.Generator) -> Tensor:
    """One draw of the targets, ``[..., T]``.

    Raises:
        UserError: if the generator is a GPU's and the distribution no Gaussian.
    """
    if gaussian := gaussian_parameters(distribution):
        location, scale = gaussian
        return location + scale * torch.empty_like(location).normal_(generator=generator)
    if generator.device.type != "cpu":
        raise UserError(f"a likelihood {kind(distribution)} cannot be drawn from on a GPU here: plan with --device cpu")
    with drawing_from(generator):
        return distribution.sample()


def marginal_cdf(distribution: Distribution, targets: Tensor, factor: Tensor | None = None) -> Tensor:
    """The CDF of each target by itself.

    Args:
        distribution: batch shape ``[..., B]``, event shape ``[T]``.
        targets: ``[B, T]``.
        factor: on the predicted standard deviations, ``[B, T]``.

    Returns:
        ``[..., B, T]``, in [0, 1].

    Raises:
        UserError: if the CDF is not known.
    """
    base: Distribution = distribution.base_dist if isinstance(distribution, Independent) else distribution
    if isinstance(base, MultivariateNormal | LowRankMultivariateNormal):
        base = Normal(base.mean, base.stddev, validate_args=False)
    if isinstance(base, Normal):
        scale = base.scale if factor is None else factor * base.scale
        cdf: Tensor = Normal(base.loc, scale, validate_args=False).cdf(targets)
        return cdf
    if factor is not None:
        centre = base.loc if isinstance(base, StudentT) else base.mean
        targets = centre + (targets - centre) / factor
    if isinstance(base, StudentT):
        from scipy.stats import t as student_t  # here, as it takes long

        standard = ((targets - base.loc) / base.scale).detach().numpy()
        return torch.from_numpy(student_t.cdf(standard, base.df.detach().numpy())).to(targets)
    try:
        if base.event_shape:
            raise NotImplementedError
        return base.cdf(targets)
    except NotImplementedError:
        raise UserError(
            f"the CDF of a likelihood {kind(distribution)} is not known, and PIT and intervals need it: give "
            "observation a distribution with cdf, such as Normal, StudentT or Laplace"
        ) from None
