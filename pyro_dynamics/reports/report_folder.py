"""A report on the disk: HTML with embedded figures, Markdown, and the figures as files."""

from pathlib import Path
from typing import get_args

from pyro_dynamics.io.files import make_folder, write_bytes
from pyro_dynamics.plots.style import FigureFormat, write_figure
from pyro_dynamics.reports.report import Report, to_html, to_markdown


def write_report(report: Report, out: Path, figure_format: FigureFormat = "png") -> Path:
    """Write ``report.html``, ``report.md`` and ``figures/``, also in another format; returns the first."""
    figures = make_folder(out / "figures")
    for ending in get_args(FigureFormat):
        for old in figures.glob(f"*.{ending}"):  # of an earlier report, possibly of another run
            old.unlink(missing_ok=True)
    for figure in report.figures:
        write_figure(figures / f"{figure.name}.png", figure.png, figure_format)
    write_bytes(out / "report.md", to_markdown(report, figures.name).encode())
    write_bytes(out / "report.html", to_html(report).encode())
    return out / "report.html"
