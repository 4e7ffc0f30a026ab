"""The extended Kalman (Laplace) update: Newton steps on the log-posterior of e instead of gradient steps on an ELBO."""

from dataclasses import dataclass

import pyro
import torch
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.contracts import DynamicsModel, VariationalGuide
from pyro_dynamics.errors import UserError, require_not_negative, require_positive
from pyro_dynamics.inference.beliefs.contract import UPDATES
from pyro_dynamics.inference.gauss_newton import climb_to_mode
from pyro_dynamics.inference.log_joint import log_joint
from pyro_dynamics.inference.user_model import has_default_forward
from pyro_dynamics.observation import gaussian_parameters, has_default_observation, kind, observation
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.transitions import Minibatch


@dataclass(frozen=True)
class KalmanUpdateConfig:
    """How often the network is linearised.

    Attributes:
        iterations: linearisations for each update (the iterated extended Kalman filter); 1 is the plain one.
        backtracks: how often a step that lowers the log-posterior is halved, before it is left out.
        starts: places from which a mode is climbed to, each as costly as one: where the belief stands, and draws of the
            prior. The mode whose Laplace approximation holds most is kept; from one start it may be a lesser one.
    """

    iterations: int = 3
    backtracks: int = 4
    starts: int = 1

    def __post_init__(self) -> None:
        require_positive(self, "iterations", "starts")
        require_not_negative(self, "backtracks")


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
    finds_optimum = True

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
        _refuse_other_likelihoods(model, guide, batch)
        mean, precision = self._mode(model, prior, batch, guide.posterior().mean)
        if self.config.starts > 1:
            with drawing_from(generator):
                others = prior.sample((self.config.starts - 1,))
            best = _mass(model, prior, batch, mean, precision)
            for start in others:
                there = self._mode(model, prior, batch, start)
                mass = _mass(model, prior, batch, *there)
                better = mass > best
                best = torch.where(better, mass, best)
                mean = torch.where(better[:, None], there[0], mean)
                precision = torch.where(better[:, None, None], there[1], precision)
        guide.match(mean, torch.linalg.inv(precision))

    def _mode(
        self, model: DynamicsModel, prior: Distribution, batch: Minibatch, start: Tensor
    ) -> tuple[Tensor, Tensor]:
        return climb_to_mode(model, prior, batch, start, self.config.iterations, self.config.backtracks)


def _mass(model: DynamicsModel, prior: Distribution, batch: Minibatch, mean: Tensor, precision: Tensor) -> Tensor:
    """Log of what the Laplace approximation at a mode holds of the posterior, up to a constant, ``[K]``."""
    return log_joint(model, prior, batch, mean) - 0.5 * torch.logdet(precision)


def _refuse_other_likelihoods(model: DynamicsModel, guide: VariationalGuide, batch: Minibatch) -> None:
    """Raises :class:`UserError` where a user's hook gives no Gaussian: its curvature would be another."""
    if has_default_observation(model):
        return
    with pyro.validation_enabled(False):
        row = slice(0, 1)
        delta = observation(model, batch.inputs[:, row], guide.frozen().mean[batch.environment[:, row]])
    if gaussian_parameters(delta) is None:
        raise UserError(
            f"the Kalman update takes a Gaussian likelihood alone, and {type(model).__name__}.observation gives "
            f"{kind(delta)}: choose --update natural or svi"
        )
