"""The folder of a reproduction: runs, one small file for each measurement, and what is gathered from them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyro_dynamics.data_files import is_context, is_count, is_number, is_numbers
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import make_folder, plain, write_json, write_json_lines
from pyro_dynamics.io.reuse import not_made, read_made, require_same_settings
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.untrusted_folders import require_inside, stamped, unstamped

Row = dict[str, Any]
"""A line of ``scores.jsonl`` or ``latents.jsonl``."""

RANDOM = "random"
"""The agent that acts at random."""


@dataclass(frozen=True)
class Measurement:
    """Something to measure: episodes of one agent at one checkpoint.

    Attributes:
        family: its family.
        agent: how the agent is called in the tables.
        seed: of its training.
        split: ``test``, ``dynamic`` or ``ablation``; for random actions ``train`` too.
        checkpoint: the round; None for random actions.
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

    Every file is written whole. A measurement that is there is not made again, and the gathered files hold nothing
    that is not in the runs and measurements, in an order that does not depend on when each was made.

    Args:
        path: the folder.
        preset: the scale, a column of the gathered files.
        protocol: the settings that decide the numbers, as plain data.

    Raises:
        UserError: if the folder holds a reproduction with other settings, or cannot be made.
    """

    def __init__(self, path: Path, preset: str, protocol: dict[str, Any]) -> None:
        self.path, self.preset = path, preset
        settings = {"preset": preset, **plain(protocol)}
        file = make_folder(path) / "reproduction.json"
        require_inside(path)
        if file.is_file():
            there = unstamped(read_made(file, "the settings of a reproduction"), file)
            require_same_settings("a reproduction", path, there, settings)
        elif any(path.iterdir()) and not (path / "runs").is_dir():
            raise UserError(f"{path} holds something else already: choose another --out")
        write_json(file, stamped(settings))

    def run(self, family: str, agent: str, seed: int) -> Path:
        """The folder of a trained run."""
        return self.path / "runs" / family / f"{agent}-{seed}"

    def has(self, measurement: Measurement) -> bool:
        """Whether it was made before."""
        return self._file(measurement).is_file()

    def save(self, measurement: Measurement, scores: Sequence[Row], latents: Sequence[Row]) -> None:
        """Keep what was measured: rows with ``context``, ``episode``, ``return``; and ``context``, ``mean``, ``sd``."""
        file = self._file(measurement)
        make_folder(file.parent)
        write_json(file, {"scores": scores, "latents": latents})

    def save_influence(self, family: str, found: dict[str, Any]) -> None:
        """Keep how much a family's hidden parameter decides of what happens next."""
        write_json(make_folder(self.path / "influence") / f"{family}.json", found)

    def influences(self) -> dict[str, dict[str, Any]]:
        """What was kept of each family, in the order of the names."""
        return {file.stem: _influence(file) for file in sorted(self.path.glob("influence/*.json"))}

    def gather(
        self, runs: Iterable[tuple[str, str, int]], measurements: Iterable[Measurement]
    ) -> tuple[list[Row], list[Row]]:
        """Write ``scores.jsonl`` and ``latents.jsonl`` from what is there, and return their rows."""
        scores: list[Row] = []
        latents: list[Row] = []
        for family, agent, seed in runs:
            base = {"family": family, "preset": self.preset, "agent": agent, "seed": seed, "split": "train"}
            path = self.run(family, agent, seed)
            for row in RunFolder.open(path).metrics() if (path / "config.json").is_file() else ():
                where = {"context": row["context"]}
                scores.append({**base, "checkpoint": None, **where, "episode": row["round"], "return": row["return"]})
                if row["latent_mean"]:
                    belief = {"mean": row["latent_mean"], "sd": row["latent_sd"]}
                    latents.append({**base, "checkpoint": row["round"], **where, **belief})
        for one in filter(self.has, measurements):
            base = {"family": one.family, "preset": self.preset, "agent": one.agent, "seed": one.seed}
            base |= {"split": one.split, "checkpoint": one.checkpoint}
            there = _measured(self._file(one))
            scores += [{**base, **row} for row in there["scores"]]
            latents += [{**base, **row} for row in there["latents"]]
        write_json_lines(self.path / "scores.jsonl", scores)
        write_json_lines(self.path / "latents.jsonl", latents)
        return scores, latents

    def _file(self, measurement: Measurement) -> Path:
        return self.path / "measurements" / measurement.name


def _measured(file: Path) -> dict[str, list[Row]]:
    """Rows of scores and of latents that :meth:`Results.save` wrote."""
    there = read_made(file, "a measurement")
    known = all(isinstance(there.get(name), list) for name in ("scores", "latents"))
    if not known or not all(map(_is_score, there["scores"])) or not all(map(_is_latent, there["latents"])):
        raise not_made(file, "a measurement")
    return there


def _is_score(row: Any) -> bool:
    if not isinstance(row, dict) or set(row) != {"context", "episode", "return"}:
        return False
    return is_context(row["context"]) and is_count(row["episode"]) and is_number(row["return"])


def _is_latent(row: Any) -> bool:
    if not isinstance(row, dict) or set(row) != {"context", "mean", "sd"}:
        return False
    numbers = is_numbers(row["mean"]) and is_numbers(row["sd"]) and len(row["mean"]) == len(row["sd"])
    return numbers and is_context(row["context"])


def _influence(file: Path) -> dict[str, Any]:
    """What :meth:`Results.save_influence` wrote."""
    there = read_made(file, "an influence")
    horizons = there.get("horizons")
    known = isinstance(horizons, list) and all(isinstance(one, dict) for one in horizons)
    if not horizons or not known or not is_number(horizons[0].get("influence")):
        raise not_made(file, "an influence")
    return there
