"""The figure of a training run: what the agents earn round by round, and where the latents have come to lie."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from matplotlib.ticker import MaxNLocator
from scipy.stats import chi2

from pyro_dynamics.environments.context_text import label
from pyro_dynamics.plots.style import STYLE, Png, colour_scale, name_lines, png, shaped

LEVEL = 0.9
"""Probability of the regions of the latents."""
LAST = 5
"""Rounds whose means are joined by a line: of more, only the last."""

Series = Sequence[Mapping[str, Any]]
"""One environment's rows, by round."""


def draw_training(rows: Sequence[Mapping[str, Any]], axis: str) -> Png:
    """Return of each environment by round and, for a latent agent, where its latents lie after the last one, as a PNG.

    Args:
        rows: the lines of ``metrics.jsonl``.
        axis: name and unit of the hidden parameter.
    """
    environments = _by_environment(rows)
    if max(map(len, environments)) == 1 and rows[-1]["round"]:  # each episode was an environment of its own
        return _draw_episodes(rows, axis)
    latent = [[row for row in series if row["latent_mean"]] for series in environments]
    colours = colour_scale(len(environments))
    with matplotlib.rc_context(STYLE):
        count = 1 + any(latent)
        figure = Figure(figsize=(6.2 * count, 4.4), layout="constrained")
        panels = figure.subplots(1, count, squeeze=False)[0]
        _draw_returns(panels[0], environments, colours, axis)
        if any(latent):
            _draw_latents(panels[1], latent, colours, axis)
        return png(figure)


def _by_environment(rows: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    groups: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["environment"]].append(row)
    return [groups[key] for key in sorted(groups)]


def _draw_returns(panel: Axes, environments: Sequence[Series], colours: Sequence[Any], axis: str) -> None:
    for colour, series in zip(colours, environments, strict=True):
        panel.plot([row["round"] for row in series], [row["return"] for row in series], color=colour, marker=".")
    names, ends = [label(series[0]["context"]) for series in environments], [one[-1]["return"] for one in environments]
    if len({len(series) for series in environments}) == 1 < len(environments):
        mean = np.mean([[row["return"] for row in series] for series in environments], axis=0)
        panel.plot([row["round"] for row in environments[0]], mean, color="black", lw=2.5, zorder=3)
        names, ends, colours = [*names, "mean"], [*ends, mean[-1]], [*colours, "black"]
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set(xlabel="round (round 0 acts at random)", ylabel="return of an episode")
    panel.set_title(f"return by {axis}", loc="left")
    name_lines(panel, ends, names, colours)


def _draw_episodes(rows: Sequence[Mapping[str, Any]], axis: str) -> Png:
    """The return of every episode by round, with the means; each had a context of its own."""
    rounds = np.array([row["round"] for row in rows])
    returns = np.array([row["return"] for row in rows])
    every = np.unique(rounds)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.2, 4.4), layout="constrained")
        panel = figure.subplots()
        panel.plot(rounds, returns, ls="", marker=".", alpha=0.5, label="an episode")
        means = [returns[rounds == m].mean() for m in every]
        panel.plot(every, means, color="black", lw=2.5, label="mean")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set(xlabel="round (round 0 acts at random)", ylabel="return of an episode")
        panel.set_title(f"return, {axis} drawn for each episode", loc="left")
        panel.legend()
        return png(figure)


def _draw_latents(panel: Axes, latent: Sequence[Series], colours: Sequence[Any], axis: str) -> None:
    """The regions after the last round, and the way of the means there; of one dimension, by round."""
    last = max(series[-1]["round"] for series in latent if series)
    names = [label(series[0]["context"]) for series in latent]
    if len(latent[0][0]["latent_mean"]) == 1:
        for colour, series in zip(colours, latent, strict=True):
            mean, scale = (np.array([row[key][0] for row in series]) for key in ("latent_mean", "latent_sd"))
            panel.errorbar([row["round"] for row in series], mean, 1.645 * scale, color=colour, marker=".", capsize=3)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set(xlabel="round", ylabel="latent")
        name_lines(panel, [series[-1]["latent_mean"][0] for series in latent], names, colours)
    else:
        plane = principal_plane(np.array([series[-1]["latent_mean"] for series in latent]))
        for colour, series, name in zip(colours, latent, names, strict=True):
            _draw_way(panel, series, plane, colour, name)
        two = len(plane) == 2
        panel.set(xlabel="latent 0" if two else "first component", ylabel="latent 1" if two else "second component")
        panel.margins(0.12)
    regions = f"{LEVEL:.0%} {'intervals' if len(latent[0][0]['latent_mean']) == 1 else 'regions'}"
    panel.set_title(f"latent by {axis}: {regions} after round {last}", loc="left")


def _draw_way(panel: Axes, series: Series, plane: np.ndarray, colour: Any, name: str) -> None:
    way = np.array([row["latent_mean"] for row in series[-LAST:]]) @ plane
    panel.plot(*way.T, color=colour, lw=1, marker=".", ms=4, alpha=0.5)
    covariance = plane.T @ np.diag(np.square(series[-1]["latent_sd"])) @ plane
    ellipse = Ellipse((0, 0), 1, 1, facecolor=matplotlib.colors.to_rgba(colour, 0.35), edgecolor=colour, lw=1.5)
    panel.add_patch(shaped(ellipse, way[-1], covariance, float(np.sqrt(chi2.ppf(LEVEL, 2)))))
    panel.autoscale_view()
    panel.annotate(
        name,
        way[-1],
        (7, 5),
        textcoords="offset points",
        fontweight="bold",
        color=colour,
        path_effects=[patheffects.withStroke(linewidth=3, foreground="white")],
    )


def principal_plane(means: np.ndarray) -> np.ndarray:
    """The directions that are drawn, ``[d, min(d, 2)]``: of many, the first two principal ones of the trained means."""
    d = means.shape[1]
    if d <= 2:
        return np.eye(d)
    return np.linalg.svd(means - means.mean(0), full_matrices=True)[2][:2].T
