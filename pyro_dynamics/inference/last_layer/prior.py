"""The prior of a last layer, learned from the environments that were trained on: empirical Bayes, by EM."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pyro_dynamics.inference.last_layer.regression import Layers

ITERATIONS = 25
"""Of EM: by then the evidence of five pendulums changes by less than 0.001 nats for each row."""
SHARES = (1.0, 0.1, 0.01, 0.001, 0.0001)
"""Shares that are tried, in environments."""


@dataclass(frozen=True)
class Moments:
    """All that a linear regression takes from the data of K environments, or of K parts of the data.

    Attributes:
        features: sums of phi phi^T, ``[K, M, F, F]``.
        products: sums of phi y^T, ``[K, M, F, T]``.
        squares: sums of y^2, ``[K, T]``.
        counts: rows, ``[K]``.
    """

    features: Tensor
    products: Tensor
    squares: Tensor
    counts: Tensor

    def select(self, kept: Tensor) -> "Moments":
        """Those of some parts alone, booleans ``[K]``."""
        return Moments(self.features[kept], self.products[kept], self.squares[kept], self.counts[kept])


@dataclass(frozen=True)
class LayerPrior:
    """What is known of a new environment's last layer, and of those that were trained on.

    Attributes:
        prior: ``[M, F, T]`` and ``[M, F, F]``.
        noise: standard deviations of the targets, ``[M, T]``.
        trained: posteriors of the K environments.
        share: of what spreads over all directions alike, in environments.
        evidence: log p(data | prior, noise) of the mean member in nats for each row, before each iteration.
    """

    prior: Layers
    noise: Tensor
    trained: Layers
    share: float
    evidence: list[float]


def fit_prior(
    moments: Moments, beginnings: Moments, environment: Tensor, start: Tensor, shares: Sequence[float] = SHARES
) -> LayerPrior:
    """The Gaussian from which the K environments' layers come, and the noise, of the largest evidence.

    A few environments span a few directions of the many that a layer has, and a prior without variance in the others
    could never learn there. So a part of an environment is counted that spreads over all directions alike. How large a
    part is decided by the evidence of the first steps in each environment under what the others say: with many rows a
    wide prior wins, as it makes up for what the network has not learned, and online it is the first steps that count.

    Args:
        moments: of all data of each of the K environments.
        beginnings: of the first steps of episodes.
        environment: which of the K each of those episodes was in.
        start: the trained layer, ``[M, F, T]``: the prior's mean where the data say nothing.
        shares: to choose from.
    """
    fits = [fit_with_share(moments, start, share) for share in shares]
    return max(fits, key=lambda found: held_out_evidence(found, beginnings, environment))


def fit_with_share(moments: Moments, start: Tensor, share: float) -> LayerPrior:
    """:func:`fit_prior` with one share, by EM over the layers; the noise is the best for each prior."""
    start = start.to(moments.products)
    prior = Layers(start, torch.eye(start.shape[1]).to(start).repeat(len(start), 1, 1))
    noise, evidence = _scatter(moments, start).sqrt(), []
    for _ in range(ITERATIONS):
        trained = posterior(moments, prior)
        noise = (_scatter(moments, trained.mean) + _distance(prior, trained) / moments.counts.sum()).sqrt()
        evidence.append(_log_evidence(moments, prior, trained, noise))
        prior = _prior_of(trained, noise, share)
    return LayerPrior(prior, noise, posterior(moments, prior), share, evidence)


def held_out_evidence(found: LayerPrior, beginnings: Moments, environment: Tensor) -> float:
    """log p(first steps in k | the others' layers) in nats for each row, summed over environments; 0 if there is one.

    The others' layers are their posteriors, which know a little of k by the prior that they share.
    """
    count, total = len(found.trained.mean), 0.0
    for k in environment.unique().tolist() if count > 1 else ():
        own = beginnings.select(environment == k)
        prior = _prior_of(found.trained[torch.arange(count) != k], found.noise, found.share)
        total += _log_evidence(own, prior, posterior(own, prior), found.noise)
    return total


def _prior_of(trained: Layers, noise: Tensor, share: float) -> Layers:
    """The Gaussian of some environments' layers, with a share of one that spreads over all directions alike."""
    mean, (count, _, width, targets) = trained.mean.mean(0), trained.mean.shape
    away = (trained.mean - mean) / noise[:, None]
    spread = trained.covariance.mean(0) + torch.einsum("kmft,kmgt->mfg", away, away) / (count * targets)
    alike = spread.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None] * torch.eye(width).to(mean)
    return Layers(mean, (count * spread + share * alike) / (count + share))


def posterior(moments: Moments, prior: Layers) -> Layers:
    """Of each environment, ``[K, M, F, T]`` and ``[K, M, F, F]``: ridge regression toward the prior's mean."""
    precision = _inverse(prior.covariance)
    covariance = _inverse(precision + moments.features)
    return Layers(covariance @ (precision @ prior.mean + moments.products), covariance)


def _scatter(moments: Moments, layer: Tensor) -> Tensor:
    """Mean square of the residuals of layers ``[M, F, T]`` or ``[K, M, F, T]`` over all rows, ``[M, T]``."""
    layer = layer.expand_as(moments.products)
    fitted = torch.einsum("kmft,kmfg,kmgt->mt", layer, moments.features, layer)
    total = moments.squares.sum(0) - 2 * (layer * moments.products).sum((0, 2)) + fitted
    return (total / moments.counts.sum()).clamp(min=1e-12)


def _distance(prior: Layers, trained: Layers) -> Tensor:
    """Sum over environments of the squared distance to the prior's mean, by its covariance, ``[M, T]``."""
    away = trained.mean - prior.mean
    return torch.einsum("kmft,mfg,kmgt->mt", away, _inverse(prior.covariance), away)


def _inverse(matrix: Tensor) -> Tensor:
    """Of symmetric matrices, ``[..., F, F]``: symmetric too."""
    return torch.cholesky_inverse(torch.linalg.cholesky(matrix))


def _log_evidence(moments: Moments, prior: Layers, trained: Layers, noise: Tensor) -> float:
    """log p(data) for each row, of the mean member."""
    rows, targets = moments.counts.sum(), noise.shape[-1]
    shrunk = (torch.logdet(trained.covariance) - torch.logdet(prior.covariance)).sum(0)  # [M]
    misfit = (_scatter(moments, trained.mean) + _distance(prior, trained) / rows) / noise.square()
    total = targets * shrunk / 2 - rows * (misfit / 2 + noise.log() + math.log(2 * math.pi) / 2).sum(-1)
    return float(total.mean() / rows)


def leading_directions(moments: Moments, found: LayerPrior, count: int) -> Tensor:
    """Directions ``[r, M, F, T]`` along which the trained layers differ most, as their predictions of the data show.

    The inner product of two layers is that of their predictions on all data, in units of the noise. The r largest
    principal components of the environments are the same numbers for all members, the first of mean square 1; each
    member has its own direction for each, by ridge regression whose ridge is what the posteriors leave open.

    Args:
        moments: of the data.
        found: the prior and the K trained layers.
        count: r, at most K - 1.
    """
    metric = moments.features.sum(0) / moments.counts.sum()
    away = (found.trained.mean - found.prior.mean) / found.noise[:, None]
    predicted = metric @ away  # [K, M, F, T]
    gram = torch.einsum("kmft,jmft->mkj", away, predicted)
    values, vectors = torch.linalg.eigh(gram.mean(0))
    order = values.argsort(descending=True)[:count]
    largest = vectors[:, order]
    sign = largest.gather(0, largest.abs().argmax(0, keepdim=True)).sign()  # eigenvectors have none of their own
    size = (values[order] / values.max()).clamp(min=1e-6).sqrt()  # distances between environments keep their meaning
    scores = len(gram[0]) ** 0.5 * sign * largest * size  # [K, r]
    targets = found.noise.shape[-1]
    ridge = targets * torch.einsum("mfg,kmgf->m", metric, found.trained.covariance) / len(scores)
    weights = torch.linalg.solve(gram + ridge[:, None, None] * torch.eye(len(scores)).to(gram), scores)  # [M, K, r]
    return torch.einsum("mkr,kmft->rmft", weights, predicted) / found.noise[:, None]
