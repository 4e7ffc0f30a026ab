"""The paper's belief: the last posterior is the prior."""

from dataclasses import dataclass

from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.inference.beliefs.contract import BELIEFS, Belief


@dataclass(frozen=True)
class RecursiveConfig:
    """Nothing to set."""


@BELIEFS.register("recursive")
class RecursiveBelief(Belief):
    """Remembers everything for ever (Eq. 3): right while nothing changes, and too hard to follow a change."""

    Config = RecursiveConfig
    config: RecursiveConfig
    leaves_memory_to_the_guide = True

    def prior(self, posterior: Distribution, seen: Tensor) -> Distribution:
        return posterior
