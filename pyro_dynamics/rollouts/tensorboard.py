"""The metrics of a run as scalars for TensorBoard."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from pyro_dynamics.environments.context_text import label
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import reason

SCALARS = {
    "return": "return",
    "log_likelihood": "log likelihood, right latent",
    "log_likelihood_wrong_latent": "log likelihood, wrong latent",
}


def summary_writer() -> Any:
    """The class that writes event files.

    Raises:
        UserError: if TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError("TensorBoard is not installed: pip install tensorboard") from None
    return SummaryWriter


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
            self.writer: Any = summary_writer()(str(folder), purge_step=first)
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
        """Write round m.

        Args:
            m: the round.
            rows: of ``metrics.jsonl``, one for each environment.
            elbo: of the last epoch of the training before it, in nats for each transition; None for none.

        Raises:
            UserError: if it cannot be written.
        """
        with self._in_one_line():
            self._add(m, rows, elbo)
            self.writer.flush()

    def _add(self, m: int, rows: Sequence[Mapping[str, Any]], elbo: float | None) -> None:
        if elbo is not None:
            self.writer.add_scalar("ELBO", elbo, m)
        for row in rows:
            where = label(row["context"])
            for key, name in SCALARS.items():
                if row[key] is not None:
                    self.writer.add_scalar(f"{name}/{where}", row[key], m)
            for i, (mean, scale) in enumerate(zip(row["latent_mean"] or (), row["latent_sd"] or (), strict=True)):
                self.writer.add_scalar(f"latent {i}, mean/{where}", mean, m)
                self.writer.add_scalar(f"latent {i}, sd/{where}", scale, m)

    def close(self) -> None:
        """Finish the files."""
        with suppress(UserError) if self.broken else nullcontext(), self._in_one_line():
            self.writer.close()
