"""The metrics of a run in every tracker, read back as a person would find them."""

import json
import sqlite3
import struct
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from commands import refused
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from pyro_dynamics.errors import UserError
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.rollouts.trackers.contract import NoTracker, open_tracker, run_id, scalars
from pyro_dynamics.rollouts.trackers.tensorboard import TensorBoard
from pyro_dynamics.runners.main import main

TINY = [
    *("--steps", "15", "--episodes", "1", "--offline.epochs", "1", "--offline.min-steps", "1"),
    *("--ensemble.hidden", "8", "--ensemble.weight-decay", "1e-5", "1e-5"),
    *("--controller.horizon", "3", "--planner.candidates", "20", "--planner.elites", "4", "--planner.iterations", "1"),
]


def train_and_resume(folder: Path, *tracker: str) -> None:
    """Two rounds, the second by another process's command."""
    assert main(["train", *TINY, "--rounds", "1", *tracker, "--out", str(folder)]) == 0
    assert main(["train", "--resume", str(folder), "--rounds", "2", *tracker]) == 0


def require_whole(found: list[tuple[int, dict[str, float]]], folder: Path) -> None:
    """Every round was kept once, with its numbers, in the order of the rounds."""
    metrics = RunFolder.open(folder).metrics()
    assert [m for m, _ in found] == [0, 1, 2]
    for m, kept in found:
        assert ("ELBO" in kept) == (m > 0)
        wanted = dict(scalars([row for row in metrics if row["round"] == m], kept.get("ELBO")))
        assert {name: kept[name] for name in wanted} == pytest.approx(wanted)


@pytest.mark.parametrize("flags", [["--tracker", "tensorboard"], ["--tensorboard"]])
def test_tensorboard_has_every_round_once_also_of_a_resumed_run(flags: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train_and_resume(folder, *flags)
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    rows = RunFolder.open(folder).metrics()
    for key, tag in (
        ("return", "return/6"),
        ("log_likelihood", "log likelihood, right latent/6"),
        ("log_likelihood_wrong_latent", "log likelihood, wrong latent/6"),
    ):
        wanted = [(row["round"], row[key]) for row in rows if row["context"] == 6.0 and row[key] is not None]
        assert [event.step for event in events.Scalars(tag)] == [m for m, _ in wanted]
        assert [event.value for event in events.Scalars(tag)] == pytest.approx([value for _, value in wanted])
    assert [event.step for event in events.Scalars("ELBO")] == [1, 2]
    last = [row["latent_sd"][1] for row in rows if row["context"] == 6.0 and row["round"] == 2]
    assert events.Scalars("latent 1, sd/6")[-1].value == pytest.approx(last[0])


def wandb_records(file: Path) -> Iterator[Any]:
    """The records of an offline run: after a header of 7 bytes, LevelDB's log format in blocks of 32 KiB."""
    messages: Any = import_module("wandb.proto.wandb_internal_pb2")
    content, at, whole = file.read_bytes(), 7, b""
    while at + 7 <= len(content):
        left = 2**15 - at % 2**15
        if left < 7:
            at += left
            continue
        size, kind = struct.unpack("<HB", content[at + 4 : at + 7])
        whole += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield messages.Record.FromString(whole)
            whole = b""


def test_wandb_offline_has_every_round_once_also_of_a_resumed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    folder = tmp_path / "run"
    train_and_resume(folder, "--tracker", "wandb")
    files = sorted(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert [file.name for file in files] == [f"run-{run_id(folder, 'wandb')}.wandb"] * 2  # one run, in two parts
    found = []
    for record in (record for file in files for record in wandb_records(file)):
        if record.HasField("run"):
            assert (record.run.project, record.run.display_name) == ("pyro-dynamics", "run")
            config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
            assert config["family"] == "pendulum-gravity"
        if record.HasField("history"):
            row = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
            found.append((record.history.step.num, {name: row[name] for name in row if not name.startswith("_")}))
    require_whole(found, folder)


@pytest.mark.skipif(find_spec("trackio") is None or find_spec("gradio_client") is None, reason="needs Trackio")
def test_trackio_has_every_round_once_also_of_a_resumed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "trackio"]:
        monkeypatch.delitem(sys.modules, name)  # it reads its folder once
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "database"))
    folder = tmp_path / "run"
    train_and_resume(folder, "--tracker", "trackio")
    with closing(sqlite3.connect(tmp_path / "database" / "pyro-dynamics.db")) as database:
        rows = database.execute("select run_name, step, metrics from metrics order by id").fetchall()
        ((config,),) = database.execute("select config from configs").fetchall()
    assert {name for name, _, _ in rows} == {f"run-{run_id(folder, 'trackio')}"}
    assert json.loads(config)["family"] == "pendulum-gravity"
    require_whole([(step, json.loads(metrics)) for _, step, metrics in rows], folder)


@pytest.mark.parametrize(
    ("name", "module", "words"),
    [
        ("tensorboard", "torch.utils.tensorboard", "pip install tensorboard"),
        ("wandb", "wandb", "pip install wandb"),
        ("trackio", "trackio", "pip install trackio"),
    ],
)
def test_without_the_package_a_line_says_what_to_install(
    name: str,
    module: str,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    message = refused(["train", *TINY, "--tracker", name, "--out", str(tmp_path / "never")], capsys)
    assert words in message
    assert not (tmp_path / "never").exists()


def test_without_a_login_a_line_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb")

    def refuse(**_: Any) -> None:
        raise wandb.errors.UsageError("No API key configured. Use `wandb login` to log in.")

    monkeypatch.setattr(wandb, "init", refuse)
    folder = tmp_path / "run"
    message = refused(["train", *TINY, "--tracker", "wandb", "--out", str(folder)], capsys)
    assert "No API key configured" in message
    assert f"train --resume {folder} --tracker wandb" in message
    assert main(["train", "--resume", str(folder), "--rounds", "1"]) == 0


def test_ids_stay_with_the_run_and_damaged_ones_are_made_anew(tmp_path: Path) -> None:
    first = run_id(tmp_path, "wandb")
    assert run_id(tmp_path, "trackio") != first
    assert run_id(tmp_path, "wandb") == first
    (tmp_path / "trackers.json").write_text('{"wandb": "../x"}')
    assert run_id(tmp_path, "wandb").isalnum()
    (tmp_path / "trackers.json").write_text("[")
    assert run_id(tmp_path, "wandb").isalnum()


def test_no_tracker_leaves_nothing(tmp_path: Path) -> None:
    tracker = open_tracker("none", tmp_path, 0, {})
    assert isinstance(tracker, NoTracker)
    with closing(tracker):
        tracker.round(0, [], None)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_is_reported_in_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its thread meets the limit, as it would a full disk, and would print a traceback of its own."""
    resource = pytest.importorskip("resource")
    row: dict[str, Any] = {"context": 1.0, "return": 1.0, "log_likelihood": None, "log_likelihood_wrong_latent": None}
    row |= {"latent_mean": [0.0], "latent_sd": [1.0]}
    board = TensorBoard(tmp_path, 0)

    def write() -> None:
        with closing(board):
            for m in range(100):
                board.round(m, [row], None)

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(UserError, match=r"cannot write to .*: File too large"):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert capfd.readouterr().err == ""
