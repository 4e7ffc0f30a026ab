"""pyro-dynamics benchmark index: pages whose tables are made from recorded rows, and where the rows come from."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from pyro_dynamics.benchmarks.pages import commands
from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.data_files import read_text
from pyro_dynamics.io.clutter import without_clutter
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
            sources = list(dict.fromkeys(source for words in found for source in sources_of(words)))
            rows.append({"page": page.name, "title": title, "path": str(page), "sources": sources})
    return [Recording("index", {}, rows, {})]


def sources_of(arguments: list[str]) -> list[str]:
    """Where the rows of a marker come from."""
    from pyro_dynamics.runners.benchmark import module_of, named, recordings_of

    name, rest = named(arguments)
    module = module_of(name)
    flags = tyro.cli(module.Flags, args=rest)
    return [one.source.removeprefix("Rows ") for one in recordings_of(name, module, flags.report)]


def table(recording: Recording) -> str:
    """As Markdown."""
    lines = []
    for row in recording.rows:
        command = f"`pyro-dynamics benchmark pages {row['path']}`"
        lines.append([f"[{row['title']}]({row['page']})", command, " ".join(row["sources"])])
    return markdown_table(["page", "its tables again", "rows"], lines)
