"""The belief as it stands at one step, drawn over and over for a video."""

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.environments.context_text import columns
from pyro_dynamics.plots.style import BELIEF, STYLE, TRUTH, colour_scale, draw_levels, shaped
from pyro_dynamics.plots.training_figure import principal_plane

DPI = 100
TAILS = (0.05, 0.5, 0.95)
"""Ends and middle of the 90 % interval that is drawn."""


class BeliefPanel:
    """Where q(e) lies among the trained environments' posteriors, and what it says of the hidden parameter.

    Above are latents: an ellipse of two standard deviations for the belief and for each trained environment, and the
    way that the belief's mean went; of more than two dimensions the two along which the trained means differ most. One
    dimension is drawn by step. Below, where contexts are numbers, the belief is read by the linear probe, in a panel
    for each hidden parameter. The artists are made once and moved from frame to frame.

    Args:
        width: in pixels.
        height: in pixels.
        steps: of the episode.
        axes: name and unit of each hidden parameter.
        labels: names of the trained environments.
        means: their latent means ``[K, d]``.
        scales: their standard deviations ``[K, d]``.
        probe: from latents to contexts, where contexts are numbers.
        contexts: those numbers, or a number for each of P parameters.
    """

    def __init__(
        self,
        width: int,
        height: int,
        steps: int,
        axes: Sequence[str],
        labels: Sequence[str],
        means: np.ndarray,
        scales: np.ndarray,
        probe: ContextProbe | None,
        contexts: Sequence[Any],
    ) -> None:
        self.probe, self.dimensions = probe, means.shape[1]
        self.plane = principal_plane(means)
        self.path: list[np.ndarray] = []
        self.decoded: list[np.ndarray] = []
        with matplotlib.rc_context({**STYLE, "font.size": 10}):
            figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, layout="constrained")
            self.canvas = FigureCanvasAgg(figure)
            self.words = figure.suptitle(" \n ", x=0.02, ha="left", fontsize=12)
            heights = [1.1] * (self.dimensions > 0) + [1.0] * (0 if probe is None else len(axes))
            panels = (
                list(figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]) if heights else []
            )
            if self.dimensions:
                self._make_latents(panels.pop(0), steps, labels, means, scales)
            self.curves: list[_Decoded] = []
            if probe is not None:
                chosen = zip(panels, axes, columns(contexts).T, strict=True)
                self.curves = [_Decoded(panel, steps, axis, column) for panel, axis, column in chosen]
            self.canvas.draw()
            figure.set_layout_engine("none")  # laid out once: the text changes, the panels do not

    def draw(self, words: str, draws: np.ndarray, truth: Any) -> np.ndarray:
        """The image ``[height, width, 3]`` after one more step.

        Args:
            words: above the panels.
            draws: of the belief, ``[S, d]``.
            truth: the true context, drawn where the probe reads the belief; None where it is not known.
        """
        self.words.set_text(words)
        if self.dimensions:
            self._move_latents(draws)
        if self.probe is not None:
            read = columns(self.probe.draws(draws))
            self.decoded.append(np.stack([*np.quantile(read, TAILS, axis=0), columns([truth], read.shape[1])[0]]))
            for curve, series in zip(self.curves, np.array(self.decoded).T, strict=True):  # [P, 4, T]
                curve.move(*series)
        self.canvas.draw()
        return np.asarray(self.canvas.buffer_rgba())[..., :3].copy()

    def _make_latents(
        self, panel: Any, steps: int, labels: Sequence[str], means: np.ndarray, scales: np.ndarray
    ) -> None:
        colours = colour_scale(len(labels))
        flat = means @ self.plane
        low, high = flat.min(0), flat.max(0)
        reach = 0.6 * np.maximum(high - low, 0.05)
        if self.dimensions == 1:
            for colour, label, mean in zip(colours, labels, means[:, 0], strict=True):
                panel.axhline(mean, color=colour, ls=":", label=label)
            self.band_0 = panel.fill_between([0, 1], [0, 0], [0, 0], color=BELIEF, alpha=0.2, lw=0)
            (self.trace,) = panel.plot([], [], color=BELIEF)
            panel.set(xlim=(0, max(steps - 1, 1)), ylim=(low[0] - reach[0], high[0] + reach[0]), ylabel="latent")
            panel.legend(fontsize=8, loc="upper right")
            self.spreads: list[float] = []
            return
        for colour, label, mean, scale in zip(colours, labels, flat, scales, strict=True):
            covariance = self.plane.T @ np.diag(scale**2) @ self.plane
            panel.add_patch(shaped(Ellipse((0, 0), 1, 1, color=colour, alpha=0.5), mean, covariance, 2.0))
            panel.plot(*mean, ".", color=colour)
            panel.annotate(label, mean, (4, 4), textcoords="offset points", color=colour, fontweight="bold")
        self.ellipse = panel.add_patch(Ellipse((0, 0), 1, 1, fill=False, color=BELIEF, lw=1.8))
        (self.trace,) = panel.plot([], [], color=BELIEF, lw=0.8, alpha=0.6)
        (self.now,) = panel.plot([], [], "o", color=BELIEF, ms=4)
        names = ("latent 0", "latent 1") if self.dimensions == 2 else ("first component", "second component")
        panel.set(
            xlim=(low[0] - reach[0], high[0] + reach[0]), ylim=(low[1] - reach[1], high[1] + reach[1]),
            xlabel=names[0], ylabel=names[1],
        )  # fmt: skip

    def _move_latents(self, draws: np.ndarray) -> None:
        flat = draws @ self.plane
        self.path.append(flat.mean(0))
        path = np.array(self.path)
        if self.dimensions == 1:
            self.spreads.append(float(flat.std()))
            time, spread = np.arange(len(path)), np.array(self.spreads)
            self.trace.set_data(time, path[:, 0])
            self.band_0.set_data(time, path[:, 0] - 2 * spread, path[:, 0] + 2 * spread)
            return
        shaped(self.ellipse, path[-1], np.cov(flat.T), 2.0)
        self.trace.set_data(*path.T)
        self.now.set_data(*path[-1:].T)


class _Decoded:
    """One hidden parameter as the belief has it, and the truth, by step."""

    def __init__(self, panel: Any, steps: int, axis: str, contexts: np.ndarray) -> None:
        self.band = panel.fill_between([0, 1], [0, 0], [0, 0], color=BELIEF, alpha=0.2, lw=0)
        (self.truth,) = panel.plot([], [], color=TRUTH, lw=2, label="truth")
        (self.middle,) = panel.plot([], [], color=BELIEF, lw=1.5, label="belief: median, 90 % interval")
        low, high = contexts.min(), contexts.max()
        reach = 0.2 * ((high - low) or 1.0)
        panel.set(xlim=(0, max(steps - 1, 1)), ylim=(low - reach, high + reach), xlabel="step", ylabel=axis)
        draw_levels(panel, contexts)
        how = {"fontsize": 9, "frameon": False, "ncols": 2, "borderaxespad": 0.1}
        panel.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), **how)

    def move(self, low: np.ndarray, middle: np.ndarray, high: np.ndarray, truth: np.ndarray) -> None:
        """Draw the series ``[T]`` up to now."""
        time = np.arange(len(middle))
        self.middle.set_data(time, middle)
        self.band.set_data(time, low, high)
        self.truth.set_data(time, truth)
