"""A report on the disk: HTML with its pictures inside, Markdown, and the pictures by themselves."""

from pathlib import Path

from pyro_dynamics.io.files import make_folder, write_bytes
from pyro_dynamics.reports.report import Report, to_html, to_markdown


def write_report(report: Report, out: Path) -> Path:
    """Write ``report.html``, ``report.md`` and ``figures/``; returns the first."""
    pictures = make_folder(out / "figures")
    for old in pictures.glob("*.png"):  # of an earlier report, of another run perhaps
        old.unlink()
    for picture in report.pictures:
        write_bytes(pictures / f"{picture.name}.png", picture.png)
    write_bytes(out / "report.md", to_markdown(report, pictures.name).encode())
    write_bytes(out / "report.html", to_html(report).encode())
    return out / "report.html"
