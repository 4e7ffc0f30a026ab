"""Scores of forecasts that are draws: proper ones, in the unit of what is predicted, and calibration by ranks.

Gneiting and Raftery 2007, "Strictly proper scoring rules, prediction, and estimation", sections 4.2 and 4.3.
"""

from pyro.ops.stats import crps_empirical, energy_score_empirical
from torch import Tensor


def crps(draws: Tensor, observed: Tensor) -> Tensor:
    """Continuous ranked probability score E|X - y| - E|X - X'| / 2, each dimension by itself; smaller is better.

    Unbiased for independent draws. Of a forecast that is one point it is the absolute error.

    Args:
        draws: ``[n, ...]``, n of at least 2.
        observed: ``[...]``.

    Returns:
        ``[...]``, in the unit of the target.
    """
    return _unbiased(crps_empirical(draws, observed), (draws - observed).abs().mean(0), len(draws))


def energy_score(draws: Tensor, observed: Tensor) -> Tensor:
    """E|X - y| - E|X - X'| / 2 with Euclidean distances: the CRPS of a whole vector.

    Dimensions should be brought to one scale before.

    Args:
        draws: ``[n, B, T]``.
        observed: ``[B, T]``.

    Returns:
        ``[B]``.
    """
    score = energy_score_empirical(draws.transpose(0, 1), observed)
    return _unbiased(score, (draws - observed).norm(dim=-1).mean(0), len(draws))


def _unbiased(score: Tensor, error: Tensor, draws: int) -> Tensor:
    """Pyro's score with the distances between draws averaged over pairs of two, without each draw and itself."""
    return error - (error - score) * draws / (draws - 1)


def rank_pit(draws: Tensor, observed: Tensor) -> Tensor:
    """Probability integral transform by ranks: the share of draws ``[n, ...]`` below what was observed ``[...]``.

    In (0, 1), never its ends: one who is beyond all n draws is beyond about one in n + 1.
    """
    below = (draws < observed).sum(0) + 0.5 * (draws == observed).sum(0)
    return (below + 0.5) / (len(draws) + 1)
