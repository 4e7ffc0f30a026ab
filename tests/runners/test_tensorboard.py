"""The metrics of a run in TensorBoard."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from commands import refused
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from pyro_dynamics.errors import UserError
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.rollouts import tensorboard
from pyro_dynamics.runners.main import main

TINY = [
    *("--steps", "15", "--episodes", "1", "--offline.epochs", "1", "--offline.min-steps", "1"),
    *("--ensemble.hidden", "8", "--ensemble.weight-decay", "1e-5", "1e-5"),
    *("--controller.horizon", "3", "--planner.candidates", "20", "--planner.elites", "4", "--planner.iterations", "1"),
]


def test_every_round_is_written_once_also_by_a_resumed_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert main(["train", *TINY, "--rounds", "1", "--tensorboard", "--out", str(folder)]) == 0
    assert main(["train", "--resume", str(folder), "--rounds", "2", "--tensorboard"]) == 0
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    rows = RunFolder.open(folder).metrics()
    for key, tag in (
        ("return", "return/6"),
        ("log_likelihood", "log likelihood, right latent/6"),
        ("log_likelihood_wrong_latent", "log likelihood, wrong latent/6"),
    ):
        wanted = [(row["round"], row[key]) for row in rows if row["context"] == 6.0 and row[key] is not None]
        assert [event.step for event in events.Scalars(tag)] == [m for m, _ in wanted]
        assert [event.value for event in events.Scalars(tag)] == pytest.approx([value for _, value in wanted])
    assert [event.step for event in events.Scalars("ELBO")] == [1, 2]
    last = [row["latent_sd"][1] for row in rows if row["context"] == 6.0 and row["round"] == 2]
    assert events.Scalars("latent 1, sd/6")[-1].value == pytest.approx(last[0])


def test_without_the_package_a_line_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    with pytest.raises(UserError):
        tensorboard.summary_writer()
    message = refused(["train", *TINY, "--tensorboard", "--out", str(tmp_path / "never")], capsys)
    assert "pip install tensorboard" in message
    assert not (tmp_path / "never").exists()


def test_what_cannot_be_written_is_reported_in_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its thread meets the limit, as it would a full disk, and would print a traceback of its own."""
    resource = pytest.importorskip("resource")
    row: dict[str, Any] = {"context": 1.0, "return": 1.0, "log_likelihood": None, "log_likelihood_wrong_latent": None}
    row |= {"latent_mean": [0.0], "latent_sd": [1.0]}
    board = tensorboard.TensorBoard(tmp_path, 0)

    def write() -> None:
        with closing(board):
            for m in range(100):
                board.round(m, [row], None)

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(UserError, match=r"cannot write to .*: File too large"):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert capfd.readouterr().err == ""
