"""The natural-gradient update: a Gaussian guide moves in its natural parameters to the optimum of the ELBO."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, MultivariateNormal, Normal

from pyro_dynamics.contracts import DynamicsModel, VariationalGuide
from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.inference.beliefs.contract import UPDATES
from pyro_dynamics.inference.expected_likelihood import expected_log_likelihood
from pyro_dynamics.inference.gauss_newton import climb_to_mode
from pyro_dynamics.inference.gaussians import gaussian_moments, is_gaussian
from pyro_dynamics.inference.user_model import has_default_forward
from pyro_dynamics.transitions import Minibatch

CONVERGED = 0.01
"""The steps end where no mean and no standard deviation moves by more than this share of a standard deviation."""
FAR = 1.0
"""Where the first step is longer than this many standard deviations, or the data say more than q does by this factor, q
is so wide that the network bends within it: the first step then goes to a mode, with the curvature there."""
SLACK = 1e-3
"""Nats by which the ELBO may fall: at its top it is known to no more, from a few points and in float32."""
CLIMBS, BACKTRACKS = 3, 4
"""Gauss-Newton steps to that mode, and halvings of each."""


@dataclass(frozen=True)
class NaturalUpdateConfig:
    """How long the guide is moved.

    Attributes:
        iterations: most steps for each update, each with one pass through the networks and back. Two are taken where
            the network is as good as linear, as it is once a belief is narrow.
    """

    iterations: int = 6

    def __post_init__(self) -> None:
        require_positive(self, "iterations")


@UPDATES.register("natural")
class NaturalUpdate:
    """Maximises the ELBO of Eq. 5 over the Gaussians of the guide's family, by natural gradients.

    At the optimum the precision is the prior's plus the expected curvature of the log-likelihood, and the expected
    slope of the log-posterior is 0, both expected under q itself. A step computes them under the present q and goes
    there, as in conjugate-computation variational inference (Khan and Lin 2017, arXiv:1703.04265) and in BONG (Jones et
    al. 2024, arXiv:2405.19681); where the ELBO would fall it is halved. Exact where the likelihood is linear and
    Gaussian. Unlike the Kalman update it takes any likelihood with a density, and its expectations stand where that has
    the slope and curvature of one point. Curvature of the wrong sign is left out: no precision falls below the prior's.

    Args:
        config: number of steps.
    """

    Config = NaturalUpdateConfig
    finds_optimum = True

    def __init__(self, config: NaturalUpdateConfig) -> None:
        self.config = config

    def fit(
        self,
        model: DynamicsModel,
        guide: VariationalGuide,
        prior: Distribution,
        batch: Minibatch,
        generator: torch.Generator,
    ) -> None:
        """Fit ``guide`` to ``prior`` times the likelihood of ``batch``; see :meth:`.SVIUpdate.fit`.

        Raises:
            UserError: if the model has a ``forward`` of its own, or prior or guide are no Gaussians.
        """
        if not has_default_forward(model):
            raise UserError(
                f"{type(model).__name__} has its own forward, which the natural update does not run: choose --update "
                "svi, or write the likelihood in observation"
            )
        move_to_optimum(model, guide, prior, batch, self.config.iterations)


@dataclass(frozen=True)
class Place:
    """A Gaussian q of each environment, and where it should go.

    Attributes:
        elbo: ``[K]``, in nats, but for a constant.
        mean: ``[K, d]``.
        root: Cholesky factor of the covariance, ``[K, d, d]``.
        precision: that whose nearest in the guide's family q is, ``[K, d, d]``.
        step: to the mean of the optimum, ``[K, d]``, as it looks from here.
        target: the precision of the optimum, ``[K, d, d]``, likewise.
        information: the largest curvature of the log-likelihood, where q's own is 1, ``[K]``.
    """

    elbo: Tensor
    mean: Tensor
    root: Tensor
    precision: Tensor
    step: Tensor
    target: Tensor
    information: Tensor

    def where(self, better: Tensor, other: "Place") -> "Place":
        """The other place where it is better ``[K]``, this one elsewhere."""
        pairs = ((getattr(other, name), own) for name, own in vars(self).items())
        return Place(*(torch.where(better.view(-1, *[1] * (own.dim() - 1)), new, own) for new, own in pairs))

    def is_near(self, mean: Tensor, root: Tensor, share: float) -> Tensor:
        """Whether no number of another q is further away than that share of a standard deviation, ``[K]``."""
        sd = self.root.square().sum(-1).sqrt()
        moved = torch.cat([(mean - self.mean)[..., None], root - self.root], -1) / sd[..., None]
        return moved.abs().amax((1, 2)) < share


@torch.no_grad()
def move_to_optimum(
    model: DynamicsModel,
    guide: VariationalGuide,
    prior: Distribution,
    batch: Minibatch,
    iterations: int,
    to_mode: bool = True,
) -> None:
    """Move a Gaussian guide from where it stands to the optimum of the ELBO within its family.

    Args:
        model: its hook ``observation`` says the likelihood.
        guide: takes over Gaussians.
        prior: a Gaussian, batch shape ``[K]``.
        batch: the data, which go through the networks in parts.
        iterations: most steps.
        to_mode: whether the first step may go to a mode, where q is wide; that takes all of the data at once.
    """
    origin, covariance = gaussian_moments(prior)
    known = torch.linalg.inv(covariance)
    mean, root = _mean_and_root(guide.frozen())
    best = _look(model, batch, origin, known, mean, root, torch.cholesky_inverse(root))
    far = ~best.is_near(mean + best.step, root, FAR) | (best.information > FAR)
    size = torch.ones_like(mean[:, 0])
    for iteration in range(iterations):
        mean = best.mean + size[:, None] * best.step
        precision = torch.lerp(best.precision, best.target, size[:, None, None])
        if to_mode and not iteration and far.any():
            mode, curvature = climb_to_mode(model, prior, batch, best.mean, CLIMBS, BACKTRACKS)
            mean = torch.where(far[:, None], mode, mean)
            precision = torch.where(far[:, None, None], curvature, precision)
        guide.match(mean, torch.cholesky_inverse(torch.linalg.cholesky(precision)))
        mean, root = _mean_and_root(guide.frozen())
        still = best.is_near(mean, root, CONVERGED)
        if still.all():
            return
        place = _look(model, batch, origin, known, mean, root, precision)
        better = place.elbo >= best.elbo - SLACK - 1e-6 * best.elbo.abs()
        turned = (place.step * best.step / best.root.square().sum(-1)).sum(-1) < 0  # the last one went too far
        size = torch.where(better, torch.where(turned, 0.5, 1.0), size / 2)
        best = best.where(better, place)
    guide.match(best.mean, best.root @ best.root.mT)


@torch.no_grad()
def over_dispersion(model: DynamicsModel, guide: VariationalGuide, batch: Minibatch, iterations: int = 20) -> Tensor:
    """A guide's standard deviations over those of the best of its family, for the same networks and data.

    Args:
        model: over K environments.
        guide: a Gaussian one; it stays as it is.
        batch: all data that it was fitted to, :func:`.whole_batch`.
        iterations: most steps to the best, from the guide.

    Returns:
        ``[K, d]``: 1 where the guide is at the optimum of the ELBO, above where it is over-dispersed.

    Raises:
        UserError: if the guide or the model's prior is no Gaussian.
    """
    everyone = torch.arange(guide.environments)
    best = guide.for_environments(guide.environments)
    best.assign(everyone, guide, everyone)
    move_to_optimum(model, best, model.prior(), batch, iterations, to_mode=False)
    ratio: Tensor = guide.frozen().stddev / best.frozen().stddev
    return ratio


def can_be_polished(model: DynamicsModel, guide: VariationalGuide) -> bool:
    """Whether :func:`move_to_optimum` knows the model and the guide's family."""
    if not (guide.infers and guide.has_density and has_default_forward(model) and is_gaussian(model.prior())):
        return False
    try:
        own = guide.for_environments(1)
        own.match(*gaussian_moments(own.frozen()))
    except UserError:
        return False
    return True


def _look(
    model: DynamicsModel, batch: Minibatch, origin: Tensor, known: Tensor, mean: Tensor, root: Tensor, precision: Tensor
) -> Place:
    """The ELBO of N(mean, root root^T) under a prior N(origin, known^-1), and where it is highest as it looks there."""
    found = expected_log_likelihood(model, batch, mean, root)
    pull = (known @ (origin - mean)[..., None]).squeeze(-1)
    prior = root.mT @ known @ root  # in units of q's root, in which q's own precision is 1
    divergence = (
        prior.diagonal(dim1=-2, dim2=-1).sum(-1) / 2
        - root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        + (pull * (origin - mean)).sum(-1) / 2
    )
    values, vectors = torch.linalg.eigh(found.curvature)
    # Where the ELBO is not concave a step has the length of the curvature's size, which keeps it short.
    size = prior + (vectors * values.abs()[:, None]) @ vectors.mT
    slope = root.mT @ (found.gradient + pull)[..., None]
    step = (root @ torch.linalg.solve(size, slope)).squeeze(-1)
    half = torch.linalg.solve_triangular(root.mT, vectors * values.clamp(min=0).sqrt()[:, None], upper=True)
    target = known + half @ half.mT
    return Place(found.value - divergence, mean, root, precision, step, target, values.abs().amax(1))


def _mean_and_root(posterior: Distribution) -> tuple[Tensor, Tensor]:
    """Mean ``[K, d]`` and Cholesky factor ``[K, d, d]`` of a Gaussian's covariance."""
    if isinstance(posterior, Independent) and isinstance(posterior.base_dist, Normal):
        return posterior.base_dist.loc, torch.diag_embed(posterior.base_dist.scale)
    if isinstance(posterior, MultivariateNormal):
        return posterior.loc, posterior.scale_tril
    mean, covariance = gaussian_moments(posterior)
    return mean, torch.linalg.cholesky(covariance)
