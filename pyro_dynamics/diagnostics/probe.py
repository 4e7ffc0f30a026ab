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
        self._design = self._with_constant(means)
        self._contexts = np.asarray(contexts, dtype=float)
        self.coefficients, *_ = np.linalg.lstsq(self._design, self._contexts, rcond=None)

    def predict(self, means: np.ndarray) -> np.ndarray:
        """The context that latent means ``[..., d]`` stand for, ``[...]``, in the context's unit."""
        return self._with_constant(means) @ self.coefficients

    def spread(self, scales: np.ndarray) -> np.ndarray:
        """The standard deviation ``[...]`` of :meth:`predict` where the latent has standard deviations ``[..., d]``."""
        return np.sqrt(np.square(scales * self.coefficients[1:]).sum(-1))

    @property
    def rank_correlation(self) -> float:
        """Spearman's correlation of predicted and true training contexts."""
        return float(spearmanr(self._design @ self.coefficients, self._contexts).statistic)

    @property
    def r_squared(self) -> float:
        """Share of the training contexts' variance that the probe explains."""
        residual = self._contexts - self._design @ self.coefficients
        return float(1 - residual.var() / self._contexts.var())

    @staticmethod
    def _with_constant(means: np.ndarray) -> np.ndarray:
        return np.concatenate([np.ones((*means.shape[:-1], 1)), means], axis=-1)
