"""pyro-dynamics benchmark returns: whether one set of runs earns more than another."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pyro_dynamics.benchmarks import returns
from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.data_files import parse_json, read_text
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.runners import evaluate
from pyro_dynamics.runners.benchmarks.common import RecordFlags


@dataclass(frozen=True)
class ReturnsFlags(RecordFlags):
    """Compare two sets of trained runs by their returns, seed by seed.

    The table has the mean over seeds, and the difference between runs of one family and seed with its interval. Returns
    are those of the training (the last third of the rounds, as the run has kept them), or those on the test contexts:
    then each run is evaluated (`pyro-dynamics evaluate`), unless it was before.

    For example: pyro-dynamics benchmark returns --runs new/a-0 new/a-1 --against old/a-0 old/a-1
    """

    runs: tuple[Path, ...] = ()
    """Folders of trained runs."""
    against: tuple[Path, ...] = ()
    """Folders of those that they are compared with, one for each family and seed."""
    on: Literal["training", "tests"] = "training"
    """Which returns."""
    episodes: int = 2
    """Episodes in every test context."""


Flags = ReturnsFlags


def measure_rows(flags: ReturnsFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    groups = {returns.RUNS: flags.runs, returns.AGAINST: flags.against}
    found: dict[str, dict[tuple[str, int], Path]] = {}
    for group, paths in groups.items():
        found[group] = {}
        for path in paths:
            config = RunFolder.open(path).config
            place = config["family"], config["seed"]
            if place in found[group]:
                raise UserError(f"{path} and {found[group][place]} are both of {place[0]}, seed {place[1]}")
            found[group][place] = path
    if not found[returns.RUNS] or found[returns.RUNS].keys() != found[returns.AGAINST].keys():
        raise UserError("give runs of the same families and seeds: benchmark returns --runs RUN ... --against RUN ...")
    rows = [
        {"family": family, "seed": seed, "group": group, "returns": returns_of(path, flags)}
        for group, paths in found.items()
        for (family, seed), path in paths.items()
    ]
    return {"on": flags.on, "episodes": flags.episodes}, rows


def returns_of(path: Path, flags: ReturnsFlags) -> dict[str, float]:
    """Mean returns by set of contexts; on the tests a run is evaluated now, if it was not since its last round."""
    run = RunFolder.open(path)
    if flags.on == "training":
        return returns.of_training(run.metrics())
    file = path / f"evaluation-returns-{flags.episodes}.json"
    if not file.is_file() or parse_json(read_text(file))["checkpoint"] != run.last_round:
        evaluate.main([str(path), "--episodes", str(flags.episodes), "--out", str(file)])
    found = parse_json(read_text(file))
    evaluate.require_whole(found["contexts"])
    return returns.mean_by_set(found)


def table(recording: Recording) -> str:
    """The rows as Markdown."""
    return returns.table(recording.rows)
