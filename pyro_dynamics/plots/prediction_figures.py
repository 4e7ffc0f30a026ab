"""The figures that judge predictions: coverage, prediction fans, and what each latent makes of the same actions."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pyro_dynamics.diagnostics.prediction.forecast import Forecast
from pyro_dynamics.plots.style import STYLE, Png, colour_scale, png


def draw_coverage(by_horizon: Mapping[str, Sequence[float]], level: float = 0.9) -> Png:
    """How much of what was observed lay inside the intervals, by how far ahead it was predicted, as a PNG.

    Args:
        by_horizon: for each environment the share of its targets inside, 1, 2, ... H steps ahead.
        level: probability of the intervals.
    """
    colours = colour_scale(len(by_horizon))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.5, 4.2), layout="constrained")
        panel = figure.subplots()
        for colour, (name, shares) in zip(colours, by_horizon.items(), strict=True):
            panel.plot(range(1, len(shares) + 1), shares, color=colour, marker=".", lw=1.8, label=name)
        panel.axhline(level, color="black", ls=":", lw=1.5, label="calibrated")
        lowest = min((min(shares) for shares in by_horizon.values() if len(shares)), default=level)
        panel.set(
            xlabel="steps ahead",
            ylabel=f"share inside {level:.0%} intervals",
            ylim=(max(0.0, min(level - 0.2, lowest - 0.05)), 1.02),
        )
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.legend(fontsize=10, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return png(figure)


def draw_fans(
    forecast: Forecast, labels: Sequence[str], state_names: Sequence[str] | None = None, windows: int = 1
) -> Png:
    """Bands of 50 % and 90 % of the particles beside what was observed, as a PNG.

    Shown of each environment is the window whose error is the median of its windows, neither the best nor the worst,
    and of the state those three dimensions that become most uncertain, measured by how much they vary.

    Args:
        forecast: of W windows.
        labels: names of the environments.
        state_names: names and units of the state's dimensions, ``[S]``.
        windows: how many windows of each environment, those nearest to the median error.
    """
    scale = _spread_of(forecast)
    shown = _typical_windows(forecast, scale, windows)
    dimensions = _uncertain_dimensions(forecast, scale)
    colours = colour_scale(len(labels))
    draws, observed = forecast.draws.numpy(), forecast.observed.numpy()
    # The fan opens from the state that was known.
    draws = np.concatenate(
        [np.broadcast_to(forecast.start.numpy(), (len(draws), *forecast.start.shape))[:, :, None], draws], 2
    )
    observed = np.concatenate([forecast.start.numpy()[:, None], observed], 1)
    with matplotlib.rc_context(STYLE):
        size = (max(5.0, 1.2 + 2.0 * len(shown)), 1.0 + 2.0 * len(dimensions))
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(len(dimensions), len(shown), sharex=True, sharey="row", squeeze=False)
        for row, s in zip(panels, dimensions, strict=True):
            row[0].set_ylabel(state_names[s] if state_names else f"state {s}")
            for panel, w in zip(row, shown, strict=True):
                _draw_fan(panel, draws[:, w, :, s], observed[w, :, s], colours[int(forecast.environment[w])])
        for panel, w in zip(panels[0], shown, strict=True):
            panel.set_title(f"{labels[int(forecast.environment[w])]}\nfrom step {int(forecast.step[w])}", fontsize=11)
        figure.supxlabel("steps ahead (bands: 50 % and 90 % of the particles; black: observed)", fontsize=11)
        return png(figure)


def _draw_fan(panel: Axes, draws: np.ndarray, observed: np.ndarray, colour: object) -> None:
    """One dimension of one window: draws ``[P, H + 1]``, observed ``[H + 1]``."""
    time = range(len(observed))
    for level, alpha in ((0.9, 0.25), (0.5, 0.45)):
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
        panel.fill_between(time, low, high, color=colour, alpha=alpha, lw=0)
    panel.plot(time, observed, color="black", lw=1.6)
    panel.xaxis.set_major_locator(MaxNLocator(4, integer=True))


def _spread_of(forecast: Forecast) -> np.ndarray:
    """Standard deviation ``[S]`` of what was observed; infinite for a dimension that never changes."""
    scale = forecast.observed.numpy().std((0, 1))
    return np.where(scale < 1e-12, np.inf, scale)


def _typical_windows(forecast: Forecast, scale: np.ndarray, count: int) -> list[int]:
    """Of each environment the windows whose error is nearest to the median."""
    error = np.abs(forecast.draws.numpy().mean(0) - forecast.observed.numpy()) / scale
    by_window = error.mean((1, 2))
    environment = forecast.environment.numpy()
    kept: list[int] = []
    for k in np.unique(environment):
        own = np.flatnonzero(environment == k)
        ordered = own[by_window[own].argsort()]
        first = max(0, (len(ordered) - count) // 2)
        kept += ordered[first : first + count].tolist()
    return kept


def _uncertain_dimensions(forecast: Forecast, scale: np.ndarray, count: int = 3) -> list[int]:
    """Dimensions in which the particles spread most from the first step to the last, in their own order."""
    spread = forecast.draws.numpy().std(0)
    growth = (spread[:, -1] - spread[:, 0]).mean(0) / scale
    return sorted(growth.argsort()[::-1][:count].tolist())


def draw_traversal(paths: Mapping[str, np.ndarray], parameter_axis: str, state_name: str) -> Png:
    """The prediction for each environment from one start under the same actions, as a PNG.

    Args:
        paths: for each environment a state dimension over the steps, ``[H]``, as predicted under its latent.
        parameter_axis: name and unit of the hidden parameter.
        state_name: name and unit of the state dimension.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.5, 4.2), layout="constrained")
        panel = figure.subplots()
        for colour, (label, path) in zip(colour_scale(len(paths)), paths.items(), strict=True):
            panel.plot(range(1, len(path) + 1), path, color=colour, lw=2.2, label=label)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set(xlabel="step", ylabel=state_name, title="one start, the same actions, each environment's latent")
        panel.legend(title=parameter_axis, fontsize=10, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return png(figure)
