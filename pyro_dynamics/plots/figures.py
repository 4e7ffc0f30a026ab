"""Figures of several runs side by side, and of a choice of temperature."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pyro_dynamics.plots.style import STYLE, Png, png


def draw_calibration(rows: Sequence[Mapping[str, float]], chosen: float) -> Png:
    """Coverage of the belief and of its predictions by temperature, as a PNG.

    Args:
        rows: with ``temperature``, ``belief_coverage`` and ``predictive_coverage``.
        chosen: the temperature that was chosen.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7, 4.4), layout="constrained")
        panel = figure.subplots()
        temperatures = [row["temperature"] for row in rows]
        for key, words in (
            ("belief_coverage", "of the trained latents by the belief"),
            ("predictive_coverage", "of the targets, one step ahead"),
        ):
            panel.plot(temperatures, [row[key] for row in rows], marker="o", label=words)
        panel.axhline(0.9, color="black", ls=":", lw=1.5, label="calibrated")
        panel.axvline(chosen, color="tab:red", lw=1, label=f"chosen: {chosen:g}")
        panel.set(
            xscale="log", xlabel="temperature of the likelihood", ylabel="coverage of 90 % regions", ylim=(0, 1.03)
        )
        panel.legend(fontsize=9)
        return png(figure)


def draw_comparison(curves: Mapping[str, Sequence[Sequence[float]]], title: str) -> Png:
    """Mean return over environments by round: one thin line a run, a thick one for the mean of each name.

    Args:
        curves: for each name the runs' mean returns by round.
        title: above the figure.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7, 4.4), layout="constrained")
        panel = figure.subplots()
        for index, (name, runs) in enumerate(curves.items()):
            colour = f"C{index}"
            for run in runs:
                panel.plot(run, color=colour, alpha=0.35, lw=1)
            shared = min(map(len, runs))
            mean = np.mean([run[:shared] for run in runs], axis=0)
            panel.plot(
                mean, color=colour, lw=2.5, label=f"{name} ({len(runs)} {'seed' if len(runs) == 1 else 'seeds'})"
            )
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set(xlabel="round (one episode in each environment)", ylabel="mean return", title=title)
        panel.legend()
        return png(figure)
