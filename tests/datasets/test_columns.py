"""What users log in a column: each kind is what it holds, or is refused in a line of its own."""

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
import torch
from logged_pendulums import pendulum_log

from pyro_dynamics.datasets.log_arrays import ColumnNames
from pyro_dynamics.datasets.logged_data import LoggedData
from pyro_dynamics.datasets.sources import read_data
from pyro_dynamics.errors import UserError
from pyro_dynamics.runners.common.settings_by_name import column_names

ARRAYS = pendulum_log((2.0, 10.0), episodes=2, steps=8)
ROWS = len(ARRAYS["state"])
LOW = ARRAYS["gravity"] < 5


def of(low: Any, high: Any, dtype: Any = None) -> np.ndarray:
    """A column with one value for each gravity."""
    return np.array([low if one else high for one in LOW], dtype=dtype)


def read(group: str = "gravity", **columns: Any) -> LoggedData:
    return read_data({**ARRAYS, **columns}, group)


MONDAY, TUESDAY = date(2026, 3, 2), date(2026, 3, 3)
DAYS = ("2026-03-02", "2026-03-03")


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        (of(b"low", b"wide"), ("low", "wide")),
        (of(b"low", b"wide", object), ("low", "wide")),
        (of("low", "größer", object), ("größer", "low")),
        (of(MONDAY, TUESDAY, object), DAYS),
        (of(MONDAY, TUESDAY, "datetime64[D]"), DAYS),
        (of(2.0, 10.0)[:, None], (2.0, 10.0)),
        (of(2.0, 10.0, object), (2.0, 10.0)),
        (of(2, 10.5, object), (2.0, 10.5)),
        (of(2, 10, object), ("2", "10")),
        (of(True, False, object), ("False", "True")),
        (of(Decimal("2.5"), Decimal("10.25"), object), (2.5, 10.25)),
        (of(2**63 + 1, 2**63 + 2, np.uint64), (str(2**63 + 1), str(2**63 + 2))),
        (np.where(np.arange(ROWS) % 2, of(0.0, 1.0), of(-0.0, 1.0)), (0.0, 1.0)),
        (torch.from_numpy(of(2.0, 10.0)).requires_grad_(), (2.0, 10.0)),
    ],
)
def test_a_column_is_what_it_holds(column: Any, labels: tuple[Any, ...]) -> None:
    data = read(gravity=column)
    assert data.labels == labels
    assert [type(one) for one in data.labels] == [type(one) for one in labels]
    assert np.sign(data.labels[0]) != 0 or str(data.labels[0]) == "0.0" if isinstance(labels[0], float) else True
    assert len(data.transitions) == ROWS


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (of(2.0, 10.0)[:-3], "gravity has 29 values, and there are 32 rows"),
        (np.stack([of(2.0, 10.0)] * 2, 1), r"gravity has the shape \[32, 2\], and rows are grouped by one value each"),
        (np.array(3.0), "gravity is one value, and not one for each of the 32 rows"),
        (of(1, 2, "timedelta64[s]"), r"gravity holds timedelta64\[s\], and rows are grouped by numbers or text"),
        (of(1, 2, complex), "gravity holds complex128"),
        (of("low", 10, object), "gravity is 10 in row 16, and not a number or text as others are"),
        (of(None, "high", object), "gravity is empty in row 0"),
        (of(b"low", None, object), "gravity is empty in row 16"),
        (np.where(LOW, np.datetime64("NaT"), np.datetime64("2026-03-01")), "gravity is empty in row 0"),
        (of(None, 10.0, object), "gravity is nan in row 0"),
        (of(pandas.Interval(0, 1), pandas.Interval(1, 2), object), r"gravity is Interval\(0, 1.* in row 0"),
    ],
)
def test_a_column_that_cannot_group_says_what_it_is(column: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        read(gravity=column)
    others = {name: array for name, array in ARRAYS.items() if name != "gravity"} | {"body": ARRAYS["gravity"]}
    assert read_data({**others, "gravity": column}, "body").labels == (
        2.0,
        10.0,
    )  # where it is not asked for it may be so


@pytest.mark.parametrize("name", ["reward", "step", "episode"])
def test_a_single_column_may_be_n_by_1_or_objects(name: str) -> None:
    plain = read()
    for column in (ARRAYS[name][:, None], ARRAYS[name].astype(object), list(ARRAYS[name])):
        found = read_data({**ARRAYS, name: column}, "gravity")
        for part, array in plain.transitions.arrays().items():
            np.testing.assert_array_equal(found.transitions.arrays()[part], array)


def test_steps_may_be_floats_that_are_whole() -> None:
    np.testing.assert_array_equal(read(step=ARRAYS["step"].astype(float)).transitions.step, read().transitions.step)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"step": ARRAYS["step"] * 0.05}, "step is 0.05 in row 1, and counts in whole numbers from 0: divide a time"),
        ({"step": np.where(np.arange(ROWS) == 9, np.nan, ARRAYS["step"])}, "step is empty in row 9"),
        ({"episode": np.where(np.arange(ROWS) == 9, np.nan, ARRAYS["episode"])}, "episode is empty in row 9"),
        (
            {"episode": [None if row == 9 else int(n) for row, n in enumerate(ARRAYS["episode"])]},
            "episode is empty in row 9",
        ),
        (
            {"state": [[1.0, 2.0], *ARRAYS["state"][1:].tolist()]},
            r"state has the shape \[3\] in row 1, and \[2\] in the",
        ),
        (
            {"state": np.ma.masked_array(ARRAYS["state"], np.arange(3 * ROWS).reshape(-1, 3) == 16)},
            "state is nan in row 5, column 1",
        ),
    ],
)
def test_what_is_wrong_in_other_columns_is_named(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        read(**columns)


def test_episodes_may_be_dates_and_environments_may_be_episodes() -> None:
    days = np.datetime64("2026-03-01") + ARRAYS["episode"] + 10 * ~LOW
    assert len(read(episode=days).episode.unique()) == 4
    assert read("episode", episode=days).labels == ("2026-03-01", "2026-03-02", "2026-03-11", "2026-03-12")


FRAME = pandas.DataFrame(
    {
        f"{part}_{i}": ARRAYS[part][:, i]
        for part in ("state", "action", "next_state")
        for i in range(ARRAYS[part].shape[1])
    }
    | {name: ARRAYS[name] for name in ("reward", "step", "episode", "gravity")}
)


@pytest.mark.parametrize(
    "frame",
    [
        FRAME.astype(object),
        FRAME.assign(gravity=FRAME.gravity.astype(pandas.SparseDtype(float))),
        FRAME.assign(step=FRAME.step.astype(float)),
        FRAME.rename(columns={"gravity": " gravity", "state_1": "state_1 "}),
        FRAME.assign(episode=pandas.to_datetime("2026-03-01", utc=True) + pandas.to_timedelta(FRAME.episode, unit="D")),
    ],
)
def test_frames_of_every_kind_are_read(frame: pandas.DataFrame) -> None:
    data = read_data(frame, "gravity")
    np.testing.assert_array_equal(data.transitions.state, read().transitions.state)
    assert data.labels == (2.0, 10.0)


def test_a_table_of_pyarrow_is_one_of_pandas() -> None:
    table = pyarrow.Table.from_pandas(FRAME.convert_dtypes(convert_integer=False))
    assert read_data(table, "gravity").labels == (2.0, 10.0)


@pytest.mark.parametrize("cell", [[[1], [2, 3]], {"a": 1}, np.arange(3), pandas.NA])
def test_cells_of_any_kind_in_other_columns_do_no_harm(cell: Any) -> None:
    cells = np.empty(ROWS, dtype=object)
    cells[:] = [cell] * ROWS
    assert read(note=cells).labels == (2.0, 10.0)
    with pytest.raises(UserError, match=r"note is .* in row 0, and not a number or text"):
        read("note", note=cells)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_tensors_of_half_precision_are_read(kind: torch.dtype) -> None:
    columns = {name: torch.from_numpy(ARRAYS[name]).to(kind) for name in ("state", "action", "next_state")}
    found = read_data({**ARRAYS, **columns}, "gravity").transitions
    assert torch.equal(found.state.sort(0).values, columns["state"].float().sort(0).values)


def test_complex_numbers_do_no_harm_where_they_are_not_needed() -> None:
    spectrum = np.exp(1j * np.arange(ROWS))
    assert read_data(FRAME.assign(spectrum=spectrum), "gravity").labels == (2.0, 10.0)
    for frame, group in ((FRAME.assign(state_1=spectrum), "gravity"), (FRAME.assign(spectrum=spectrum), "spectrum")):
        with pytest.raises(UserError, match=r"numbers, not complex128|holds complex128"):
            read_data(frame, group)


def test_a_name_may_have_a_comma_in_it() -> None:
    frame = FRAME.rename(columns={"state_0": "place, left", "state_1": 'the "speed", too'})
    rest = [name for name in frame.columns if name.startswith("state_")]
    names = column_names({"state": ["place, left", 'the "speed", too', *rest]})
    np.testing.assert_array_equal(read_data(frame, "gravity", names).transitions.state, read().transitions.state)
    with pytest.raises(UserError, match="has no column 'place, right'"):
        read_data(frame, "gravity", column_names({"state": ["place, right"]}))
    assert ColumnNames(state='"place, left", v').given() == {"state": ["place, left", "v"]}


def test_a_gap_in_a_frame_of_text_is_named() -> None:
    names = FRAME.assign(gravity=FRAME.gravity.astype("string").where(FRAME.index != 3))
    with pytest.raises(UserError, match="gravity is empty in row 3"):
        read_data(names, "gravity")
