"""A linear probe from latent means to true contexts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyro_dynamics.environments.context_text import columns


class ContextProbe:
    """The direction of the latent space along which the training contexts lie, by least squares.

    Of several hidden parameters each has a direction of its own: the result has then one more axis, of size P.

    Rotation and sign of a latent are not identified, so a latent is never judged by an axis. With few environments a
    probe fits easily: five points of the plane fall in a given order along SOME direction in one case of six by
    chance. Look at contexts that were not used for the fit.

    Args:
        means: latent means of the training environments, ``[K, d]``.
        contexts: their true contexts, ``[K]``, or ``[K, P]`` of P hidden parameters.
    """

    def __init__(self, means: np.ndarray, contexts: Sequence[Any] | np.ndarray) -> None:
        self._means = np.asarray(means, dtype=float)
        self._contexts = np.asarray(contexts, dtype=float)
        # Centred first: the shortest of all fitting directions is then the one along which the contexts lie.
        centre, level = self._means.mean(0), self._contexts.mean(0)
        self.direction, *_ = np.linalg.lstsq(self._means - centre, self._contexts - level)
        self.offset = level - centre @ self.direction
        # What a straight line through K points leaves over, and how far from them it is used.
        count, d = self._means.shape
        left = columns(self._contexts - self.predict(self._means))
        free = count - d - 1
        self._residual = np.sqrt(np.square(left).sum(0) / free) if free > 0 else np.zeros(left.shape[1])
        self._centre, self._precision = centre, np.linalg.pinv((self._means - centre).T @ (self._means - centre))

    def predict(self, means: np.ndarray) -> np.ndarray:
        """The context that latent means ``[..., d]`` stand for, ``[...]`` or ``[..., P]``, in the context's unit."""
        return self.offset + means @ self.direction

    def error(self, means: np.ndarray) -> np.ndarray:
        """Standard error of :meth:`predict` at latents ``[..., d]`` that are known exactly: ``[...]`` or ``[..., P]``.

        That of a linear regression's prediction: the latents of contexts lie on a curve, and the probe is straight. It
        is 0 where there are too few environments, d + 1 or less, to see any of that.
        """
        away = means - self._centre
        leverage = 1 / len(self._means) + np.einsum("...i,ij,...j->...", away, self._precision, away)
        errors: np.ndarray = np.sqrt(1 + leverage)[..., None] * self._residual
        return errors if self._contexts.ndim > 1 else errors[..., 0]

    def draws(self, latents: np.ndarray, axis: int = 0) -> np.ndarray:
        """Draws of the context, ``[..., n, ...]`` or with P at the end, from draws of the latent ``[..., n, ..., d]``.

        The probe's own error is in them: one for each draw, always the same.

        Args:
            latents: draws of it.
            axis: along which the draws are.
        """
        size = latents.shape[axis]
        shape = [size if one == axis else 1 for one in range(latents.ndim - 1)]
        parameters = np.shape(self._contexts)[1:]
        noise = np.random.default_rng(0).standard_normal((size, *parameters)).reshape(*shape, *parameters)
        drawn: np.ndarray = self.predict(latents) + self.error(latents) * noise
        return drawn

    def spread(self, scales: np.ndarray) -> np.ndarray:
        """The standard deviation of :meth:`predict` where the latent has standard deviations ``[..., d]``."""
        return np.sqrt(np.square(scales) @ np.square(self.direction))

    @property
    def rank_correlation(self) -> Any:
        """Spearman's correlation of predicted and true training contexts: a number, or a list of P."""
        from scipy.stats import spearmanr  # here, as it takes long

        pairs = zip(columns(self.predict(self._means)).T, columns(self._contexts).T, strict=True)
        found = np.array([spearmanr(predicted, true).statistic for predicted, true in pairs])
        return found.reshape(self._contexts.shape[1:]).tolist()

    @property
    def r_squared(self) -> Any:
        """Share of the training contexts' variance that the probe explains: a number, or a list of P."""
        return (1 - (self._contexts - self.predict(self._means)).var(0) / self._contexts.var(0)).tolist()
