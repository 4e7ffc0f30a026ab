"""The unnormalised log-posterior of each environment's latent: what Laplace and Kalman updates climb."""

import pyro
import torch
from pyro import poutine
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.contracts import DynamicsModel
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference.user_model import has_default_forward
from pyro_dynamics.observation import observation
from pyro_dynamics.transitions import Minibatch


def log_joint(model: DynamicsModel, prior: Distribution, batch: Minibatch, latent: Tensor) -> Tensor:
    """log p(e_k) + the (scaled) sum over the batch's rows of environment k of the mean over members of log p(s' | e_k).

    Of a model with a ``forward`` of its own it is what Pyro's trace of that gives.

    Args:
        model: over K environments; its hook ``observation`` says p(s' | s, a, e).
        prior: batch shape ``[K]``.
        batch: rows ``[M, B]``; they stand for ``batch.total`` transitions.
        latent: ``[K, d]``, differentiable.

    Returns:
        ``[K]``, in nats.

    Raises:
        UserError: if a ``forward`` of the user's own has terms that belong to no one environment.
    """
    if not has_default_forward(model):
        return _by_trace(model, prior, batch, latent)
    members, rows = batch.environment.shape
    with pyro.validation_enabled(False):
        by_row = observation(model, batch.inputs, latent[batch.environment]).log_prob(batch.targets)
    weight = batch.total / (rows * members)
    by_environment = latent.new_zeros(len(latent))
    return prior.log_prob(latent) + by_environment.index_add(0, batch.environment.flatten(), weight * by_row.flatten())


def _by_trace(model: DynamicsModel, prior: Distribution, batch: Minibatch, latent: Tensor) -> Tensor:
    """The log-densities of all sites of the Pyro program at ``e`` = latent, by environment, ``[K]``."""
    with pyro.settings.context(module_local_params=True), pyro.validation_enabled(False):
        trace = poutine.trace(poutine.condition(model, {"e": latent})).get_trace(batch, prior)
        trace = poutine.util.prune_subsample_sites(trace)
        trace.compute_log_prob()
    total = latent.new_zeros(len(latent))
    for name, site in trace.nodes.items():
        if site["type"] != "sample":
            continue
        value = site["log_prob"]
        if site["is_observed"] and value.shape == total.shape:
            total = total + value
        elif site["is_observed"] and value.shape == batch.environment.shape:
            total = total.index_add(0, batch.environment.flatten(), value.flatten())
        else:
            raise UserError(
                f"the site {name!r} in {type(model).__name__}.forward is no density of each environment [K] or each "
                "row [M, B]: the log-posterior of one environment, which is needed here, is not known"
            )
    return total


@torch.no_grad()
def log_joint_of_draws(model: DynamicsModel, batch: Minibatch, latents: Tensor) -> Tensor:
    """:func:`log_joint` under the model's prior at draws ``[S, K, d]``, one after the other: ``[S, K]``."""
    prior = model.prior()
    return torch.stack([log_joint(model, prior, batch, latent) for latent in latents])


def whole_batch(
    inputs: Tensor, targets: Tensor, environment: Tensor, members: int, temperature: float = 1.0
) -> Minibatch:
    """Transitions ``[B, ...]`` that every member sees, with a likelihood to the power of ``temperature``."""
    return Minibatch(
        inputs.expand(members, -1, -1),
        targets.expand(members, -1, -1),
        environment.expand(members, -1),
        total=temperature * len(environment),
    )
