"""pyro-dynamics benchmark reproduction: the report of a reproduction again, from its gathered rows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.data_files import parse_json, read_text
from pyro_dynamics.environments import find_family
from pyro_dynamics.errors import UserError, first_line
from pyro_dynamics.io.clutter import without_clutter
from pyro_dynamics.io.files import make_folder
from pyro_dynamics.io.provenance import UNKNOWN
from pyro_dynamics.io.reuse import not_made, read_made
from pyro_dynamics.io.tables import markdown_table
from pyro_dynamics.reports.report import Report
from pyro_dynamics.reports.report_folder import write_report
from pyro_dynamics.reports.reproduction_report import claims_table, findings
from pyro_dynamics.reproduction.claims import claims
from pyro_dynamics.reproduction.latent_rows import LatentRows
from pyro_dynamics.reproduction.score_rows import Scores
from pyro_dynamics.runners.benchmarks.common import ReportFlags


@dataclass(frozen=True)
class ReproductionFlags(ReportFlags):
    """Make the report of a reproduction again, from the rows that `pyro-dynamics reproduce` gathered.

    The folder has scores.jsonl, latents.jsonl, reproduction.json and influence/; runs and measurements are not needed.
    Prints the table of the paper's claims.
    """

    out: Path | None = None
    """Write the whole report here: report.md, report.html and figures/."""


Flags = ReproductionFlags


def main(flags: ReproductionFlags) -> None:
    """Run the command."""
    if flags.report is None:
        raise UserError("pyro-dynamics reproduce measures; give --report FOLDER to make the report of its rows again")
    (recording,) = read(flags.report)
    if flags.out is not None:
        print(f"report: {write_report(report_of(recording), make_folder(flags.out))}")
    print(f"{table(recording)}\n\n{recording.source}")


def read(path: Path) -> list[Recording]:
    """The rows of a folder.

    Raises:
        UserError: if they are missing or damaged.
    """
    rows = [{"scores": _lines(path / "scores.jsonl"), "latents": _lines(path / "latents.jsonl")}]
    settings = read_made(path / "reproduction.json", "the settings of a reproduction")
    settings["influences"] = {
        file.stem: read_made(file, "an influence") for file in without_clutter(path.glob("influence/*.json"), path)
    }
    source = path / "provenance.json"
    return [Recording("reproduction", settings, rows, read_made(source) if source.is_file() else UNKNOWN)]


def report_of(recording: Recording) -> Report:
    """The report, with its figures."""
    settings, rows = recording.settings, recording.rows[0]
    influence = {family: found["horizons"][0]["influence"] for family, found in settings["influences"].items()}
    family, ablation = settings["family"], settings.get("ablation") or ""
    return findings(rows["scores"], rows["latents"], family, find_family(family).axis, ablation, influence)


def table(recording: Recording) -> str:
    """The paper's claims, as Markdown."""
    rows, family = recording.rows[0], recording.settings["family"]
    found = claims_table(claims(Scores(rows["scores"], family), LatentRows(rows["latents"], family)))
    return markdown_table(found.head, found.rows)


def _lines(file: Path) -> list[dict[str, Any]]:
    try:
        rows = [parse_json(line) for line in read_text(file).splitlines()]
    except (OSError, ValueError) as fault:
        raise UserError(f"{file} cannot be read ({first_line(fault)}): --report needs the gathered rows") from None
    if not all(isinstance(row, dict) for row in rows):
        raise not_made(file, "rows of a reproduction")
    return rows
