"""Data under the names of D4RL, in memory and in HDF5."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas
import pytest
from logged_pendulums import pendulum_log

from pyro_dynamics.datasets.log_arrays import ColumnNames, log_of_arrays
from pyro_dynamics.datasets.sources import read_data
from pyro_dynamics.errors import UserError

LOG = pendulum_log((2.0, 10.0), episodes=3, steps=12)
D4RL = {
    "observations": LOG["state"],
    "actions": LOG["action"],
    "next_observations": LOG["next_state"],
    "rewards": LOG["reward"].astype(np.float32),
    "terminals": np.zeros(len(LOG["step"]), dtype=bool),
    "timeouts": LOG["step"] == 11,
    "infos/gravity": LOG["gravity"],
    "infos/qpos": LOG["state"][:, :2],
}
GROUP = "infos/gravity"


def without(*names: str) -> dict[str, Any]:
    return {name: array for name, array in D4RL.items() if name not in names}


def stored(file: Path, arrays: dict[str, Any]) -> Path:
    with h5py.File(file, "w") as content:
        for name, array in arrays.items():
            content[name] = array
        content["metadata/algorithm"] = b"SAC"
    return file


@pytest.mark.parametrize("kind", ["memory", "npz", "hdf5", "n by 1", "bytes for flags"])
def test_the_names_of_d4rl_are_known(kind: str, tmp_path: Path) -> None:
    source: Any = dict(D4RL)
    if kind == "npz":
        np.savez(tmp_path / "log.npz", **D4RL)
        source = tmp_path / "log.npz"
    if kind == "hdf5":
        source = stored(tmp_path / "log.hdf5", D4RL)
    if kind == "n by 1":
        source |= {name: D4RL[name][:, None] for name in ("rewards", "terminals", "timeouts", GROUP)}
    if kind == "bytes for flags":
        source |= {name: D4RL[name].astype(np.uint8) for name in ("terminals", "timeouts")}
    data = read_data(source, GROUP)
    wanted = read_data({**LOG, "episode": np.repeat(np.arange(6), 12)}, "gravity")
    for name, array in wanted.transitions.arrays().items():
        np.testing.assert_array_equal(data.transitions.arrays()[name], array)
    assert data.episode.tolist() == np.repeat(np.arange(6), 12).tolist()
    assert data.labels == (2.0, 10.0)
    assert data.rewarded


def test_next_states_end_where_d4rl_says_that_an_episode_ends() -> None:
    data = read_data(without("next_observations"), GROUP)
    assert [len(rows) for rows in data.transitions.episodes()] == [11] * 6
    ended = D4RL["terminals"].copy()
    ended[5] = True  # a failure in the first episode
    data = read_data({**without("next_observations"), "terminals": ended}, GROUP)
    assert sorted(len(rows) for rows in data.transitions.episodes()) == [5, 5, 11, 11, 11, 11, 11]
    np.testing.assert_array_equal(data.transitions.next_state[:5], LOG["next_state"][:5])


def test_failures_without_time_limits_are_warned_of() -> None:
    (first, *_) = read_data(without("next_observations", "timeouts"), GROUP).notes
    assert "terminals is there, and no column timeouts or truncated" in first
    assert not any("terminals" in note for note in read_data(without("timeouts"), GROUP).notes)


def test_columns_of_a_table_may_have_these_names_too() -> None:
    vectors = {
        f"{part}_{i}": D4RL[part][:, i]
        for part in ("observations", "actions", "next_observations")
        for i in range(D4RL[part].shape[1])
    }
    rest = {name: D4RL[name] for name in ("rewards", "terminals", GROUP)}
    frame = pandas.DataFrame({**vectors, **rest, "truncated": D4RL["timeouts"]})
    np.testing.assert_array_equal(read_data(frame, GROUP).transitions.next_state, LOG["next_state"])


def test_names_of_ones_own_and_of_this_package_come_first() -> None:
    both = read_data({**D4RL, "state": D4RL["observations"] + 1, "next_state": D4RL["next_observations"] + 1}, GROUP)
    np.testing.assert_array_equal(both.transitions.state, LOG["state"] + 1)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"timeouts": np.full(72, "no")}, r"timeouts is <U2 \[72\], and must be true or false \[72\]"),
        ({"timeouts": D4RL["timeouts"][:-1]}, r"timeouts is bool \[71\], and must be"),
        ({"rewards": D4RL["rewards"][:-1]}, "reward 71"),
        ({"observations": D4RL["observations"][:, :2]}, "state and next_state have the shapes"),
    ],
)
def test_what_does_not_fit_is_named(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        read_data({**D4RL, **changed}, GROUP)


def test_text_in_hdf5_names_groups(tmp_path: Path) -> None:
    for body in ([b"light", b"heavy"], ["light", "heavy"]):
        column = [body[0] if low else body[1] for low in LOG["gravity"] < 5]
        assert read_data(stored(tmp_path / "log.h5", {**D4RL, "body": column}), "body").labels == ("heavy", "light")


def test_hdf5_of_others_is_data_alone(tmp_path: Path) -> None:
    stored(tmp_path / "other.h5", D4RL)
    file = stored(tmp_path / "log.h5", without("actions"))
    with h5py.File(file, "r+") as content:
        content["actions"] = h5py.ExternalLink("other.h5", "actions")
        content["infos"]["up"] = content["/"]  # a circle
    with pytest.raises(UserError, match="has no array action"):
        read_data(file, GROUP)
    (tmp_path / "raw").write_bytes(np.zeros(72).tobytes())
    with h5py.File(file, "r+") as content:
        del content["actions"]
        content.create_dataset("actions", (72, 1), "f8", external=[(str(tmp_path / "raw"), 0, 576)])
    with pytest.raises(UserError, match="actions lies in another file"):
        read_data(file, GROUP)
    with h5py.File(tmp_path / "episodes.hdf5", "w") as content:
        content["episode_0/actions"] = np.zeros((3, 1))
    with pytest.raises(UserError, match="name the folder of the data set"):
        read_data(tmp_path / "episodes.hdf5")


@pytest.mark.parametrize("name", ["timeouts", "terminals", "truncations"])
def test_a_gap_among_the_ends_is_no_end(name: str) -> None:
    ends = np.zeros(72)
    ends[[3, 40]] = np.nan
    with pytest.raises(UserError, match=rf"{name} is empty in row 3 \(2 of 72 rows\)"):
        read_data({**D4RL, name: ends}, GROUP)


@pytest.mark.parametrize("name", ["done", "dones"])
def test_an_end_of_either_kind_is_one(name: str) -> None:
    named = {**without("next_observations", "terminals", "timeouts"), name: D4RL["timeouts"]}
    data = read_data(named, GROUP)
    assert [len(rows) for rows in data.transitions.episodes()] == [11] * 6
    np.testing.assert_array_equal(data.transitions.next_state, LOG["next_state"][LOG["step"] < 11])
    assert not any("time limit" in note for note in data.notes)
    with pytest.raises(UserError, match=f"{name} is empty in row 3"):
        read_data({**named, name: np.where(np.arange(72) == 3, np.nan, D4RL["timeouts"])}, GROUP)


def through(how: str) -> dict[str, Any]:
    """Episodes that columns episode and step do not end, and the ends of these."""
    log: dict[str, Any] = without("next_observations", "terminals") | {"step": np.arange(72)}
    if how == "from 1, of each environment":
        log["step"] = np.tile(np.arange(36), 2) + 1
    if "episode" in how:
        log["episode"] = np.repeat([0, 1], 36)
    if how == "a constant episode":
        del log["step"]
    return log


@pytest.mark.parametrize(
    "how", ["a step", "from 1, of each environment", "a step and a constant episode", "a constant episode"]
)
def test_an_end_cuts_an_episode_that_continues(how: str) -> None:
    data = read_data(through(how), GROUP)
    assert [len(rows) for rows in data.transitions.episodes()] == [11] * 6
    np.testing.assert_array_equal(data.transitions.next_state, LOG["next_state"][LOG["step"] < 11])
    assert "timeouts says in 4 rows, first in row 11, that an episode ends, where by" in data.notes[0]
    assert data.notes[0].endswith("it continues: it ends there")
    failures = {("terminals" if name == "timeouts" else name): array for name, array in through(how).items()}
    assert any("no column timeouts or truncated" in note for note in read_data(failures, GROUP).notes)


@pytest.mark.parametrize("how", ["a step", "a step and a constant episode", "a constant episode"])
@pytest.mark.parametrize("flag", ["goal reached", "begins", "always"])
def test_a_flag_that_would_leave_episodes_of_one_row_is_no_end(how: str, flag: str) -> None:
    step = LOG["step"]
    log = through(how) | {"episode": np.repeat(np.arange(6), 12)}
    log["timeouts"] = {"goal reached": step > 7, "begins": step == 0, "always": step >= 0}[flag]
    data = read_data(log, GROUP)
    assert [len(rows) for rows in data.transitions.episodes()] == [11] * 6
    assert "most of these would leave episodes of one row, and none is taken for an end" in data.notes[0]


@pytest.mark.parametrize("kind", ["text", "a gap", "two a row"])
def test_what_is_no_end_may_stand_beside_episodes(kind: str) -> None:
    columns = {"text": ["no"] * 72, "a gap": np.where(np.arange(72) == 3, np.nan, 0.0), "two a row": np.zeros((72, 2))}
    log = {**without("next_observations", "terminals", "timeouts"), "episode": np.repeat(np.arange(6), 12)}
    assert len(read_data({**log, "done": columns[kind]}, GROUP).transitions) == 66


def alternating(ends: tuple[int, ...]) -> dict[str, Any]:
    """Rows of environments in turn, whose episodes end after other numbers of steps."""
    count, steps = len(ends), 24
    order = np.argsort(np.tile(np.arange(steps), count), kind="stable")
    rng = np.random.default_rng(0)
    time, environment = np.tile(np.arange(steps), count), np.repeat(np.arange(count), steps)
    last = (time + 1) % np.array(ends)[environment] == 0
    phase = 0.1 * time + 3.0 * environment + 10 * (np.cumsum(last) - last)
    state = np.stack([np.sin(phase), np.cos(phase)], axis=1)
    arrays = {"observations": state, "actions": rng.normal(size=(len(state), 1)), "g": environment + 0.5, "dones": last}
    return {name: array[order] for name, array in arrays.items()}


@pytest.mark.parametrize("ends", [(6, 6), (6, 8), (4, 8, 12)])
def test_rows_of_environments_that_alternate_go_with_their_own(ends: tuple[int, ...]) -> None:
    data = read_data(alternating(ends), "g")
    assert any("rows of several environments alternate" in note for note in data.notes)
    for k, length in enumerate(ends):
        lengths = [len(rows) for rows in data.transitions.episodes() if data.transitions.environment[rows[0]] == k]
        assert lengths == [length - 1] * (24 // length)
    moved = (data.transitions.next_state - data.transitions.state).norm(dim=1)
    assert moved.max() < 0.11  # no row leads into another environment, nor into another episode


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("derived", [True, False])
def test_rows_that_alternate_and_do_not_say_whose_they_are_are_named(count: int, derived: bool) -> None:
    phase = 0.1 * np.arange(40)[:, None] + 2.4 * np.arange(count)
    state = np.stack([np.sin(phase), np.cos(phase)], axis=2)
    log = {"observations": state[:-1].reshape(-1, 2), "actions": np.zeros((39 * count, 1))}
    if not derived:
        log["next_observations"] = state[1:].reshape(-1, 2)
    log["dones"] = np.arange(39 * count) == 39 * count - 1
    words = f"those of {count} environments in turn"
    notes = log_of_arrays("a", log, None, ColumnNames()).notes
    assert any(words in note for note in notes)
    whole = {name: array.reshape(39, count, -1).swapaxes(0, 1).reshape(39 * count, -1) for name, array in log.items()}
    assert not any("in turn" in note for note in log_of_arrays("a", whole, None, ColumnNames()).notes)
