"""The figure of a belief along a stream of steps: what it says beside the truth, k-hat, coverage, and trouble."""

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from pyro_dynamics.diagnostics.prediction.predictive import LEVEL
from pyro_dynamics.diagnostics.stream.central_region import REGION, central_region
from pyro_dynamics.diagnostics.stream.checks import LOW_COVERAGE, RECENT
from pyro_dynamics.environments.context_text import columns, label
from pyro_dynamics.plots.style import BELIEF, STYLE, TRUTH, Png, draw_levels, png

TOP, BOTTOM = 3.0, -0.5
"""Where k-hat is cut off, and drawn as a triangle: beyond 3 nothing is worse; minus infinity is at the bottom."""
TROUBLE, WELL = "tab:orange", "tab:blue"

POSTERIOR = {"off", "narrow", "k-hat", "elsewhere", "uninformed", "stale"}
"""Kinds of trouble that the panel of k-hat shows: what the belief is beside its posterior."""


def draw_stream(
    diagnosis: Any,
    contexts: Sequence[Any],
    latent: np.ndarray | None,
    axes: Sequence[str],
    trained_means: np.ndarray,
    trained_contexts: Sequence[Any],
) -> Png:
    """Belief, k-hat and coverage by step, with the stretches of trouble shaded, as a PNG 990 pixels wide.

    The belief is drawn decoded, beside the true context, where the diagnosis has it so; else each of its latents,
    beside those that were trained on. An agent without a latent has coverage alone.

    Args:
        diagnosis: from :func:`pyro_dynamics.diagnostics.stream.stream_diagnosis.diagnose_stream`.
        contexts: the true hidden parameter at each of T steps.
        latent: draws of the belief after each step, ``[T, S, d]``, or None.
        axes: name and unit of each hidden parameter.
        trained_means: latent means of the environments that were trained on, ``[K, d]``.
        trained_contexts: their contexts, K of them.
    """
    decoded = diagnosis.decoded is not None
    bands = 0 if latent is None else len(axes) if decoded else latent.shape[2]
    heights = [1.6 if decoded else 1.0] * bands + [1.0] * bool(diagnosis.steps) + [0.8] * bool(diagnosis.running)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9, 2.0 * sum(heights) + 1.1), layout="constrained")
        panels = list(
            figure.subplots(len(heights) or 1, 1, sharex=True, squeeze=False, height_ratios=heights or [1])[:, 0]
        )
        kinds = ["outside"] * bands + ["k-hat"] * bool(diagnosis.steps) + ["coverage"] * bool(diagnosis.running)
        for panel, kind in zip(panels, kinds, strict=False):
            _shade(panel, diagnosis, kind)
        _head(figure, diagnosis)
        free = iter(panels)
        if decoded:
            truth, trained = columns(contexts, len(axes)).T, columns(trained_contexts).T
            regions = np.moveaxis(np.array(diagnosis.decoded).reshape(3, len(contexts), -1), -1, 0)
            errors = np.atleast_1d(diagnosis.probe_error)
            for column in zip(regions, errors, truth, axes, trained, strict=True):
                _draw_decoded(next(free), *column)
            _legend(panels[0], "belief, read by a linear probe")
        elif latent is not None:
            for dimension, region in enumerate(np.moveaxis(central_region(latent), -1, 0)):
                _draw_latent(next(free), region, dimension, trained_means[:, dimension], trained_contexts)
            _name_contexts(panels[0], contexts)
        if diagnosis.steps:
            _draw_k_hat(next(free), diagnosis)
        if diagnosis.running:
            _draw_coverage(next(free), diagnosis)
        panels[-1].set(xlabel="step", xlim=(0, max(diagnosis.length - 1, 1)))
        return png(figure)


def _shade(panel: Axes, diagnosis: Any, kind: str) -> None:
    """Steps with any trouble, once however many troubles there are; darker where this panel shows it."""
    shown = POSTERIOR if kind == "k-hat" else {kind, "biased"} if kind == "coverage" else {kind}
    for kinds, alpha in (({*POSTERIOR, "coverage", "biased", "outside"}, 0.14), (shown, 0.22)):
        troubled = np.zeros(diagnosis.length + 2, dtype=int)
        for one in diagnosis.trouble:
            if one.kind in kinds:
                troubled[one.first + 1 : one.last + 2] = 1
        for first, end in np.flatnonzero(np.diff(troubled)).reshape(-1, 2):
            panel.axvspan(first - 0.5, end - 0.5, color=TROUBLE, alpha=alpha, lw=0, zorder=0)


def _head(figure: Figure, diagnosis: Any) -> None:
    """The verdict, and what the shades mean."""
    figure.suptitle(diagnosis.verdict.title, x=0.01, ha="left", fontweight="bold", fontsize=13)
    if diagnosis.trouble:
        shades = (("trouble seen here", 0.36), ("in another panel", 0.14))
        patches = [Patch(color=TROUBLE, alpha=alpha, lw=0, label=label) for label, alpha in shades]
        figure.legend(handles=patches, loc="upper right", fontsize=9, frameon=False, ncols=2)


def _draw_decoded(
    panel: Axes, region: np.ndarray, error: float, truth: np.ndarray, axis: str, trained: np.ndarray
) -> None:
    (low, middle, high), steps = region, np.arange(len(truth))
    panel.plot([], [], color="grey", ls=":", lw=1.4, label="trained on")
    panel.fill_between(steps, low, high, color=BELIEF, alpha=0.2, lw=0, label=f"{100 * REGION:.0f} % region")
    panel.plot(steps, middle, color=BELIEF, lw=1.3)
    panel.fill_between(steps, truth - error, truth + error, step="mid", color=TRUTH, alpha=0.15, lw=0)
    if not np.isnan(truth).all():  # it is not known of every logged stream
        panel.step(steps, truth, where="mid", color=TRUTH, lw=2, label="truth, with the probe's error")
    shown = np.concatenate([trained, truth[~np.isnan(truth)]])
    reach = 0.2 * np.ptp(shown) or 1.0
    panel.set(ylabel=axis, ylim=(shown.min() - reach, shown.max() + reach))
    draw_levels(panel, trained)


def _draw_latent(panel: Axes, region: np.ndarray, dimension: int, levels: np.ndarray, trained: Sequence[Any]) -> None:
    low, middle, high = region
    steps = np.arange(len(middle))
    panel.fill_between(steps, low, high, color=BELIEF, alpha=0.2, lw=0)
    panel.plot(steps, middle, color=BELIEF, lw=1.3)
    # The first steps' belief is as wide as the prior: show what lies around the trained latents, and where it ends.
    shown = np.concatenate([levels, middle[len(middle) // 4 :]])
    reach = 0.3 * max(np.ptp(shown), 0.05)
    panel.set(ylabel=f"latent {dimension}", ylim=(shown.min() - reach, shown.max() + reach))
    draw_levels(panel, levels, [label(context) for context in trained])
    if dimension == 0:
        panel.set_title(f"the belief: median and {100 * REGION:.0f} % region of each latent", fontsize=11, loc="left")


def _name_contexts(panel: Axes, contexts: Sequence[Any]) -> None:
    """The true context at the top, where it begins."""
    for step, context in enumerate(contexts):
        if step == 0 or context != contexts[step - 1]:
            panel.axvline(step, color=TRUTH, lw=1)
            panel.annotate(
                f"truth: {label(context)}",
                (step, 1),
                (4, -4),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                color=TRUTH,
                fontsize=9,
                va="top",
            )


def _draw_k_hat(panel: Axes, diagnosis: Any) -> None:
    steps, k_hat = np.array(diagnosis.steps), np.array(diagnosis.k_hat)
    shown = np.where(np.isnan(k_hat), TOP, np.clip(k_hat, BOTTOM, TOP))
    panel.plot(steps, shown, color="grey", lw=0.8, zorder=1)
    well = k_hat < diagnosis.threshold  # NaN is not
    for marker, rows in (("o", (k_hat > BOTTOM) & (k_hat < TOP)), ("v", k_hat <= BOTTOM), ("^", ~(k_hat < TOP))):
        for colour, side in ((WELL, well), ("tab:red", ~well)):
            panel.scatter(
                steps[rows & side], shown[rows & side], s=26, marker=marker, color=colour, zorder=3, clip_on=False
            )
    panel.axhline(diagnosis.threshold, color="tab:red", ls="--", lw=1.2, label=f"threshold {diagnosis.threshold:.2f}")
    # Below 1 every tenth matters; above, only how many times.
    panel.set_yscale("symlog", linthresh=1.0, linscale=0.6)
    panel.set_yticks([BOTTOM, 0, 0.5, 1, 2, TOP], [f"{BOTTOM:g}", "0", "0.5", "1", "2", f"{TOP:g}"])
    panel.minorticks_off()
    panel.set(ylabel="k-hat", ylim=(BOTTOM - 0.15, 1.2 * TOP))
    _legend(panel, "k-hat: is it the posterior of the steps since the last change?")


def _draw_coverage(panel: Axes, diagnosis: Any) -> None:
    running = np.array(diagnosis.running)
    first = diagnosis.length - len(running)
    panel.axhline(LEVEL, color="black", ls=":", lw=1.5, label=f"calibrated: {100 * LEVEL:.0f} %")
    panel.axhline(LOW_COVERAGE, color="tab:red", ls="--", lw=1.2, label=f"too low: {100 * LOW_COVERAGE:.0f} %")
    marker = "." if len(running) < 3 else None
    panel.plot(np.arange(first, diagnosis.length), running, color=WELL, lw=1.6, marker=marker)
    panel.set(ylabel="coverage", ylim=(min(0.55, running.min() - 0.05), 1.05))
    panel.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    width = min(RECENT, diagnosis.length)
    _legend(panel, f"targets inside their 90 % intervals, over {width} steps")


def _legend(panel: Axes, title: str) -> None:
    """Title and legend above the panel: inside it, they would hide what they explain."""
    panel.set_title(title, fontsize=11, loc="left")
    panel.legend(
        fontsize=9,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=3,
        frameon=False,
        borderaxespad=0.1,
        columnspacing=1.2,
    )
