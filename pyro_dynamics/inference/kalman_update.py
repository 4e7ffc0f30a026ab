"""The extended Kalman (Laplace) update: Newton steps on the log-posterior of e instead of gradient steps on an ELBO."""

from dataclasses import dataclass
from typing import cast

import pyro
import torch
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.contracts import DynamicsModel, Linearisable, VariationalGuide
from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.inference.beliefs.contract import UPDATES
from pyro_dynamics.inference.gaussians import gaussian_moments
from pyro_dynamics.inference.log_joint import log_joint
from pyro_dynamics.inference.user_model import has_default_forward
from pyro_dynamics.observation import gaussian_parameters, has_default_observation, kind, observation
from pyro_dynamics.transitions import Minibatch

SMALL = 0.01
"""A step of less than a tenth of a posterior standard deviation, squared, ends the iterations."""


@dataclass(frozen=True)
class KalmanUpdateConfig:
    """How often the network is linearised.

    Attributes:
        iterations: linearisations for each update (the iterated extended Kalman filter); 1 is the plain one.
        backtracks: how often a step that lowers the log-posterior is halved, before it is left out.
    """

    iterations: int = 3
    backtracks: int = 4

    def __post_init__(self) -> None:
        require_positive(self, "iterations")


@UPDATES.register("kalman")
class KalmanUpdate:
    """Gauss-Newton on log p(e) + (1/M) sum_m log N(s' | f_m(e), R_m), for Gaussian guides.

    A step needs the Jacobian of the network in e, d columns, and no sampling. Exact where the likelihood is linear and
    Gaussian; elsewhere the Laplace approximation with the Gauss-Newton curvature. The noise R_m is held at its value
    at the present mean.

    Args:
        config: number of linearisations.
    """

    Config = KalmanUpdateConfig

    def __init__(self, config: KalmanUpdateConfig) -> None:
        self.config = config

    @torch.no_grad()
    def fit(
        self,
        model: DynamicsModel,
        guide: VariationalGuide,
        prior: Distribution,
        batch: Minibatch,
        generator: torch.Generator,
    ) -> None:
        """Fit ``guide`` to ``prior`` times the likelihood of ``batch``; see :meth:`.SVIUpdate.fit`.

        Raises:
            UserError: if the likelihood is no Gaussian with independent targets, the model has a ``forward`` of its
                own, or prior or guide are no Gaussians.
        """
        if not has_default_forward(model):
            raise UserError(
                f"{type(model).__name__} has its own forward, which the Kalman update does not run: choose --update "
                "svi, or write the likelihood in observation"
            )
        prior_mean, covariance = gaussian_moments(prior)
        prior_precision = torch.linalg.inv(covariance)
        mean = guide.frozen().mean
        for _ in range(self.config.iterations):
            gradient, precision = _linearise(model, batch, mean)
            slope = gradient - (prior_precision @ (mean - prior_mean)[..., None]).squeeze(-1)
            precision = prior_precision + precision
            step = torch.linalg.solve(precision, slope)
            mean = self._climb(model, prior, batch, mean, step)
            if ((step[:, None] @ precision).squeeze(1) * step).sum(-1).max() < SMALL:
                break  # the network is as linear as it matters: the last linearisation holds at the new mean too
        else:
            if self.config.iterations > 1:
                precision = prior_precision + _linearise(model, batch, mean)[1]
        guide.match(mean, torch.linalg.inv(precision))

    def _climb(self, model: DynamicsModel, prior: Distribution, batch: Minibatch, mean: Tensor, step: Tensor) -> Tensor:
        """``mean + step``, with the step halved in each environment where it would lower the log-posterior."""
        before = log_joint(model, prior, batch, mean)
        size = torch.ones_like(before)
        for attempt in range(self.config.backtracks + 1):
            better = log_joint(model, prior, batch, mean + size[:, None] * step) >= before - 1e-6
            if better.all():
                break
            shorter = size / 2 if attempt < self.config.backtracks else torch.zeros_like(size)
            size = torch.where(better, size, shorter)
        return mean + size[:, None] * step


def _linearise(model: DynamicsModel, batch: Minibatch, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient ``[K, d]`` and Gauss-Newton precision ``[K, d, d]`` of the log-likelihood at ``mean`` ``[K, d]``."""
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
            delta = observation(model, inputs, latent)
        gaussian = gaussian_parameters(delta)
        if gaussian is None:
            raise UserError(
                f"the Kalman update takes a Gaussian likelihood alone, and {type(model).__name__}.observation gives "
                f"{kind(delta)}: choose --update svi"
            )
        location, scale = gaussian
        dummy = torch.zeros_like(location, requires_grad=True)
        (pulled,) = torch.autograd.grad(location, latent, dummy, create_graph=True)
        columns = [
            torch.autograd.grad(pulled[..., axis].sum(), dummy, retain_graph=True)[0]
            for axis in range(latent.shape[-1])
        ]
    return location.detach(), scale.detach(), torch.stack(columns, -2)
