"""The metrics of a run at Weights & Biases, or in its offline files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyro_dynamics.errors import UserError, first_line
from pyro_dynamics.rollouts.trackers.contract import PROJECT, run_id, scalars


def package() -> Any:
    """wandb.

    Raises:
        UserError: if it is not installed.
    """
    try:
        import wandb
    except ImportError:
        raise UserError("Weights & Biases is not installed: pip install wandb") from None
    return wandb


def open_run(folder: Path, first: int, config: Mapping[str, Any]) -> "WeightsAndBiases":
    """Begin a run there, or continue that of a resumed run, whose steps up to ``first`` it has."""
    return WeightsAndBiases(folder, config)


class WeightsAndBiases:
    """Sends each round's metrics to the project ``pyro-dynamics``; a scalar's step is the round.

    Its own files are where wandb has them (``wandb`` in the current folder, or ``WANDB_DIR``), and not in the run's
    folder: there are links to its logs among them. ``WANDB_MODE=offline`` keeps everything there, for ``wandb sync``.

    Args:
        folder: of the run.
        config: its configuration.

    Raises:
        UserError: if wandb is not installed, or cannot begin (without a login, say).
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self.wandb = package()
        try:
            self.run: Any = self.wandb.init(
                project=PROJECT,
                name=folder.name,
                id=run_id(folder, "wandb"),
                resume="allow",
                config=dict(config),
                settings=self.wandb.Settings(console="off"),  # it would write down our output, bars and all
            )
        except (self.wandb.Error, OSError) as fault:
            raise UserError(
                f"Weights & Biases cannot begin: {first_line(fault)}; log in by wandb login, or set "
                f"WANDB_MODE=offline, and then train --resume {folder} --tracker wandb"
            ) from None

    def round(self, m: int, rows: Sequence[Mapping[str, Any]], elbo: float | None) -> None:
        try:
            self.run.log(dict(scalars(rows, elbo)), step=m)
        except (self.wandb.Error, OSError) as fault:
            raise UserError(f"Weights & Biases cannot write: {first_line(fault)}") from None

    def close(self) -> None:
        self.run.finish()
