"""Is the one-step predictive distribution calibrated? Probability integral transform and coverage of intervals.

Under a belief q(e) and an ensemble the prediction of a target is a mixture of Gaussians, one for each draw of e and
each member. Its CDF at the observed target, the probability integral transform (PIT), is uniform on [0, 1] if the
prediction is calibrated (Dawid 1984; Gneiting, Balabdaoui and Raftery 2007): a histogram that is high at both ends
shows overconfident predictions, one that is high in the middle over-dispersed ones.
"""

import torch
from torch import Tensor

LEVEL = 0.9
"""Probability of the central intervals whose coverage is reported everywhere."""


def coverage(pit: Tensor, level: float = LEVEL) -> Tensor:
    """Share of the target dimensions that fell into their central intervals: ``[..., T] -> [...]``.

    A target lies in the central interval of probability 0.9 where its PIT lies in [0.05, 0.95].

    Args:
        pit: probability integral transforms ``[..., T]``.
        level: probability of the interval.
    """
    tail = (1 - level) / 2
    return ((pit >= tail) & (pit <= 1 - tail)).float().mean(-1)


def pit_histogram(pit: Tensor, bins: int = 10) -> list[int]:
    """How many of the PIT values (any shape) lie in each of ``bins`` equal parts of [0, 1]."""
    return torch.histc(pit.float().flatten(), bins, 0, 1).int().tolist()
