"""pyro-dynamics benchmark index: pages whose tables are made from recorded rows, and where the rows come from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from pyro_dynamics.benchmarks.pages import commands
from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.data_files import read_text
from pyro_dynamics.io.clutter import without_clutter
from pyro_dynamics.io.provenance import describe_machine
from pyro_dynamics.io.tables import markdown_table
from pyro_dynamics.runners.benchmarks.common import ReportFlags


@dataclass(frozen=True)
class IndexFlags(ReportFlags):
    """List the pages of a folder (--report) that have tables from recorded rows, each with the command that makes them.

    Like the tables themselves this reads rows, and measures nothing.
    """


Flags = IndexFlags
INDEX = "index.md"


def read(folder: Path) -> list[Recording]:
    """The pages, as rows."""
    rows = []
    for page in without_clutter(folder.glob("*.md"), folder):
        text = read_text(page)
        if page.name != INDEX and (found := commands(text)):
            title = next(line.removeprefix("# ") for line in text.splitlines() if line.startswith("# "))
            origins = [origin for words in found for origin in origins_of(words)]
            rows.append({"page": page.name, "title": title, "path": str(page), "origins": origins})
    return [Recording("index", {}, rows, {})]


def origins_of(arguments: list[str]) -> list[dict[str, Any]]:
    """Where the rows of a marker come from, as their provenance says."""
    from pyro_dynamics.runners.benchmark import module_of, named, recordings_of

    name, rest = named(arguments)
    module = module_of(name)
    flags = tyro.cli(module.Flags, args=rest)
    return [origin for one in recordings_of(name, module, flags.report) for origin in one.origins]


def machines(origins: Sequence[Mapping[str, Any]]) -> str:
    """Each machine, with the first and the last day of its rows; the commits stand below the tables."""
    days: dict[str, set[str]] = {}
    for origin in origins:
        machine = describe_machine({**origin, "cores": None})
        days.setdefault(machine, set()).add(str(origin.get("date", "date not recorded")))
    found = [f"{machine}, {' to '.join(sorted({min(of), max(of)}))}" for machine, of in days.items()]
    return "; ".join(found)


def table(recording: Recording) -> str:
    """As Markdown."""
    lines = []
    for row in recording.rows:
        command = f"`pyro-dynamics benchmark pages {row['path']}`"
        lines.append([f"[{row['title']}]({row['page']})", command, machines(row["origins"])])
    return markdown_table(["page", "its tables again", "measured on"], lines)
