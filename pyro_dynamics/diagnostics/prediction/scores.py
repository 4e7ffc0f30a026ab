"""Scores of forecasts that are draws: proper ones, in the unit of what is foretold, and calibration by ranks.

Gneiting and Raftery 2007, "Strictly proper scoring rules, prediction, and estimation", sections 4.2 and 4.3.
"""

import torch
from torch import Tensor


def crps(draws: Tensor, happened: Tensor) -> Tensor:
    """Continuous ranked probability score E|X - y| - E|X - X'| / 2, each dimension by itself; smaller is better.

    Unbiased for independent draws. Of a forecast that is one point it is the absolute error.

    Args:
        draws: ``[n, ...]``, n of at least 2.
        happened: ``[...]``.

    Returns:
        ``[...]``, in the unit of the target.
    """
    count = len(draws)
    ordered = draws.sort(0).values
    # The sum of |X_i - X_j| over pairs, by how often each ordered draw is added and taken away.
    weight = (2 * torch.arange(count, dtype=draws.dtype) - count + 1).reshape(-1, *[1] * happened.dim())
    between = (weight * ordered).sum(0) * 2 / (count * (count - 1))
    return (draws - happened).abs().mean(0) - between / 2


def energy_score(draws: Tensor, happened: Tensor) -> Tensor:
    """E|X - y| - E|X - X'| / 2 with Euclidean distances: the CRPS of a whole vector.

    Dimensions should be brought to one scale before.

    Args:
        draws: ``[n, B, T]``.
        happened: ``[B, T]``.

    Returns:
        ``[B]``.
    """
    count = len(draws)
    by_row = draws.transpose(0, 1)
    between = torch.cdist(by_row, by_row).sum(dim=(1, 2)) / (count * (count - 1))
    return (draws - happened).norm(dim=-1).mean(0) - between / 2


def rank_pit(draws: Tensor, happened: Tensor) -> Tensor:
    """Probability integral transform by ranks: the share of draws ``[n, ...]`` below what happened ``[...]``.

    In (0, 1), never its ends: one who is beyond all n draws is beyond about one in n + 1.
    """
    below = (draws < happened).sum(0) + 0.5 * (draws == happened).sum(0)
    return (below + 0.5) / (len(draws) + 1)
