"""The figure of ``pyro-dynamics benchmark scaling``: how a plan's cost grows."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from pyro_dynamics.plots.style import STYLE, Png, png

LABELS = {
    "environments": "environments K",
    "state": "entries of the state",
    "transitions": "transitions of a training epoch",
}


def draw_scaling(costs: Mapping[str, Sequence[tuple[int, Any]]]) -> Png:
    """CPU time against each size, with the line of proportion through the largest; as a PNG.

    Args:
        costs: for each size's name its values, each with an object that has ``cpu`` in seconds. All are of plans, which
            share an axis, but for ``transitions``.
    """
    with matplotlib.rc_context(STYLE):
        columns = min(3, len(costs))
        rows = -(-len(costs) // columns)
        figure = Figure(figsize=(9.5, 3 * rows), layout="constrained")
        plans = [cost.cpu for name, measured in costs.items() if name != "transitions" for _, cost in measured]
        panels = list(figure.subplots(rows, columns, squeeze=False).flat)
        for panel, (name, measured) in zip(panels, costs.items(), strict=False):
            sizes = [size for size, _ in measured]
            seconds = [cost.cpu for _, cost in measured]
            panel.loglog(sizes, seconds, "o-", label="measured")
            panel.loglog(sizes, [seconds[-1] * size / sizes[-1] for size in sizes], "--", color="0.6", label="linear")
            words = [f"{size:,}" if size < 10_000 else f"{size:.0e}".replace("+0", "") for size in sizes]
            panel.set(xlabel=LABELS.get(name, name), xticks=sizes, xticklabels=words)
            panel.minorticks_off()
            if name != "transitions":
                panel.set_ylim(0.7 * min(plans), 1.4 * max(plans))
        for panel in panels[len(costs) :]:
            panel.remove()
        for row in range(rows):
            panels[row * columns].set(ylabel="CPU time of a plan (s)")
        if "transitions" in costs:
            panels[list(costs).index("transitions")].set(ylabel="CPU time of the epoch (s)")
        panels[0].legend()
        return png(figure)
