"""The Laplace approximation: a Gaussian at the mode, with the curvature that is found there."""

from dataclasses import dataclass
from typing import Self

import pyro
import torch
from pyro import distributions
from torch import Tensor, nn
from torch.distributions import Distribution

from pyro_dynamics.guides.contract import GUIDES, Guide, LogJoint
from pyro_dynamics.transitions import Minibatch


@dataclass(frozen=True)
class LaplaceConfig:
    """Nothing to set."""


@GUIDES.register("laplace")
class LaplaceGuide(Guide):
    """q(e_k) = N(mode, (-Hessian of log p(e_k, data) at the mode)^-1).

    Gradient steps see a point and find the mode; :meth:`finalize` then reads off the covariance.

    Args:
        environments: number K of environments.
        latent_dim: size d of each latent.
        config: nothing to set.
    """

    Config = LaplaceConfig
    scale_tril: Tensor

    def __init__(self, environments: int, latent_dim: int, config: LaplaceConfig | None = None) -> None:
        super().__init__(environments, latent_dim)
        self.location = nn.Parameter(torch.zeros(environments, latent_dim))
        self.register_buffer("scale_tril", torch.eye(latent_dim).repeat(environments, 1, 1))

    def posterior(self) -> Distribution:
        if not self.latent_dim:  # as a generalist has it; torch cannot check an empty matrix
            empty: Distribution = distributions.Normal(self.location, torch.ones_like(self.location)).to_event(1)
            return empty
        return distributions.MultivariateNormal(self.location, scale_tril=self.scale_tril)

    def for_environments(self, environments: int) -> Self:
        return type(self)(environments, self.latent_dim).to(self.location)

    def forward(self, batch: Minibatch, prior: Distribution | None = None) -> Tensor:
        """The Pyro guide: a point, whose divergence to the prior is -log p(e)."""
        with pyro.plate("environment", self.environments, dim=-1):
            return pyro.sample("e", distributions.Delta(self.location, event_dim=1))

    @torch.no_grad()
    def match(self, mean: Tensor, covariance: Tensor) -> None:
        self.location.copy_(mean)
        self.scale_tril.copy_(torch.linalg.cholesky(covariance))

    @torch.no_grad()
    def finalize(self, log_joint: LogJoint) -> None:
        values, vectors = torch.linalg.eigh(-hessian(log_joint, self.location.detach()))
        # Where gradient steps have not come to the mode, or a network is not concave there, the curvature of some
        # direction can be 0 or of the wrong sign, which no Gaussian has. The data say nothing about such a direction:
        # it gets the floor, ten standard deviations of N(0, I), broad and still finite for the planner.
        root = vectors / values.clamp(min=1e-2).sqrt()[..., None, :]
        # covariance = root root^T = R^T R, by the QR decomposition of root^T: unlike a Cholesky decomposition it does
        # not fail where one direction is known far better than another.
        upper = torch.linalg.qr(root.mT).R
        self.scale_tril.copy_(upper.mT * upper.diagonal(dim1=-2, dim2=-1).sign()[..., None, :])


def hessian(log_joint: LogJoint, latent: Tensor) -> Tensor:
    """Second derivatives ``[K, d, d]`` of ``log_joint`` at ``latent`` ``[K, d]``; d backward passes for all K at once.

    Entry k of ``log_joint`` depends on row k of the latents alone, so the sum over k keeps them apart.
    """
    with torch.enable_grad():
        latent = latent.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(log_joint(latent).sum(), latent, create_graph=True)
        rows = [torch.autograd.grad(column.sum(), latent, retain_graph=True)[0] for column in gradient.unbind(-1)]
    curvature = torch.stack(rows, -2) if rows else latent.new_zeros(*latent.shape, 0)
    return (curvature + curvature.mT) / 2
