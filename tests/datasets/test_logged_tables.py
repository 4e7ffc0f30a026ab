"""Tables as logged data: CSV and Parquet files, DataFrames and arrays in memory."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from commands import refused
from logged_pendulums import SMALL, pendulum_log

from pyro_dynamics.datasets.log_arrays import ColumnNames
from pyro_dynamics.datasets.sources import read_data, read_log, source_names
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.runners.common.settings_by_name import column_names
from pyro_dynamics.runners.main import main
from pyro_dynamics.transitions import Transitions

GRAVITIES = (2.0, 10.0)
OWN = ColumnNames(state="cos,sin,velocity", action="torque", next_state="cos2,sin2,velocity2", reward="gain")
OWN_FLAGS = ["--state", "cos,sin,velocity", "--action", "torque"]


def table(own_names: bool = False) -> pandas.DataFrame:
    """The pendulums' log as a table; episodes are numbered anew under each gravity."""
    arrays = pendulum_log(GRAVITIES, episodes=3, steps=12)
    parts = {name: arrays[name].astype(np.float64) for name in ("state", "action", "next_state")}
    names = {"state": OWN.given()["state"], "action": ["torque"], "next_state": OWN.given()["next_state"]}
    if not own_names:
        names = {part: [f"{part}_{i}" for i in range(array.shape[1])] for part, array in parts.items()}
    vectors = {name: parts[part][:, i] for part, each in names.items() for i, name in enumerate(each)}
    rest = {name: arrays[name] for name in ("step", "episode", "gravity")}
    return pandas.DataFrame(vectors | rest | {"gain" if own_names else "reward": arrays["reward"]})


def expected() -> Transitions:
    return read_data(pendulum_log(GRAVITIES, episodes=3, steps=12), "gravity").transitions


def require_equal(found: Transitions, wanted: Transitions) -> None:
    for name, array in in_order(wanted).items():
        np.testing.assert_array_equal(in_order(found)[name], array, err_msg=name)


def in_order(rows: Transitions) -> dict[str, np.ndarray]:
    """Their arrays by environment, episode and step: which episode comes first is free."""
    order = [row for episode in rows.episodes() for row in episode.tolist()]
    order.sort(key=lambda row: int(rows.environment[row]))
    return {name: array[order] for name, array in rows.arrays().items()}


@pytest.mark.parametrize("own_names", [False, True])
@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "frame", "named index", "columns in memory"])
def test_every_form_of_a_table_holds_the_same_transitions(kind: str, own_names: bool, tmp_path: Path) -> None:
    frame, file = table(own_names), tmp_path / f"log.{kind}"
    if kind == "csv":
        frame.to_csv(file, index=False)
    elif kind == "tsv":
        frame.to_csv(file, index=False, sep="\t")
    elif kind == "parquet":
        frame.to_parquet(file)
    in_memory = {"frame": frame, "named index": frame.set_index(["gravity", "episode"])}
    in_memory["columns in memory"] = {name: frame[name].to_numpy() for name in frame}
    data = read_data(in_memory.get(kind, file), "gravity", OWN if own_names else None)
    require_equal(data.transitions, expected())
    assert data.labels == GRAVITIES
    assert data.rewarded
    assert not data.notes


def test_the_table_that_export_writes_is_read(tmp_path: Path) -> None:
    file, run = tmp_path / "log.csv", tmp_path / "run"
    table().to_csv(file, index=False)
    tiny = [*SMALL, "--offline.min-steps", "1", "--group", "gravity"]
    assert main(["fit", str(file), *tiny, "--out", str(run)]) == 0
    exported = tmp_path / "exported.csv"
    assert main(["export", str(run), "--csv", str(exported)]) == 0
    again = read_data(exported, "gravity")
    assert again.labels == GRAVITIES
    assert len(again.transitions) == len(table())
    assert sorted(again.transitions.reward.tolist()) == sorted(expected().reward.tolist())


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("known", [["episode", "step"], ["episode"], ["step"]])
def test_next_states_are_derived_and_the_last_rows_left_out(known: list[str], shuffled: bool) -> None:
    frame = table().drop(columns=["next_state_0", "next_state_1", "next_state_2"])
    frame = frame.drop(columns=[name for name in ("episode", "step") if name not in known])
    if shuffled and len(known) == 2:  # only then the order of the rows means nothing
        frame = frame.sample(frac=1, random_state=0)
    data = read_data(frame, "gravity")
    (note,) = data.notes
    assert "6 of 72 rows" in note
    episodes = data.transitions.episodes()
    assert [len(rows) for rows in episodes] == [11] * 6
    wanted = expected()
    require_equal(data.transitions, wanted.select(wanted.step < 11))


def test_a_gap_in_the_steps_ends_an_episode() -> None:
    frame = table().drop(columns=["next_state_0", "next_state_1", "next_state_2"])
    data = read_data(frame[(frame["step"] != 5) | (frame["episode"] != 1)], "gravity")
    lengths = [len(rows) for rows in data.transitions.episodes()]
    assert lengths == [11, 4, 5, 11, 11, 4, 5, 11]
    assert data.notes[-1] == "the data: 2 steps are missing within episodes, which are cut there"


@pytest.mark.parametrize("known", [["episode", "step"], ["step"]])
@pytest.mark.parametrize("by", [2, 3, 4])
def test_a_log_that_was_thinned_says_by_how_much_its_steps_count(known: list[str], by: int) -> None:
    frame = table().drop(columns=["next_state_0", "next_state_1", "next_state_2"])
    frame = frame.drop(columns=[name for name in ("episode", "step") if name not in known])
    thin = frame[table()["step"] % by == 0]
    places = 6 * (12 // by - 1)
    with pytest.raises(UserError, match=f"step counts by {by} in {places} of {places} places, and must count by one"):
        read_data(thin, "gravity")
    divided = read_data(thin.assign(step=thin["step"] // by), "gravity")
    assert len(divided.transitions) == places
    partly = read_data(frame[(table()["step"] % by == 0) | (table()["step"] == 1)], "gravity")
    assert f"step counts by {by} in" in partly.notes[-1] or by == 4  # which leaves as many steps of one


@pytest.mark.parametrize("part", ["state", "action", "next_state"])
@pytest.mark.parametrize("kind", ["table", "text", "arrays"])
def test_a_part_that_is_there_in_two_forms_is_refused(part: str, kind: str) -> None:
    """Such as the state of a state machine beside state_0 and state_1."""
    frame = table()
    extra: Any = ["walk"] * len(frame) if kind == "text" else np.arange(len(frame))
    log: Any = frame.assign(**{part: extra})
    if kind == "arrays":
        log = {name: log[name].to_numpy() for name in log} | {part: np.zeros((len(frame), 2))}
    flag, numbered = part.replace("_", "-"), [name for name in frame if name.startswith(f"{part}_")]
    with pytest.raises(UserError, match=f"has {part}, and {', '.join(numbered)} too: .* --{flag} {','.join(numbered)}"):
        read_data(log, "gravity")
    require_equal(read_data(log, "gravity", ColumnNames(**{part: ",".join(numbered)})).transitions, expected())


def test_episodes_may_have_names(tmp_path: Path) -> None:
    """Such as dates, which a CSV file gives as text."""
    frame = table()
    frame["episode"] = [f"2026-03-0{number + 1}" for number in frame["episode"]]
    frame.to_csv(tmp_path / "log.csv", index=False)
    require_equal(read_data(tmp_path / "log.csv", "gravity").transitions, expected())


def test_lists_in_the_cells_are_vectors(tmp_path: Path) -> None:
    arrays = pendulum_log(GRAVITIES, episodes=3, steps=12)
    cells = {name: list(arrays[name]) if arrays[name].ndim == 2 else arrays[name] for name in arrays}
    frame = pandas.DataFrame(cells | {"action": arrays["action"][:, 0]})
    require_equal(read_data(frame, "gravity").transitions, expected())
    frame.to_parquet(tmp_path / "lists.parquet")
    require_equal(read_data(tmp_path / "lists.parquet", "gravity").transitions, expected())
    frame.at[7, "state"] = np.zeros(2)
    with pytest.raises(UserError, match=r"state has the shape \[2\] in row 7, and \[3\] in the first row"):
        read_data(frame, "gravity")


def test_text_and_whole_numbers_are_names_and_floats_quantities() -> None:
    frame = table()
    frame["body"] = np.where(frame["gravity"] > 5, "heavy", "light")
    frame["number"] = (frame["gravity"] > 5).astype(int)
    assert read_data(frame, "body").labels == ("heavy", "light")
    assert read_data(frame, "number").labels == ("0", "1")
    assert read_data(frame.convert_dtypes(), "number").labels == ("0", "1")


def test_categories_are_what_they_hold_and_endings_may_be_in_capitals(tmp_path: Path) -> None:
    frame = table()
    require_equal(
        read_data(frame.assign(gravity=frame["gravity"].astype("category")), "gravity").transitions, expected()
    )
    frame.to_csv(tmp_path / "LOG.CSV", index=False)
    require_equal(read_data(tmp_path / "LOG.CSV", "gravity").transitions, expected())


def test_columns_are_named_with_commas_and_spaces_or_as_a_list() -> None:
    named = {"state": ["cos", "sin", "velocity"], "action": "torque", "next_state": "cos2, sin2,velocity2"}
    found = read_data(table(own_names=True), "gravity", column_names({**named, "reward": "gain"}))
    require_equal(found.transitions, expected())


def test_fit_and_replay_read_a_table_by_the_users_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, run = tmp_path / "log.csv", tmp_path / "run"
    table(own_names=True).drop(columns=["cos2", "sin2", "velocity2"]).to_csv(file, index=False)
    tiny = [*SMALL, "--offline.min-steps", "1", "--group", "gravity", *OWN_FLAGS]
    assert main(["fit", str(file), *tiny, "--reward", "gain", "--out", str(run)]) == 0
    assert "6 of 72 rows" in capsys.readouterr().out
    assert sum(map(len, RunFolder.open(run).transitions())) == 66
    out = tmp_path / "replay"
    replay = ["adapt", str(run), "--replay", str(file), *OWN_FLAGS, "--environment", "10", "--quiet"]
    assert main([*replay, "--out", str(out)]) == 0
    assert "6 of 72 rows" in capsys.readouterr().out
    rows = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    assert [row["context"] for row in rows] == [10.0] * 33


def damaged(name: str) -> str:
    """The text of a table with one thing wrong."""
    frame = table().astype(object)
    row = frame.columns.get_loc("state_1")
    cells = {"text in a cell": "fast", "gap": None, "infinite": np.inf}
    if name in cells:
        frame.iloc[4, row] = cells[name]
    if name == "gap in the group":
        frame.loc[3, "gravity"] = None
    if name == "gap in text":
        frame["gravity"] = ["light" if k else None for k in range(len(frame))]
    if name == "twice the same step":
        frame = frame.drop(columns=["next_state_0", "next_state_1", "next_state_2", "gravity"]).assign(gravity="one")
    if name == "nothing to derive from":
        frame = frame.drop(columns=["next_state_0", "next_state_1", "next_state_2", "step", "episode"])
    if name == "no two rows of an episode":
        frame = frame.drop(columns=["next_state_0", "next_state_1", "next_state_2"]).iloc[::12]
    if name == "no state":
        frame = frame.drop(columns=["state_0", "state_1", "state_2"])
    if name == "no state_1":
        frame = frame.drop(columns=["state_1"])
    text = frame.to_csv(index=False, sep=";" if name == "semicolons" else ",")
    lines = text.splitlines()
    if name == "a longer row":
        lines[5] += ",1,2"
    if name == "longer rows":
        lines[1:] = [line + ",1" for line in lines[1:]]
    if name == "a shorter row":
        lines[5] = lines[5].rpartition(",")[0]
    if name == "no rows":
        lines = lines[:1]
    if name == "a name twice":
        lines[0] = lines[0].replace("state_1", "state_0", 1)
    return "" if name == "empty" else "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("text in a cell", "state_1 is 'fast' in row 4, and not a number"),
        ("gap", "state_1 is nan in row 4"),
        ("infinite", "state_1 is inf in row 4"),
        ("gap in the group", "gravity is nan in row 3"),
        ("gap in text", "gravity is empty in row 0"),
        ("twice the same step", "both step 0 of one episode: name the column"),
        ("nothing to derive from", "has no next_state"),
        ("no two rows of an episode", "no row continues another one"),
        ("no state", "has no array state: it has action_0, next_state_0"),
        ("no state_1", "has state_0, state_2, and no state_1"),
        ("semicolons", "separated by semicolons"),
        ("a longer row", "line 6"),
        ("longer rows", "more cells than the first line"),
        ("a shorter row", "reward is nan in row 4"),
        ("no rows", "holds no transitions"),
        ("a name twice", "more than one column 'state_0'"),
        ("empty", "is empty: its first line names the columns"),
    ],
)
def test_bad_tables_are_refused_in_words(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(damaged(name))
    message = refused(["fit", str(file), "--group", "gravity", "--out", str(tmp_path / "never")], capsys)
    assert words in message
    assert str(file) in message
    assert not (tmp_path / "never").exists()


def test_other_mistakes_are_refused_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "log.csv"
    table().to_csv(file, index=False)
    assert "no column 'x', 'v': it has state_0" in refused(["fit", str(file), "--state", "x,v"], capsys)
    assert "--reward names one column" in refused(["fit", str(file), "--reward", "reward,step"], capsys)
    assert "No such file" in refused(["fit", str(tmp_path / "missing.csv")], capsys)
    (tmp_path / "latin.csv").write_bytes("größe,b\n1,2\n".encode("latin-1"))
    assert "not text in UTF-8" in refused(["fit", str(tmp_path / "latin.csv")], capsys)
    (tmp_path / "junk.parquet").write_bytes(b"junk")
    assert "junk.parquet is not a .parquet file" in refused(["fit", str(tmp_path / "junk.parquet")], capsys)
    with pytest.raises(UserError, match="not int"):
        read_log(3)
    assert source_names([file, table()]) == (str(file), "the data")


def test_without_pyarrow_a_line_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table().to_parquet(tmp_path / "log.parquet")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    assert "pip install pyarrow" in refused(["fit", str(tmp_path / "log.parquet"), "--group", "gravity"], capsys)
