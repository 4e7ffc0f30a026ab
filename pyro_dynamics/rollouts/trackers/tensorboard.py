"""The metrics of a run as scalars for TensorBoard."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import reason
from pyro_dynamics.rollouts.trackers.contract import scalars


def package() -> Any:
    """The class that writes event files.

    Raises:
        UserError: if TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError("TensorBoard is not installed: pip install tensorboard") from None
    return SummaryWriter


def open_run(folder: Path, first: int, config: Mapping[str, Any]) -> "TensorBoard":
    """Write to ``tensorboard`` in a run's folder, from round ``first`` on."""
    return TensorBoard(folder / "tensorboard", first)


class TensorBoard:
    """Writes each round's metrics to a folder; a scalar's step is the round.

    Args:
        folder: of the event files.
        first: the round that comes next; what a killed run wrote of it and of later ones is dropped.

    Raises:
        UserError: if TensorBoard is not installed, or cannot write there.
    """

    def __init__(self, folder: Path, first: int) -> None:
        self.folder, self.broken = folder, False
        with self._in_one_line():
            self.writer: Any = package()(str(folder), purge_step=first)
            self.writer.flush()

    @contextmanager
    def _in_one_line(self) -> Iterator[None]:
        """What its thread cannot write it raises here too: once is enough."""
        hook, threading.excepthook = threading.excepthook, lambda _: None
        try:
            yield
        except OSError as fault:
            self.broken = True
            raise UserError(f"cannot write to {self.folder}: {reason(fault)}") from None
        finally:
            threading.excepthook = hook

    def round(self, m: int, rows: Sequence[Mapping[str, Any]], elbo: float | None) -> None:
        with self._in_one_line():
            for name, value in scalars(rows, elbo):
                self.writer.add_scalar(name, value, m)
            self.writer.flush()

    def close(self) -> None:
        with suppress(UserError) if self.broken else nullcontext(), self._in_one_line():
            self.writer.close()
