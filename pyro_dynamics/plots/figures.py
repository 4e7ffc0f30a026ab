"""The figures of a run: learning, adaptation, and runs side by side."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from matplotlib.ticker import MaxNLocator

from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.environments.context_text import columns, label

STYLE: Any = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
}


def draw_training(rows: Sequence[Mapping[str, Any]], axis: str) -> bytes:
    """Return of each environment by round and, for a latent agent, where its latents lie, as a PNG.

    Args:
        rows: the lines of ``metrics.jsonl``.
        axis: name and unit of the hidden parameter.
    """
    environments = _by_environment(rows)
    dimensions = len(next((row["latent_mean"] for row in rows if row["latent_mean"]), []))
    colours = colour_scale(len(environments))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.2 * (1 + dimensions), 4.2), layout="constrained")
        axes = figure.subplots(1, 1 + dimensions, squeeze=False)[0]
        for colour, series in zip(colours, environments, strict=True):
            context = series[0]["context"]
            axes[0].plot(
                [row["round"] for row in series],
                [row["return"] for row in series],
                color=colour,
                marker=".",
                label=label(context),
            )
            latent = [row for row in series if row["latent_mean"]]
            for dimension in range(dimensions):
                rounds = [row["round"] for row in latent]
                mean = np.array([row["latent_mean"][dimension] for row in latent])
                scale = np.array([row["latent_sd"][dimension] for row in latent])
                axes[1 + dimension].plot(rounds, mean, color=colour, marker=".")
                axes[1 + dimension].fill_between(
                    rounds, mean - 2 * scale, mean + 2 * scale, color=colour, alpha=0.2, lw=0
                )
        axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
        axes[0].set(xlabel="round", ylabel="return of an episode", title="return in each environment")
        axes[0].legend(title=axis, fontsize=9)
        for dimension in range(dimensions):
            axes[1 + dimension].xaxis.set_major_locator(MaxNLocator(integer=True))
            axes[1 + dimension].set(xlabel="round", title=f"latent {dimension}: mean and two standard deviations")
        return png(figure)


def draw_adaptation(
    steps: Sequence[Mapping[str, Any]],
    axes: Sequence[str],
    trained: Sequence[Any],
    trained_means: np.ndarray,
    probe: ContextProbe | None,
) -> bytes:
    """The belief over time beside the true context, the latent itself, reward, and how well it predicts.

    Args:
        steps: rows with ``step``, ``context``, ``reward``, ``log_likelihood``, ``mean`` and ``sd``; where they have
            ``coverage`` too, that of the 90 % predictive intervals is drawn at the bottom.
        axes: name and unit of each hidden parameter.
        trained: the training contexts.
        trained_means: their latent means ``[K, d]``.
        probe: from latents to contexts, where contexts are numbers.
    """
    time = np.array([row["step"] for row in steps])
    mean, scale = np.array([row["mean"] for row in steps]), np.array([row["sd"] for row in steps])
    dimensions = mean.shape[-1]
    with matplotlib.rc_context(STYLE):
        decoded = len(axes) if probe is not None else 0
        heights = [1.0] * (2 + dimensions + decoded) + [0.6] * ("coverage" in steps[0])
        figure = Figure(figsize=(9, 2.3 * sum(heights)), layout="constrained")
        panels = list(figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0])
        panels[-1].set(xlabel="step")
        if "coverage" in steps[0]:
            _draw_coverage(panels.pop(), time, np.array([row["coverage"] for row in steps]))
        if probe is not None:
            panels[0].set_title(
                "the belief, read by a linear probe on the trained latents (dotted: contexts trained on)", fontsize=11
            )
            truth, known = columns([row["context"] for row in steps], len(axes)), columns(trained)
            belief, spread = columns(probe.predict(mean)), columns(probe.spread(scale))
            for axis, *column in zip(axes, truth.T, belief.T, spread.T, known.T, strict=True):
                _draw_decoded(panels.pop(0), axis, time, *column)
        colours = colour_scale(len(trained))
        for dimension in range(dimensions):
            panel = panels.pop(0)
            for colour, context, level in zip(colours, trained, trained_means[:, dimension], strict=True):
                panel.axhline(level, color=colour, ls=":", lw=1.5, label=label(context))
            _band(panel, time, mean[:, dimension], scale[:, dimension], "black")
            # The first steps' belief is as wide as the prior: show what lies around the trained latents.
            levels = trained_means[:, dimension]
            reach = 1.5 * max(np.ptp(levels), 0.05)
            panel.set(ylabel=f"latent {dimension}", ylim=(levels.min() - reach, levels.max() + reach))
            if dimension == 0:
                panel.legend(title="trained on", fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
        for panel, name, key in zip(panels, ("reward", "log p(s') [nats]"), ("reward", "log_likelihood"), strict=True):
            values = np.array([row[key] for row in steps])
            panel.plot(time, values, color="tab:blue", alpha=0.25, lw=0.8)
            width = max(1, len(values) // 20)
            smooth = np.convolve(values, np.ones(width) / width, mode="valid")
            panel.plot(time[width - 1 :], smooth, color="tab:blue", label=f"mean of the last {width} steps")
            low, high = np.percentile(values, [1, 100])
            panel.set(ylabel=name, ylim=(low - 0.1 * (high - low) - 1e-9, high + 0.1 * (high - low) + 1e-9))
            panel.legend(fontsize=9, loc="lower right")
        return png(figure)


def draw_calibration(rows: Sequence[Mapping[str, float]], chosen: float) -> bytes:
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


def draw_comparison(curves: Mapping[str, Sequence[Sequence[float]]], title: str) -> bytes:
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


def _draw_coverage(panel: Axes, time: np.ndarray, coverage: np.ndarray) -> None:
    width = min(50, max(1, len(coverage) // 4))
    running = np.convolve(coverage, np.ones(width) / width, mode="valid")
    panel.axhline(0.9, color="black", ls=":", lw=1.5)
    panel.plot(time[width - 1 :], running, color="tab:blue", label=f"last {width} steps (dotted: calibrated)")
    panel.set(ylabel="in 90 %", ylim=(min(0.45, running.min() - 0.05), 1.05))
    panel.legend(fontsize=9, loc="lower right")


def _draw_decoded(
    panel: Axes,
    axis: str,
    time: np.ndarray,
    truth: np.ndarray,
    decoded: np.ndarray,
    spread: np.ndarray,
    trained: np.ndarray,
) -> None:
    for context in np.unique(trained):
        panel.axhline(context, color="grey", ls=":", lw=1)
    if not np.isnan(truth).all():  # it is not known of every logged stream
        panel.plot(time, truth, color="tab:red", lw=2, label="truth")
    _band(panel, time, decoded, spread, "black", "belief, two standard deviations")
    reach = np.ptp(trained)
    panel.set(ylabel=axis, ylim=(trained.min() - 0.6 * reach, trained.max() + 0.6 * reach))
    panel.legend(fontsize=9, loc="lower right")


def _band(
    panel: Axes, time: np.ndarray, mean: np.ndarray, scale: np.ndarray, colour: str, label: str | None = None
) -> None:
    panel.plot(time, mean, color=colour, lw=1.2, label=label)
    panel.fill_between(time, mean - 2 * scale, mean + 2 * scale, color=colour, alpha=0.2, lw=0)


def _by_environment(rows: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    groups: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["environment"]].append(row)
    return [groups[key] for key in sorted(groups)]


def colour_scale(count: int) -> list[Any]:
    """Colours for environments in their order."""
    return list(matplotlib.colormaps["viridis"](np.linspace(0, 0.9, count)))


def shaped(ellipse: Ellipse, mean: np.ndarray, covariance: np.ndarray, radius: float) -> Ellipse:
    """The ellipse of a Gaussian ``[2]``, ``[2, 2]`` that reaches so many standard deviations along its axes."""
    variances, axes = np.linalg.eigh(covariance)
    width, height = 2 * radius * np.sqrt(np.maximum(variances, 0))
    ellipse.set(center=mean, width=width, height=height, angle=np.degrees(np.arctan2(axes[1, 0], axes[0, 0])))
    return ellipse


@contextmanager
def without_display() -> Iterator[None]:
    """ArviZ draws through pyplot, which must open no window."""
    before = matplotlib.get_backend()
    matplotlib.use("Agg")
    try:
        yield
    finally:
        matplotlib.use(before)


def png(figure: Figure) -> bytes:
    """The figure as the bytes of a PNG file."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()
