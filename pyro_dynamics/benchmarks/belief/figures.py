"""What the beliefs that followed a trial's streams are worth, as plain figures of each stream."""

from typing import Any

import numpy as np

from pyro_dynamics.benchmarks.belief.following import Followed
from pyro_dynamics.benchmarks.belief.measures import covered, move_made, squared_z, steps_to_follow
from pyro_dynamics.benchmarks.belief.trials import Trial, pairs

PREDICTED = 40
"""Steps whose log predictive density is added up."""
SETTLED = 20
"""Steps at the end over which the last state is judged."""
Figures = dict[str, Any]


def steady_figures(trial: Trial, found: Followed, scale: np.ndarray) -> Figures:
    """Coverage, error and width in the second half of unseen contexts, disagreement at the end, log predictive density.

    Args:
        trial: of contexts that stay.
        found: what was believed of them.
        scale: the trained range of each parameter, ``[P]``, by which errors and widths are measured.

    Returns:
        Of each group, ``inside`` and ``outside`` of the trained range, a list over streams for ``coverage``, ``error``
        and ``width``; ``z2_latent`` and ``z2_decoded`` over pairs of episodes of one context, and ``log_predictive`` in
        nats over streams, inside alone. ``z2_latent`` is None for latents too large for their covariance to be known.
    """
    truth, half = trial.truth(), trial.steps // 2
    share = covered(found.low[half:], found.high[half:], truth[half:])
    error = (np.abs(found.mean - truth)[half:] / scale).mean(axis=(0, 2))
    width = ((found.high - found.low)[half:] / scale).mean(axis=(0, 2))
    result: Figures = {
        group: {"coverage": share[rows].tolist(), "error": error[rows].tolist(), "width": width[rows].tolist()}
        for group in ("inside", "outside")
        if (rows := trial.rows(group))
    }
    inside = trial.rows("inside")
    one, other = pairs(inside)
    count, _, size = found.latents.shape
    whole = found.latents[:, one], found.latents[:, other]
    result["z2_latent"] = squared_z(*whole).tolist() if 10 * size <= count else None
    each = [squared_z(found.decoded[:, one, p, None], found.decoded[:, other, p, None]) for p in range(len(scale))]
    result["z2_decoded"] = np.mean(each, 0).tolist()
    result["log_predictive"] = found.log_predictive.sum(0)[inside].tolist()
    return result


def change_figures(trial: Trial, found: Followed, scale: np.ndarray) -> Figures:
    """Steps until 90 % of the true move is made, and where the beliefs end.

    Returns:
        Of each stream: ``steps`` (None for never), ``end_coverage`` (share of the last 20 steps with the
        truth in the interval), ``end_error`` as a share of the move; and ``left``, the steps after the change.
    """
    truth, step = trial.truth(), trial.schedules[0].last_change
    share = [move_made(found.mean[step:, k], truth[0, k], truth[-1, k], scale) for k in range(len(trial.schedules))]
    last = slice(-SETTLED, None)
    return {
        "steps": [steps_to_follow(one) for one in share],
        "end_coverage": covered(found.low[last], found.high[last], truth[last]).tolist(),
        "end_error": [float(np.abs(one[last] - 1).mean()) for one in share],
        "left": trial.steps - step,
    }


def recall_figures(trial: Trial, found: Followed, scale: np.ndarray) -> Figures:
    """Steps until 90 % of the true move is made at the first and at the second visit of the second context.

    Returns:
        Of ``unseen`` and of ``trained`` contexts the lists ``first`` and ``second`` over streams, and ``left``, the
        steps of a visit.
    """
    truth = trial.truth()
    (_, _), (step, _), _, (again, _) = trial.schedules[0].changes
    result: Figures = {"left": step}
    for group in dict.fromkeys(trial.groups):
        steps = [
            [
                steps_to_follow(move_made(found.mean[begin : begin + step, k], truth[0, k], truth[-1, k], scale))
                for k in trial.rows(group)
            ]
            for begin in (step, again)
        ]
        result[group] = dict(zip(("first", "second"), steps, strict=True))
    return result


FIGURES = {"steady": steady_figures, "change": change_figures, "recall": recall_figures}
