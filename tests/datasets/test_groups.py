"""Which environment each row is of: sources that disagree, numbers and names written in several ways, odd columns."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from pyro_dynamics.datasets.fitting import hold_out
from pyro_dynamics.datasets.logged_family import DataDescription, LoggedFamily
from pyro_dynamics.datasets.sources import read_data
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.errors import UserError


def table(group: Any, rows: int = 24, name: str = "g", seed: int = 0) -> pandas.DataFrame:
    """Two episodes of a random walk."""
    rng = np.random.default_rng(seed)
    walks = rng.normal(size=(2, rows // 2 + 1)).cumsum(1)
    frame = pandas.DataFrame({"state_0": walks[:, :-1].ravel(), "action_0": rng.uniform(-1, 1, rows)})
    frame["next_state_0"] = walks[:, 1:].ravel()
    frame["reward"], frame["episode"], frame["step"] = 1.0, np.arange(rows) * 2 // rows, np.arange(rows) % (rows // 2)
    return frame.assign(**{name: group})


def csv_of(folder: Path, name: str, frame: pandas.DataFrame) -> Path:
    frame.to_csv(folder / name, index=False)
    return folder / name


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("kind", ["files", "tables"])
def test_a_column_environment_that_only_some_have_is_refused(order: tuple[int, int], kind: str, tmp_path: Path) -> None:
    frames = [table("left", name="environment"), table(0.0, seed=1).drop(columns="g")]
    sources: list[Any] = frames if kind == "tables" else [csv_of(tmp_path, f"{i}.csv", f) for i, f in enumerate(frames)]
    with pytest.raises(UserError, match=r"has a column environment, and .* has none: add it there, or rename it"):
        read_data([sources[i] for i in order])


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (1.0, "1.0 kg", "g is a number in source 1, such as 1.0, and text in source 2, such as '1.0 kg'"),
        ("1", 1.0, "g is a number in source 2, such as 1.0, and text in source 1, such as '1'"),
        (0.5, "1/2", "text in source 2, such as '1/2'"),
        (True, 0.5, "text in source 1, such as 'True'"),
    ],
)
def test_quantities_in_one_source_and_names_in_another_are_refused(one: Any, other: Any, words: str) -> None:
    with pytest.raises(UserError, match="write the same in both") as refusal:
        read_data([table(one), table(other)], "g")
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("one", "other", "labels"), [(2, 1.5, (1.5, 2.0)), (2, 3, ("2", "3")), (2, "left", ("2", "left"))]
)
def test_whole_numbers_go_with_quantities_and_with_names(one: Any, other: Any, labels: tuple[Any, ...]) -> None:
    assert read_data([table(one), table(other, seed=1)], "g").labels == labels


@pytest.mark.parametrize("lacking", [0, 1, 2])
def test_rewards_that_only_some_have_are_not_used_and_that_is_said(lacking: int) -> None:
    sources = [table(float(k), seed=k) for k in range(3)]
    sources[lacking] = sources[lacking].drop(columns="reward")
    data = read_data(sources, "g")
    having = [f"source {k + 1}" for k in range(3) if k != lacking]
    words = f"rewards are in {', '.join(having)}, and not in source {lacking + 1}: none are used"
    assert data.notes == (words,)
    assert not data.rewarded
    none = read_data([one.drop(columns="reward", errors="ignore") for one in sources], "g")
    assert not none.notes


def test_tables_in_memory_without_a_group_are_an_environment_each() -> None:
    data = read_data([table(0.0, seed=k).drop(columns="g") for k in range(2)])
    assert data.labels == ("source 1", "source 2")


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ((0.3, float(np.float32(0.3))), (0.3,)),
        ((0.1 + 0.2, 0.3, 0.4), (0.3, 0.4)),
        ((1e-9, float(np.float32(1e-9))), (1e-9,)),
        ((-9.81, float(np.float32(-9.81)), 9.81), (-9.81, 9.81)),
        ((1.0, 1.0 + 2.0**-21), (1.0,)),
        ((2.1e11, float(np.float32(2.1e11))), (2.1e11,)),
        ((1.0, 1.00001), (1.0, 1.00001)),
        ((0.0, 1e-12), (0.0, 1e-12)),
    ],
)
def test_quantities_that_differ_by_rounding_are_one(values: tuple[float, ...], labels: tuple[float, ...]) -> None:
    data = read_data([table(value, seed=k) for k, value in enumerate(values)], "g")
    assert data.labels == labels
    pairs = read_data([table(value, seed=k).assign(m=2.0) for k, value in enumerate(values)], "g,m")
    assert pairs.labels == tuple((label, 2.0) for label in labels)
    assert pairs.transitions.environment.tolist() == data.transitions.environment.tolist()


@pytest.mark.parametrize(
    "values",
    [
        (1.7e9, 1.7e9 + 60, 1.7e9 + 128, 1.7e9 + 600),  # when a session began, in seconds
        (1700000000.125, 1700000001.6180339, 1700000002.7182818),
        (1.7e18, 1.7e18 + 6e10),
        (4500001.0, 4500002.0, 4500002.5),  # places in m
        (48.137154, 48.137163, 48.137171),  # and in degrees
        (2451545.0, 2451545.5, 2451545.75),
        (1.0, 1.0 + 5e-7),
    ],
    ids=str,
)
def test_quantities_far_from_0_stay_as_many_as_they_are(values: tuple[float, ...], tmp_path: Path) -> None:
    frame = pandas.concat([table(value, seed=k) for k, value in enumerate(values)], ignore_index=True)
    for data in (read_data(frame, "g"), read_data(csv_of(tmp_path, "log.csv", frame), "g")):
        assert data.labels == values
        assert LoggedFamily.of(DataDescription.of(["log.csv"], data, "", None)).train == values


@pytest.mark.parametrize("column", ["measured", "state", "time of day"])
def test_a_column_with_nearly_as_many_values_as_rows_says_so(column: str) -> None:
    frame = pandas.concat([table(float(k), seed=k) for k in range(3)])
    values: dict[str, Any] = {
        "measured": frame["g"] + np.random.default_rng(0).normal(size=72) * 1e-2,
        "state": frame["state_0"],
        "time of day": [f"12:00:{second}" for second in range(72)],
    }
    data = read_data(frame.assign(g=values[column]), "g")
    with pytest.raises(UserError, match="g has 72 different values in 72 rows, and each environment needs 10"):
        hold_out(data, 0.2, 0)


@pytest.mark.parametrize("group", ["g,", " g", ",g,g", "g , g"])
def test_spaces_and_commas_around_the_name_of_a_column_mean_nothing(group: str, tmp_path: Path) -> None:
    for source in (table(2.0), csv_of(tmp_path, "one.csv", table(2.0))):
        data = read_data(source, group)
        assert (data.column, data.labels) == ("g", (2.0,))


def test_spaces_between_several_columns_mean_nothing() -> None:
    data = read_data(table(2.0).assign(m=3.0), "g, m,")
    assert (data.column, data.labels) == ("g,m", ((2.0, 3.0),))
    odd = read_data(table(2.0, name="g, m"), "g, m")
    assert odd.labels == (2.0,)
    for empty in ("", ",", " , "):
        with pytest.raises(UserError, match="which is no name"):
            read_data(table(2.0), empty)


@pytest.mark.parametrize(
    "names",
    [("None", "nan", "arm"), ("NA", "EU", "null"), ("007", "7", "8"), ("-0", "0", "1"), ("N/A", "#N/A", "NaN arm")],
    ids=",".join,
)
def test_names_in_a_file_are_taken_as_they_are_written(names: tuple[str, ...], tmp_path: Path) -> None:
    frame = pandas.concat([table(name, seed=k) for k, name in enumerate(names)])
    for file in (csv_of(tmp_path, "log.csv", frame), csv_of(tmp_path, "packed.csv.gz", frame)):
        assert read_data(file, "g").labels == tuple(sorted(names))


def test_whole_numbers_in_a_file_stay_in_their_order_and_gaps_are_gaps(tmp_path: Path) -> None:
    frame = pandas.concat([table(number, seed=number) for number in (10, 9, 100)])
    assert read_data(csv_of(tmp_path, "log.csv", frame), "g").labels == ("9", "10", "100")
    named = pandas.concat([table("arm"), table("leg", seed=1)]).reset_index(drop=True)
    named.loc[5, "g"] = None
    with pytest.raises(UserError, match="g is empty in row 5"):
        read_data(csv_of(tmp_path, "gap.csv", named), "g")
    quantities = pandas.concat([table(1.5), table(2.5, seed=1)]).reset_index(drop=True).astype({"g": object})
    quantities.loc[7, "g"] = "NA"
    with pytest.raises(UserError, match="g is nan in row 7"):
        read_data(csv_of(tmp_path, "na.csv", quantities), "g")


@pytest.mark.parametrize("group", ["of each file", "one", "of a column"])
def test_a_file_and_its_copy_are_named_whatever_they_are_grouped_by(group: str, tmp_path: Path) -> None:
    frames = [table(1.0), table(1.0), table(2.0, seed=1), *(table(3.0, rows=400, seed=k) for k in (2, 3))]
    if group == "one":
        frames = [frame.assign(g=1.0) for frame in frames]
    files = [csv_of(tmp_path, f"{place}.csv", frame) for place, frame in enumerate(frames)]
    data = read_data(files, None if group == "of each file" else "g")
    first, second = ("environment 0", "environment 1") if group == "of each file" else files[:2]
    (note,) = data.notes
    assert note.startswith(f"24 of the 24 rows of {first} are in {second}, to the last digit")
    assert read_data([files[0], *files[2:]], None if group == "of each file" else "g").notes == ()


def test_an_environment_of_one_table_with_the_rows_of_another_is_named() -> None:
    frame = pandas.concat([table(1.0), table(2.0), table(3.0, seed=1)])
    assert read_data(frame, "g").notes[0].startswith("24 of the 24 rows of environment 1 are in environment 2")
    close = pandas.concat([table(1.7e9), table(1.7e9 + 60)])
    assert "24 rows of environment 1700000000.0 are in environment 1700000060.0" in read_data(close, "g").notes[0]


@pytest.mark.parametrize(("environments", "episodes"), [(1, 2), (1, 12), (3, 4)])
def test_episodes_that_alternate_need_a_column_episode(environments: int, episodes: int) -> None:
    """As a vector environment gives them, ``[T, N]``, flattened."""
    parts = [
        table(float(k), rows=20, seed=10 * k + e).assign(episode=e, step=np.arange(20))
        for k in range(environments)
        for e in range(episodes)
    ]
    frame = pandas.concat(parts).drop(columns="next_state_0").sort_values("step", kind="stable")
    whole = read_data(frame, "g")
    assert len(whole.transitions) == 19 * environments * episodes
    with pytest.raises(UserError, match=r"of one environment are the steps 1 and 1, .* give a column episode"):
        read_data(frame.drop(columns="episode"), "g")


@pytest.mark.parametrize("kind", ["two out of step", "three out of step", "shuffled"])
def test_rows_whose_steps_go_back_all_the_time_need_it_too(kind: str) -> None:
    parts = [table(1.0, rows=60, seed=e).assign(step=np.arange(60) + e, at=np.arange(60)) for e in range(3)]
    frame = pandas.concat(parts[: 2 if kind.startswith("two") else 3]).drop(columns=["next_state_0", "episode"])
    frame = frame.sample(frac=1, random_state=1) if kind == "shuffled" else frame.sort_values("at", kind="stable")
    with pytest.raises(UserError, match="or its rows are not in order: give a column episode"):
        read_data(frame, "g")


def test_pieces_of_episodes_may_follow_one_another_and_episodes_have_one_step() -> None:
    frame = table(1.0, rows=40).drop(columns=["next_state_0", "episode"])
    frame["step"] = [0, 0, 0, *range(20), 0, *range(16)]
    assert len(read_data(frame, "g").transitions) == 34
    frame["step"] = [*range(100, 120), *range(50, 65), *range(70, 75)]
    assert len(read_data(frame, "g").transitions) == 37


@pytest.mark.parametrize("row", [0, 11, 30])
@pytest.mark.parametrize("gap", [np.nan, np.inf])
def test_a_quantity_that_is_missing_is_refused_wherever_it_stands(row: int, gap: float) -> None:
    """Also where its state continues the row above: it ends no episode."""
    walk = np.random.default_rng(0).normal(size=49).cumsum()
    frame = pandas.concat([table(1.0), table(2.0)]).reset_index(drop=True)
    frame = frame.assign(state_0=walk[:-1], next_state_0=walk[1:])
    frame.loc[row, "g"] = gap
    with pytest.raises(UserError, match=rf"g is {gap} in row {row} \(1 of 48 rows\)"):
        read_data(frame, "g")


@pytest.mark.parametrize(
    ("groups", "chosen", "found"),
    [
        ((101325.1, 101325.4), "101325.4", 1),
        ((101325.1, 101325.4), "101325.1", 0),
        ((7.000001, 7.00001), "7.00001", 1),
        ((1234567.5, 1234570.5, 3.0), "1234570.5", 2),
        ((6.5, 7.0), "7.0", 1),
        ((0.1 + 0.2, 0.5), "0.3", 0),
        ((0.1 + 0.2, 0.5), "0.30000000000000004", 0),
    ],
)
def test_quantities_of_many_digits_are_chosen_by_their_names(
    groups: tuple[float, ...], chosen: str, found: int
) -> None:
    data = read_data([table(group, seed=seed) for seed, group in enumerate(groups)], "g")
    wanted = sorted(groups)[found]
    assert data.of(chosen).labels == (wanted,)
    assert data.of(label(wanted)).labels == (wanted,)
    with pytest.raises(UserError, match="it has " + ", ".join(map(label, sorted(groups)))):
        data.of("101325")


def test_a_column_to_group_by_that_is_a_state_too_is_named() -> None:
    friction = np.repeat([0.5, 1.0, 3.0], 24)
    rows = pandas.concat([table(value, seed=seed) for seed, value in enumerate((0.5, 1.0, 3.0))], ignore_index=True)
    rows["episode"] += np.repeat([0, 2, 4], 24)
    revealed = rows.assign(state_1=friction, next_state_1=friction)
    assert not any("is g itself" in note for note in read_data(rows, group="g").notes)
    (note,) = (note for note in read_data(revealed, group="g").notes if "is g itself" in note)
    assert note.startswith("state 1 is g itself in every row")


@pytest.mark.parametrize("names", [(0.5, 1.0, 3.0), ("left", "middle", "right")])
@pytest.mark.parametrize("hint", [np.log, np.reciprocal, lambda value: 1.0 * (value == 3.0)])
def test_a_state_that_says_which_environment_it_is_is_named(hint: Any, names: tuple[Any, ...]) -> None:
    values = np.repeat([0.5, 1.0, 3.0], 24)
    rows = pandas.concat([table(name, seed=seed) for seed, name in enumerate(names)], ignore_index=True)
    rows["episode"] += np.repeat([0, 2, 4], 24)
    words = "state 1 never changes within an environment, and differs between them"
    known = rows.assign(state_1=hint(values), next_state_1=hint(values))
    assert any(words in note for note in read_data(known, group="g").notes)
    goals = np.random.default_rng(0).normal(size=6)[rows.episode]
    for harmless in (goals, np.full(72, 9.81)):
        same = rows.assign(state_1=harmless, next_state_1=harmless)
        assert not any(words in note for note in read_data(same, group="g").notes)
