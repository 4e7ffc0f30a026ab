"""The hierarchical model of Eq. 1: one latent for each environment, one network ensemble for all."""

import pyro
import torch
from pyro import distributions, poutine
from torch import Tensor, nn
from torch.distributions import Distribution

from pyro_dynamics.transitions import Minibatch


class HierarchicalModel(nn.Module):
    """p(e) prod_t p(s' | s, a, e) for K environments; with ``latent_dim`` 0 it is generalist or specialist.

    Args:
        likelihood: a module ``(inputs, latent) -> (location, scale)`` with an attribute ``members``.
        environments: number K of environments.
        latent_dim: size d of each latent e_k.
    """

    origin: Tensor

    def __init__(self, likelihood: nn.Module, environments: int, latent_dim: int) -> None:
        super().__init__()
        self.likelihood = likelihood
        self.environments = environments
        self.latent_dim = latent_dim
        self.register_buffer("origin", torch.zeros(environments, latent_dim), persistent=False)

    def prior(self) -> Distribution:
        """p(e_k) = N(0, I): batch shape ``[K]``, event shape ``[d]``."""
        return distributions.Normal(self.origin, torch.ones_like(self.origin)).to_event(1)

    def forward(self, batch: Minibatch, prior: Distribution | None = None) -> None:
        """The generative story of a minibatch.

        Args:
            batch: rows of all environments, ``[M, B]``.
            prior: p(e_k), batch shape ``[K]``; N(0, I) unless the last posterior takes its place (Eq. 5).
        """
        members, rows = batch.environment.shape
        with pyro.plate("environment", self.environments, dim=-1):
            latent = pyro.sample("e", prior or self.prior())  # type: ignore[arg-type]  # torch and Pyro distributions
        latent = gather_rows(latent, batch.environment)
        location, scale = self.likelihood(batch.inputs.expand(*latent.shape[:-1], -1), latent)
        # The expectation over members stands outside the logarithm (appendix B): the sum over members is divided by
        # M. The minibatch stands for all N transitions, against ONE divergence for each environment.
        with (
            poutine.scale(scale=batch.total / (rows * members)),
            pyro.plate("member", members, dim=-2),
            pyro.plate("transition", rows, dim=-1),
        ):
            pyro.sample("delta", distributions.Normal(location, scale).to_event(1), obs=batch.targets)

    def for_environments(self, environments: int) -> "HierarchicalModel":
        """The same likelihood (shared, not copied) over another number of environments."""
        return HierarchicalModel(self.likelihood, environments, self.latent_dim)


def gather_rows(latent: Tensor, environment: Tensor) -> Tensor:
    """Each row's latent: ``[K, d]`` (or ``[samples, 1, K, d]``) and index ``[M, B]`` to ``[..., M, B, d]``."""
    if latent.dim() > 2:
        latent = latent.squeeze(-3)  # the place that Pyro keeps for the member plate
    return latent[..., environment, :]
