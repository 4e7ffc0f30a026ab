"""Recorded rows of a benchmark: one JSON file with what was measured, by which settings, and where."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from pyro_dynamics.data_files import structure
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.clutter import without_clutter
from pyro_dynamics.io.files import ensure_parent, plain, write_bytes
from pyro_dynamics.io.provenance import describe_provenance, provenance
from pyro_dynamics.io.reuse import not_made, read_made
from pyro_dynamics.io.untrusted_folders import stamped, unstamped

Row = dict[str, Any]


class Stored(TypedDict):
    """The file, but for its format."""

    benchmark: str
    settings: dict[str, Any]
    rows: list[dict[str, Any]]
    provenance: dict[str, Any]


@dataclass(frozen=True)
class Recording:
    """What one call of a benchmark measured.

    Attributes:
        benchmark: its name.
        settings: what decides the numbers, as plain data.
        rows: one object for each thing measured; one that an earlier call measured has its provenance as ``measured``.
        provenance: of the other rows, see :func:`~pyro_dynamics.io.provenance.provenance`; of here and now by default.
    """

    benchmark: str
    settings: dict[str, Any]
    rows: list[Row]
    provenance: dict[str, Any] = field(default_factory=provenance)

    @property
    def source(self) -> str:
        """Below its table: a line for each machine, commit and day on which rows were measured."""
        return "\n".join(map(describe_provenance, self.origins))

    @property
    def origins(self) -> list[dict[str, Any]]:
        """The provenance of its rows, once for each machine, commit and day, whatever the load was."""
        each = [row.get("measured", self.provenance) for row in self.rows] or [self.provenance]
        alike = {json.dumps(one | {"load": None}): one for one in reversed(each)}
        return list(reversed(alike.values()))


def save_recording(recording: Recording, file: Path) -> None:
    """Write it whole, with a line for each row.

    Raises:
        UserError: if the file cannot be written.
    """
    values = stamped(plain(vars(recording)))
    rows = ",\n".join(json.dumps(row) for row in values["rows"])
    parts = [f'"{name}": {json.dumps(value)}' for name, value in values.items() if name != "rows"]
    text = ",\n".join([*parts, f'"rows": [\n{rows}\n]'])
    write_bytes(ensure_parent(file), f"{{\n{text}\n}}\n".encode())


def measured_before(file: Path | None, benchmark: str, settings: Mapping[str, Any]) -> list[Row]:
    """The rows that a file holds already: those of a command that was stopped, here or on another machine.

    Args:
        file: None, or one that need not be there.
        benchmark: whose rows they must be.
        settings: by which they must have been measured, by name.

    Returns:
        The rows, each with its provenance as ``measured``.

    Raises:
        UserError: if the file holds something else.
    """
    if file is None or not file.is_file():
        return []
    found = _read(file, benchmark)
    for name, value in plain(dict(settings)).items():
        if name in found.settings and found.settings[name] != value:
            other = f"{name} {found.settings[name]}, not {value}"
            raise UserError(f"{file} holds rows of other settings ({other}): name another file")
    return [{"measured": found.provenance, **row} for row in found.rows]


def read_recordings(path: Path, benchmark: str) -> list[Recording]:
    """The recordings of a benchmark in a file, or in a folder by the names of its files.

    Raises:
        UserError: if there are none, or a file holds something else.
    """
    if not path.is_dir():
        return [_read(path, benchmark)]
    files = without_clutter(path.glob("*.json"), path)
    found = [one for file in files if (one := _read(file)).benchmark == benchmark]
    if not found:
        raise UserError(f"{path} holds no recorded rows of {benchmark!r}: measure them with --out {path}/NAME.json")
    return found


def _read(file: Path, benchmark: str | None = None) -> Recording:
    if not file.is_file():
        raise UserError(f"there is no file {file}: --report needs rows that were recorded with --out")
    values = unstamped(read_made(file, "recorded rows"), file)
    try:
        stored = structure(values, Stored)
    except ValueError as fault:
        raise not_made(file, "recorded rows", fault) from None
    if benchmark not in (None, stored["benchmark"]):
        raise UserError(f"{file} holds rows of {stored['benchmark']!r}, not of {benchmark!r}")
    return Recording(**{**stored, "rows": _with_numbers(stored["rows"])})


def _with_numbers(value: Any) -> Any:
    """What JSON has no numbers for, as numbers again."""
    if isinstance(value, dict):
        return {name: _with_numbers(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_with_numbers(part) for part in value]
    return float(value) if value in ("nan", "inf", "-inf") else value
