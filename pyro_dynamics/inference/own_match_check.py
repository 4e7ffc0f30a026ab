"""Whether a guide of the user's own becomes the Gaussian that it is given."""

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from pyro_dynamics.contracts import VariationalGuide
from pyro_dynamics.errors import UserError, faults_of
from pyro_dynamics.inference.gaussians import gaussian_moments

MEAN, VARIANCE = 0.5, 0.25
"""Of the Gaussian that a guide is asked to take over first."""
MOVED = 0.5
"""Standard deviation of what is added to its parameters for another one."""
FAR = 0.1
"""Nats from that Gaussian, to which a good approximation comes closer."""


def check_match(guide: VariationalGuide, name: str) -> None:
    """Refuse a guide that takes over a Gaussian, as the Kalman and natural updates ask for, and is not that then.

    Args:
        guide: made by ``for_environments``; it is changed.
        name: of its class.

    Raises:
        UserError: saying what it makes of which Gaussian.
    """
    count, d = guide.environments, guide.latent_dim
    mean = MEAN * torch.linspace(-1, 1, count)[:, None].expand(count, d)
    try:
        with faults_of(f"{name}.match()"):
            guide.match(mean.clone(), VARIANCE * torch.eye(d).repeat(count, 1, 1))
    except UserError as refused:
        if refused.__cause__ is not None:
            raise
        return  # it is no Gaussian, and says so
    posterior = guide.frozen()
    far = float((posterior.mean - mean).abs().max())
    ratio = posterior.stddev / VARIANCE**0.5
    if far > 0.1 or not ((ratio > 0.8) & (ratio < 1.25)).all():
        raise UserError(
            f"{name}.match(mean, covariance) must make the posterior that Gaussian: after a covariance of {VARIANCE} I "
            f"its standard deviations are {float(posterior.stddev.min()):.2g} to {float(posterior.stddev.max()):.2g} "
            f"and its means up to {far:.2g} away; copy the mean, and the root of the variances, into the parameters, "
            "or leave match out"
        )
    _check_members(guide, name)


def _check_members(guide: VariationalGuide, name: str) -> None:
    """A Gaussian of the family itself is met, with its correlations and with each entry of its mean.

    The family is known by its members alone: those of parameters that were moved at random. Where these are no
    posterior, as of a scale that went below 0, nothing is known of it.
    """
    other = guide.for_environments(guide.environments)
    for what, parameter in sorted(other.named_parameters()):
        if what.split(".")[0] not in getattr(guide, "shared", ()):
            parameter.data.add_(MOVED * torch.randn(parameter.shape))
    try:
        mean, covariance = gaussian_moments(other.frozen())
        wanted = MultivariateNormal(mean, covariance)
    except (UserError, ValueError, RuntimeError):
        return
    with faults_of(f"{name}.match()"):
        guide.match(mean.clone(), covariance.clone())
    found = MultivariateNormal(*gaussian_moments(guide.frozen()))
    apart = kl_divergence(found, wanted)
    worst = int(apart.argmax())
    if not apart[worst] < FAR:
        raise UserError(
            f"{name}.match(mean, covariance) must become that Gaussian where the family has it: of the mean "
            f"{_numbers(mean[worst])} and the covariance {_numbers(covariance[worst])} it makes "
            f"{_numbers(found.mean[worst])} and {_numbers(found.covariance_matrix[worst])}: check the order of the "
            "entries, and that a factor L with covariance L L^T is not its transpose"
        )


def _numbers(values: Tensor) -> str:
    return str(values.double().round(decimals=3).tolist())
