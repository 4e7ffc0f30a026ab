"""The true context in the place of the latent: nothing is inferred. The oracle, the reference for all that infer."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from pyro import distributions, poutine
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.errors import UserError
from pyro_dynamics.guides.contract import Guide
from pyro_dynamics.transitions import Minibatch

Encode = Callable[[Sequence[Any]], Any]
"""Contexts as numbers ``[n, d]``: a tensor, an array or nested lists."""


class KnownGuide(Guide):
    """q(e_k) is all at the encoded true context of environment k, which :meth:`set_context` sets; nothing is learned.

    The context is given, and no random variable: its site has no divergence from the prior N(0, I), not even the
    constant -log p(e_k) that a point would count for. So what is reported as the ELBO of an oracle is the
    log-likelihood log p(s' | s, a, context) alone, as for a generalist or specialist, which have no latent either. An
    ELBO of a latent agent is lower than that of an oracle with the same predictions by its divergence.

    Environments whose context was not given yet stand at 0, the mean of the contexts that were trained on.

    Args:
        environments: number K of environments.
        latent_dim: numbers d of an encoded context.
        encode: of contexts; see ``Family.encode``.
    """

    has_density = False
    context_given = True
    location: Tensor

    def __init__(self, environments: int, latent_dim: int, encode: Encode) -> None:
        super().__init__(environments, latent_dim)
        self.encode = encode
        self.register_buffer("location", torch.zeros(environments, latent_dim))

    def set_context(self, contexts: Sequence[Any]) -> None:
        """Stand at the contexts, encoded.

        Raises:
            UserError: if one is None, which is how a log says that it is not known.
        """
        if any(context is None for context in contexts):
            raise UserError("an oracle must be given the true context: set it by --context or --schedule")
        self.location = torch.as_tensor(self.encode(contexts)).to(self.location).view_as(self.location)

    def posterior(self) -> Distribution:
        """All at one point; its ``log_prob`` is 0 there and minus infinity elsewhere, and no density."""
        return distributions.Delta(self.location, event_dim=1)

    def frozen(self) -> Distribution:
        return distributions.Delta(self.location.clone(), event_dim=1)  # a copy of the guide would copy the family too

    def forward(self, batch: Minibatch, prior: Distribution | None = None) -> Tensor:
        with poutine.mask(mask=False):  # TraceMeanField_ELBO masks the divergence as the guide's site is masked
            return super().forward(batch, prior)

    def for_environments(self, environments: int) -> "KnownGuide":
        return KnownGuide(environments, self.latent_dim, self.encode).to(self.location)
