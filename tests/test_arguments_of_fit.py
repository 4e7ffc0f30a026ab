"""What ``pyro_dynamics.fit`` and its like take: all that clearly means something, and one line for the rest."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from logged_pendulums import pendulum_log

import pyro_dynamics
from pyro_dynamics.datasets.log_arrays import ColumnNames
from pyro_dynamics.errors import UserError
from pyro_dynamics.runners.common.settings_by_name import state_entries

TINY: dict[str, Any] = {
    "offline": {"min_steps": 20, "epochs": 1},
    "ensemble": {"members": 2, "hidden": (8,), "weight_decay": (0.0, 0.0)},
}
LOG = pendulum_log((2.0, 10.0), episodes=3, steps=12)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder, and another folder to work in."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [
        ("group", 2.5, "group is a name or a list of names, not 2.5"),
        ("group", {"gravity": 1}, "group is a name or a list of names"),
        ("group", [["gravity"]], "group is a name or a list of names"),
        ("group", True, "group is a name or a list of names, not True"),
        ("group", 0, "no column '0'"),
        ("data", None, "logged data is a path, a DataFrame or a dict of arrays, not NoneType"),
        ("data", 7, "not int"),
        ("data", np.zeros((3, 3)), "not ndarray"),
        ("hold_out", "0.2", "hold_out must be a number, not '0.2'"),
        ("hold_out", None, "hold_out must be a number, not None"),
        ("hold_out", [0.1, 0.2], "hold_out must be a number"),
        ("hold_out", 20, "lies between 0 and 1, and is not 20"),
        ("angles", (0.0,), "an entry of angles must be a whole number, not 0.0"),
        ("angles", 1.5, "an entry of angles must be a whole number, not 1.5"),
        ("angles", (-1,), "an entry of angles must be at least 0, not -1"),
        ("angles", "theta", "angles names 'theta', and the entries of the state are state_0, state_1, state_2"),
        ("angles", (3,), "a state has the entries 0 to 2"),
        ("unit", 1.5, "unit is a name or a list of names, not 1.5"),
        ("unit", ("m", "s"), "names 2 units for 1 columns"),
        ("columns", ["state"], "columns is a dict such as"),
        ("columns", {"state": [0.5]}, "columns['state'] is a name or a list of names, not [0.5]"),
        ("columns", {"state": None}, "columns['state'] is a name or a list of names, not None"),
        ("columns", {0: "state"}, "columns has no entry '0'"),
        ("out", 3, "a path is text or a pathlib.Path, not 3"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(argument: str, value: Any, words: str, tmp_path: Path) -> None:
    how: dict[str, Any] = {"data": LOG, "group": "gravity", "out": tmp_path / "run", **TINY}
    with pytest.raises(UserError) as refusal:
        pyro_dynamics.fit(**{**how, argument: value})
    assert words in str(refusal.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("path", [None, 3, b"run", ["run"]])
def test_a_path_is_a_path(path: Any) -> None:
    with pytest.raises(UserError, match=r"a path is text or a pathlib.Path, not"):
        pyro_dynamics.load(path)


def test_what_clearly_means_something_is_taken(tmp_path: Path) -> None:
    arrays = {**LOG, "angle": np.arctan2(LOG["state"][:, 1], LOG["state"][:, 0]), "m": np.ones(len(LOG["gravity"]))}
    after = np.arctan2(LOG["next_state"][:, 1], LOG["next_state"][:, 0])
    columns = [arrays["angle"], LOG["state"][:, 2], LOG["action"][:, 0], after, LOG["next_state"][:, 2]]
    frame = pandas.DataFrame(np.stack([*columns, LOG["gravity"], arrays["m"], LOG["episode"]], 1))
    named: dict[str, Any] = {"state": [0, np.int64(1)], "action": 2, "next_state": [3, 4], "episode": 7}
    agent = pyro_dynamics.fit(
        frame,
        columns=named,
        group=["5", "6"],
        unit=("m/s^2", "kg"),
        hold_out=torch.tensor(0.3),  # type: ignore[arg-type]
        angles=np.array([0]),  # type: ignore[arg-type]
        out=str(tmp_path / "run"),
        **TINY,
    )
    assert (agent.family.parameters, agent.family.units) == (("5", "6"), ("m/s^2", "kg"))
    assert agent.family.make_task().feature_dim == 3  # cosine, sine and the velocity


@pytest.mark.parametrize(
    ("angles", "state", "entries"),
    [
        ((), None, ()),
        (1, None, (1,)),
        ("state_2", None, (2,)),
        (("state_0", 2, 2), None, (0, 2)),
        (torch.tensor([0, 1]), None, (0, 1)),
        (["v", "x"], "x,y,v", (2, 0)),
        ("state_1", "pose,v", (1,)),  # where pose is two entries, and v the third
    ],
)
def test_angles_are_named_as_the_columns_are(angles: Any, state: str | None, entries: tuple[int, ...]) -> None:
    assert state_entries(angles, ColumnNames(state=state), 3) == entries


def test_a_tilde_is_the_home_folder_everywhere(home: Path) -> None:
    np.savez(home / "log.npz", **LOG)  # type: ignore[arg-type]
    pandas.DataFrame({"a": [0]}).to_csv(home / "other.csv", index=False)
    fitted = pyro_dynamics.fit("~/log.npz", group="gravity", out="~/runs/fit", **TINY)
    fitted.save(Path("~/saved"))
    assert pyro_dynamics.load("~/saved").updates == pyro_dynamics.load(home / "runs" / "fit").updates == 0
    with pytest.raises(UserError, match=r"home/other.csv has no array"):
        pyro_dynamics.fit(Path("~") / "other.csv", group="gravity", **TINY)
    with pytest.raises(UserError, match="home/nosuch is not a run folder"):
        pyro_dynamics.train(rounds=1, start_from="~/nosuch", out="~/trained")
    settings: Any = {**TINY, "steps": 6, "controller": {"horizon": 2, "particles": 2}}
    pyro_dynamics.train(
        "pendulum-gravity", rounds=1, planner_config={"candidates": 8, "elites": 2}, out="~/own", **settings
    )
    ours = {path.name for path in home.iterdir()} - {".cache", ".config"}  # of libraries that are imported meanwhile
    assert sorted(ours) == ["log.npz", "other.csv", "own", "runs", "saved"]
    assert os.listdir() == []


def test_only_a_tilde_that_stands_alone_is_the_home_folder(home: Path) -> None:
    for name in ("~nosuchuser", "a~", "~a/b"):
        with pytest.raises(UserError, match=f"{name} is not a run folder"):
            pyro_dynamics.load(name)
