"""Divergences in closed form that torch and Pyro lack: between correlated Gaussians and diagonal ones.

They are registered when :mod:`pyro_dynamics.guides` is imported; ``TraceMeanField_ELBO`` and ``kl_divergence`` then
find them.
"""

import math

from torch import Tensor
from torch.distributions import Independent, LowRankMultivariateNormal, MultivariateNormal, Normal, register_kl


@register_kl(MultivariateNormal, Independent)  # type: ignore[untyped-decorator]  # torch's own
@register_kl(LowRankMultivariateNormal, Independent)  # type: ignore[untyped-decorator]
def from_diagonal(q: MultivariateNormal | LowRankMultivariateNormal, p: Independent[Normal]) -> Tensor:
    """KL(q || p) where p is a Gaussian with diagonal covariance, in nats, of the distributions' batch shape."""
    _require_normals(p)
    distance = (q.mean - p.mean).square() + q.variance
    cross_entropy = 0.5 * ((2 * math.pi * p.variance).log() + distance / p.variance).sum(-1)
    divergence: Tensor = cross_entropy - q.entropy()
    return divergence


@register_kl(Independent, LowRankMultivariateNormal)  # type: ignore[untyped-decorator]
def of_diagonal(q: Independent[Normal], p: LowRankMultivariateNormal) -> Tensor:
    """KL(q || p) where q is a Gaussian with diagonal covariance; Pyro has it for MultivariateNormal."""
    _require_normals(q)
    precision = p.precision_matrix.diagonal(dim1=-2, dim2=-1)
    divergence: Tensor = 0.5 * (precision * q.variance).sum(-1) - p.log_prob(q.mean) - q.entropy()
    return divergence


def _require_normals(distribution: Independent[Normal]) -> None:
    """Leave every other product of distributions to sampling, which is what Pyro does on this error."""
    if not isinstance(distribution.base_dist, Normal) or distribution.reinterpreted_batch_ndims != 1:
        raise NotImplementedError
