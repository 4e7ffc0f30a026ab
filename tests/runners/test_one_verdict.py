"""``adapt``, ``diagnose`` on its result, and ``track`` give the same verdict about the same stream."""

import json
from pathlib import Path

import pytest

from pyro_dynamics.diagnostics.verdict import Word
from pyro_dynamics.runners.main import main

STEPS = "130"
TRAIN = [
    *("--rounds", "2", "--steps", "60", "--episodes", "1", "--offline.min-steps", "400", "--ensemble.hidden", "24"),
    *("--ensemble.weight-decay", "0", "0", "--controller.horizon", "3", "--planner.candidates", "12"),
    *("--planner.elites", "4"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    assert main(["train", *TRAIN, "--out", str(folder)]) == 0
    return folder


@pytest.mark.parametrize(
    ("schedule", "belief"), [("0:3,70:9", "recursive"), ("0:3,70:9", "changepoint"), ("0:6", "window")]
)
def test_three_commands_say_the_same_of_one_stream(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], schedule: str, belief: str
) -> None:
    adapted, tracked = tmp_path / "adapted", tmp_path / "tracked"
    same = ["--schedule", schedule, "--steps", STEPS]
    flags = ["--belief", belief, "--update", "kalman", "--quiet", "--out", str(adapted)]
    assert main(["adapt", str(run), *same, *flags]) == 0
    by_adapt = json.loads((adapted / "summary.json").read_text())["verdict"]
    printed = capsys.readouterr().out
    assert main(["diagnose", str(adapted)]) == 0
    by_diagnose = json.loads((adapted / "diagnose/diagnostics.json").read_text())["verdict"]
    lines = "\n  ".join(["", *by_adapt["reasons"]])
    assert lines in printed
    assert lines in capsys.readouterr().out
    flags = ["--seeds", "1", "--beliefs", belief, "--updates", "kalman", "--out", str(tracked)]
    assert main(["track", str(run), *same, *flags]) == 0
    (by_track,) = json.loads((tracked / f"{belief}-kalman.json").read_text())["track"]["verdicts"]
    assert by_adapt == by_diagnose == by_track
    assert by_adapt["word"] in set(Word)
    assert f"| {by_adapt['word']} |" in (tracked / "table.md").read_text()
    assert f"| {by_adapt['word']} |" in capsys.readouterr().out
    print(by_adapt)
