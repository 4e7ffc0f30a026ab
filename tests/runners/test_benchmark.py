"""The benchmark: its rows, its errors, and that it times the work that it names."""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from pyro_dynamics.benchmarks import timing as benchmark
from pyro_dynamics.benchmarks.timing import Cost, Work, measure
from pyro_dynamics.control import CEMConfig, ICEMConfig, MPCConfig
from pyro_dynamics.inference import SVIUpdateConfig
from pyro_dynamics.models import EnsembleConfig
from pyro_dynamics.runners.benchmarks import speed as runner
from pyro_dynamics.runners.common.configuration import OnlineConfig, RunConfig, preset_config
from pyro_dynamics.runners.main import main

TINY: dict[str, Any] = {
    "ensemble": EnsembleConfig(5, (8,), (0.0, 0.0)),
    "controller": MPCConfig(3, 5),
    "planner": "cem",
    "planner_config": CEMConfig(10, 2, iterations=2),
    "online": OnlineConfig(update_config=SVIUpdateConfig(steps=2)),
}
KEYS = {"work", "preset", "device", "precision", "threads", "environments", "cpu_s", "wall_s", "peer_cpu_s"}


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    def configuration(flags: Any, preset: Any) -> RunConfig:
        config = replace(preset_config(runner.FAMILY, preset), **TINY)
        return replace(config, offline=replace(config.offline, epochs=1, min_steps=1, batch_size=500))

    monkeypatch.setattr(runner, "configuration", configuration)
    monkeypatch.setattr(benchmark, "TRANSITIONS", 1000)


def test_rows_for_every_work_and_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "--calls", "1", "--out", str(tmp_path / "rows.json")]) == 0
    stored = json.loads((tmp_path / "rows.json").read_text())
    rows = stored["rows"]
    assert stored["benchmark"] == "speed"
    assert stored["provenance"]["threads"] == 1
    assert {(row["work"], row["preset"]) for row in rows} == {
        (work, preset) for work in ("plan", "update", "control_step", "train_epoch") for preset in ("paper", "realtime")
    }
    for row in rows:
        assert set(row) == KEYS
        assert 0 < row["cpu_s"] < 30
        assert row["peer_cpu_s"] is None
    text = capsys.readouterr().out
    assert "| plan | paper |" in text
    assert "Rank correlation of returns with those in float64: float32 1.0" in text


def test_the_peer_is_timed_in_turn_where_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    peer = tmp_path / "peer.py"
    peer.write_text('import json\nprint(json.dumps({"plan": 8.0, "train_epoch": 0.5}))\n')
    monkeypatch.setattr(runner.peer_mbrl_lib, "__file__", str(peer))
    assert main(["benchmark", "speed", "--calls", "1", "--peer", sys.executable, "--out", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "speed.json").read_text())["rows"]
    assert {(row["work"], row["preset"]): row["peer_cpu_s"] for row in rows if row["peer_cpu_s"]} == {
        ("plan", "paper"): 8.0,
        ("train_epoch", "paper"): 0.5,
    }
    assert "| 8000 |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--calls", "0"], "calls must be positive"),
        (["--report", "nowhere/rows.json"], "there is no file nowhere/rows.json"),
        (["planner"], "there is no benchmark 'planner'"),
        (["planners"], "give the folder of a trained run"),
        (["tracking"], "give --report FILE"),
        (["--peer", "nowhere/python"], "--peer must name the Python"),
        (["--peer", sys.executable], "mbrl-lib does not run under"),
    ],
    ids=["no calls", "no rows", "no benchmark", "no run", "recorded by track", "no python", "no mbrl-lib"],
)
def test_mistakes_get_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", *arguments]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("pyro-dynamics: error: ")
    assert words in last


def test_the_scaling_is_measured_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "SCALES", {"candidates": (10, 20), "environments": (1, 2)})
    figure, rows = tmp_path / "scaling.png", tmp_path / "scaling.json"
    assert main(["benchmark", "scaling", "--calls", "1", "--out", str(rows), "--figure", str(figure)]) == 0
    assert Image.open(figure).size[0] > 500
    again = tmp_path / "again.png"
    assert main(["benchmark", "scaling", "--report", str(rows), "--figure", str(again)]) == 0
    assert again.read_bytes() == figure.read_bytes()


def test_the_first_call_does_not_count() -> None:
    waits = iter([0.2, 0.01, 0.02, 0.03])
    cost = measure(lambda: time.sleep(next(waits)), 3)
    assert 0.02 <= cost.wall < 0.1
    assert cost.cpu < 0.02


def test_the_work_is_what_it_says() -> None:
    config = replace(preset_config(runner.FAMILY, "cpu"), **TINY)
    agent = runner.build_from(config, environments=2)
    assert benchmark.network_evaluations(agent) == 10 * 2 * 5 * 3
    calls, likelihood = 0, agent.model.likelihood

    def counted(inputs: torch.Tensor, latent: torch.Tensor) -> Any:
        nonlocal calls
        calls += len(inputs.flatten(0, -2))
        return likelihood(inputs, latent)

    agent.controller.sampler.dynamics = counted
    Work(agent).plan()
    assert calls == 2 * benchmark.network_evaluations(agent)  # two environments
    before = agent.posterior().mean
    Work(agent).update()
    assert not torch.equal(agent.posterior().mean, before)
    icem = runner.build_from(replace(config, planner="icem", planner_config=ICEMConfig(28, 6)), environments=1)
    assert benchmark.network_evaluations(icem) == 73 * 5 * 3


def test_rank_correlation_leaves_the_agent_as_it_was() -> None:
    agent = runner.build_from(replace(preset_config(runner.FAMILY, "cpu"), **TINY), environments=1)
    before = {name: value.clone() for name, value in agent.model.state_dict().items()}
    likelihood: Any = agent.model.likelihood
    chosen = likelihood.planning_dtype
    assert benchmark.rank_correlation(agent, torch.bfloat16) > 0.99
    assert benchmark.rank_correlation(agent, torch.float32) > 0.999
    assert all(torch.equal(value, before[name]) for name, value in agent.model.state_dict().items())
    assert likelihood.planning_dtype == chosen


def test_the_share_of_the_processors_rate_is_a_share() -> None:
    agent = runner.build_from(replace(preset_config(runner.FAMILY, "cpu"), **TINY), environments=1)
    work = Work(agent)
    assert 0 < benchmark.share_of_matrix_products(agent, measure(work.plan, 2)) < 1
    assert benchmark.share_of_matrix_products(agent, Cost(1.0, 1.0)) < 1e-3
