"""What is believed of each environment by all members of an ensemble together."""

import math

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.types import _size


class MemberMixture(Distribution):
    """(1/M) sum_m q_km(e): batch shape ``[K]``, event shape ``[d]``.

    The members have equal weights: weights by evidence go to the one whose errors happen to be smallest.

    Draws come in the members' order, and as many from each as their number allows: of n = P draws of a plan, P / M
    and the next P / M, so that each particle plans with the belief of the member that it follows.

    Args:
        parts: batch shape ``[K M]``; belief k M + m is member m's.
        members: number M of members.
    """

    arg_constraints = {}  # noqa: RUF012  # torch's own convention

    def __init__(self, parts: Distribution, members: int) -> None:
        super().__init__(torch.Size([parts.batch_shape[0] // members]), parts.event_shape, validate_args=False)
        self.parts, self.members = parts, members

    def weighted_sample(self, draws: int) -> tuple[Tensor, Tensor]:
        """Draws of each member's own belief, ``[n, M, K, d]``, with log-weights ``[n, M, K]`` that sum to 1 in n.

        See :func:`weighted_sample`; n is ``draws / M`` or a little more.
        """
        latents, weight = weighted_sample(self.parts, -(-draws // self.members))
        return self._apart(latents, -2).movedim(-2, -3), self._apart(weight, -1).movedim(-1, -2)

    def sample(self, sample_shape: _size = torch.Size()) -> Tensor:  # noqa: B008  # torch's own signature
        shape = torch.Size(sample_shape)
        count = shape.numel()
        # Member floor((i + u) M / n) of draw i: equal shares where M divides n, and right on average where not.
        member = ((torch.arange(count) + torch.rand(())) * self.members / count).long().clamp(max=self.members - 1)
        draws = self._apart(self.parts.sample(torch.Size([count])), -2)  # [n, K, M, d]
        chosen: Tensor = draws[torch.arange(count), :, member]
        return chosen.reshape(*shape, *self.batch_shape, *self.event_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        each = self._apart(self.parts.log_prob(value.repeat_interleave(self.members, dim=-2)), -1)
        mixed: Tensor = each.logsumexp(-1)
        return mixed - math.log(self.members)

    def own_log_prob(self, draws: Tensor) -> Tensor:
        """Log density of each draw under the belief of the member that it is of.

        Args:
            draws: ``[n, K, d]`` from :meth:`sample`, of which n is a multiple of M.

        Returns:
            ``[n, K]``.
        """
        by_member = draws.unflatten(0, (self.members, -1)).movedim(0, -2)  # [n / M, K, M, d]
        each = self._apart(self.parts.log_prob(by_member.flatten(-3, -2)), -1)
        own: Tensor = each.movedim(-1, 0).flatten(0, 1)
        return own

    @property
    def mean(self) -> Tensor:
        mean: Tensor = self._apart(self.parts.mean, -2).mean(-2)
        return mean

    @property
    def variance(self) -> Tensor:
        means = self._apart(self.parts.mean, -2)
        within: Tensor = self._apart(self.parts.stddev.square(), -2).mean(-2)
        return within + means.var(-2, correction=0)

    def _apart(self, values: Tensor, dim: int) -> Tensor:
        """``[..., K M, ...]`` as ``[..., K, M, ...]``."""
        apart: Tensor = values.unflatten(dim, (-1, self.members))
        return apart


def weighted_sample(belief: Distribution, draws: int) -> tuple[Tensor, Tensor]:
    """Draws ``[n, ..., K, d]`` of a belief with log-weights ``[n, ..., K]``: equal ones, where it has no others.

    Args:
        belief: batch shape ``[K]``, event shape ``[d]``; where each member has its own, members stand before K.
        draws: about how many.
    """
    if hasattr(belief, "weighted_sample"):
        weighted: tuple[Tensor, Tensor] = belief.weighted_sample(draws)
        return weighted
    latents = belief.sample(torch.Size([draws]))
    return latents, torch.full(latents.shape[:-1], -math.log(draws))


def own_log_prob(belief: Distribution, draws: Tensor) -> Tensor:
    """Log density ``[n, K]`` of draws ``[n, K, d]`` of a belief: that of their own member, where each has its own."""
    if isinstance(belief, MemberMixture):
        return belief.own_log_prob(draws)
    log_q: Tensor = belief.log_prob(draws)
    return log_q
