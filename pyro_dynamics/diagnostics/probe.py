"""A linear probe from latent means to true contexts."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import spearmanr


class ContextProbe:
    """The direction of the latent space along which the training contexts lie, by least squares.

    Rotation and sign of a latent are not identified, so a latent is never judged by an axis. With few environments a
    probe fits easily: five points of the plane fall in a given order along SOME direction in one case of six by
    chance. Look at contexts that were not used for the fit.

    Args:
        means: latent means of the training environments, ``[K, d]``.
        contexts: their true contexts, ``[K]``.
    """

    def __init__(self, means: np.ndarray, contexts: Sequence[float]) -> None:
        self._means = np.asarray(means, dtype=float)
        self._contexts = np.asarray(contexts, dtype=float)
        # Centred first: the shortest of all fitting directions is then the one along which the contexts lie.
        centre, level = self._means.mean(0), self._contexts.mean()
        self.direction, *_ = np.linalg.lstsq(self._means - centre, self._contexts - level)
        self.offset = level - centre @ self.direction

    def predict(self, means: np.ndarray) -> np.ndarray:
        """The context that latent means ``[..., d]`` stand for, ``[...]``, in the context's unit."""
        return self.offset + means @ self.direction

    def spread(self, scales: np.ndarray) -> np.ndarray:
        """The standard deviation ``[...]`` of :meth:`predict` where the latent has standard deviations ``[..., d]``."""
        return np.sqrt(np.square(scales * self.direction).sum(-1))

    @property
    def rank_correlation(self) -> float:
        """Spearman's correlation of predicted and true training contexts."""
        return float(spearmanr(self.predict(self._means), self._contexts).statistic)

    @property
    def r_squared(self) -> float:
        """Share of the training contexts' variance that the probe explains."""
        return float(1 - (self._contexts - self.predict(self._means)).var() / self._contexts.var())
