"""What is believed about one environment, as arrays, and in the units of its hidden parameter."""

from dataclasses import dataclass

import numpy as np
import torch
from torch.distributions import Distribution

from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.environments import Context, Family
from pyro_dynamics.environments.context_text import interval
from pyro_dynamics.environments.contexts import parse_number
from pyro_dynamics.errors import UserError
from pyro_dynamics.given_numbers import whole_number
from pyro_dynamics.processor import computing
from pyro_dynamics.seeding import derive_generator, drawing_from

DECODED = 4000
"""Draws from which an interval is read: its ends are then within 3 % of their distance."""


@dataclass(frozen=True, repr=False)
class Decoded:
    """The hidden parameters that a belief stands for, by a linear probe on the environments that were trained on.

    The probe is a straight line through a few trained environments: what it leaves over of them widens the interval.

    Attributes:
        names: of the P hidden parameters.
        units: of each.
        mean: ``[P]``.
        sd: standard deviations, ``[P]``.
        low: lower ends of the intervals, ``[P]``.
        high: upper ends, ``[P]``.
        level: probability of each interval.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: float

    def __str__(self) -> str:
        parts = zip(self.names, self.units, self.mean, self.low, self.high, strict=True)
        return ", ".join(interval(*one, level=self.level) for one in parts)

    __repr__ = __str__


class OnlineBelief:
    """q(e) about one environment, as it stood when it was asked for.

    Args:
        posterior: batch shape ``[1]``, event shape ``[d]``.
        latent_dim: size d of what is inferred; 0 for an agent that infers nothing.
        changed: whether the last update found that the environment has changed.
        steps: transitions that it is about: since it was the prior, or since it found a change.
        trained_means: latent means of the environments that were trained on, ``[K, d]``.
        family: of these environments.
        generator: source of :meth:`sample`.
    """

    def __init__(
        self,
        posterior: Distribution,
        latent_dim: int,
        changed: bool,
        steps: int,
        trained_means: np.ndarray,
        family: Family,
        generator: torch.Generator,
    ) -> None:
        self.posterior, self.latent_dim, self.changed, self.steps = posterior, latent_dim, changed, steps
        self._trained_means, self._family, self._generator = trained_means, family, generator

    @property
    def mean(self) -> np.ndarray:
        """Of the latent, ``[d]``."""
        return self.posterior.mean[0, : self.latent_dim].numpy()

    @property
    def sd(self) -> np.ndarray:
        """Standard deviations of the latent, ``[d]``."""
        return self.posterior.stddev[0, : self.latent_dim].numpy()

    def sample(self, draws: int) -> np.ndarray:
        """Draws of the latent, ``[draws, d]``; they do not change how the agent acts."""
        require_draws(draws)
        return self._drawn(draws, self._generator)

    @property
    def nearest(self) -> Context:
        """The context that was trained on whose latent is nearest to the mean."""
        self._require_latent()
        distances = np.linalg.norm(self._trained_means - self.mean, axis=1)
        return self._family.train[int(distances.argmin())]

    def decode(self, level: float = 0.9) -> Decoded:
        """The hidden parameters in their units, each with an interval of this probability.

        Raises:
            UserError: if there is no latent, if contexts are names and not numbers, or one alone, or if ``level`` is no
                probability.
        """
        self._require_latent()
        if not self._family.numeric:
            raise UserError(
                f"the contexts of {self._family.name} are names, which have no scale to be decoded on: use nearest"
            )
        if not self._family.decodable:
            raise UserError(
                f"{self._family.name} was trained on one context, and what a latent means is known from several alone: "
                "nothing can be decoded"
            )
        level = require_level(level)
        probe = ContextProbe(self._trained_means, self._family.train)
        drawn = probe.draws(self._drawn(DECODED, derive_generator(0, "decode"))).reshape(DECODED, -1)
        low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
        mean = np.atleast_1d(probe.predict(self.mean))
        return Decoded(self._family.parameters, self._family.units, mean, drawn.std(0), low, high, level)

    def _drawn(self, draws: int, generator: torch.Generator) -> np.ndarray:
        with computing(), drawing_from(generator):
            return self.posterior.sample((draws,))[:, 0, : self.latent_dim].numpy()

    def _require_latent(self) -> None:
        if not self.latent_dim:
            raise UserError("this agent infers no latent, and so believes nothing of the environment")

    def __repr__(self) -> str:
        if not self.latent_dim:
            return "OnlineBelief(no latent)"
        latent = ", ".join(f"{mean:+.3f} +- {sd:.3f}" for mean, sd in zip(self.mean, self.sd, strict=True))
        words = self.decode() if self._family.decodable else f"nearest {self.nearest}"
        return f"OnlineBelief({words}; latent {latent})"


def require_draws(draws: int) -> None:
    """Refuse a number of draws that is none.

    Raises:
        UserError: if it is no whole number from 1 on.
    """
    whole_number(draws, "draws", 1)


def require_level(level: float) -> float:
    """The probability of an interval; raises :class:`UserError` if it does not lie between 0 and 1."""
    return parse_number(level, "level", 0.0, 1.0)
