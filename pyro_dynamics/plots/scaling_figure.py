"""The figure of ``pyro-dynamics benchmark scaling``: how a plan's cost grows."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from pyro_dynamics.plots.style import STYLE, Png, png


def draw_scaling(costs: Mapping[str, Sequence[tuple[int, Any]]]) -> Png:
    """CPU time against each size, with the line of proportion through the largest; as a PNG.

    Args:
        costs: for each size's name its values, each with an object that has ``cpu`` in seconds.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11, 3.2), layout="constrained")
        panels = figure.subplots(1, len(costs), sharey=True)
        for panel, (name, measured) in zip(panels, costs.items(), strict=True):
            sizes = [size for size, _ in measured]
            seconds = [1000 * cost.cpu for _, cost in measured]
            panel.loglog(sizes, seconds, "o-", label="measured")
            panel.loglog(sizes, [seconds[-1] * size / sizes[-1] for size in sizes], "--", color="0.6", label="linear")
            panel.set(xlabel="environments K" if name == "environments" else name, xticks=sizes, xticklabels=sizes)
            panel.minorticks_off()
        panels[0].set(ylabel="CPU time of a plan (ms)")
        panels[0].legend()
        return png(figure)
