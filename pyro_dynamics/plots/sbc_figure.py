"""The picture of simulation-based calibration: rank histograms (Talts et al. 2018, arXiv:1804.06788)."""

from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import binom

from pyro_dynamics.plots.figures import STYLE, png

BAND = 0.94
"""Share of the bars that lie inside the band if ranks are uniform."""


def draw_sbc(sbc: Any) -> bytes:
    """The ranks' histogram for each latent dimension, with the band of uniform ranks, as a PNG.

    Args:
        sbc: has ``ranks`` ``[n, d]``, ``draws``, ``bins``, ``p_values`` ``[d]`` and ``shape`` ``[d]``.
    """
    ranks = np.array(sbc.ranks)
    count, dimensions = ranks.shape
    edges = np.linspace(0, sbc.draws + 1, sbc.bins + 1)
    low, high = binom.interval(BAND, count, 1 / sbc.bins)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(0.8 + 4.6 * dimensions, 3.6), layout="constrained")
        axes = figure.subplots(1, dimensions, sharey=True, squeeze=False)[0]
        for dimension, panel in enumerate(axes):
            colour = "tab:blue" if sbc.shape[dimension] == "uniform" else "tab:red"
            panel.axhspan(low, high, color="grey", alpha=0.25, lw=0, label=f"{BAND:.0%} of the bars, if uniform")
            panel.axhline(count / sbc.bins, color="black", ls=":", lw=1.5)
            panel.hist(ranks[:, dimension], edges, color=colour, alpha=0.75, rwidth=0.9)
            panel.set(
                xlim=(0, sbc.draws + 1),
                xlabel=f"rank of the truth among {sbc.draws} draws",
                title=f"latent {dimension}: {sbc.shape[dimension]} (p = {sbc.p_values[dimension]:.2g})",
            )
        axes[0].set(ylabel="simulations")
        # Above the bars, wherever they are.
        axes[0].set_ylim(0, 1.25 * max(axes[0].get_ylim()[1], high))
        axes[0].legend(fontsize=9, loc="upper center")
        return png(figure)
