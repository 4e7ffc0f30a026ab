"""How near a guide comes to the posterior, and what an update costs: measures, and the references they need."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from pyro.infer import MCMC, NUTS
from pyro.ops.stats import effective_sample_size, split_gelman_rubin
from torch import Tensor
from torch.distributions import Distribution, Independent, Normal

from pyro_dynamics.diagnostics.posterior.importance import smoothed_log_weights
from pyro_dynamics.inference.gaussians import moments
from pyro_dynamics.inference.log_joint import log_joint, whole_batch
from pyro_dynamics.inference.user_model import has_default_forward, has_default_prior, over_environments
from pyro_dynamics.seeding import drawing_from

MOMENT_DRAWS = 20_000
"""Draws behind mean and covariance of a guide that is no Gaussian: errors of 0.7 % of a standard deviation."""

LogDensity = Callable[[Tensor], Tensor]
"""log p(e, data) ``[S]`` in nats at points ``[S, d]``."""


@dataclass(frozen=True)
class Closeness:
    """A guide's mean and covariance beside the reference's, over K environments and d dimensions.

    Attributes:
        mean_error: root mean square of the mean's error, in standard deviations of the reference's marginals.
        sd_ratio: the guide's marginal standard deviation over the reference's, mean over all; below 1 is overconfident.
        correlation: of the guide's first two dimensions, mean over environments.
        covariance_error: Frobenius norm of the covariance's error over that of the reference, mean over environments.
    """

    mean_error: float
    sd_ratio: float | None
    correlation: float | None
    covariance_error: float | None


def closeness(mean: Tensor, covariance: Tensor | None, exact_mean: Tensor, exact_covariance: Tensor) -> Closeness:
    """Compare means ``[K, d]`` and covariances ``[K, d, d]``; a point has no covariance."""
    exact_sd = exact_covariance.diagonal(dim1=-2, dim2=-1).sqrt()
    mean_error = float(((mean - exact_mean) / exact_sd).square().mean().sqrt())
    if covariance is None:
        return Closeness(mean_error, None, None, None)
    sd = covariance.diagonal(dim1=-2, dim2=-1).sqrt()
    correlation = covariance[:, 0, 1] / (sd[:, 0] * sd[:, 1])
    error = torch.linalg.matrix_norm(covariance - exact_covariance) / torch.linalg.matrix_norm(exact_covariance)
    return Closeness(mean_error, float((sd / exact_sd).mean()), float(correlation.mean()), float(error.mean()))


def posterior_moments(posterior: Distribution, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Mean ``[K, d]`` and covariance ``[K, d, d]``: exact for a Gaussian, else from :data:`MOMENT_DRAWS` draws."""
    with torch.no_grad(), drawing_from(generator):
        return moments(posterior, MOMENT_DRAWS)


def mean_field_optimum(covariance: Tensor) -> Tensor:
    """The covariance ``[K, d, d]`` at which KL(q || p) is least for a diagonal Gaussian q and a Gaussian p.

    Its variances are one over the diagonal of p's precision (Bishop 2006, Eq. 10.12 and 10.13): too small wherever
    dimensions are correlated.
    """
    return torch.diag_embed(1 / torch.linalg.inv(covariance).diagonal(dim1=-2, dim2=-1))


def log_density(model: Any, inputs: Tensor, targets: Tensor) -> LogDensity:
    """log p(e) + log-likelihood of the transitions ``[B, ...]`` of one environment, at many e at once."""
    known = has_default_forward(model) and has_default_prior(model)

    def at(latent: Tensor) -> Tensor:
        # Each point is an environment of its own, which has seen the same transitions.
        points = len(latent)
        owner = torch.arange(points).repeat_interleave(len(inputs))
        batch = whole_batch(inputs.repeat(points, 1), targets.repeat(points, 1), owner, model.likelihood.members)
        many = model if known else over_environments(model, points)
        return log_joint(many, standard_normal(latent) if known else many.prior(), batch, latent)

    return at


def standard_normal(like: Tensor) -> Distribution:
    """N(0, I) with batch shape ``[K]`` and event shape ``[d]``, for ``like`` ``[K, d]``."""
    return Independent(Normal(torch.zeros_like(like), 1.0, validate_args=False), 1)


@dataclass(frozen=True)
class Grid:
    """A posterior over two dimensions, summed up on a grid.

    Attributes:
        mean: ``[1, 2]``.
        covariance: ``[1, 2, 2]``.
        log_evidence: log of the integral of p(e, data), in nats.
        skewness: of the two marginals, ``[2]``; 0 for a Gaussian.
    """

    mean: Tensor
    covariance: Tensor
    log_evidence: float
    skewness: list[float]


@torch.no_grad()
def grid_posterior(density: LogDensity, reach: float = 5.0, side: int = 401) -> Grid:
    """Sum p(e, data) over a square grid from ``-reach`` to ``reach``, prior standard deviations, in both dimensions."""
    axis = torch.linspace(-reach, reach, side)
    points = torch.cartesian_prod(axis, axis)
    log_p = torch.cat([density(chunk) for chunk in points.split(8000)]).double()
    total, points = log_p.logsumexp(0), points.double()
    weight = (log_p - total).exp()
    mean = weight @ points
    centred = points - mean
    covariance = centred.T @ (weight[:, None] * centred)
    skewness = (weight @ centred**3) / covariance.diagonal() ** 1.5
    area = (axis[1] - axis[0]).item() ** 2
    return Grid(mean[None].float(), covariance[None].float(), float(total) + math.log(area), skewness.tolist())


@dataclass(frozen=True)
class Chains:
    """Draws of NUTS, and whether they are to be believed.

    Attributes:
        mean: ``[1, d]``.
        covariance: ``[1, d, d]``.
        r_hat: largest split R-hat of the d dimensions; 1.02 or less is well.
        effective: smallest effective sample size of the d dimensions.
    """

    mean: Tensor
    covariance: Tensor
    r_hat: float
    effective: float


def run_nuts(
    density: LogDensity, latent_dim: int, warm_up: int, draws: int, chains: int, generator: torch.Generator
) -> Chains:
    """Sample by NUTS (Hoffman and Gelman 2014), one chain after the other, each from a draw of N(0, I)."""
    found = []
    with drawing_from(generator):
        for _ in range(chains):
            kernel = NUTS(potential_fn=lambda site: -density(site["e"][None])[0], target_accept_prob=0.9)
            start = {"e": torch.randn(latent_dim)}
            mcmc = MCMC(kernel, num_samples=draws, warmup_steps=warm_up, initial_params=start, disable_progbar=True)
            mcmc.run()
            found.append(mcmc.get_samples()["e"])
    samples = torch.stack(found)  # [chains, draws, d]
    flat = samples.flatten(0, 1)
    r_hat = float(split_gelman_rubin(samples, chain_dim=0, sample_dim=1).max())
    effective = float(effective_sample_size(samples, chain_dim=0, sample_dim=1).min())
    return Chains(flat.mean(0, keepdim=True), flat.T.cov()[None], r_hat, effective)


@dataclass(frozen=True)
class Trust:
    """What a guide's own draws say about it.

    Attributes:
        k_hat: Pareto shape of p / q, None where the ratios are all alike; see
            :mod:`~pyro_dynamics.diagnostics.posterior.importance`.
        divergence: KL(q || p) in nats, by the same draws and the grid's evidence.
    """

    k_hat: float | None
    divergence: float


@torch.no_grad()
def trust(
    posterior: Distribution, density: LogDensity, log_evidence: float, generator: torch.Generator, draws: int = 4000
) -> Trust:
    """Compare log q with log p at draws of q, for one environment."""
    with drawing_from(generator):
        latent = posterior.sample(torch.Size([draws]))  # [S, 1, d]
    log_p, log_q = density(latent[:, 0]), posterior.log_prob(latent)[:, 0]
    _, k_hat = smoothed_log_weights(log_p.numpy(), log_q.numpy())
    return Trust(k_hat if k_hat > -math.inf else None, log_evidence - float((log_p - log_q).mean()))


def update_milliseconds(belief: Any, transitions: Sequence[tuple[Tensor, Tensor]], generator: torch.Generator) -> float:
    """Median CPU time of a streaming update, in milliseconds; the first, which warms up, does not count.

    Args:
        belief: over one environment.
        transitions: inputs ``[1, I]`` and targets ``[1, T]`` of each update.
        generator: source of the guide's samples.
    """
    times = []
    for inputs, targets in transitions:
        start = time.process_time()
        belief.update(inputs, targets, torch.zeros(1, dtype=torch.long), generator)
        times.append(1e3 * (time.process_time() - start))
    return median(times[1:])
