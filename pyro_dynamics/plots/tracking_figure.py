"""The figure of ``pyro-dynamics track``: how each belief follows a change, beside the truth and the oracle reset."""

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pyro_dynamics.plots.style import BELIEF, STYLE, TRUTH, Png, png

REFERENCE = "oracle-reset"
IN_A_ROW = 3


def draw_tracks(tracks: Mapping[str, Any], truth: np.ndarray, axis: str) -> Png:
    """A panel for each belief and update: median over seeds, and the range over seeds; as a PNG.

    The oracle-reset baseline of the same update, which is what the data allow, is a dashed line in each panel; it has
    one of its own where it is alone.

    Args:
        tracks: for each name "belief update" an object with ``decoded`` ``[S][T]``.
        truth: the true hidden parameter, ``[T]``.
        axis: its name and unit.
    """
    shown = [name for name in tracks if not name.startswith(REFERENCE)] or list(tracks)
    columns = min(IN_A_ROW, len(shown))
    rows = -(-len(shown) // columns)
    # Only what most of the time is drawn decides the limits: a belief may leave for a few steps.
    inside = [np.quantile(np.array(tracks[name].decoded), [0.02, 0.98]) for name in shown]
    low, high = min(truth.min(), *np.min(inside, 1)), max(truth.max(), *np.max(inside, 1))
    reach = 0.1 * max(high - low, 1e-9)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(max(6.0, 0.6 + 3.4 * columns), 0.9 + 2.6 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for panel in panels.flat[len(shown) :]:
            panel.set_axis_off()
        for panel, name in zip(panels.flat, shown, strict=False):
            belief, update = name.split()
            decoded, time = np.array(tracks[name].decoded), np.arange(len(truth))
            panel.step(time, truth, where="mid", color=TRUTH, lw=2, label="truth")
            reset = tracks.get(f"{REFERENCE} {update}")
            if reset is not None and belief != REFERENCE:
                middle = np.median(np.array(reset.decoded), 0)
                panel.plot(middle, "--", color="tab:blue", lw=1.4, label="oracle reset")
            over = range(decoded.shape[1])
            panel.fill_between(over, decoded.min(0), decoded.max(0), color=BELIEF, alpha=0.18, lw=0)
            panel.plot(np.median(decoded, 0), color=BELIEF, lw=1.6, label="belief: median and range over seeds")
            panel.set_title(f"{belief}, {update}", fontsize=11, loc="left")
            panel.set_ylim(low - reach, high + reach)
            panel.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=3, frameon=False)
        figure.supxlabel("step", fontsize=11)
        figure.supylabel(axis, fontsize=11)
        return png(figure)
