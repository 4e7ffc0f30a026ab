"""What tests of commands share."""

from pathlib import Path

import pytest

from pyro_dynamics.runners.main import main


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line with which a command ends whose user made a mistake."""
    capsys.readouterr()
    assert main(arguments) == 2
    printed = capsys.readouterr().err.strip()
    assert printed.startswith("pyro-dynamics: error: ")
    assert len(printed.splitlines()) == 1, printed
    return printed


def files_of(folder: Path) -> dict[str, bytes]:
    """The files that have their final names, but for the lock."""
    files = [file for file in folder.rglob("*") if file.is_file() and ".part" not in file.name and file.name != "lock"]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}
