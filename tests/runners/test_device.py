"""--device: what there is without a GPU, and the whole path with the processor in a GPU's place."""

import json
from pathlib import Path

import pytest
import torch

from pyro_dynamics.runners.common import factory
from pyro_dynamics.runners.common.factory import load_run
from pyro_dynamics.runners.main import main

pytestmark = pytest.mark.slow

TINY = [
    *("pendulum-gravity", "--rounds", "2", "--steps", "8", "--episodes", "1", "--ensemble.hidden", "8"),
    *("--ensemble.weight-decay", "0", "0", "--offline.min-steps", "5", "--offline.epochs", "1"),
    *("--controller.horizon", "3", "--controller.particles", "3", "--offline.compiled"),
]
ON_GPU = ["--device", "cuda"]
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


@pytest.fixture
def in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factory, "accelerator", lambda device: torch.device("cpu") if device == "cuda" else None)
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")


@without_gpu
def test_without_a_gpu_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["train", *TINY, "--out", str(tmp_path / "run")], ["benchmark"]):
        assert main([*command, *ON_GPU]) != 0
        message = capsys.readouterr().err
        assert "torch finds no CUDA device here" in message
        assert "choose --device cpu" in message
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@without_gpu
def test_a_run_of_a_gpu_is_read_without_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *TINY, "--out", str(tmp_path)]) == 0
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["device"] == "cpu"
    (tmp_path / "config.json").write_text(json.dumps(config | {"device": "cuda"}))
    assert load_run(tmp_path)[1].device == "cpu"
    assert main(["adapt", str(tmp_path), "--context", "5", "--steps", "2", *ON_GPU]) != 0
    assert "torch finds no CUDA device here" in capsys.readouterr().err


@pytest.mark.usefixtures("in_its_place")
@pytest.mark.parametrize("planner", ["cem", "icem", "mppi"])
def test_training_and_adaptation_by_copies_repeat_themselves(
    planner: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = []
    for name in ("one", "two"):
        out = ["--out", str(tmp_path / name)]
        assert main(["train", *TINY, "--planner", planner, *ON_GPU, *out]) == 0
        assert "planning in bfloat16" in capsys.readouterr().out
        metrics.append((tmp_path / name / "metrics.jsonl").read_text())
    assert metrics[0] == metrics[1]
    follow = ["--context", "5", "--steps", "4", "--update", "svi", "--update.compiled", "--update.steps", "3"]
    assert main(["adapt", str(tmp_path / "one"), *follow, *ON_GPU, "--out", str(tmp_path / "followed")]) == 0
    summary = json.loads((tmp_path / "followed" / "summary.json").read_text())
    assert summary["steps"] == 4
