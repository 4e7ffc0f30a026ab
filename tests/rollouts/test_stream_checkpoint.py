"""The checkpoint of an adaptation: what was stopped resumes, and what is damaged or of something else is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pyro_dynamics.errors import UserError
from pyro_dynamics.rollouts import stream_checkpoint
from pyro_dynamics.rollouts.adaptation import AdaptationStep
from pyro_dynamics.rollouts.rollout import Seconds
from pyro_dynamics.rollouts.stream_checkpoint import StreamCheckpoint
from pyro_dynamics.runners.main import main

SETTINGS = {"seed": 0, "schedule": [[0, 3.0]]}


class NoState:
    """Of no agents: what a checkpoint needs of a stream's state."""

    def state_dict(self) -> dict[str, Any]:
        return {"group": []}


def step(index: int) -> AdaptationStep:
    one = torch.full((1,), float(index))
    vector, draws = one[:, None], torch.zeros(5, 1, 2)
    return AdaptationStep(
        index,
        [3.0],
        one,
        one > -1,
        one,
        vector,
        vector > 0,
        vector + 1,
        vector,
        vector,
        vector,
        vector,
        vector,
        draws,
        draws[..., 0],
        Seconds(0.005),
        Seconds(0.005),
        one < 0,
    )


def row(index: int) -> dict[str, Any]:
    seen = {"reward": 0.0, "log_likelihood": 0.0, "pit": [0.5], "coverage": 1.0}
    return {"step": index, "context": [3.0, 1.0], **seen, "mean": [0.0], "sd": [1.0]}


def kept(path: Path, steps: int) -> StreamCheckpoint:
    one = StreamCheckpoint(path, SETTINGS)
    for index in range(one.steps, steps):
        one.add(row(index), step(index), NoState())  # type: ignore[arg-type]
    one.save(NoState())  # type: ignore[arg-type]
    return one


def test_steps_are_read_back_over_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_checkpoint, "ROWS", 4)
    for steps in (3, 4, 9, 12):  # in the middle of a part, and at its end
        whole = kept(tmp_path / "unfinished", steps)
        for one in (whole, StreamCheckpoint(tmp_path / "unfinished", SETTINGS)):
            assert [found["step"] for found in one.rows()] == list(range(steps))
            assert one.arrays("reward")["reward"].tolist() == list(range(steps))
            assert len(one._rows) < 4  # what is held in memory
        resume_point = one.resume_point()
        assert resume_point is not None
        assert (len(resume_point), resume_point.state.shape, resume_point.stream_state) == (
            steps,
            (steps, 1, 1),
            {"group": []},
        )
    assert one.rows()[0]["context"] == (3.0, 1.0)
    one.remove()
    assert StreamCheckpoint(tmp_path / "unfinished", SETTINGS).steps == 0


def test_a_part_may_be_ahead_of_the_state_that_was_to_follow_it(tmp_path: Path) -> None:
    kept(tmp_path, 3)
    state = (tmp_path / "state.pt").read_bytes()
    kept(tmp_path, 5)
    (tmp_path / "state.pt").write_bytes(state)
    assert [found["step"] for found in StreamCheckpoint(tmp_path, SETTINGS).rows()] == [0, 1, 2]


def test_what_is_left_of_another_adaptation_is_refused(tmp_path: Path) -> None:
    kept(tmp_path, 3)
    with pytest.raises(UserError, match="is what is left of an adaptation with another seed: finish that one"):
        StreamCheckpoint(tmp_path, {**SETTINGS, "seed": 1})


def test_damage_is_reported(tmp_path: Path) -> None:
    def damaged(change: Any) -> None:
        kept(tmp_path, 3)
        change()
        with pytest.raises(UserError, match=r"cannot be resumed \(.+\): remove it to begin anew"):
            StreamCheckpoint(tmp_path, SETTINGS)
        StreamCheckpoint(tmp_path / "none", SETTINGS)
        for file in tmp_path.iterdir():
            file.unlink()

    lines = tmp_path / "steps-00000000.jsonl"
    damaged(lines.unlink)
    damaged(lambda: lines.write_text("{}\n"))
    damaged(lambda: lines.write_text(json.dumps(row(0)) + "\n"))
    damaged(lambda: np.savez(tmp_path / "steps-00000000.npz", state=np.zeros((1, 1))))
    damaged(lambda: (tmp_path / "steps-00000000.npz").write_bytes(b""))
    damaged(lambda: torch.save({"steps": -1}, tmp_path / "state.pt"))


def test_an_environment_that_does_not_repeat_itself_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An adaptation stopped by the end of its disk resumes; the steps before are made again, and must be the same."""
    tiny = ["--rounds", "1", "--steps", "20", "--episodes", "1", "--ensemble.hidden", "8", "--offline.min-steps", "10"]
    plan = ["--ensemble.weight-decay", "0", "0", "--controller.horizon", "3", "--planner.candidates", "20"]
    run, out = tmp_path / "run", tmp_path / "out"
    assert main(["train", *tiny, *plan, "--out", str(run)]) == 0
    adapt = ["adapt", str(run), "--context", "3", "--steps", "12", "--update", "kalman", "--quiet", "--out", str(out)]
    monkeypatch.setattr(stream_checkpoint, "SECONDS", 0.0)
    save, saved = StreamCheckpoint.save, []

    def full(self: StreamCheckpoint, stream_state: Any) -> None:
        saved.append(self.steps)
        if len(saved) == 6:
            raise UserError("cannot write it: No space left on device")
        save(self, stream_state)

    monkeypatch.setattr(StreamCheckpoint, "save", full)
    assert main(adapt) == 2
    assert not (out / "summary.json").exists()
    arrays = out / "unfinished" / "steps-00000000.npz"
    honest, content = arrays.read_bytes(), dict(np.load(arrays))
    assert len(content["state"]) == 5
    np.savez(arrays, **{**content, "state": content["state"] + 1})
    assert main(adapt) == 2
    assert "step 0 does not begin in the state that it began in before" in capsys.readouterr().err
    arrays.write_bytes(honest)
    assert main([*adapt, "--seed", "1"]) == 2
    assert "is what is left of an adaptation with another seed" in capsys.readouterr().err
    assert main(adapt) == 0
    assert "resumes after 5 steps" in capsys.readouterr().out
    assert not (out / "unfinished").exists()
    rows = (out / "steps.jsonl").read_bytes()
    assert main([*adapt[:-1], str(tmp_path / "other")]) == 0
    assert (tmp_path / "other" / "steps.jsonl").read_bytes() == rows
