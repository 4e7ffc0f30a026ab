"""The figure of a fit to logged data."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pyro_dynamics.environments.context_text import label
from pyro_dynamics.plots.style import STYLE, Png, colour_scale, png


def draw_fit(elbos: Sequence[float], rows: Sequence[Mapping[str, Any]], axis: str) -> Png:
    """Learning curve, latents, and the held-out log-likelihood under right and wrong latents, as a PNG.

    Args:
        elbos: by epoch, in nats for each transition.
        rows: of ``metrics.jsonl``, one for each environment.
        axis: name and unit of what differs between environments.
    """
    dimensions = len(rows[0]["latent_mean"])
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.0 * (2 + (dimensions > 0)), 4.2), layout="constrained")
        axes = list(figure.subplots(1, 2 + (dimensions > 0)))
        axes[0].plot(np.arange(1, len(elbos) + 1), elbos, color="tab:blue")
        # The first epochs lie so low that the rest would seem flat.
        low, high = np.quantile(elbos, 0.1), max(elbos)
        axes[0].set(
            xlabel="epoch", title="ELBO, nats per transition", ylim=(low - 0.1, high + 0.1 * (high - low) + 0.1)
        )
        _draw_held_out(axes[1], rows, axis)
        if dimensions:
            _draw_latents(axes[2], rows, dimensions)
        return png(figure)


def _draw_held_out(panel: Axes, rows: Sequence[Mapping[str, Any]], axis: str) -> None:
    places = np.arange(len(rows))
    panel.plot(places, [row["log_likelihood"] for row in rows], "o", color="tab:blue", label="its own latent")
    if all(row["log_likelihood_wrong_latent"] is not None for row in rows):
        wrong = [row["log_likelihood_wrong_latent"] for row in rows]
        panel.plot(places, wrong, "x", color="tab:red", label="the others' latents")
    panel.set_yscale("symlog", linthresh=10.0)  # a wrong latent may be worse by thousands
    panel.set_xticks(places, [label(row["context"]) for row in rows], rotation=30 if len(rows) > 6 else 0)
    panel.set(xlabel=axis, title="held-out log p(s'), nats per transition")
    panel.legend(fontsize=9)


def _draw_latents(panel: Axes, rows: Sequence[Mapping[str, Any]], dimensions: int) -> None:
    """Means and two standard deviations in the first two dimensions; by environment where there is one."""
    colours = colour_scale(len(rows))
    for k, (colour, row) in enumerate(zip(colours, rows, strict=True)):
        mean, scale = np.array(row["latent_mean"]), np.array(row["latent_sd"])
        x, y = (mean[0], mean[1]) if dimensions > 1 else (k, mean[0])
        x_error = 2 * scale[0] if dimensions > 1 else None
        panel.errorbar(x, y, 2 * scale[1 if dimensions > 1 else 0], x_error, fmt="o", color=colour)
        panel.annotate(label(row["context"]), (x, y), (5, 5), textcoords="offset points", fontsize=9)
    names = ("latent 0", "latent 1") if dimensions > 1 else ("environment", "latent 0")
    panel.set(xlabel=names[0], ylabel=names[1], title="latents: mean and two standard deviations")
