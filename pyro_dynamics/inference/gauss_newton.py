"""Gauss-Newton steps to a mode of the log-posterior of e: the Kalman update, and a start for the natural one."""

from typing import cast

import pyro
import torch
from torch import Tensor
from torch.distributions import Distribution, Independent

from pyro_dynamics.contracts import DynamicsModel, Linearisable
from pyro_dynamics.inference.gaussians import gaussian_moments
from pyro_dynamics.inference.log_joint import log_joint
from pyro_dynamics.observation import has_default_observation, location_and_scale, observation
from pyro_dynamics.transitions import Minibatch

SMALL = 0.01
"""A step of less than a tenth of a posterior standard deviation, squared, ends the iterations."""


def climb_to_mode(
    model: DynamicsModel, prior: Distribution, batch: Minibatch, mean: Tensor, iterations: int, backtracks: int
) -> tuple[Tensor, Tensor]:
    """Gauss-Newton on log p(e) + (1/M) sum_m log p(s' | f_m(e)), the noise held at its value at the present mean.

    Args:
        model: its hook ``observation`` says the likelihood.
        prior: a Gaussian, batch shape ``[K]``.
        batch: the data.
        mean: where to begin, ``[K, d]``.
        iterations: how often the network is linearised.
        backtracks: how often a step that lowers the log-posterior is halved, before it is left out.

    Returns:
        The mean ``[K, d]`` and the precision there ``[K, d, d]``.
    """
    prior_mean, covariance = gaussian_moments(prior)
    prior_precision = torch.linalg.inv(covariance)
    density = log_joint(model, prior, batch, mean)
    for _ in range(iterations):
        gradient, precision = linearise(model, batch, mean)
        slope = gradient - (prior_precision @ (mean - prior_mean)[..., None]).squeeze(-1)
        precision = prior_precision + precision
        step = torch.linalg.solve(precision, slope)
        mean, density = _climb(model, prior, batch, mean, density, step, backtracks)
        if ((step[:, None] @ precision).squeeze(1) * step).sum(-1).max() < SMALL:
            break  # the network is as linear as it matters: the last linearisation holds at the new mean too
    else:
        if iterations > 1:
            precision = prior_precision + linearise(model, batch, mean)[1]
    return mean, precision


def _climb(
    model: DynamicsModel,
    prior: Distribution,
    batch: Minibatch,
    mean: Tensor,
    before: Tensor,
    step: Tensor,
    backtracks: int,
) -> tuple[Tensor, Tensor]:
    """``mean + step``, with the step halved in each environment where it would lower the log-posterior, and that there.

    Args:
        model: of the posterior, as in :func:`climb_to_mode`.
        prior: batch shape ``[K]``.
        batch: the data.
        mean: ``[K, d]``.
        before: the log-posterior at ``mean``, ``[K]``.
        step: ``[K, d]``.
        backtracks: how often a step is halved, before it is left out.
    """
    size, density = torch.ones_like(before), before
    for attempt in range(backtracks + 1):
        there = log_joint(model, prior, batch, mean + size[:, None] * step)
        better = there >= before - 1e-6
        density = torch.where(better, there, before)
        if better.all():
            break
        shorter = size / 2 if attempt < backtracks else torch.zeros_like(size)
        size = torch.where(better, size, shorter)
    return mean + size[:, None] * step, density


def linearise(model: DynamicsModel, batch: Minibatch, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient ``[K, d]`` and Gauss-Newton precision ``[K, d, d]`` of the log-likelihood at ``mean`` ``[K, d]``.

    A likelihood that is no Gaussian is taken for one with its location and scale: good enough for steps that are halved
    where they do not climb.
    """
    members, rows = batch.environment.shape
    latent = mean[batch.environment]
    location, scale, slopes = _slopes(model, batch.inputs, latent)
    weight = batch.total / (rows * members) / scale.square()
    gradient = torch.einsum("mbdt,mbt->mbd", slopes, weight * (batch.targets - location))
    precision = torch.einsum("mbdt,mbt,mbet->mbde", slopes, weight, slopes)
    index = batch.environment.flatten()
    d = mean.shape[1]
    return (
        torch.zeros_like(mean).index_add(0, index, gradient.flatten(0, 1)),
        mean.new_zeros(len(mean), d, d).index_add(0, index, precision.flatten(0, 1)),
    )


def _slopes(model: DynamicsModel, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Location and scale ``[M, B, T]`` and the location's slopes in the latent, ``[M, B, d, T]``.

    Where the network does not know it, or the hook is the user's own, two backward passes make a forward one: the first
    gives J^T u as a function of a dummy u, and that is linear in u, so that its own gradient is a column of J.
    (torch.func.jvp computes the same, five times slower here.)
    """
    if has_default_observation(model) and hasattr(model.likelihood, "linearised"):
        location, scale, slopes, _ = cast(Linearisable, model.likelihood).linearised(inputs, latent)
        return location, scale, slopes
    with torch.enable_grad():
        latent = latent.detach().requires_grad_()
        with pyro.validation_enabled(False):
            location, scale = _centre_and_spread(observation(model, inputs, latent))
        dummy = torch.zeros_like(location, requires_grad=True)
        (pulled,) = torch.autograd.grad(location, latent, dummy, create_graph=True)
        columns = [
            torch.autograd.grad(pulled[..., axis].sum(), dummy, retain_graph=True)[0]
            for axis in range(latent.shape[-1])
        ]
    return location.detach(), scale.detach(), torch.stack(columns, -2)


def _centre_and_spread(delta: Distribution) -> tuple[Tensor, Tensor]:
    """Location and scale of the targets, ``[..., T]``: moments may not exist where a location does."""
    base = delta.base_dist if isinstance(delta, Independent) else delta
    if hasattr(base, "loc") and hasattr(base, "scale"):
        return base.loc, base.scale
    return location_and_scale(delta)
