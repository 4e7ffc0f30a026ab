"""pyro-dynamics benchmark pages: the tables of pages again, from recorded rows."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from pyro_dynamics.benchmarks.pages import renew
from pyro_dynamics.data_files import read_text
from pyro_dynamics.errors import UserError, first_line
from pyro_dynamics.io.files import write_bytes


@dataclass(frozen=True)
class PagesFlags:
    """Renew the tables of pages from recorded rows, in place.

    A table between `<!-- begin: pyro-dynamics benchmark NAME --report FILE -->` and `<!-- end -->` becomes what that
    command prints now. Files are found from the current folder: give this in the checkout.
    """

    files: tyro.conf.Positional[tuple[Path, ...]]
    """The pages (Markdown)."""


Flags = PagesFlags


def main(flags: PagesFlags) -> None:
    """Run the command."""
    from pyro_dynamics.runners.benchmark import report

    for file in flags.files:
        try:
            before = read_text(file)
        except (OSError, ValueError) as fault:
            raise UserError(f"{file} cannot be read: {first_line(fault)}") from None
        after = renew(before, report)
        if after != before:
            write_bytes(file, after.encode())
        print(f"{file}: {'renewed' if after != before else 'as its rows say'}")
