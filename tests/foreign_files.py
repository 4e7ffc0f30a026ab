"""Honest files of every kind that is read, and for each kind what reads it: for the tests of what strangers send."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas
from lerobot_layout import write_lerobot

from pyro_dynamics.datasets.logged_data import group_logs
from pyro_dynamics.datasets.logged_family import DataDescription, LoggedFamily
from pyro_dynamics.datasets.minari_data import read_minari
from pyro_dynamics.datasets.npz_data import read_npz
from pyro_dynamics.datasets.sources import read_data
from pyro_dynamics.environments import find_family
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.stream_folder import load_adaptation
from pyro_dynamics.reproduction.results import Measurement, Results
from pyro_dynamics.runners.common.factory import load_run
from pyro_dynamics.runners.common.training_run import require_same
from pyro_dynamics.runners.compare import mean_returns
from pyro_dynamics.runners.diagnose import run_of
from pyro_dynamics.runners.main import main
from pyro_dynamics.runners.track import stored_track
from pyro_dynamics.sweeps.sweep_folder import SweepFolder

TINY = (
    *("--rounds", "1", "--steps", "12", "--episodes", "1", "--offline.min-steps", "20", "--ensemble.members", "2"),
    *("--controller.horizon", "3", "--controller.particles", "2", "--planner.candidates", "10"),
    *("--planner.elites", "3"),
    *("--ensemble.hidden", "8", "8", "--preset", "quick"),
)
MEASURED = Measurement("pendulum-gravity", "latent", 0, "test", 1)
PROTOCOL = {"steps": 12}
TRACK_SETTINGS = {"seed": 0}


def make_samples(home: Path) -> Path:
    """A run, an adaptation, a fit, logs, schedules, and the folders of a reproduction, a sweep and a track."""
    assert main(["train", *TINY, "--out", str(home / "run")]) == 0
    assert main(["adapt", str(home / "run"), "--context", "4", "--steps", "5", "--quiet"]) == 0
    log = str(home / "log.npz")
    assert (
        main(
            [
                "export",
                str(home / "run"),
                "--npz",
                log,
                "--csv",
                str(home / "log.csv"),
                "--minari",
                str(home / "log-v0"),
            ]
        )
        == 0
    )
    small = ["--ensemble.hidden", "8", "--ensemble.weight-decay", "1e-5", "1e-5", "--offline.min-steps", "5"]
    assert main(["fit", log, "--group", "gravity", *small, "--out", str(home / "fit")]) == 0
    frame = pandas.read_csv(home / "log.csv")
    frame.to_parquet(home / "log.parquet")
    with h5py.File(home / "log.hdf5", "w") as stored:
        for name, array in arrays_of(home / "log.npz").items():
            stored[name] = array
    write_lerobot(home / "lerobot-2", "v2.1")
    write_lerobot(home / "lerobot-3", "v3.0")
    assert main(["share", str(home / "run")]) == 0
    (home / "schedule.csv").write_text("step,context\n0,4\n50,6\n")
    (home / "schedule.json").write_text("[[0, 4], [50, 6.5]]")
    results = Results(home / "results", "quick", PROTOCOL)
    results.save(
        MEASURED,
        [{"context": 4.0, "episode": 0, "return": -3.0}],
        [{"context": 4.0, "mean": [0.1, 0.2], "sd": [1.0, 1.0]}],
    )
    results.save_influence("pendulum-gravity", {"horizons": [{"horizon": 1, "influence": 0.3}]})
    with SweepFolder.claimed(home / "sweep") as sweep:
        sweep.note_try("a/b-0", None)
    series = {name: [[0.5, 0.1]] for name in ("decoded", "spread", "reward", "inside", "width")}
    track = {**series, "update_ms": 1.0, "verdicts": [{"word": "believe", "reasons": [], "since": None}]}
    (home / "track.json").write_text(json.dumps({"settings": TRACK_SETTINGS, "track": track}))
    return home


@dataclass(frozen=True)
class Loader:
    """A kind of file, one of them below the home of the samples, and what reads it there."""

    file: str
    load: Callable[[Path], Any]


def _checkpoint(home: Path) -> None:
    load_run(home / "run")


def _transitions(home: Path) -> None:
    folder = RunFolder.open(home / "run")
    require_same(folder, find_family("pendulum-gravity"))


def _metrics(home: Path) -> None:
    folder = RunFolder.open(home / "run")
    mean_returns(folder)
    require_same(folder, find_family("pendulum-gravity"))


def _description(home: Path) -> None:
    described = DataDescription.load(home / "fit")
    if described is not None:
        family = LoggedFamily.of(described)
        family.make_task()
        family.encode(family.train)
        assert family.actions.shape


def _adaptation(home: Path) -> None:
    (folder,) = (home / "run" / "adapt").iterdir()
    adaptation = load_adaptation(folder)
    assert len(adaptation.contexts) == len(adaptation.coverage)
    assert 0 < adaptation.temperature <= 1
    run_of(folder, adaptation.summary)


def _results(home: Path) -> None:
    results = Results(home / "results", "quick", PROTOCOL)
    results.gather([], [MEASURED])
    assert all(found["horizons"][0]["influence"] < 1e39 for found in results.influences().values())


def _sweep(home: Path) -> None:
    SweepFolder(home / "sweep", "somebody's").tries("a/b-0")


def _log(home: Path) -> None:
    group_logs([read_npz(home / "log.npz")], "gravity")


def _table(name: str, group: str) -> Callable[[Path], Any]:
    return lambda home: read_data(home / name, group)


def _zip(home: Path) -> None:
    RunFolder.open(home / "run.zip")


def _minari(home: Path) -> None:
    group_logs([read_minari(str(home / "log-v0"))], None, one_alone=True)


def _schedule(name: str) -> Callable[[Path], Any]:
    return lambda home: find_family("pendulum-gravity").parse_schedule(f"file:{home / name}")


ADAPTATION = "run/adapt/4-steps5-seed0"
LOADERS = {
    "configuration": Loader("run/config.json", _checkpoint),
    "metrics": Loader("run/metrics.jsonl", _metrics),
    "transitions": Loader("run/transitions/round-001.npz", _transitions),
    "checkpoint": Loader("run/checkpoints/round-001.pt", _checkpoint),
    "adaptation steps": Loader(f"{ADAPTATION}/steps.jsonl", _adaptation),
    "adaptation summary": Loader(f"{ADAPTATION}/summary.json", _adaptation),
    "adaptation transitions": Loader(f"{ADAPTATION}/transitions.npz", _adaptation),
    "adaptation beliefs": Loader(f"{ADAPTATION}/beliefs.npz", _adaptation),
    "description of logged data": Loader("fit/data.json", _description),
    "logged npz": Loader("log.npz", _log),
    "logged CSV": Loader("log.csv", _table("log.csv", "gravity")),
    "logged HDF5": Loader("log.hdf5", _table("log.hdf5", "gravity")),
    "logged Parquet": Loader("log.parquet", _table("log.parquet", "gravity")),
    "LeRobot information": Loader("lerobot-3/meta/info.json", _table("lerobot-3", "mass")),
    "LeRobot frames": Loader("lerobot-3/data/chunk-000/file-001.parquet", _table("lerobot-3", "mass")),
    "LeRobot episodes": Loader("lerobot-3/meta/episodes/chunk-000/file-000.parquet", _table("lerobot-3", "mass")),
    "LeRobot episodes, v2": Loader("lerobot-2/meta/episodes.jsonl", _table("lerobot-2", "mass")),
    "shared zip": Loader("run.zip", _zip),
    "Minari metadata": Loader("log-v0/data/metadata.json", _minari),
    "Minari episodes": Loader("log-v0/data/main_data.hdf5", _minari),
    "schedule, CSV": Loader("schedule.csv", _schedule("schedule.csv")),
    "schedule, JSON": Loader("schedule.json", _schedule("schedule.json")),
    "reproduction settings": Loader("results/reproduction.json", _results),
    "reproduction measurement": Loader(f"results/measurements/{MEASURED.name}", _results),
    "reproduction influence": Loader("results/influence/pendulum-gravity.json", _results),
    "sweep tries": Loader("sweep/tries/a/b-0.jsonl", _sweep),
    "track": Loader("track.json", lambda home: stored_track(home / "track.json", TRACK_SETTINGS)),
}


def arrays_of(file: Path) -> dict[str, np.ndarray]:
    """All arrays of an honest ``.npz``."""
    with np.load(file, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}
