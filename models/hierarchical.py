"""The hierarchical model of Eq. 1: one latent for each environment, one network ensemble for all."""

import copy
from typing import Any, Self

import pyro
import torch
from pyro import distributions, poutine
from torch import Tensor, nn
from torch.distributions import Distribution

from pyro_dynamics.contracts import Likelihood
from pyro_dynamics.errors import UserError
from pyro_dynamics.transitions import Minibatch


class HierarchicalModel(nn.Module):
    """p(e) prod_t p(s' | s, a, e) for K environments; with ``latent_dim`` 0 it is generalist or specialist.

    A subclass with another likelihood overrides :meth:`observation`: everything calls it. One that overrides
    :meth:`forward` or :meth:`prior` gets Pyro's own inference, and an error where only the known model can do.

    Args:
        likelihood: a module ``(inputs, latent) -> (location, scale)`` with an attribute ``members``.
        environments: number K of environments.
        latent_dim: size d of each latent e_k.
    """

    origin: Tensor
    population_mean: Tensor
    population_scale_tril: Tensor

    def __init__(self, likelihood: Likelihood, environments: int, latent_dim: int) -> None:
        super().__init__()
        self.likelihood = likelihood
        self.environments = environments
        self.latent_dim = latent_dim
        self.register_buffer("origin", torch.zeros(environments, latent_dim), persistent=False)
        self.register_buffer("population_mean", torch.zeros(latent_dim))
        self.register_buffer("population_scale_tril", torch.eye(latent_dim))

    def prior(self) -> Distribution:
        """p(e_k) = N(0, I): batch shape ``[K]``, event shape ``[d]``."""
        prior: Distribution = distributions.Normal(self.origin, torch.ones_like(self.origin)).to_event(1)
        return prior

    def population(self) -> Distribution:
        """p(e_k) of environments that were not trained on, by those that were: :meth:`prior` until one is learned."""
        if not self.has_population:
            return self.prior()
        mean = self.population_mean.expand(self.environments, -1)
        tril = self.population_scale_tril
        if (tril == tril.diagonal().diag()).all():
            independent: Distribution = distributions.Normal(mean, tril.diagonal().expand_as(mean)).to_event(1)
            return independent
        return distributions.MultivariateNormal(mean, scale_tril=tril.expand(self.environments, -1, -1))

    @torch.no_grad()
    def set_population(self, moments: tuple[Tensor, Tensor] | None) -> None:
        """Let :meth:`population` have this mean ``[d]`` and covariance ``[d, d]``, or be :meth:`prior` again."""
        mean, covariance = moments or (torch.zeros(self.latent_dim), torch.eye(self.latent_dim))
        self.population_mean.copy_(mean)
        self.population_scale_tril.copy_(torch.linalg.cholesky(covariance))

    @property
    def has_population(self) -> bool:
        """Whether :meth:`population` was learned."""
        tril = self.population_scale_tril
        return bool(self.population_mean.any()) or not torch.equal(tril, torch.eye(len(tril)).to(tril))

    def observation(self, inputs: Tensor, latent: Tensor) -> Distribution:
        """p(delta | s, a, e) of each row by itself (Eq. 1): the one place that says the likelihood.

        Args:
            inputs: features and action, ``[..., M, B, F + A]``.
            latent: ``[..., M, B, d]``.

        Returns:
            Batch shape ``[..., M, B]``, event shape ``[T]``: independent Gaussians, unless a subclass says otherwise.
        """
        location, scale = self.likelihood(inputs, latent)
        targets: Distribution = distributions.Normal(location, scale).to_event(1)
        return targets

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
        delta = self.observation(batch.inputs.expand(*latent.shape[:-1], -1), latent)
        # The expectation over members stands outside the logarithm (appendix B): the sum over members is divided by
        # M. The minibatch stands for all N transitions, against ONE divergence for each environment.
        with (
            poutine.scale(scale=batch.total / (rows * members)),
            pyro.plate("member", members, dim=-2),
            pyro.plate("transition", rows, dim=-1),
        ):
            pyro.sample("delta", delta, obs=batch.targets)  # type: ignore[arg-type]  # as above

    def for_environments(self, environments: int) -> Self:
        """The same model (its networks shared, not copied) over another number of environments.

        Raises:
            UserError: if a prior of one's own is not over so many environments.
        """
        other = copy.copy(self)
        for name in ("_parameters", "_buffers", "_modules"):
            other.__dict__[name] = dict(self.__dict__[name])
        other.environments = environments
        other.origin = self.origin.new_zeros(environments, self.latent_dim)
        if not self.has_default_prior and other.prior().batch_shape != (environments,):
            name = type(self).__name__
            raise UserError(
                f"{name}.prior is over {list(other.prior().batch_shape)} environments where {environments} are asked "
                f"for: write it by the size of self.origin, or write {name}.for_environments too"
            )
        return other

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Models from before there was a population have none."""
        for name in ("population_mean", "population_scale_tril"):
            state_dict.setdefault(prefix + name, getattr(self, name).clone())
        super()._load_from_state_dict(state_dict, prefix, *rest)

    @property
    def has_default_observation(self) -> bool:
        """Whether the targets are the Gaussian of the network, so that its own shortcuts serve."""
        return self._has_default("observation")

    @property
    def has_default_forward(self) -> bool:
        """Whether the joint density is known: prior times :meth:`observation`."""
        return self._has_default("forward")

    @property
    def has_default_prior(self) -> bool:
        """Whether p(e) is N(0, I)."""
        return self._has_default("prior")

    def _has_default(self, name: str) -> bool:
        """Whether a method is neither overridden by a subclass nor replaced in this object."""
        return getattr(type(self), name) is getattr(HierarchicalModel, name) and name not in vars(self)


def gather_rows(latent: Tensor, environment: Tensor) -> Tensor:
    """Each row's latent: ``[K, d]`` (or ``[samples, 1, K, d]``) and index ``[M, B]`` to ``[..., M, B, d]``."""
    if latent.dim() > 2:
        latent = latent.squeeze(-3)  # the place that Pyro keeps for the member plate
    return latent[..., environment, :]
