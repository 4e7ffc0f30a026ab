"""The figure of ``pyro-dynamics track``: every belief's path after a change, beside the truth."""

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from pyro_dynamics.plots.style import STYLE, Png, png


def draw_tracks(tracks: Mapping[str, Any], truth: np.ndarray, axis: str) -> Png:
    """Median over seeds of each belief, and the range over seeds, with a panel for each update; as a PNG.

    Args:
        tracks: for each name "belief update" an object with ``decoded`` ``[S][T]``.
        truth: the true hidden parameter, ``[T]``.
        axis: its name and unit.
    """
    updates = list(dict.fromkeys(name.split()[1] for name in tracks))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 4.0 * len(updates)), layout="constrained")
        panels = figure.subplots(len(updates), 1, sharex=True, squeeze=False)[:, 0]
        reach = max(np.ptp(truth), 1e-9)
        for panel, update in zip(panels, updates, strict=True):
            panel.plot(truth, color="black", lw=2, label="truth")
            shown = [name for name in tracks if name.split()[1] == update]
            for index, name in enumerate(shown):
                decoded = np.array(tracks[name].decoded)
                style = "--" if name.startswith("oracle-reset") else "-"
                panel.plot(np.median(decoded, 0), style, color=f"C{index}", lw=1.8, label=name.split()[0])
                panel.fill_between(
                    range(decoded.shape[1]), decoded.min(0), decoded.max(0), color=f"C{index}", alpha=0.12, lw=0
                )
            panel.set(
                ylabel=axis,
                ylim=(truth.min() - 0.5 * reach, truth.max() + 0.5 * reach),
                title=f"belief by the {update} update: median over seeds, and their range",
            )
            panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        panels[-1].set(xlabel="step")
        return png(figure)
