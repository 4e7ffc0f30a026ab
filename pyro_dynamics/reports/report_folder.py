"""A report on the disk: HTML with embedded figures, Markdown, and the figures as files."""

from pathlib import Path

from pyro_dynamics.io.files import make_folder, write_bytes
from pyro_dynamics.reports.report import Report, to_html, to_markdown


def write_report(report: Report, out: Path) -> Path:
    """Write ``report.html``, ``report.md`` and ``figures/``; returns the first."""
    figures = make_folder(out / "figures")
    for old in figures.glob("*.png"):  # of an earlier report, possibly of another run
        old.unlink()
    for figure in report.figures:
        write_bytes(figures / f"{figure.name}.png", figure.png)
    write_bytes(out / "report.md", to_markdown(report, figures.name).encode())
    write_bytes(out / "report.html", to_html(report).encode())
    return out / "report.html"
