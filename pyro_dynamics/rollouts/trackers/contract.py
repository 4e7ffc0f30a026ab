"""What a tracker of a training's metrics is, and how one is opened by its name."""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol
from uuid import uuid4

from pyro_dynamics.data_files import read_json
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.io.files import write_json

TrackerName = Literal["none", "tensorboard", "wandb", "trackio"]
PROJECT = "pyro-dynamics"
"""The project in which services collect our runs."""
IDS = "trackers.json"
"""The file in a run's folder with the ids of its runs at services: a resumed run continues these."""
SCALARS = {
    "return": "return",
    "log_likelihood": "log likelihood, right latent",
    "log_likelihood_wrong_latent": "log likelihood, wrong latent",
}


class Tracker(Protocol):
    """Keeps the metrics of a run, a round at a time."""

    def round(self, m: int, rows: Sequence[Mapping[str, Any]], elbo: float | None) -> None:
        """Keep round m, once it is safe in the run's folder.

        Args:
            m: the round, which is the step of its scalars.
            rows: of ``metrics.jsonl``, one for each environment.
            elbo: of the last epoch of the training before it, in nats per transition; None for none.

        Raises:
            UserError: if it cannot be written.
        """

    def close(self) -> None:
        """Bring everything to where it is kept."""


class NoTracker:
    """Keeps nothing: the metrics are in the run's folder anyway."""

    def round(self, m: int, rows: Sequence[Mapping[str, Any]], elbo: float | None) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def require_tracker(name: TrackerName) -> None:
    """Refuse a tracker whose package is missing, before anything is made.

    Raises:
        UserError: saying what to install.
    """
    if name != "none":
        _module(name).package()


def open_tracker(name: TrackerName, folder: Path, first: int, config: Mapping[str, Any]) -> Tracker:
    """The tracker of a run.

    Args:
        name: which one.
        folder: of the run.
        first: the round that comes next; what a killed run left of it and of later ones does not count.
        config: the run's configuration, which services show beside its curves.

    Raises:
        UserError: if its package is missing, or it cannot write.
    """
    return NoTracker() if name == "none" else _module(name).open_run(folder, first, config)


def _module(name: str) -> Any:
    return importlib.import_module(f"{__package__}.{name}")


def scalars(rows: Sequence[Mapping[str, Any]], elbo: float | None) -> Iterator[tuple[str, float]]:
    """The numbers of a round by name; those of an environment have its context after a slash."""
    if elbo is not None:
        yield "ELBO", elbo
    for row in rows:
        where = label(row["context"])
        for key, name in SCALARS.items():
            if row[key] is not None:
                yield f"{name}/{where}", row[key]
        for i, (mean, scale) in enumerate(zip(row["latent_mean"] or (), row["latent_sd"] or (), strict=True)):
            yield f"latent {i}, mean/{where}", mean
            yield f"latent {i}, sd/{where}", scale


def run_id(folder: Path, name: TrackerName) -> str:
    """The id of a run at a service: a new one the first time, the same one when it is resumed."""
    file = folder / IDS
    try:
        ids = read_json(file)
        known = ids.get(name) if isinstance(ids, dict) else None
    except (OSError, ValueError):  # there is none yet, or it is damaged: then the curves begin anew
        ids, known = {}, None
    if not (isinstance(known, str) and known.isalnum()):
        known = uuid4().hex[:12]
        write_json(file, (ids if isinstance(ids, dict) else {}) | {name: known})
    return known
