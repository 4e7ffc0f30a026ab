"""Predictive intervals that keep their word: adaptive conformal inference (Gibbs and Candes 2021)."""

import math

import torch
from torch import Tensor

from pyro_dynamics.diagnostics.prediction.predictive import LEVEL


class AdaptiveIntervals:
    """Central 90 % intervals whose width follows the observed errors, for K environments and each target dimension.

    A network's own intervals are as wide as its noise, which training sets for all states at once: over-dispersed where
    a robot stands still, too narrow where the physics are new. Here a factor on the predicted standard deviation
    grows by exp(0.9 rate) after a target outside its interval and shrinks by exp(-0.1 rate) after one inside, so that
    in the long run one target in ten lies outside WHATEVER the belief is. The width, and not the coverage, then
    shows how good the belief is. The factor starts at 1.

    Args:
        environments: number K.
        targets: number T of target dimensions.
        rate: how fast the width follows.
    """

    def __init__(self, environments: int, targets: int, rate: float = 1.0) -> None:
        self.rate = rate
        self.log_factor = torch.zeros(environments, targets)
        self.steps = 0

    @property
    def factor(self) -> Tensor:
        """Of the predicted standard deviations, ``[K, T]``."""
        return self.log_factor.exp()

    def cover(self, pit: Tensor) -> Tensor:
        """Whether each target lies in its interval, ``[K, T]``; the widths learn from it afterwards.

        Args:
            pit: the CDF at the observed target of the prediction with its standard deviations times :attr:`factor`,
                ``[K, T]``.
        """
        inside = (pit - 0.5).abs() <= LEVEL / 2
        rate = self.rate * max(1.0, 4 / math.sqrt(1 + self.steps))
        self.steps += 1
        self.log_factor += rate * torch.where(inside, LEVEL - 1, LEVEL)
        self.log_factor.clamp_(-12, 12)
        return inside
