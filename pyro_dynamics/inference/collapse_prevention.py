"""Remedies against collapse, where the network learns to ignore the latent; all of them are off by default.

At the start the samples of e are noise to the network. It learns to do without; the divergence KL(q(e_k) || p(e_k))
then holds each q(e_k) at the prior, and it takes thousands of steps to come free. KL warm-up and free bits loosen that
hold, means apart make e worth listening to from the start. Measurements: docs/results/collapse.md.
"""

from typing import Any

import torch
from pyro.distributions import Delta
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.distributions import kl_divergence

from pyro_dynamics.contracts import VariationalGuide
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference.gaussians import gaussian_moments


def kl_weight(done: float, warm_up: float) -> float:
    """The weight of the divergence when the fraction ``done`` of a training is over: from 0 linearly to 1.

    Bowman et al. 2016, *Generating sentences from a continuous space*, arXiv:1511.06349. With ``warm_up`` 0 it is 1.
    """
    return min(1.0, done / warm_up) if warm_up else 1.0


class LatentSite(Messenger):
    """Looks on while Pyro computes an ELBO, and keeps the site ``e`` of the guide and of the model.

    The divergence is then that of the ELBO itself: the same posterior, not computed twice, and for families without a
    closed form the same sample. With weight 0 nothing of it is left over.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sites: list[dict[str, Any]] = []

    def _pyro_post_sample(self, message: Any) -> None:
        if message["name"] == "e":
            self.sites.append(message)

    def divergence(self) -> Tensor:
        """KL(q(e_k) || p(e_k)) ``[K]``, in nats: in closed form or by the sample, as in ``TraceMeanField_ELBO``.

        A point (of the families point and laplace) has none; log p(mean of p) - log p(point) stands for it, which
        differs from Pyro's -log p(point) by a constant, and is 0 at the prior's mean.
        """
        guide, model = self.sites  # the guide runs first
        q, p, value = guide["fn"], model["fn"], guide["value"]
        divergence: Tensor
        if isinstance(q, Delta):
            divergence = p.log_prob(p.mean) - p.log_prob(value)
            return divergence
        try:
            return kl_divergence(q, p)
        except NotImplementedError:
            divergence = q.log_prob(value) - p.log_prob(value)
            return divergence

    def relief(self, weight: float, free_nats: float) -> Tensor:
        """What is added to the negative ELBO, which counts the whole divergence: sum_k w max(KL_k - free, 0) - KL_k.

        But for a constant, free nats are the max(free, KL) of the "free bits" of Kingma et al. 2016, *Improved
        variational inference with inverse autoregressive flow*, arXiv:1606.04934. Theirs belong to a group of
        dimensions, averaged over a minibatch; here a group is the whole latent of one environment, for in most
        families a dimension has no divergence of its own, and every environment is there in every step.

        Args:
            weight: of what is above ``free_nats``, see :func:`kl_weight`.
            free_nats: nats of each environment that cost nothing.

        Returns:
            A scalar, in nats.
        """
        divergence = self.divergence()
        counted = weight * (divergence - free_nats).relu()
        times = self.sites[0]["scale"]  # the amortized guide has its divergence counted more than once
        relief: Tensor = (times * (counted - divergence)).sum()
        return relief


def check_movable(guide: VariationalGuide) -> None:
    """Refuse, before any work, a guide whose means :func:`move_apart` could not place.

    Raises:
        UserError: if the family cannot take over a Gaussian.
    """
    try:
        move_apart(guide.for_environments(1), 1.0, torch.Generator())
    except UserError:
        raise UserError(
            f"init-mean-std moves the means of a Gaussian apart, which {type(guide).__name__} cannot take over: choose "
            "a Gaussian guide (diagonal, full-rank, low-rank, laplace) or leave init-mean-std at 0"
        ) from None


@torch.no_grad()
def move_apart(guide: VariationalGuide, spread: float, generator: torch.Generator) -> None:
    """Add independent N(0, spread^2) draws to the means ``[K, d]`` of a Gaussian guide; covariances stay.

    Raises:
        UserError: if the family cannot take over a Gaussian.
    """
    mean, covariance = gaussian_moments(guide.posterior())
    noise = torch.randn(mean.shape, generator=generator)
    guide.match(mean + spread * noise.to(mean), covariance)
