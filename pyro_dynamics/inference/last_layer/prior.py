"""The prior of a last layer, learned from the environments that were trained on: empirical Bayes, by EM."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pyro_dynamics.inference.last_layer.regression import Layers

ITERATIONS = 100
"""Of EM; the evidence of five pendulums changes by less than 1 % of its gain over the last half of them."""


@dataclass(frozen=True)
class Moments:
    """All that a linear regression takes from the data of K environments.

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


@dataclass(frozen=True)
class LayerPrior:
    """What is known of a new environment's last layer, and of those that were trained on.

    Attributes:
        prior: ``[M, F, T]`` and ``[M, F, F]``.
        noise: standard deviations of the targets, ``[M, T]``.
        trained: posteriors of the K environments.
        evidence: log p(data | prior, noise) of the mean member in nats for each row, after each iteration.
    """

    prior: Layers
    noise: Tensor
    trained: Layers
    evidence: list[float]


def fit_prior(moments: Moments, start: Tensor, iterations: int = ITERATIONS) -> LayerPrior:
    """The Gaussian of the K environments' layers, and their noise, of the largest evidence, with a share for the rest.

    A few environments span a few directions of the many that a layer has. So one further environment is counted that
    spreads over all directions alike: a prior without variance somewhere could never learn there.

    Args:
        moments: of the data.
        start: the trained layer, ``[M, F, T]``: the prior's mean where the data say nothing.
        iterations: of EM.
    """
    count, _, width, targets = moments.products.shape
    mean, noise = start.to(moments.products), _scatter(moments, start.to(moments.products)).sqrt()
    covariance = torch.eye(width).to(mean).expand(len(start), -1, -1)
    evidence = []
    for _ in range(iterations):
        trained = posterior(moments, Layers(mean, covariance))
        evidence.append(_log_evidence(moments, Layers(mean, covariance), trained, noise))
        scatter = _scatter(moments, trained.mean)
        away = trained.mean - mean
        drawn = torch.einsum("kmft,mfg,kmgt->mt", away, torch.linalg.inv(covariance), away)
        noise = (scatter + drawn / moments.counts.sum()).sqrt()
        mean = trained.mean.mean(0)
        away = (trained.mean - mean) / noise[:, None]
        spread = trained.covariance.mean(0) + torch.einsum("kmft,kmgt->mfg", away, away) / (count * targets)
        alike = spread.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None] * torch.eye(width).to(mean)
        covariance = (count * spread + alike) / (count + 1)
    prior = Layers(mean, covariance)
    return LayerPrior(prior, noise, posterior(moments, prior), evidence)


def posterior(moments: Moments, prior: Layers) -> Layers:
    """Of each environment, ``[K, M, F, T]`` and ``[K, M, F, F]``: ridge regression toward the prior's mean."""
    precision = torch.linalg.inv(prior.covariance)
    covariance = torch.linalg.inv(precision + moments.features)
    covariance = (covariance + covariance.mT) / 2
    return Layers(covariance @ (precision @ prior.mean + moments.products), covariance)


def _scatter(moments: Moments, layer: Tensor) -> Tensor:
    """Mean square of the residuals of layers ``[M, F, T]`` or ``[K, M, F, T]`` over all rows, ``[M, T]``."""
    layer = layer.expand_as(moments.products)
    fitted = torch.einsum("kmft,kmfg,kmgt->mt", layer, moments.features, layer)
    total = moments.squares.sum(0) - 2 * (layer * moments.products).sum((0, 2)) + fitted
    return (total / moments.counts.sum()).clamp(min=1e-12)


def _log_evidence(moments: Moments, prior: Layers, trained: Layers, noise: Tensor) -> float:
    """log p(data) for each row, of the mean member."""
    away = trained.mean - prior.mean
    quadratic = torch.einsum("kmft,mfg,kmgt->mt", away, torch.linalg.inv(prior.covariance), away)
    rows, targets = moments.counts.sum(), noise.shape[-1]
    shrunk = (torch.logdet(trained.covariance) - torch.logdet(prior.covariance)).sum(0)  # [M]
    misfit = (_scatter(moments, trained.mean) + quadratic / rows) / noise.square()
    total = targets * shrunk / 2 - rows * (misfit / 2 + noise.log() + math.log(2 * math.pi) / 2).sum(-1)
    return float(total.mean() / rows)


def leading_directions(moments: Moments, found: LayerPrior, count: int) -> Tensor:
    """Directions ``[r, M, F, T]`` along which the trained layers differ most, as their predictions of the data show.

    The inner product of two layers is that of their predictions on all data, in units of the noise. The r largest
    principal components of the environments are the same numbers for all members, of mean square 1; each member has its
    own direction for each, by ridge regression whose ridge is what the posteriors leave open.

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
    largest = vectors[:, values.argsort(descending=True)[:count]]
    sign = largest.gather(0, largest.abs().argmax(0, keepdim=True)).sign()  # eigenvectors have none of their own
    scores = len(gram[0]) ** 0.5 * sign * largest  # [K, r]
    targets = found.noise.shape[-1]
    ridge = targets * torch.einsum("mfg,kmgf->m", metric, found.trained.covariance) / len(scores)
    weights = torch.linalg.solve(gram + ridge[:, None, None] * torch.eye(len(scores)).to(gram), scores)  # [M, K, r]
    return torch.einsum("mkr,kmft->rmft", weights, predicted) / found.noise[:, None]
