"""Data sets in the layout of LeRobot as logged data."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import refused
from lerobot_layout import EPISODES, FRAMES, MASSES, frames, write_lerobot
from logged_pendulums import SMALL

from pyro_dynamics.datasets.log_arrays import ColumnNames
from pyro_dynamics.datasets.sources import read_data
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.runners.main import main


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_frames_become_transitions_within_their_episodes(version: str, tmp_path: Path) -> None:
    data = read_data(write_lerobot(tmp_path / "set", version), "mass")
    assert data.labels == MASSES
    assert data.column == "mass"
    rows, source = data.transitions, frames()
    assert len(rows) == EPISODES * (FRAMES - 1)
    assert [len(episode) for episode in rows.episodes()] == [FRAMES - 1] * EPISODES
    states = np.stack(source["observation.state"].tolist())
    for episode in rows.episodes():
        k = int(rows.environment[episode[0]])
        same = np.flatnonzero((states == rows.state[episode[0]].numpy()).all(1))
        assert len(same) == 1
        first = int(same[0])
        assert source["task_index"][first] == k
        np.testing.assert_array_equal(rows.state[episode].numpy(), states[first : first + FRAMES - 1])
        np.testing.assert_array_equal(rows.next_state[episode].numpy(), states[first + 1 : first + FRAMES])
        rewards = source["next.reward"].to_numpy()[first : first + FRAMES - 1]
        np.testing.assert_array_equal(rows.reward[episode].numpy(), rewards)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_every_column_of_frames_episodes_and_tasks_can_group(version: str, tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "set", version)
    assert read_data(folder, "task_index").labels == ("0", "1")
    assert read_data(folder, "task").labels == ("push the heavy mass", "push the light mass")
    assert len(read_data(folder, "episode_index").labels) == EPISODES
    both = read_data(folder, "mass", ColumnNames(state="observation.state,timestamp"))
    assert both.transitions.state.shape[1] == 3


def test_fit_learns_from_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, run = write_lerobot(tmp_path / "set", "v3.0"), tmp_path / "run"
    tiny = [*SMALL, "--offline.min-steps", "1", "--group", "mass", "--unit", "kg"]
    assert main(["fit", str(folder), *tiny, "--out", str(run)]) == 0
    assert f"{EPISODES} of {EPISODES * FRAMES} rows" in capsys.readouterr().out
    assert [row["context"] for row in RunFolder.open(run).metrics()] == list(MASSES)
    replay = ["adapt", str(run), "--replay", str(folder), "--environment", "2", "--quiet", "--out"]
    assert main([*replay, str(tmp_path / "replay")]) == 0


def test_what_is_not_whole_or_of_another_version_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_lerobot(tmp_path / "set", "v3.0")
    fit = ["fit", str(folder), "--group", "mass", "--out", str(tmp_path / "never")]
    assert "no column 'weight'" in refused(["fit", str(folder), "--group", "weight"], capsys)
    part = folder / "data" / "chunk-000" / "file-001.parquet"
    kept = part.read_bytes()
    part.write_bytes(kept[: len(kept) // 2])
    assert "file-001.parquet is damaged, or cut off" in refused(fit, capsys)
    part.unlink()
    assert "has 45 frames of 3 episodes, and meta/info.json says 90 of 6" in refused(fit, capsys)
    part.write_bytes(kept)
    info = folder / "meta" / "info.json"
    values = json.loads(info.read_text())
    info.write_text(json.dumps(values | {"codebase_version": "v4.0"}))
    assert "LeRobot data set v4.0" in refused(fit, capsys)
    info.write_text(json.dumps({name: values[name] for name in values if name != "features"}))
    assert "info.json is not that of a LeRobot data set" in refused(fit, capsys)
    info.write_text(json.dumps(values))
    (folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet").unlink()
    assert "no metadata of its episodes" in refused(fit, capsys)
    assert not (tmp_path / "never").exists()
