"""The figure of an adaptation: what is believed step by step, beside the truth and what it started from."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.environments.context_text import columns, label
from pyro_dynamics.plots.style import BELIEF, STYLE, TRUTH, Png, draw_levels, png

TAILS = (0.05, 0.5, 0.95)
"""Ends and middle of the 90 % interval that is drawn."""
MOST_CHANGES = 12
"""Changes of the context that are marked in every panel; a context that changes all the time is not."""
OTHER = "tab:blue"
BAND, READ = "belief: median, 90 % interval", "belief by a linear probe: median, 90 % interval"


def draw_adaptation(
    steps: Sequence[Mapping[str, Any]],
    axes: Sequence[str],
    trained: Sequence[Any],
    trained_means: np.ndarray,
    probe: ContextProbe | None,
    latent: np.ndarray | None = None,
    prior: np.ndarray | None = None,
) -> Png:
    """The belief over time, and below it reward, surprise, and how well its predictions are calibrated, as a PNG.

    The belief is drawn read by the probe, beside the true context; where contexts are names, each latent is drawn
    beside those that were trained on. An agent that infers nothing has neither.

    Args:
        steps: rows with ``step``, ``context``, ``reward``, ``log_likelihood`` and ``coverage``.
        axes: name and unit of each hidden parameter.
        trained: the training contexts.
        trained_means: their latent means ``[K, d]``.
        probe: from latents to contexts, where contexts are numbers.
        latent: draws of the belief after each step, ``[T, S, d]``; None for an agent that infers nothing.
        prior: draws of what was believed before the first step, ``[S, d]``; None where that is not known.
    """
    time = np.array([row["step"] for row in steps])
    contexts = [row["context"] for row in steps]
    beliefs = 0 if latent is None else latent.shape[-1] if probe is None else len(axes)
    heights = [2.6 if beliefs == 1 else 1.6] * beliefs + [0.8] * 3
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9, 1.55 * sum(heights) + 0.6), layout="constrained")
        panels = list(figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0])
        panels[-1].set(xlabel="step")
        room = max(2.0, 0.05 * len(time)) if beliefs and prior is not None else 0.0
        panels[-1].set_xlim(time[0] - room, time[-1] + 0.5)
        for panel in panels[beliefs:]:
            _mark_changes(panel, time, contexts)
        if latent is not None and probe is not None:
            _draw_decoded(panels, axes, time, contexts, trained, probe, latent, prior)
        elif latent is not None:
            _draw_latents(panels, time, contexts, trained, trained_means, latent, prior)
        reward, surprise, coverage = panels[beliefs:]
        _draw_series(reward, time, [row["reward"] for row in steps], "reward")
        _draw_series(
            surprise, time, [row["log_likelihood"] for row in steps], "log p(s') of each step before it was seen, nats"
        )
        _draw_coverage(coverage, time, np.array([row["coverage"] for row in steps]))
        return png(figure)


def _draw_decoded(
    panels: Sequence[Axes],
    axes: Sequence[str],
    time: np.ndarray,
    contexts: Sequence[Any],
    trained: Sequence[Any],
    probe: ContextProbe,
    latent: np.ndarray,
    prior: np.ndarray | None,
) -> None:
    """A panel for each hidden parameter: the belief read by the probe, and the truth."""
    bands = np.moveaxis(np.quantile(_read(probe, latent), TAILS, axis=1), -1, 0)  # [P, 3, T]
    starts = None if prior is None else np.quantile(_read(probe, prior), TAILS, axis=0).T  # [P, 3]
    truth, known = columns(contexts, len(axes)).T, columns(trained).T
    for p, axis in enumerate(axes):
        shown = [known[p], truth[p][~np.isnan(truth[p])]]
        if not np.isnan(truth[p]).all():  # it is not known of every logged stream
            panels[p].step(time, truth[p], where="mid", color=TRUTH, lw=2, label="truth", zorder=4)
        _draw_band(panels[p], time, bands[p], None if starts is None else starts[p], np.concatenate(shown), READ)
        panels[p].set_ylabel(axis)
        draw_levels(panels[p], known[p])
    _head(panels[0])


def _read(probe: ContextProbe, latent: np.ndarray) -> np.ndarray:
    """The parameters that draws ``[..., S, d]`` stand for, ``[..., S, P]``."""
    decoded = probe.draws(latent, axis=latent.ndim - 2)
    return decoded if decoded.ndim == latent.ndim else decoded[..., None]


def _draw_latents(
    panels: Sequence[Axes],
    time: np.ndarray,
    contexts: Sequence[Any],
    trained: Sequence[Any],
    trained_means: np.ndarray,
    latent: np.ndarray,
    prior: np.ndarray | None,
) -> None:
    """A panel for each latent, with the names of the true contexts at the top."""
    bands = np.moveaxis(np.quantile(latent, TAILS, axis=1), -1, 0)
    starts = None if prior is None else np.quantile(prior, TAILS, axis=0).T
    for dimension, levels in enumerate(trained_means.T):
        panel = panels[dimension]
        _mark_changes(panel, time, contexts)
        _draw_band(panel, time, bands[dimension], None if starts is None else starts[dimension], levels, BAND)
        panel.set_ylabel(f"latent {dimension}")
        draw_levels(panel, levels, [label(context) for context in trained])
    for t in _changes(contexts):
        panels[0].annotate(
            f"truth: {label(contexts[t])}",
            (time[t], 1),
            (4, -4),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            color=TRUTH,
            va="top",
        )
    _head(panels[0])


def _draw_band(
    panel: Axes, time: np.ndarray, band: np.ndarray, start: np.ndarray | None, others: np.ndarray, name: str
) -> None:
    """The 90 % interval ``[3, T]`` and, left of it, that of the prior ``[3]``; the limits fit all but the prior's."""
    low, middle, high = band
    panel.fill_between(time, low, high, color=BELIEF, alpha=0.2, lw=0, label=name)
    panel.plot(time, middle, color=BELIEF, lw=1.6)
    # Of the first steps, whose belief is nearly the prior, the widest two per cent may reach beyond.
    shown = np.concatenate([others, [np.quantile(low, 0.02), np.quantile(high, 0.98)], middle[len(middle) // 4 :]])
    bottom, top = shown.min(), shown.max()
    reach = (top - bottom) or 1.0
    if start is not None:
        left = panel.get_xlim()[0]
        panel.fill_between(
            [left, time[0] - 0.5], start[0], start[2], color="tab:olive", alpha=0.35, lw=0, label="prior"
        )
        panel.plot([left, time[0] - 0.5], [start[1]] * 2, color="tab:olive", lw=1.6)
        # It may be many times wider than all that follows.
        bottom, top = max(min(start[0], bottom), bottom - 0.15 * reach), min(max(start[2], top), top + 0.15 * reach)
    panel.set_ylim(bottom - 0.07 * reach, top + 0.07 * reach)


def _head(panel: Axes) -> None:
    """The legend above the first panel: inside it, it would hide what it explains."""
    panel.plot([], [], color="grey", ls=":", lw=1.4, label="trained on")
    how = {"ncols": 4, "frameon": False, "borderaxespad": 0.1, "columnspacing": 1.2, "fontsize": 10}
    panel.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), **how)


def _changes(contexts: Sequence[Any]) -> list[int]:
    """Where each true context begins; none where it changes all the time."""
    found = [t for t in range(len(contexts)) if t == 0 or contexts[t] != contexts[t - 1]]
    return found if len(found) <= MOST_CHANGES else []


def _mark_changes(panel: Axes, time: np.ndarray, contexts: Sequence[Any]) -> None:
    for t in _changes(contexts)[1:]:
        panel.axvline(time[t] - 0.5, color=TRUTH, lw=1, alpha=0.6, zorder=0)


def _draw_series(panel: Axes, time: np.ndarray, values: Sequence[float], title: str) -> None:
    """One number a step; single ones far below the others are cut off."""
    series = np.array(values)
    panel.plot(time, series, color=OTHER, lw=1.3)
    low, high = np.percentile(series, [3, 100])
    low = max(low - 0.25 * (high - low), series.min())
    margin = 0.07 * ((high - low) or 1.0)
    panel.set_ylim(low - margin, high + margin)
    cut = (series < low - margin).sum()
    beyond = f" ({cut} {'step' if cut == 1 else 'steps'} below, down to {series.min():.3g})" if cut else ""
    panel.set_title(title + beyond, loc="left", fontsize=10)


def _draw_coverage(panel: Axes, time: np.ndarray, coverage: np.ndarray) -> None:
    width = min(50, max(1, len(coverage) // 10))
    running = np.convolve(coverage, np.ones(width) / width, mode="valid")
    panel.axhline(0.9, color="black", ls=":", lw=1.4)
    panel.plot(time[width - 1 :], running, color=OTHER, lw=1.3)
    panel.set_ylim(min(0.65, running.min() - 0.05), 1.05)
    panel.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    title = f"targets inside their 90 % intervals, over {width} steps (dotted: calibrated)"
    panel.set_title(title, loc="left", fontsize=10)
