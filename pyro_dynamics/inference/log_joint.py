"""The unnormalised log-posterior of each environment's latent: what Laplace and Kalman updates climb."""

from typing import Any

from torch import Tensor
from torch.distributions import Distribution, Normal

from pyro_dynamics.transitions import Minibatch


def log_joint(likelihood: Any, prior: Distribution, batch: Minibatch, latent: Tensor) -> Tensor:
    """log p(e_k) + the (scaled) sum over the batch's rows of environment k of the mean over members of log p(s' | e_k).

    Args:
        likelihood: ``(inputs, latent) -> (location, scale)``.
        prior: batch shape ``[K]``.
        batch: rows ``[M, B]``; they stand for ``batch.total`` transitions.
        latent: ``[K, d]``, differentiable.

    Returns:
        ``[K]``, in nats.
    """
    members, rows = batch.environment.shape
    location, scale = likelihood(batch.inputs, latent[batch.environment])
    by_row = Normal(location, scale, validate_args=False).log_prob(batch.targets).sum(-1)
    weight = batch.total / (rows * members)
    by_environment = latent.new_zeros(len(latent))
    return prior.log_prob(latent) + by_environment.index_add(0, batch.environment.flatten(), weight * by_row.flatten())


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
