"""Errors that no other test provokes, each by the command that a user would type: one line, code 2, no traceback."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from commands import refused

from pyro_dynamics import Family, find_family
from pyro_dynamics.datasets.logged_family import DataDescription, LoggedFamily
from pyro_dynamics.datasets.sources import read_data
from pyro_dynamics.environments.mujoco.last_velocity import LastVelocity
from pyro_dynamics.environments.mujoco.mujoco_family import mujoco_family
from pyro_dynamics.environments.mujoco.mujoco_parameters import Disabled
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference import offline
from pyro_dynamics.io.checkpoint_files import save_state
from pyro_dynamics.io.run_folder import METRICS, RunFolder
from pyro_dynamics.reproduction.sensitivity import influence_in_run
from pyro_dynamics.rollouts.task_check import check_task
from pyro_dynamics.runners.common.configuration import from_json
from pyro_dynamics.runners.common.factory import nearest
from pyro_dynamics.runners.common.training_run import part_there
from pyro_dynamics.runners.diagnose import latent_means
from pyro_dynamics.runners.main import main
from pyro_dynamics.tasks import HopperTask, PendulumTask

SMALL = (
    *("--rounds", "1", "--steps", "8", "--episodes", "1", "--offline.min-steps", "2", "--offline.epochs", "1"),
    *("--controller.horizon", "2", "--controller.particles", "3", "--planner.candidates", "6", "--planner.elites", "2"),
    *("--ensemble.hidden", "8", "--ensemble.weight-decay", "0", "0", "--agent", "generalist"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", *SMALL, "--out", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs") / "log.npz"
    state = np.random.default_rng(0).normal(size=(41, 3))
    arrays = {"state": state[:-1], "action": state[:-1, :1], "next_state": state[1:]}
    np.savez(path, allow_pickle=False, **arrays, mass=np.repeat([1.0, 2.0], 20))
    return path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--threads", "100000"], "--threads must be at most 1024, not 100000"),
        (["train", "--planner.smoothing", "2"], "smoothing must lie in [0, 1], not 2.0"),
        (["train", "--step-limit", "-1"], "--step-limit must be a positive number of seconds, a day (86400) at most"),
        (["train", "--step-limit", "1e300"], "a day (86400) at most, not 1e+300"),
        (["train", "--latent-dim", "1000000000"], "latent-dim is 1000000000, and must be below 1000000"),
        (["train", "--seed", "-1"], "a seed must be at least 0, not -1"),
        (["train", "--seed", str(2**64)], "seed is about 10^19, and must be below"),
        (["train", "--guide", "amortized", "--belief", "power"], "AmortizedGuide remembers transitions itself"),
        (["train", "--ensemble.hidden", *"8" * 101, "--ensemble.weight-decay", *"0" * 102], "hidden has 101 entries"),
        (["train", "--ensemble.hidden", "-1", "--ensemble.weight-decay", "0", "0"], "ensemble.hidden must be positive"),
        (["train", "mine.py:family"], "leave out the .py: mine:family"),
        (["adapt", "RUN", "--context", "5", "--checkpoint", "0"], "--checkpoint must be at least 1, not 0"),
        (["adapt", "RUN", "--context", "1000"], "gravity must lie between"),
        (["adapt", "RUN", "--context", "5", "--state", "x,v"], "names of columns are its own: give --replay DATA"),
        (
            ["adapt", "RUN", "--context", "5", "--environment", "1"],
            "--environment and --group choose among logged data",
        ),
        (
            ["train", "--latent-dim", "999999", "--ensemble.hidden", "1", "--ensemble.weight-decay", "0", "0"],
            "not enough memory for this",
        ),
        (["calibrate", "RUN", "--temperature", "0.5"], "calibrate chooses the temperature itself: give those to try"),
        (["adapt", "RUN", "--schedule", "ramp:0:5,100000000000:6"], "a schedule goes to step 1000000 at most"),
        (["adapt", "RUN", "--schedule", "sine:2:8:9", "--steps", str(10**15)], "steps is about 10^15"),
        (["track", "RUN", "--schedule", "0:5,3:10", "--beliefs"], "--beliefs and --updates need one name or more each"),
        (["compare", "RUN", "--out", ""], ". is a folder: name a file in it"),
        (["compare", "RUN", "--out", "x" * 300], "File name too long"),
        (["reproduce", "--figures"], "--figures needs one or more of learning, tests"),
        (["reproduce", "--seeds", "1001"], "--seeds and --baseline-seeds must be at most 1000"),
        (["diagnose", "RUN", "--seed", str(2**63)], "must be below 9223372036854775808"),
        (["diagnose", "RUN", "--draws", "20001"], "--draws must be at most 20000, not 20001"),
        (["diagnose", "RUN", "--particles", "20001"], "--particles must be at most 20000"),
        (["export", "RUN"], "say what to write: --minari ID, --npz FILE or --csv FILE"),
        (["fit", "LOG", "--group", "mass", "--unit", "kg,m"], "--unit kg,m names 2 units for 1 columns (mass)"),
        (["compare"], "name at least one run folder to compare"),
        (["compare", "RUN", "--out", "c.jpg"], "a figure ends in .png, .pdf, .svg"),
        (["compare", "RUN", "--since", "-1"], "--since must be a round from 0 to"),
        (["compare", "RUN", "--since", "99"], "--since must be a round from 0 to"),
        (["evaluate", "RUN", "--steps", "0"], "--steps and --episodes must be positive"),
        (["fit"], "name a file (.npz, .csv, .tsv, .csv.gz, .parquet, .hdf5 and .h5), or a LeRobot or Minari data set"),
        (["fit", "LOG", "--group", "weight"], "has no column 'weight'"),
    ],
)
def test_a_mistake_gets_one_line(
    arguments: list[str], words: str, run: Path, log: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    named = {"RUN": str(run), "LOG": str(log)}
    out = ["--out", str(tmp_path / "out")] if arguments[0] in ("train", "fit") else []
    assert words in refused([named.get(word, word) for word in arguments] + out, capsys)
    assert not (tmp_path / "out").exists()


def test_a_damaged_folder_gets_one_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "config.json").write_text("{")
    assert "is not JSON" in refused(["adapt", str(copy), "--context", "5"], capsys)
    shutil.copy(run / "config.json", copy)
    (copy / "data.json").write_text("{}")
    assert "fit again" in refused(["diagnose", str(copy)], capsys)
    with pytest.raises(UserError, match="this run was fitted to logged data and has no simulator"):
        influence_in_run(RunFolder.open(copy))


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_checkpoint_whose_weights_are_not_finite_gets_one_line(
    value: float, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    state = RunFolder.open(copy).checkpoint()
    weights = state["agents"][0]["model"]["likelihood.weights.0"]
    weights.view(-1)[1] = value
    save_state(copy / "checkpoints" / "round-001.pt", state)
    for command in (["adapt", str(copy), "--context", "5"], ["train", "--resume", str(copy), "--rounds", "2"]):
        message = refused(command, capsys)
        assert "round-001.pt cannot be used: 1 of the " in message
        assert "agents.0.model." in message


def test_a_run_without_a_whole_round_gets_one_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = tmp_path / "started"
    started.mkdir()
    shutil.copy(run / "config.json", started)
    assert "no whole round yet: there is nothing to export" in refused(
        ["export", str(started), "--csv", str(tmp_path / "never.csv")], capsys
    )
    figure = ["--out", str(tmp_path / "never.png")]
    assert "started has no whole round yet" in refused(["compare", str(started), *figure], capsys)
    for part in ("transitions", "checkpoints"):
        shutil.copytree(run / part, started / part)
    state = torch.load(started / "checkpoints" / "round-001.pt", weights_only=True)
    del state[METRICS]  # as in older runs, whose metrics are not compared with it
    torch.save(state, started / "checkpoints" / "round-000.pt")
    (started / "checkpoints" / "round-001.pt").unlink()
    assert "has no trained round to judge" in refused(["diagnose", str(started)], capsys)
    config = json.loads((run / "config.json").read_text())
    (started / "config.json").write_text(json.dumps(config | {"family": "halfcheetah-tilt"}))
    shutil.copy(run / "metrics.jsonl", started)
    message = refused(["compare", str(run), str(started), *figure], capsys)
    assert "different families cannot be compared: halfcheetah-tilt, pendulum-gravity" in message


def test_a_run_with_fewer_returns_than_rounds_is_not_gone_on_with(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, tmp_path / "run")
    metrics = tmp_path / "run" / "metrics.jsonl"
    metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:5]))
    message = refused(["train", "--resume", str(tmp_path / "run"), "--rounds", "2"], capsys)
    assert "metrics.jsonl has no return for each of 5 environments in every round" in message


def test_an_adaptation_far_from_its_run_gets_one_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, tmp_path / "run")
    latent = ["--context", "5", "--steps", "2", "--quiet", "--out", str(tmp_path / "results")]
    assert main(["adapt", str(tmp_path / "run"), *latent]) == 0
    summary = tmp_path / "results" / "summary.json"
    right = summary.read_text()
    summary.write_text(json.dumps(json.loads(right) | {"checkpoint": "newest"}))
    message = refused(["diagnose", str(tmp_path / "results")], capsys)
    assert re.search(r"summary\.json is damaged .*checkpoint.*: run adapt again", message)
    summary.write_text(right)
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    assert "move the results back beside it" in refused(["diagnose", str(tmp_path / "results")], capsys)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("step", np.linspace(0, 1, 40), "in row 1, and counts in whole numbers from 0: divide a time"),
        ("step", np.arange(-1, 39), "steps must count from 0, not from -1 to 38"),
        ("episode", np.zeros((40, 2)), "episode must be numbers or names [N], not float64 [40, 2]"),
    ],
)
def test_wrong_columns_get_one_line(
    name: str, values: np.ndarray, words: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with np.load(log) as arrays:
        np.savez(tmp_path / "log.npz", allow_pickle=False, **arrays, **{name: values})
    assert words in refused(["fit", str(tmp_path / "log.npz"), "--group", "mass"], capsys)


def test_a_folder_of_something_else_is_no_reproduction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["reproduce", "--preset", "quick", "--report-only", "--out", str(tmp_path)]
    (tmp_path / "reproduction.json").write_text("[]")
    assert "reproduction.json does not hold the settings of a reproduction" in refused(command, capsys)


def test_a_log_has_no_simulator_and_no_reward(log: Path) -> None:
    family = LoggedFamily.of(DataDescription.of([str(log)], read_data([str(log)], "mass"), "kg", None))
    with pytest.raises(UserError, match="fitted to logged data and has no simulator"):
        family.make(1.0, 5)
    rows = torch.zeros(2, 3)
    with pytest.raises(UserError, match="there is no reward to plan for"):
        family.make_task().reward(rows, rows[:, :1], rows)


def test_a_run_of_another_agent_or_seed_is_not_taken_for_it(run: Path) -> None:
    config = from_json(RunFolder.open(run).config)
    with pytest.raises(UserError, match=r"--compare .*run is a generalist run of pendulum-gravity, not of"):
        latent_means(run, replace(config, agent="latent"))
    with pytest.raises(UserError, match=r"run holds a run with other settings \(seed\): choose another --out"):
        part_there(replace(config, seed=5), run)


def test_a_task_or_wrapper_of_another_robot_is_refused() -> None:
    envs = find_family("pendulum-gravity").make_vector((5.0,), 5)
    with pytest.raises(UserError, match=r"has state_dim 12, and the environment the space .*: make them agree"):
        check_task(HopperTask(), envs, seed=0, length=5)
    still = LastVelocity(gymnasium.make("Pendulum-v1"))
    still.reset(seed=0)
    with pytest.raises(UserError, match="PendulumEnv has no x_velocity in its info"):
        still.step(np.zeros(1))


def test_specialists_must_be_given_which_of_them_it_is() -> None:
    with pytest.raises(UserError, match="which specialist shall predict an environment that is not known"):
        nearest(find_family("pendulum-gravity"), None)


def test_a_training_that_diverges_ends_in_one_line_and_keeps_the_rounds_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offline, "require_rate", lambda *_: None)  # no rate that is allowed diverges four times here
    assert main(["train", *SMALL, "--offline.learning-rate", "1e30", "--out", str(tmp_path / "run")]) == 2
    message = capsys.readouterr().err
    assert message.count("warning: training diverged") == 3
    assert "pyro-dynamics: error: training diverged 4 times" in message.splitlines()[-1]
    folder = RunFolder.open(tmp_path / "run")
    assert folder.last_round == 0
    assert [row["steps"] for row in folder.metrics()] == [8] * 5
    assert main(["train", "--resume", str(tmp_path / "run")]) == 2  # it can be resumed, and ends in the same way
    assert folder.last_round == 0


def test_a_family_that_cannot_be_made_gets_one_line() -> None:
    family = Family("lost", "Nowhere-v0", "gravity", "m/s^2", (1.0,), (2.0,), PendulumTask)
    with pytest.raises(UserError, match=r"family lost: .*Nowhere"):
        family.parse_context(1.0)
    vary = {"disabled": Disabled(("a", "b"))}
    with pytest.raises(UserError, match="2 names for 3 actuators: a, b"):
        mujoco_family("dead-hopper", "Hopper-v5", vary, ("none",), ("a",), HopperTask).make("none", 5)


def test_a_fault_of_ours_keeps_its_traceback(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("pyro_dynamics.runners.adapt.summarise", breaks)
    with pytest.raises(ZeroDivisionError, match="ours"):
        main(["adapt", str(run), "--context", "5", "--steps", "2", "--quiet", "--out", str(run / "here")])
