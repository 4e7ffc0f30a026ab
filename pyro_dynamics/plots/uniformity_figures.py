"""Figures of what is uniform where a belief or a prediction is calibrated: PIT values and ranks, drawn by ArviZ.

Each panel is the ECDF less the diagonal. ArviZ shades the region in which it lies with a probability of 99 % if the
values are uniform (its versions from 1.3 on mark the points that are not, and write a p-value instead). Above 0 on the
left and below on the right: too many values at both ends, overconfident. The other way round: over-dispersed. On one
side of 0: shifted.
"""

from collections.abc import Mapping
from typing import Any

import arviz_base
import arviz_plots
import matplotlib
import numpy as np
from matplotlib import pyplot

from pyro_dynamics.plots.style import STYLE, Png, png, without_display

MOST = 500
"""Values in a panel, evenly out of all: neighbouring steps are not independent, and the region takes time."""


def draw_pit(pits: Mapping[str, np.ndarray]) -> Png:
    """Probability integral transforms, a panel for each name, as a PNG.

    Args:
        pits: for each name (a target, an environment) values in [0, 1], of any shape.
    """
    flat = {name: np.asarray(values, dtype=float).ravel() for name, values in pits.items()}
    count = min(MOST, *map(len, flat.values()))  # ArviZ wants as many of each
    return _draw({name: values[_evenly(len(values), count)] for name, values in flat.items()}, "PIT")


def draw_sbc(sbc: Any) -> Png:
    """Ranks of simulation-based calibration, a panel for each latent dimension, as a PNG.

    Args:
        sbc: has ``ranks`` ``[n, d]``, ``draws``, ``p_values`` ``[d]`` and ``shape`` ``[d]``.
    """
    pits = (np.array(sbc.ranks) + 0.5) / (sbc.draws + 1)
    titles = [
        f"latent {d}: {shape} (p = {p:.2g})" for d, (shape, p) in enumerate(zip(sbc.shape, sbc.p_values, strict=True))
    ]
    return _draw(dict(zip(titles, pits.T, strict=True)), f"rank of the truth among {sbc.draws} draws, as a share")


def _evenly(length: int, count: int) -> np.ndarray:
    return np.linspace(0, length - 1, count).astype(int)


def _with_ends(values: np.ndarray) -> np.ndarray:
    """The values with two more, where the first and the last of uniform ones lie.

    arviz-stats 0.8 divides what it draws by the largest value, and draws it from the least to the largest alone: values
    that fill the lower half alone would look uniform.
    """
    end = 0.5 / (len(values) + 2)
    return np.concatenate([values, [end, 1 - end]])


def _draw(pits: Mapping[str, np.ndarray], axis: str) -> Png:
    columns = min(5, len(pits))
    size = (max(5.0, 3.0 * columns), 0.6 + 2.6 * -(-len(pits) // columns))
    stacked = np.stack([_with_ends(values) for values in pits.values()], axis=-1)[None]
    tree = arviz_base.from_dict({"pit": {"pit": stacked}}, dims={"pit": ["panel"]})
    with matplotlib.rc_context(STYLE), without_display():
        plots = arviz_plots.plot_ecdf_pit(
            tree,
            group="pit",
            backend="matplotlib",
            col_wrap=columns,
            visuals={"remove_axis": False, "xlabel": False, "title": False},
            figure_kwargs={"figsize": size, "layout": "constrained", "sharey": True},
        )
        figure = plots.viz["figure"].item()
        for panel, name in zip(plots.viz["plot"]["pit"].to_numpy().ravel(), pits, strict=True):
            panel.set_title(name, fontsize=11)
        figure.supxlabel(axis, fontsize=11)
        figure.supylabel("ECDF less the diagonal", fontsize=11)
        content = png(figure)
        pyplot.close(figure)
        return content
