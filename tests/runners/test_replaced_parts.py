"""A run whose transitions or checkpoint another run's were put in place of: refused by whatever opens it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from commands import refused
from foreign_files import TINY
from logged_pendulums import SMALL, pendulum_log, saved

import pyro_dynamics as pd
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.run_folder import DIGESTS, RunFolder
from pyro_dynamics.runners.main import main


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one family and shape, one of another family, and two fits with other data."""
    home = tmp_path_factory.mktemp("runs")
    runs = {"run": ("pendulum-gravity", 0), "other": ("pendulum-gravity", 1), "far": ("cadm-cartpole", 0)}
    for name, (family, seed) in runs.items():
        assert main(["train", family, *TINY, "--seed", str(seed), "--out", str(home / name)]) == 0
    for name, steps in (("fit", 15), ("other-fit", 16)):
        log = saved(home / f"{name}.npz", pendulum_log((2.0, 10.0), episodes=3, steps=steps))
        fit = ["fit", str(log), *SMALL, "--offline.min-steps", "1", "--group", "gravity", "--out", str(home / name)]
        assert main(fit) == 0
    return home


def put(source: str, target: str, part: str) -> Callable[[Path], Path]:
    """Makes a run with a file of another one."""

    def replaced(home: Path) -> Path:
        copy = home / f"{source}-{target}-{Path(part).stem}-{part.split('/')[0]}"
        if not copy.exists():
            shutil.copytree(home / target, copy)
            shutil.copy(home / source / part, copy / part)
        return copy

    return replaced


def changed(target: str, name: str, change: Callable[[str], str | None]) -> Callable[[Path], Path]:
    """Makes a run with other metrics."""

    def replaced(home: Path) -> Path:
        copy = home / f"{target}-{name}"
        if not copy.exists():
            shutil.copytree(home / target, copy)
            text = change((copy / "metrics.jsonl").read_text())
            (copy / "metrics.jsonl").unlink() if text is None else (copy / "metrics.jsonl").write_text(text)
        return copy

    return replaced


REPLACED = {
    "transitions of a round": put("other", "run", "transitions/round-000.npz"),
    "transitions of the last round": put("other", "run", "transitions/round-001.npz"),
    "the checkpoint": put("other", "run", "checkpoints/round-001.pt"),
    "the metrics": put("other", "run", "metrics.jsonl"),
    "metrics written twice": changed("run", "twice", lambda text: text + text),
    "metrics without a row": changed("run", "one", lambda text: "\n".join(text.splitlines()[:-1]) + "\n"),
    "metrics with another return": changed("run", "return", lambda text: text.replace('"return": -', '"return": ', 1)),
    "no metrics": changed("run", "none", lambda text: None),
    "metrics of a fit": put("other-fit", "fit", "metrics.jsonl"),
    "transitions of another family": put("far", "run", "transitions/round-001.npz"),
    "transitions of a fit": put("other-fit", "fit", "transitions/round-000.npz"),
    "the checkpoint of a fit": put("other-fit", "fit", "checkpoints/round-001.pt"),
}
COMMANDS = [
    ["adapt", "RUN", "--context", "5", "--steps", "2", "--quiet"],
    ["evaluate", "RUN", "--steps", "2"],
    ["track", "RUN", "--schedule", "0:3,2:9", "--steps", "4"],
    ["diagnose", "RUN", "--draws", "100"],
    ["calibrate", "RUN", "--steps", "3"],
    ["compare", "RUN", "--out", "never.png"],
    ["export", "RUN", "--csv", "never.csv"],
    ["share", "RUN", "--out", "never.zip"],
    ["train", "--resume", "RUN", "--rounds", "2"],
    ["train", *TINY, "--start-from", "RUN", "--out", "never"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("what", REPLACED)
def test_whatever_opens_such_a_run_refuses_it(
    what: str,
    command: list[str],
    home: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = REPLACED[what](home)
    monkeypatch.chdir(tmp_path)
    message = refused([str(run) if word == "RUN" else word for word in command], capsys)
    if "fit" not in what or command[0] not in ("compare", "train"):  # which refuse a fit anyway, or its two contexts
        words = ("was saved with", "not of 0 to 4", "entries, not", "metrics.jsonl has no return for", "no whole round")
        assert any(one in message for one in words), message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("what", REPLACED)
def test_so_does_python(what: str, home: Path) -> None:
    with pytest.raises(UserError, match=r"was saved with|entries, not|not of 0 to"):
        pd.load(REPLACED[what](home))


def test_runs_from_before_there_were_digests_are_judged_by_their_sizes(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "run", tmp_path / "run")
    file = tmp_path / "run" / "checkpoints" / "round-001.pt"
    state = torch.load(file, weights_only=True)
    assert len(state.pop(DIGESTS)) == 2
    torch.save(state, file)
    pd.load(tmp_path / "run")
    shutil.copy(home / "far" / "transitions" / "round-000.npz", tmp_path / "run" / "transitions")
    with pytest.raises(UserError, match="transitions of round 0: states and actions have"):
        pd.load(tmp_path / "run")


def test_a_run_without_its_transitions_still_acts(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "run", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "transitions")
    assert main(["adapt", str(tmp_path / "run"), "--context", "5", "--steps", "2", "--quiet"]) == 0


def test_what_a_killed_run_left_of_a_later_round_is_no_fault(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "run", tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    shutil.copy(home / "other" / "transitions" / "round-001.npz", folder.path / "transitions" / "round-002.npz")
    assert folder.checkpoint()[DIGESTS] == RunFolder.open(home / "run").checkpoint()[DIGESTS]


@pytest.mark.parametrize("kind", ["twice", "copied", "zipped"])
def test_a_run_is_compared_once(kind: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = other = home / "run"
    if kind == "copied":
        other = Path(shutil.copytree(run, tmp_path / "copy"))
    if kind == "zipped":
        other = tmp_path / "run.zip"
        assert main(["share", str(run), "--out", str(other)]) == 0
    figure = ["--out", str(tmp_path / "c.png")]
    assert "are one run, to the last digit: name it once" in refused(["compare", str(run), str(other), *figure], capsys)
    assert main(["compare", str(run), str(home / "other"), *figure]) == 0


def test_runs_of_one_training_with_other_settings_are_not_one(home: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(home / "run", tmp_path / "other"))
    config = json.loads((other / "config.json").read_text())
    config["online"]["temperature"] = 0.123
    (other / "config.json").write_text(json.dumps(config))
    assert main(["compare", str(home / "run"), str(other), "--out", str(tmp_path / "c.png")]) == 0
