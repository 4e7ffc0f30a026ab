"""A training that starts from logged transitions, in the place of a first round that acts at random."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import files_of, refused
from logged_pendulums import SMALL, pendulum_log, saved

import pyro_dynamics as pd
from pyro_dynamics.datasets.logged_start import _number
from pyro_dynamics.environments import find_family
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.runners.main import main

GRAVITIES = (2.0, 4.0, 6.0, 8.0, 10.0)
TINY = (
    *("--rounds", "1", "--steps", "12", "--episodes", "1", "--offline.min-steps", "20", "--ensemble.members", "2"),
    *("--controller.horizon", "3", "--controller.particles", "2", "--planner.candidates", "10"),
    *("--planner.elites", "3", "--ensemble.hidden", "8", "8", "--preset", "quick"),
)
PYTHON: dict[str, Any] = {
    "rounds": 1,
    "steps": 12,
    "episodes": 1,
    "offline": {"min_steps": 20},
    "ensemble": {"members": 2, "hidden": (8, 8)},
    "controller": {"horizon": 3, "particles": 2},
    "planner_config": {"candidates": 10, "elites": 3},
}


def fitted(home: Path, name: str, arrays: dict[str, np.ndarray], *flags: str) -> Path:
    log, out = saved(home / f"{name}.npz", arrays), home / name
    short = ["--offline.min-steps", "1", "--group", "gravity", *flags]
    assert main(["fit", str(log), *SMALL, *short, "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted(tmp_path_factory.mktemp("fits"), "fit", pendulum_log(GRAVITIES, episodes=3, steps=15))


@pytest.fixture(scope="module")
def run(fit: Path) -> Path:
    out = fit.parent / "run"
    assert main(["train", "pendulum-gravity", *TINY, "--start-from", str(fit), "--out", str(out)]) == 0
    return out


def test_logged_transitions_are_round_0(run: Path, fit: Path) -> None:
    first, second = RunFolder.open(run).transitions()
    logged = pendulum_log(GRAVITIES, episodes=3, steps=15)
    assert sorted(map(tuple, first.state.tolist())) == sorted(map(tuple, logged["state"].tolist()))
    assert (len(first), len(second)) == (225, 60)
    rows = RunFolder.open(run).metrics()
    assert [row["policy"] for row in rows] == ["logged"] * 5 + ["mpc"] * 5
    assert [row["episodes"] for row in rows[:5]] == [3] * 5
    own = logged["reward"][logged["gravity"] == 6.0]
    assert rows[2]["return"] == pytest.approx(float(own.sum()) / 3, rel=1e-5)
    for k, gravity in enumerate(GRAVITIES):
        states = first.state[first.environment == k]
        assert sorted(map(tuple, states.tolist())) == sorted(
            map(tuple, logged["state"][logged["gravity"] == gravity].tolist())
        )


def test_such_a_run_resumes_and_is_a_run_like_others(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files_of(run / "transitions")
    assert main(["train", "--resume", str(run), "--rounds", "2"]) == 0
    assert "logged" in capsys.readouterr().out
    assert before.items() <= files_of(run / "transitions").items()
    assert main(["adapt", str(run), "--context", "5", "--steps", "2", "--quiet"]) == 0
    assert main(["export", str(run), "--npz", str(run.parent / "all.npz")]) == 0


def test_whole_numbers_and_float32_are_the_contexts_that_they_are(tmp_path: Path) -> None:
    arrays = pendulum_log(GRAVITIES, episodes=2, steps=10)
    for name, column in (("whole", arrays["gravity"].astype(int)), ("float32", (arrays["gravity"] + 1e-7))):
        start = fitted(tmp_path, name, {**arrays, "gravity": column})
        out = tmp_path / f"{name}-run"
        assert main(["train", "pendulum-gravity", *TINY, "--start-from", str(start), "--out", str(out)]) == 0
        first = RunFolder.open(out).transitions()[0]
        logged = np.concatenate([arrays["action"], arrays["next_state"]], axis=1)
        ours = np.concatenate([first.action, first.next_state], axis=1)
        where = arrays["gravity"][[int((logged == row).all(1).argmax()) for row in ours]]
        assert set(zip(first.environment.tolist(), where.tolist(), strict=True)) == set(enumerate(GRAVITIES))


def test_rewards_that_were_not_logged_are_the_tasks(tmp_path: Path, run: Path) -> None:
    arrays = pendulum_log(GRAVITIES, episodes=3, steps=15)
    start = fitted(tmp_path, "bare", {name: array for name, array in arrays.items() if name != "reward"})
    out = tmp_path / "run"
    assert main(["train", "pendulum-gravity", *TINY, "--start-from", str(start), "--out", str(out)]) == 0
    ours, theirs = (RunFolder.open(path).metrics()[:5] for path in (out, run))
    assert [row["return"] for row in ours] == pytest.approx([row["return"] for row in theirs], rel=1e-4)


def test_a_run_may_start_from_another_training(run: Path, tmp_path: Path) -> None:
    assert main(["train", "pendulum-gravity", *TINY, "--start-from", str(run), "--out", str(tmp_path / "run")]) == 0
    whole = sum(map(len, RunFolder.open(run).transitions()))
    assert len(RunFolder.open(tmp_path / "run").transitions()[0]) == whole


def test_what_does_not_go_together_is_refused(tmp_path: Path, fit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "never")]
    start = ["--start-from", str(fit), *TINY, *out]
    assert "have 3 and 1 entries, not 4 and 1" in refused(["train", "cadm-cartpole", *start], capsys)
    few = fitted(tmp_path, "few", pendulum_log((2.0, 4.0), episodes=2, steps=10))
    message = refused(["train", "pendulum-gravity", *TINY, "--start-from", str(few), *out], capsys)
    assert "has transitions of gravity 2 4, and pendulum-gravity trains on gravity (m/s^2) 2 4 6 8 10" in message
    other = fitted(tmp_path, "other", pendulum_log((2.0, 4.0, 6.0, 8.0, 11.0), episodes=2, steps=10))
    assert "2 4 6 8 11, and" in refused(["train", "pendulum-gravity", *TINY, "--start-from", str(other), *out], capsys)
    named = pendulum_log(GRAVITIES, episodes=2, steps=10)
    names = fitted(tmp_path, "names", {**named, "gravity": np.array([f"body {g:g}" for g in named["gravity"]])})
    assert "body 10 body 2" in refused(["train", "pendulum-gravity", *TINY, "--start-from", str(names), *out], capsys)
    assert "is not a run folder" in refused(["train", *TINY, "--start-from", str(tmp_path), *out], capsys)
    assert "no other flags" in refused(["train", "--resume", str(fit.parent / "run"), *start[:2]], capsys)
    assert not (tmp_path / "never").exists()


def test_actions_in_another_unit_are_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = pendulum_log(GRAVITIES, episodes=2, steps=10)
    start = fitted(tmp_path, "large", {**arrays, "action": arrays["action"] * 50})
    out = ["--out", str(tmp_path / "run")]
    assert main(["train", "pendulum-gravity", *TINY, "--start-from", str(start), *out]) == 0
    assert "logged actions lie outside of the bounds [-2.0] to [2.0]" in capsys.readouterr().err
    fitted(tmp_path, "with-family", {**arrays, "action": arrays["action"] * 50}, "--family", "pendulum-gravity")
    assert "logged actions lie outside of the bounds [-2.0] to [2.0]" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["sine before cosine", "a row late", "ten times as much"])
def test_rewards_that_are_not_the_familys_are_warned_of(
    how: str, tmp_path: Path, fit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = pendulum_log(GRAVITIES, episodes=2, steps=10)
    if how == "sine before cosine":
        arrays |= {name: arrays[name][:, [1, 0, 2]] for name in ("state", "next_state")}
    else:
        arrays["reward"] = np.roll(arrays["reward"], 1) if how == "a row late" else 10 * arrays["reward"]
    starts = [fitted(tmp_path, "other", arrays), fit]
    for start, warned in zip(starts, (True, False), strict=True):
        out = ["--out", str(tmp_path / f"from-{start.name}")]
        assert main(["train", "pendulum-gravity", *TINY, "--start-from", str(start), *out]) == 0
        said = capsys.readouterr().err
        words = f"warning: {start}: the logged rewards are not those of the family pendulum-gravity in"
        assert (words in said) is warned
        assert (" of gravity (m/s^2) " in said) is warned
    bare = fitted(tmp_path, "bare", {name: array for name, array in arrays.items() if name != "reward"})
    assert main(["train", "pendulum-gravity", *TINY, "--start-from", str(bare), "--out", str(tmp_path / "run")]) == 0
    assert "logged rewards" not in capsys.readouterr().err  # they are the task's


@pytest.mark.parametrize(
    ("logged", "trained"),
    [
        ((1e-9, 2e-9, 4e-9), (4e-9, 1e-9, 2e-9)),  # a capacitance in F
        (tuple(float(np.float32(one)) for one in (1e-12, 3e-12, 7e-12)), (1e-12, 3e-12, 7e-12)),
        ((1.7e9, 1.7e9 + 600, 1.7e9 + 1200), (1.7e9 + 1200, 1.7e9 + 600, 1.7e9)),
        ((0.0, 1e-9, float(np.float32(2e-9))), (1e-9, 0.0, 2e-9)),
        ((float(np.float32(0.3)), 0.4), (0.4, 0.3)),
    ],
    ids=str,
)
def test_contexts_of_any_size_are_those_that_they_are(logged: tuple[float, ...], trained: tuple[float, ...]) -> None:
    pendulum = find_family("pendulum-gravity")
    family = replace(pendulum, environment="Pendulum-v1", parameter="g", train=trained, test=trained)
    assert [_number(family, one) for one in logged] == [
        min(range(len(trained)), key=lambda k: abs(trained[k] - one)) for one in logged
    ]
    assert _number(family, 1.01 * max(logged)) == -1
    assert _number(family, 1.5 * min(logged) or 5e-10) == -1


def test_the_same_call_in_python_loads_the_run_and_another_is_refused(fit: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    how: dict[str, Any] = {"out": out, **PYTHON}
    first = pd.train("pendulum-gravity", start_from=fit, **how).state_dict()["network"]
    written = files_of(out)
    assert pd.train("pendulum-gravity", start_from=fit, **how).state_dict()["network"] == first
    assert files_of(out) == written
    with pytest.raises(UserError, match="began with other transitions"):
        pd.train("pendulum-gravity", **how)
    other = fitted(tmp_path, "other", pendulum_log(GRAVITIES, episodes=2, steps=10))
    with pytest.raises(UserError, match="began with other transitions"):
        pd.train("pendulum-gravity", start_from=other, **how)
    assert json.loads((out / "metrics.jsonl").read_text().splitlines()[0])["policy"] == "logged"
