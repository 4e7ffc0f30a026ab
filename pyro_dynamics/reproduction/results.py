"""The folder of a reproduction: runs, one small file for each measurement, and the files gathered from them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from pyro_dynamics.data_files import AnyContext, Count, Finite, structure
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.clutter import without_clutter
from pyro_dynamics.io.files import make_folder, plain, write_json, write_json_lines
from pyro_dynamics.io.lock import LOCK, lock_folder
from pyro_dynamics.io.reuse import not_made, read_made, require_same_settings
from pyro_dynamics.io.run_folder import RunFolder, read_metrics
from pyro_dynamics.io.untrusted_folders import require_inside, stamped, unstamped

Row = dict[str, Any]
"""A line of ``scores.jsonl`` or ``latents.jsonl``."""

Run = tuple[str, str, int]
"""Family, agent and seed."""

Score = TypedDict("Score", {"context": AnyContext, "episode": Count, "return": Finite})


class Latent(TypedDict):
    """A line of ``latents.jsonl``, as a measurement has it."""

    context: AnyContext
    mean: list[Finite]
    sd: list[Finite]


class Measured(TypedDict):
    """The file of a measurement."""

    scores: list[Score]
    latents: list[Latent]


class Horizon(TypedDict):
    """The first of them is what is read."""

    influence: Finite


class Influence(TypedDict):
    """The file of a family's sensitivity."""

    horizons: list[Horizon]


RANDOM = "random"
"""The agent that acts at random."""
TRUE_DYNAMICS = "true-dynamics"
"""The same planner on the simulator under the true context. It learns nothing, and stands beside every checkpoint."""
OWN = ("reproduction.json", "runs", "measurements", "influence", LOCK)
"""What another process may make first."""


@dataclass(frozen=True)
class Measurement:
    """Something to measure: episodes of one agent at one checkpoint.

    Attributes:
        family: its family.
        agent: the agent's name in the tables.
        seed: of its training.
        split: ``test``, ``dynamic`` or ``ablation``; for those that learn nothing ``train`` too.
        checkpoint: the round; None for those that learn nothing.
    """

    family: str
    agent: str
    seed: int
    split: str
    checkpoint: int | None = None

    @property
    def name(self) -> str:
        """Of its file."""
        round_ = "" if self.checkpoint is None else f"-round-{self.checkpoint:03d}"
        return f"{self.family}/{self.agent}-{self.seed}-{self.split}{round_}.json"


class Results:
    """``reproduction.json``, ``runs/FAMILY/AGENT-SEED``, ``measurements/``, and ``scores.jsonl``, ``latents.jsonl``.

    Every file is written atomically. An existing measurement is not repeated, and the gathered files have only what is
    in the runs and measurements, in an order that does not depend on when each was made.

    Args:
        path: the folder.
        preset: the scale, a column of the gathered files.
        protocol: the settings that determine the numbers, as plain data.

    Raises:
        UserError: if the folder holds a reproduction with other settings, or cannot be made.
    """

    def __init__(self, path: Path, preset: str, protocol: dict[str, Any]) -> None:
        self.path, self.preset = path, preset
        settings = {"preset": preset, **plain(protocol)}
        file = make_folder(path) / "reproduction.json"
        require_inside(path)
        others = [one for one in path.iterdir() if one.name not in OWN and one.suffix != ".part"]
        others = without_clutter(others, path)
        if others and not file.is_file() and not (path / "runs").is_dir():
            raise UserError(f"{path} holds something else already: choose another --out")
        with lock_folder(path, wait=True):
            if file.is_file():
                there = unstamped(read_made(file, "the settings of a reproduction"), file)
                require_same_settings("a reproduction", path, there, settings)
            write_json(file, stamped(settings))

    def run(self, family: str, agent: str, seed: int) -> Path:
        """The folder of a trained run."""
        return self.path / "runs" / family / f"{agent}-{seed}"

    def has(self, measurement: Measurement) -> bool:
        """Whether it was made before."""
        return self._file(measurement).is_file()

    def is_done(self, run: Run, measurements: Iterable[Measurement]) -> bool:
        """Whether all of a run is measured and its metrics are kept: then its folder need not be there any more."""
        return self._metrics_file(run).is_file() and all(map(self.has, measurements))

    def keep_metrics(self, run: Run) -> None:
        """Keep the metrics of a run that is whole beside its measurements."""
        file = self._metrics_file(run)
        make_folder(file.parent)
        write_json_lines(file, RunFolder.open(self.run(*run)).metrics())

    def save(self, measurement: Measurement, scores: Sequence[Row], latents: Sequence[Row]) -> None:
        """Store a measurement: rows with ``context``, ``episode``, ``return``; and ``context``, ``mean``, ``sd``."""
        file = self._file(measurement)
        make_folder(file.parent)
        write_json(file, {"scores": scores, "latents": latents})

    def save_influence(self, family: str, found: dict[str, Any]) -> None:
        """Store the variance of the next step explained by a family's hidden parameter."""
        write_json(make_folder(self.path / "influence") / f"{family}.json", found)

    def influences(self) -> dict[str, dict[str, Any]]:
        """What was kept of each family, in the order of the names."""
        return {
            file.stem: _holding(file, Influence, "an influence")
            for file in without_clutter(self.path.glob("influence/*.json"), self.path)
        }

    def gather(self, runs: Iterable[Run], measurements: Iterable[Measurement]) -> tuple[list[Row], list[Row]]:
        """Write ``scores.jsonl`` and ``latents.jsonl`` from what is there, and return their rows."""
        scores: list[Row] = []
        latents: list[Row] = []
        for family, agent, seed in runs:
            base = {"family": family, "preset": self.preset, "agent": agent, "seed": seed, "split": "train"}
            for row in self._metrics((family, agent, seed)):
                where = {"context": row["context"]}
                scores.append({**base, "checkpoint": None, **where, "episode": row["round"], "return": row["return"]})
                if row["latent_mean"]:
                    belief = {"mean": row["latent_mean"], "sd": row["latent_sd"]}
                    latents.append({**base, "checkpoint": row["round"], **where, **belief})
        for one in filter(self.has, measurements):
            base = {"family": one.family, "preset": self.preset, "agent": one.agent, "seed": one.seed}
            base |= {"split": one.split, "checkpoint": one.checkpoint}
            there = _holding(self._file(one), Measured, "a measurement")
            scores += [{**base, **row} for row in there["scores"]]
            latents += [{**base, **row} for row in there["latents"]]
        write_json_lines(self.path / "scores.jsonl", scores)
        write_json_lines(self.path / "latents.jsonl", latents)
        return scores, latents

    def _metrics(self, run: Run) -> list[Row]:
        """Of the run itself, or what was kept of it."""
        path, kept = self.run(*run), self._metrics_file(run)
        if (path / "config.json").is_file():
            return RunFolder.open(path).metrics()
        return read_metrics(kept) if kept.is_file() else []

    def _metrics_file(self, run: Run) -> Path:
        family, agent, seed = run
        return self.path / "measurements" / family / f"{agent}-{seed}-metrics.jsonl"

    def _file(self, measurement: Measurement) -> Path:
        return self.path / "measurements" / measurement.name


def _holding(file: Path, kind: type, words: str) -> dict[str, Any]:
    """What the file holds, if it is of that kind."""
    try:
        there: dict[str, Any] = structure(read_made(file, words), kind)
    except ValueError as fault:
        raise not_made(file, words, fault) from None
    return there
