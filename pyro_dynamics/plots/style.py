"""What all figures share: their style, colours, and how they become files."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from pyro_dynamics.io.files import write_bytes
from pyro_dynamics.plots.formats import FigureFormat

STYLE: Any = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "svg.hashsalt": "pyro-dynamics",  # the same figure is the same file
}
BELIEF, TRUTH = "black", "tab:red"

MOST_LEVELS = 30
"""Trained environments that are named beside a panel; of more, as where each episode was one, only their lines."""

DATES: dict[str, dict[str, None]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
"""A date would make two files of one figure differ."""


class Png(bytes):
    """A figure as the bytes of a PNG file, with the figure itself for whoever wants it in another format."""

    figure: Figure

    def rendered(self, figure_format: FigureFormat) -> bytes:
        """The figure as the bytes of a file of this format."""
        return self if figure_format == "png" else _rendered(self.figure, figure_format)


def png(figure: Figure) -> Png:
    """The figure as the bytes of a PNG file."""
    content = Png(_rendered(figure, "png"))
    content.figure = figure
    return content


def _rendered(figure: Figure, figure_format: FigureFormat) -> bytes:
    buffer = BytesIO()
    with matplotlib.rc_context(STYLE):  # ticks are made when they are drawn
        figure.savefig(buffer, format=figure_format, dpi=110, metadata=DATES.get(figure_format))
    return buffer.getvalue()


def write_figure(path: Path, drawn: Png, figure_format: FigureFormat = "png") -> list[Path]:
    """Write the PNG file ``path`` and, where another format is wanted, one beside it; returns their paths.

    Raises:
        UserError: if they cannot be written.
    """
    paths = [path] if figure_format == "png" else [path, path.with_suffix(f".{figure_format}")]
    for file, kind in zip(paths, ("png", figure_format), strict=False):
        write_bytes(file, drawn.rendered(kind))
    return paths


def colour_scale(count: int) -> list[Any]:
    """Colours for environments in their order."""
    return list(matplotlib.colormaps["viridis"](np.linspace(0, 0.9, count)))


def draw_levels(panel: Axes, levels: Any, names: Any = None) -> None:
    """What was trained on, as dotted lines with their names at the right, in the colours of :func:`colour_scale`.

    Levels that several environments share, as in a grid of two parameters, are drawn once, in grey. Call it last: the
    panel's limits must be final.

    Args:
        panel: the panel.
        levels: of each trained environment.
        names: of the environments; the levels themselves by default.
    """
    values = np.asarray(levels, dtype=float)
    colours = colour_scale(len(values))
    if names is None:
        values, first = np.unique(values, return_index=True)
        colours = [colours[k] for k in first] if len(values) == len(levels) else ["grey"] * len(values)
        names = [f"{value:g}" for value in values]
    many = len(values) > MOST_LEVELS
    for value, colour in zip(values, colours, strict=True):
        panel.axhline(value, color=colour, ls=":", lw=0.3 if many else 1.4, zorder=1)
    if not many:
        name_lines(panel, values, names, colours)


def name_lines(panel: Axes, heights: Any, names: Any, colours: Any, size: float = 10) -> None:
    """Write the name of each line at the right of the panel, as high as the line ends, but not over one another.

    Call it last: the panel's limits must be final.

    Args:
        panel: the panel.
        heights: where each line ends, in the panel's own unit; those beyond the limits are written at them.
        names: of the lines.
        colours: of the names.
        size: of the font, in points.
    """
    low, high = panel.get_ylim()
    figure = panel.get_figure(root=True)
    assert figure is not None
    # The height of a panel is only known once it is laid out; by its share of the figure this is near enough.
    points = 72 * figure.get_size_inches()[1] * panel.get_position().height
    gap = min(1.25 * size / points, 1 / max(len(names), 1))
    wanted = np.clip((np.asarray(heights, dtype=float) - low) / (high - low), 0, 1)
    order = np.argsort(wanted, kind="stable")
    places = wanted[order].copy()
    for _ in range(50):  # push neighbours apart until they fit
        for i in range(len(places) - 1):
            overlap = gap - (places[i + 1] - places[i])
            if overlap > 1e-9:
                places[i], places[i + 1] = places[i] - overlap / 2, places[i + 1] + overlap / 2
        if len(places) and places[0] < 0:
            places = np.maximum(places, np.arange(len(places)) * gap)
        if len(places) and places[-1] > 1:
            places = np.minimum(places, 1 - np.arange(len(places))[::-1] * gap)
    for place, k in zip(places, order, strict=True):
        panel.annotate(
            names[k],
            (1.0, place),
            (6, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            va="center",
            color=colours[k],
            fontsize=size,
            fontweight="bold",
            annotation_clip=False,
        )


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
