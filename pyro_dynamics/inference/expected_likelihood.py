"""The expected log-likelihood under a Gaussian q(e), with its gradient and curvature, from a few antithetic points.

By Bonnet's theorem the gradient of E_q[f] in q's mean is E_q[grad f], and by Price's the gradient in its covariance is
half of E_q[Hessian f], which Stein's lemma gives out of gradients alone: it is E_q[eps (L^T grad f)^T] in units of q's
Cholesky factor L (Lin, Khan and Schmidt 2019, arXiv:1910.13398). The expectations are over the 2 d points
mean +- sqrt(d) L_i, and exact where f is a polynomial of degree three, as in the cubature Kalman filter (Arasaratnam
and Haykin 2009). So no second derivative of a network is needed, and any likelihood will do.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import pyro
import torch
from torch import Tensor

from pyro_dynamics.contracts import DynamicsModel
from pyro_dynamics.observation import observation
from pyro_dynamics.parameters import frozen
from pyro_dynamics.transitions import Minibatch

ROWS_AT_ONCE = 1024
"""Rows that go through each network together: their activations fit a cache, however many rows there are."""


@dataclass(frozen=True)
class Expected:
    """An expectation over q, and how it changes with q.

    Attributes:
        value: E_q[log p(data_k | e)], in nats, ``[K]``, in float64: sums over many rows are compared.
        gradient: E_q[grad], ``[K, d]``.
        curvature: -L^T E_q[Hessian] L, ``[K, d, d]``: 1 where the data say as much as q does.
    """

    value: Tensor
    gradient: Tensor
    curvature: Tensor


def expected_log_likelihood(model: DynamicsModel, batch: Minibatch, mean: Tensor, root: Tensor) -> Expected:
    """The likelihood of each environment's rows, the mean over members, in expectation under N(mean, root root^T).

    Args:
        model: its hook ``observation`` says the likelihood, which must have a density.
        batch: rows ``[M, B]``, which stand for ``batch.total`` transitions.
        mean: ``[K, d]``.
        root: Cholesky factors ``[K, d, d]``.
    """
    points = antithetic_points(mean.shape[1]).to(mean)
    latents = mean + torch.einsum("sj,kij->ski", points, root)
    value = torch.zeros(latents.shape[:2], dtype=torch.float64, device=mean.device)
    slopes = torch.zeros_like(latents)
    with frozen(model), pyro.validation_enabled(False):
        for part in _parts(batch, len(points)):
            found, gradient = _at_latents(model, part, latents)
            value += found
            slopes += gradient
    slopes_in_root = torch.einsum("ski,kij->skj", slopes, root)
    curvature = -torch.einsum("si,skj->kij", points, slopes_in_root) / len(points)
    return Expected(value.mean(0), slopes.mean(0), (curvature + curvature.mT) / 2)


@cache
def antithetic_points(d: int) -> Tensor:
    """2 d points of d standard normals, ``[2 d, d]``, whose mean is 0 and covariance the identity."""
    axes = d**0.5 * torch.eye(d)
    return torch.cat([axes, -axes])


def _parts(batch: Minibatch, points: int) -> Iterator[Minibatch]:
    """The batch a few rows at a time, each of which counts as in the whole."""
    rows = batch.environment.shape[1]
    size = max(1, ROWS_AT_ONCE // points)
    for start in range(0, rows, size):
        part = slice(start, min(start + size, rows))
        yield replace(
            batch,
            inputs=batch.inputs[:, part],
            targets=batch.targets[:, part],
            environment=batch.environment[:, part],
            total=batch.total * (part.stop - start) / rows,
        )


def _at_latents(model: DynamicsModel, batch: Minibatch, latents: Tensor) -> tuple[Tensor, Tensor]:
    """The log-likelihood ``[S, K]`` at latents ``[S, K, d]``, and its gradient ``[S, K, d]``."""
    members, rows = batch.environment.shape
    with torch.enable_grad():
        latents = latents.detach().requires_grad_()
        inputs = batch.inputs.expand(len(latents), *batch.inputs.shape)
        by_row = observation(model, inputs, latents[:, batch.environment]).log_prob(batch.targets)
        (gradient,) = torch.autograd.grad(by_row.sum(), latents)
    weight = batch.total / (rows * members)
    value = torch.zeros(latents.shape[:2], dtype=torch.float64, device=latents.device)
    value.index_add_(1, batch.environment.flatten(), weight * by_row.detach().flatten(1).double())
    return value, weight * gradient
