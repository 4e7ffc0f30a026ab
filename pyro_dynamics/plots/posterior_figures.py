"""The figures that judge posteriors: where the latents lie, how wide they are, and whether to rely on the guide."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import arviz_plots
import matplotlib
import numpy as np
from matplotlib import patheffects, pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from matplotlib.ticker import MaxNLocator
from scipy.linalg import orthogonal_procrustes
from scipy.stats import chi2
from xarray import DataArray, DataTree

from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.environments.context_text import columns, label
from pyro_dynamics.plots.style import STYLE, Png, colour_scale, png, shaped, without_display

LEVEL = 0.94
"""Probability of the regions, ArviZ' own."""
PANELS_IN_A_ROW = 5
LOWEST_K, HIGHEST_K = -0.5, 3.0
"""A k-hat beyond is drawn here; its value stands below it."""
MARKERS = "os^Dv<>"


def procrustes(target: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, float]:
    """Turn, mirror, shift and scale latents so that they lie as near as they can to those of another run.

    A latent is not identified up to such transforms: only what is left afterwards is a difference of two runs.
    Chance leaves less than all: five random points of a plane have a median disparity of 0.68 to five others.

    Args:
        target: latent means ``[K, d]``.
        means: those of another run for the same environments, ``[K, d]``. Where the two have different d, the smaller
            is filled up with zeros.

    Returns:
        The moved means ``[K, d]`` (of the target's d), and the disparity: the sum of squares that is left over that
        of the target about its centre. 0: the same shape; 1: nothing in common.
    """
    size = max(target.shape[1], means.shape[1])
    fixed, moved = (np.pad(x.astype(float), ((0, 0), (0, size - x.shape[1]))) for x in (target, means))
    centre = fixed.mean(0)
    fixed, moved = fixed - centre, moved - moved.mean(0)
    rotation, total = orthogonal_procrustes(moved, fixed)
    aligned = total / max(np.square(moved).sum(), 1e-300) * moved @ rotation
    disparity = np.square(fixed - aligned).sum() / max(np.square(fixed).sum(), 1e-300)
    return (aligned + centre)[:, : target.shape[1]], float(disparity)


def draw_latents(
    means: np.ndarray,
    draws: np.ndarray,
    contexts: Sequence[Any],
    axes: Sequence[str],
    others: Mapping[str, np.ndarray] | None = None,
) -> Png:
    """Latent means with 94 % regions and, where contexts are numbers, the contexts that a probe reads; as a PNG.

    Args:
        means: ``[K, d]``; of more than two dimensions the first two are drawn.
        draws: from the posteriors, ``[S, K, d]``.
        contexts: the true hidden parameters, K numbers or names, or tuples of P numbers.
        axes: name and unit of each hidden parameter.
        others: for each name the latent means ``[K, d]`` of another run, drawn after :func:`procrustes` where K is
            at least 3.
    """
    numeric = not isinstance(contexts[0], str)
    # Any line goes through two contexts.
    decodable = len(axes) if numeric and len(set(contexts)) > 2 else 0
    colours = colour_scale(len(means))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.5 * (1 + decodable) if decodable else 7.5, 5.2), layout="constrained")
        panels = figure.subplots(1, 1 + decodable, squeeze=False)[0]
        if means.shape[1] > 1:
            _draw_plane(panels[0], means, draws, contexts, colours)
        else:
            _draw_line(panels[0], means, draws, contexts, colours, ", ".join(axes))
        # Any two points can be laid upon any other two.
        if others and len(means) > 2:
            _draw_others(panels[0], means, others, colours)
            figure.legend(loc="outside lower left", fontsize=10, ncols=2, frameon=False)
        for panel, axis, column in zip(panels[1:], axes, columns(contexts).T if decodable else (), strict=False):
            _draw_probe(panel, means, draws, column.tolist(), colours, axis)
        return png(figure)


def _draw_plane(
    panel: Axes, means: np.ndarray, draws: np.ndarray, contexts: Sequence[Any], colours: Sequence[Any]
) -> None:
    if isinstance(contexts[0], float | int):
        order = np.argsort(np.asarray(contexts, dtype=float))
        panel.plot(*means[order, :2].T, color="grey", lw=1, alpha=0.5, zorder=1)
    for k, (colour, context) in enumerate(zip(colours, contexts, strict=True)):
        half_width = _draw_region(panel, draws[:, k, :2], colour)
        panel.plot(*means[k, :2], "o", color=colour, ms=3.5, zorder=3)
        place = (means[k, 0] + half_width, means[k, 1])
        halo = patheffects.withStroke(linewidth=3, foreground="white")
        panel.annotate(
            label(context), place, xytext=(5, 0), textcoords="offset points", va="center", path_effects=[halo]
        )
    words = "latent means" if means.shape[1] == 2 else f"latent means (the first two of {means.shape[1]})"
    panel.margins(0.12)
    # One unit is one unit: the axes themselves mean nothing, and may be turned.
    panel.set_aspect("equal", adjustable="datalim")
    panel.set(xlabel="latent 0", ylabel="latent 1", title=f"{words}, {LEVEL:.0%} regions")


def _draw_region(panel: Axes, draws: np.ndarray, colour: Any, fill: bool = True) -> float:
    """The ellipse of a Gaussian with the covariance of draws ``[S, 2]``; returns half its width along x."""
    radius = np.sqrt(chi2.ppf(LEVEL, 2))
    covariance = np.cov(draws.T)
    face = matplotlib.colors.to_rgba(colour, 0.25 if fill else 0)
    ellipse = Ellipse((0, 0), 1, 1, facecolor=face, edgecolor=colour, lw=1.5, zorder=2)
    panel.add_patch(shaped(ellipse, draws.mean(0), covariance, radius))
    panel.autoscale_view()
    return float(radius * np.sqrt(covariance[0, 0]))


def _draw_line(
    panel: Axes, means: np.ndarray, draws: np.ndarray, contexts: Sequence[Any], colours: Sequence[Any], axis: str
) -> None:
    low, high = np.quantile(draws[..., 0], _tails(), axis=0)
    for k, colour in enumerate(colours):
        panel.plot([low[k], high[k]], [k, k], color=colour, lw=4, alpha=0.5, solid_capstyle="butt")
        panel.plot(means[k, 0], k, "o", color=colour, ms=7)
    panel.set_yticks(range(len(means)), [label(context) for context in contexts])
    panel.set(
        xlabel="latent 0", ylabel=axis, title=f"latent means, {LEVEL:.0%} intervals", ylim=(-0.6, len(means) - 0.4)
    )


def _draw_others(panel: Axes, means: np.ndarray, others: Mapping[str, np.ndarray], colours: Sequence[Any]) -> None:
    for index, (name, other) in enumerate(others.items()):
        aligned, disparity = procrustes(means, other)
        marker = MARKERS[index % len(MARKERS)]
        y = aligned[:, 1] if means.shape[1] > 1 else range(len(means))
        panel.scatter(aligned[:, 0], y, s=60, marker=marker, facecolors="none", edgecolors=colours, lw=1.5, zorder=2)
        label = f"{name}, laid upon this run (disparity {disparity:.2g})"
        panel.plot([], [], marker, mfc="none", color="grey", ms=8, label=label)


def _draw_probe(
    panel: Axes,
    means: np.ndarray,
    draws: np.ndarray,
    contexts: Sequence[float],
    colours: Sequence[Any],
    axis: str,
) -> None:
    probe = ContextProbe(means, contexts)
    decoded = probe.predict(means)
    low, high = np.quantile(probe.draws(draws), _tails(), axis=0)
    ends = [min(contexts), max(contexts)]
    panel.plot(ends, ends, color="grey", ls="--", lw=1.2, zorder=1)
    for k, colour in enumerate(colours):
        panel.plot([contexts[k]] * 2, [low[k], high[k]], "_-", color=colour, lw=2, ms=11, mew=2)
        panel.plot(contexts[k], decoded[k], "o", color=colour, ms=4)
    # A probe has d + 1 numbers to choose.
    free = "" if len(means) > means.shape[1] + 1 else "\n(so few environments fit whatever their latents)"
    title = f"linear probe: $R^2$ {probe.r_squared:.3f}, Spearman {probe.rank_correlation:.2f}{free}"
    panel.set(xlabel=f"true {axis}", ylabel=f"{axis} read from the latent", title=title)


def _tails() -> list[float]:
    return [(1 - LEVEL) / 2, (1 + LEVEL) / 2]


def draw_prior_posterior(tree: DataTree) -> Png:
    """Marginal densities of every environment's posterior beside the prior, a panel for each latent, as a PNG.

    The axis spans the posteriors, which are often a hundred times narrower than the prior; that is then a flat line,
    and the title says how many times narrower. Chains are taken together.

    Args:
        tree: from :func:`~pyro_dynamics.diagnostics.posterior.datatree.to_datatree`.
    """
    e = tree["posterior"]["e"]
    draws, prior_sd = e.stack(sample=("chain", "draw")), float(tree["prior"]["e"].std())
    colours = colour_scale(e.sizes["environment"])
    without: Any = {"title": False, "legend": False}  # its annotation forgets the legend
    with matplotlib.rc_context(STYLE), without_display():
        columns = min(e.sizes["latent"], 3)
        size = (1.2 + 4.0 * max(columns, 1.5), 4.0 * -(-e.sizes["latent"] // columns))
        plots = arviz_plots.plot_prior_posterior(
            tree,
            var_names="e",
            backend="matplotlib",
            cols=["latent"],
            col_wrap=columns,
            aes={"color": ["group", "environment"]},
            visuals=without,
            # To where the densities end, and not only to the outermost draws.
            stats={"dist": {"bw": "silverman", "extend": True, "extend_fct": 0.3, "bound_correction": False}},
            figure_kwargs={"figsize": size, "layout": "constrained"},
        )
        for latent in e["latent"].to_numpy():
            panel = plots.viz["plot"].sel(latent=latent).item()
            _dress_densities(plots.viz["dist"]["e"].sel(latent=latent), colours)
            values = draws.sel(latent=latent)
            low, high = float(values.min()), float(values.max())
            margin = 0.08 * (high - low)
            panel.set(xlim=(low - margin, high + margin), xlabel=f"latent {latent}", ylabel="density")
            panel.set_ylim(bottom=0)
            panel.xaxis.set_major_locator(MaxNLocator(5))
            panel.set_title(_narrower(prior_sd / values.std("sample").to_numpy()))
        figure = plots.viz["figure"].item()
        figure.legend(*panel.get_legend_handles_labels(), loc="outside right center", fontsize=10)
        content = png(figure)
        pyplot.close(figure)
        return content


def _narrower(ratios: np.ndarray) -> str:
    """How many times narrower than the prior the environments' posteriors are, in words."""
    if ratios.max() < 1.1:
        return "no narrower than the prior"
    low, high = (f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}" for ratio in (ratios.min(), ratios.max()))
    return f"{low if low == high else f'{low} to {high}'} times narrower than the prior"


def _dress_densities(lines: DataArray, colours: Sequence[Any]) -> None:
    """Colour the lines ``[group, environment]`` that ArviZ drew; of the priors, which are all alike, one is enough."""
    for k, name in enumerate(lines["environment"].to_numpy()):
        posterior, prior = (lines.sel(group=group).isel(environment=k).item() for group in ("posterior", "prior"))
        posterior.set(color=colours[k], linewidth=2, label=name)
        prior.set(color="black", linestyle=":", linewidth=1.8, label="prior" if k == 0 else None, visible=k == 0)


def draw_pairs(tree: DataTree, draws: int = 500) -> Png:
    """Draws of one latent dimension against another for each environment, as a PNG.

    The ellipse holds 94 % of a Gaussian with the draws' covariance: a guide that is not Gaussian leaves it. (ArviZ'
    ``plot_pair`` sets latents of ALL environments against each other, K d times K d panels; but those of two
    environments are independent under every guide.) Of more than three latents the first three are drawn.

    Args:
        tree: from :func:`~pyro_dynamics.diagnostics.posterior.datatree.to_datatree`, with d of at least 2.
        draws: how many are shown of each environment.
    """
    e = tree["posterior"]["e"].stack(sample=("chain", "draw")).transpose("sample", "environment", "latent")
    names, values = e["environment"].to_numpy(), e.to_numpy()
    shown = min(values.shape[2], 3)
    pairs = [(i, j) for i in range(shown) for j in range(i + 1, shown)]
    columns = min(PANELS_IN_A_ROW, len(names))
    rows = -(-len(names) // columns)  # of one pair
    with matplotlib.rc_context(STYLE):
        size = (max(4.5, 2.2 * columns), 0.3 + 2.4 * rows * len(pairs))
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(rows * len(pairs), columns, squeeze=False)
        for panel in panels.flat:
            panel.set_axis_off()
        for index, (i, j) in enumerate(pairs):
            for k, (name, colour) in enumerate(zip(names, colour_scale(len(names)), strict=True)):
                panel = panels[index * rows + k // columns, k % columns]
                _draw_pair(panel, values[:, k, [i, j]], draws, colour)
                panel.set(xlabel=f"latent {i}", ylabel=f"latent {j}" if k % columns == 0 else "")
                correlation = np.corrcoef(values[:, k, i], values[:, k, j])[0, 1]
                panel.set_title(f"{name}\ncorrelation {correlation:.2f}", fontsize=11)
        return png(figure)


def _draw_pair(panel: Axes, pair: np.ndarray, draws: int, colour: Any) -> None:
    panel.set_axis_on()
    panel.plot(*pair[:: -(-len(pair) // draws)].T, ".", color=colour, ms=4, alpha=0.4, mew=0)
    _draw_region(panel, pair, colour, fill=False)
    for one in (panel.xaxis, panel.yaxis):
        one.set_major_locator(MaxNLocator(2))
    panel.ticklabel_format(useOffset=False)
    panel.tick_params(labelsize=9)
    panel.margins(0.1)


def draw_k_hat(labels: Sequence[str], k_hats: Sequence[float], threshold: float) -> Png:
    """The shape k-hat of each environment's importance weights beside the threshold, as a PNG; lower is better.

    The values stand below: minus infinity is the exact posterior, NaN that of densities that are not finite.

    Args:
        labels: names of the environments, K.
        k_hats: K.
        threshold: up to which a k-hat is good.
    """
    words = ["exact" if k == -np.inf else f"{k:.3g}" for k in k_hats]
    ticks = [f"{label}\n{value}" for label, value in zip(labels, words, strict=True)]
    shown = np.clip(np.nan_to_num(k_hats, nan=HIGHEST_K), LOWEST_K, HIGHEST_K)
    values = DataArray(shown, {"environment": ticks}, ["environment"], name="k")
    with matplotlib.rc_context(STYLE), without_display():
        plots = arviz_plots.plot_khat(
            SimpleNamespace(pareto_k=values, good_k=threshold),  # what it reads of the result of a LOO
            hline_values=[threshold],
            visuals={"hlines": {"color": "black"}, "ticks": {}, "xlabel": False},
            backend="matplotlib",
            figure_kwargs={"figsize": (max(6.0, 1.2 + 1.3 * len(labels)), 4.2), "layout": "constrained"},
        )
        panel = plots.viz["plot"].item()
        panel.tick_params(axis="x", rotation=0)
        for tick in panel.get_xticklabels():
            tick.set_horizontalalignment("center")
        panel.set(ylabel=r"Pareto $\hat{k}$ (good below the line)", xlim=(-0.6, len(labels) - 0.4))
        content = png(plots.viz["figure"].item())
        pyplot.close(plots.viz["figure"].item())
        return content
