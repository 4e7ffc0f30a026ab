"""Recorded rows are read as they were written, and refused in one line where they are something else."""

import json
import math
from pathlib import Path

import pytest

from pyro_dynamics.benchmarks.pages import commands, renew
from pyro_dynamics.benchmarks.recording import Recording, measured_before, read_recordings, save_recording
from pyro_dynamics.errors import UserError

ROWS = [{"work": "plan", "cpu_s": 0.5}, {"work": "update", "cpu_s": math.inf, "each": [1.0, -math.inf]}]
SAVED = Recording("speed", {"calls": 3}, ROWS, {"commit": "abc", "date": "2026-01-01"})


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    save_recording(SAVED, tmp_path / "made" / "b.json")
    save_recording(Recording("planners", {}, []), tmp_path / "made" / "a.json")
    assert read_recordings(tmp_path / "made" / "b.json", "speed") == [SAVED]
    assert read_recordings(tmp_path / "made", "speed") == [SAVED]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no file"),
        ("[1, 2]", "does not hold recorded rows"),
        ("{", "cannot be read"),
        (json.dumps({"format": 99}), "newer version"),
        (json.dumps({"format": 1, "benchmark": "speed", "rows": 3, "settings": {}, "provenance": {}}), "rows"),
        (
            json.dumps({"format": 1, **vars(SAVED), "rows": [], "benchmark": "cadm"}),
            "holds rows of 'cadm', not of 'speed'",
        ),
    ],
    ids=["missing", "a list", "damaged", "newer", "no rows", "another benchmark"],
)
def test_other_files_are_refused(tmp_path: Path, content: str | None, words: str) -> None:
    file = tmp_path / "rows.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UserError, match=words):
        read_recordings(file, "speed")


def test_rows_of_a_stopped_command_are_taken_up_with_where_they_were_measured(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert measured_before(None, "speed", {"calls": 3}) == measured_before(file, "speed", {"calls": 3}) == []
    save_recording(SAVED, file)
    before = measured_before(file, "speed", {"calls": 3})
    assert before == [{**row, "measured": SAVED.provenance} for row in ROWS]
    here = {"commit": "def", "date": "2026-01-02", "load": 1.0}
    save_recording(Recording("speed", {"calls": 3}, [*before, {"work": "step", "cpu_s": 2.0}], here), file)
    again = measured_before(file, "speed", {})
    assert [row["measured"]["commit"] for row in again] == ["abc", "abc", "def"]
    lines = Recording("speed", {}, [*again, {"work": "epoch"}], here | {"load": 2.0}).source.splitlines()
    assert [line[:19] for line in lines] == ["Rows of commit abc,", "Rows of commit def,"]
    with pytest.raises(UserError, match=r"other settings \(calls 3, not 4\): name another file"):
        measured_before(file, "speed", {"calls": 4})
    with pytest.raises(UserError, match="not of 'ceiling'"):
        measured_before(file, "ceiling", {})


def test_a_folder_without_rows_of_this_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no recorded rows of 'speed'"):
        read_recordings(tmp_path, "speed")


PAGE = """before
<!-- begin: pyro-dynamics benchmark speed --report 'some rows.json' -->
old
<!-- end -->
between
<!-- begin: pyro-dynamics benchmark cadm --report cadm.json -->
<!-- end -->
after
"""


def test_a_page_is_renewed_between_its_markers() -> None:
    renewed = renew(PAGE, lambda words: f"| {'+'.join(words)} |\n")
    assert "| speed+--report+some rows.json |\n\n<!-- end -->\nbetween" in renewed
    assert "| cadm+--report+cadm.json |" in renewed
    assert "old" not in renewed
    assert (renewed.splitlines()[0], renewed.splitlines()[-1]) == ("before", "after")
    assert renew(renewed, lambda words: f"| {'+'.join(words)} |\n") == renewed
    assert commands(PAGE)[0] == ["speed", "--report", "some rows.json"]


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (PAGE.removesuffix("<!-- end -->\nafter\n"), "no end"),
        (PAGE.replace("benchmark cadm", "train"), "names no"),
        (PAGE.replace("cadm --report cadm.json", "cadm"), "names no"),
    ],
    ids=["no end", "another command", "it would measure"],
)
def test_other_markers_are_refused(page: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        renew(page, lambda _: "")
