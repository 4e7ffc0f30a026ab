"""The paper's figures of latents: over training, and those of new contexts among the trained ones (its Fig. 4)."""

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pyro_dynamics.environments.context_text import label
from pyro_dynamics.plots.style import STYLE, Png, png
from pyro_dynamics.reproduction.latent_rows import LatentMap, LatentRows
from pyro_dynamics.reproduction.score_rows import Row


def latents_training(rows: Sequence[Row], family: str, axis: str = "context", seed: int | None = None) -> Png:
    """Mean of each latent dimension by round with two standard deviations, one colour a context.

    Args:
        rows: of latents.
        family: which.
        axis: name and unit of the hidden parameter.
        seed: the first that there is, unless given.
    """
    latents = LatentRows(rows, family)
    seed = seed if seed is not None else next(iter(latents.seeds), 0)
    training = latents.training(seed)
    dimensions = max((len(row["mean"]) for series in training.values() for row in series), default=1)
    contexts = [series[0]["context"] for series in training.values()]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(1.5 + 4.8 * dimensions, 4.2), layout="constrained")
        panels = figure.subplots(1, dimensions, squeeze=False)[0]
        for colour, (name, series) in zip(_colours(contexts), training.items(), strict=True):
            rounds = [row["checkpoint"] for row in series]
            mean = np.array([row["mean"] for row in series])
            scale = np.array([row.get("sd") or np.zeros_like(row["mean"]) for row in series])
            for panel, centre, spread in zip(panels, mean.T, scale.T, strict=True):
                panel.plot(rounds, centre, color=colour, marker=".", label=name)
                panel.fill_between(rounds, centre - 2 * spread, centre + 2 * spread, color=colour, alpha=0.15, lw=0)
        for dimension, panel in enumerate(panels):
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
            panel.set(xlabel="round", title=f"latent {dimension}: mean, two sd", ylabel=None if dimension else "latent")
        _legend(figure, panels[0], axis)
        figure.suptitle(f"seed {seed}", fontsize=11)
        return png(figure)


def latents_map(rows: Sequence[Row], family: str, axis: str = "context") -> Png:
    """Means of the latents at the last checkpoint, a panel a seed: circles trained on, triangles new.

    Latents of more than two dimensions are shown on their two principal components, those of one on a line. The
    thin line goes through the contexts in their order, where each is one number.
    """
    latents = LatentRows(rows, family)
    maps = {seed: found for seed in latents.seeds if (found := latents.last(seed)) is not None}
    across = min(3, max(1, len(maps)))
    down = max(1, -(-len(maps) // across))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(1.6 + 3.9 * across, 0.5 + 3.7 * down), layout="constrained")
        panels = figure.subplots(down, across, squeeze=False)
        for panel in panels.flat[len(maps) :] if maps else ():
            panel.remove()
        for panel, (seed, found) in zip(panels.flat, maps.items(), strict=False):
            _draw_map(panel, found)
            panel.set(title=f"seed {seed}")
        _legend(figure, panels[0, 0], f"{axis}\n(triangles: new)")
        return png(figure)


def _draw_map(panel: Axes, found: LatentMap) -> None:
    points, names = _plane(found.means)
    if not any(isinstance(context, str) or np.size(context) > 1 for context in found.contexts):
        panel.plot(*points.T, color="grey", lw=1, alpha=0.7, zorder=1)
    everywhere = zip(points, _colours(found.contexts), found.contexts, found.trained, strict=True)
    for point, colour, context, trained in everywhere:
        panel.plot(
            *point,
            marker="o" if trained else "^",
            ms=9,
            ls="",
            color=colour,
            mec="black",
            mew=0.6,
            label=label(context),
        )
    panel.margins(0.12)
    panel.set(xlabel=names[0], ylabel=names[1])


def _plane(means: np.ndarray) -> tuple[np.ndarray, tuple[str, str]]:
    """Latent means ``[K, d]`` as ``[K, 2]``, and what the two axes are."""
    if means.shape[1] == 1:
        return np.pad(means, ((0, 0), (0, 1))), ("latent 0", "")
    if means.shape[1] == 2:
        return means, ("latent 0", "latent 1")
    centred = means - means.mean(0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    flat = centred @ directions[:2].T
    return np.pad(flat, ((0, 0), (0, 2 - flat.shape[1]))), ("first principal component", "second principal component")


def _colours(contexts: Sequence[Any]) -> list[Any]:
    """A colour a context: by its number, or by its place where it is no single number."""
    single = all(not isinstance(context, str) and np.size(context) == 1 for context in contexts)
    levels = [float(np.ravel(context)[0]) for context in contexts] if single else list(range(len(contexts)))
    if not levels:
        return []
    return [matplotlib.colormaps["viridis"](0.95 * Normalize(min(levels), max(levels))(level)) for level in levels]


def _legend(figure: Figure, panel: Axes, title: str) -> None:
    handles, labels = panel.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, title=title, loc="outside right center", frameon=False, fontsize=10)
