"""p(e) of environments that were never seen, learned from those that were (empirical Bayes)."""

import torch
from torch import Tensor

from pyro_dynamics.contracts import DynamicsModel, VariationalGuide
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference.gaussians import gaussian_moments, is_gaussian
from pyro_dynamics.inference.user_model import has_default_prior

WIDER = 2.0
"""By how much its standard deviation is wider than the spread of the trained latents: a new environment may well lie
outside of their range."""


@torch.no_grad()
def learn_population(model: DynamicsModel, guide: VariationalGuide) -> None:
    """Let the model take over where its trained environments' latents are, as a Gaussian.

    Nothing is done for a model with a prior of the user's own, for a single environment, or for a guide that cannot
    become a Gaussian, and so could not begin there.

    Args:
        model: has ``set_population``, as :class:`pyro_dynamics.models.HierarchicalModel`.
        guide: with the posteriors of the K environments.
    """
    if not hasattr(model, "set_population"):
        return
    model.set_population(None)
    if not (guide.infers and guide.environments > 1 and has_default_prior(model)):
        return
    posterior = guide.frozen()
    if not is_gaussian(posterior):
        return
    mean, covariance = spread_of(*gaussian_moments(posterior))
    for wanted in (covariance, torch.diag(covariance.diagonal())):  # a diagonal guide takes the variances alone
        if _can_become(guide, mean, wanted):
            model.set_population((mean, wanted))
            return


def spread_of(means: Tensor, covariances: Tensor) -> tuple[Tensor, Tensor]:
    """The Gaussian that K posteriors are thought to be drawn from: mean ``[d]`` and covariance ``[d, d]``.

    The covariance of the means, widened; that of the posteriors themselves; and in every direction a share of the
    spread that falls with K: that few latents lie on a line does not mean that all do.

    Args:
        means: ``[K, d]``.
        covariances: ``[K, d, d]``.
    """
    count, d = means.shape
    mean = means.mean(0)
    between = (means - mean).mT @ (means - mean) / (count - 1)
    unknown = between.trace() / d / count**2 * torch.eye(d, dtype=means.dtype)
    return mean, WIDER**2 * (between + unknown) + covariances.mean(0)


def _can_become(guide: VariationalGuide, mean: Tensor, covariance: Tensor) -> bool:
    """Whether a fresh guide of this family can be this Gaussian, within float32."""
    fresh = guide.for_environments(1)
    try:
        fresh.match(mean[None], covariance[None])
        reached = gaussian_moments(fresh.frozen())
    except UserError:
        return False
    size = covariance.diagonal().sqrt()
    off = [(reached[0][0] - mean) / size, (reached[1][0] - covariance) / size / size[:, None]]
    return all(bool((part.abs() < 1e-3).all()) for part in off)
