"""The folder of a sweep: runs, and the other files of their jobs."""

import json
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from pyro_dynamics.data_files import parse_json, read_text
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import make_folder, results_folder, write_bytes, write_json
from pyro_dynamics.io.lock import lock_folder
from pyro_dynamics.io.untrusted_folders import require_inside


@dataclass(frozen=True)
class Try:
    """A start, or restart, of a job."""

    command: str
    """The token of the command that started it."""
    after_round: int | None
    """The last complete round at the start."""
    host: str
    pid: int


@dataclass(frozen=True)
class SweepFolder:
    """``FAMILY/AGENT-SEED`` for each run; ``logs``, ``tries`` and ``failed`` with a file for each job; ``sweep.json``.

    On a cluster it must lie on a file system that all machines share.
    """

    path: Path
    command: str
    """The token of the running command; only processes that see the folder can read it."""

    @classmethod
    @contextmanager
    def claimed(cls, path: Path) -> Iterator["SweepFolder"]:
        """The folder, for one command at a time.

        Raises:
            UserError: if it cannot be made, or another command is at work in it.
        """
        folder = cls(results_folder(path.absolute()), secrets.token_hex(8))
        require_inside(path)
        with lock_folder(folder.path):
            write_bytes(folder.path / "command", folder.command.encode())
            yield folder

    def is_seen(self) -> bool:
        """Whether this process sees the folder that the command claimed."""
        file = self.path / "command"
        return file.is_file() and file.read_text() == self.command

    def run(self, name: str) -> Path:
        """The run of a job."""
        return self.path / name

    def failure(self, name: str) -> Path:
        """The traceback of a job that failed for good."""
        return self.path / "failed" / f"{name}.txt"

    def log(self, name: str) -> TextIO:
        """Opens what a job prints, to add to it line by line."""
        file = self.path / "logs" / f"{name}.log"
        make_folder(file.parent)
        return file.open("a", buffering=1)

    def note_try(self, name: str, after_round: int | None) -> None:
        """Record that this process starts a job."""
        make_folder(self._tries(name).parent)
        with self._tries(name).open("a") as file:
            file.write(json.dumps(asdict(Try(self.command, after_round, socket.gethostname(), os.getpid()))) + "\n")

    def tries(self, name: str) -> list[Try]:
        """The starts and restarts of a job by this command."""
        if not self._tries(name).exists():
            return []
        file = self._tries(name)
        try:
            lines = read_text(file).split("\n")[:-1]  # a line without its end is still being written
            noted = [Try(**parse_json(line)) for line in lines]
        except (OSError, ValueError, TypeError) as fault:
            raise UserError(f"{file} is damaged ({fault}): delete it") from None
        return [one for one in noted if one.command == self.command]

    def save(self, rows: list[dict[str, Any]]) -> None:
        """Write the table of jobs."""
        write_json(self.path / "sweep.json", rows)

    def _tries(self, name: str) -> Path:
        return self.path / "tries" / f"{name}.jsonl"
