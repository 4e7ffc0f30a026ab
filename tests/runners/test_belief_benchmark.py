"""`benchmark belief` on small runs: its rows and table, what it takes up again, and what it refuses."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from pyro_dynamics.benchmarks.belief import trials
from pyro_dynamics.benchmarks.belief.following import follow
from pyro_dynamics.benchmarks.belief.streams import act
from pyro_dynamics.benchmarks.belief.trials import Trial
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.environments import Schedule
from pyro_dynamics.runners.benchmarks import belief_run
from pyro_dynamics.runners.common.factory import group_for, load_run
from pyro_dynamics.runners.main import main

TINY = [
    *("--rounds", "1", "--steps", "20", "--episodes", "1", "--offline.min-steps", "20", "--offline.epochs", "1"),
    *("--ensemble.hidden", "8", "--ensemble.weight-decay", "0", "0", "--controller.horizon", "3"),
    *(
        "--controller.particles",
        "15",
        "--planner.candidates",
        "6",
        "--planner.elites",
        "2",
        "--planner.iterations",
        "1",
    ),
]
SHORT = ["--steps", "20", "--episodes", "1"]
OWN, FURTHER = "recursive:kalman", "power:svi:steps=2"


@pytest.fixture(autouse=True)
def few_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "INSIDE", 3)


def train(folder: Path, *flags: str) -> Path:
    assert main(["train", *flags, *TINY, "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("runs")
    return [train(place / f"run-{seed}", "--belief", "recursive", "--seed", str(seed)) for seed in (0, 1)]


def measured(runs: list[Path], out: Path, *flags: str) -> list[dict[str, Any]]:
    assert main(["benchmark", "belief", "--runs", *map(str, runs), *SHORT, *flags, "--out", str(out)]) == 0
    rows: list[dict[str, Any]] = json.loads(out.read_text())["rows"]
    return rows


def test_every_figure_of_every_run_and_method(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["--folder", str(tmp_path / "kept"), "--methods", OWN]
    rows = measured(runs, tmp_path / "rows.json", *flags)
    first = capsys.readouterr().out
    assert [(row["run"], row["method"]) for row in rows] == [
        (run.name, method) for run in runs for method in (OWN, "oracle-reset", None)
    ]
    own, reset, network = rows[:3]
    parts = {"steady", "change", "recall", "return", "update_ms"}
    assert set(own) == {"setup", "family", "run", "seed", "method", "reference"} | parts
    assert len(own["steady"]["inside"]["coverage"]) == len(own["steady"]["log_predictive"]) == 6
    assert len(own["steady"]["outside"]["coverage"]) == 4
    assert len(own["steady"]["z2_latent"]) == len(own["steady"]["z2_decoded"]) == 3
    assert len(own["change"]["steps"]) == len(own["return"]["change"]) == len(own["return"]["stay"]) == 2
    assert "steady" not in reset
    assert own["change"]["end_error"] != reset["change"]["end_error"]
    assert own["return"]["stay"] == reset["return"]["stay"]  # where nothing changes a recursive belief is its reset
    assert len(network["network"]["mixture"]) == 2
    assert [len(one) for one in network["network"]["dispersion"]] == [2] * 5
    for line in ("decoded truth in the 90 % interval", "return less oracle reset's", "second visit / first", "sd of"):
        assert line in first
    assert "| pendulum-gravity, 2 runs | aim | recursive:kalman | oracle-reset |" in first

    def not_again(*_: Any, **__: Any) -> None:
        raise AssertionError("it was measured before")

    with monkeypatch.context() as patch:
        patch.setattr(belief_run, "act", not_again)
        patch.setattr(belief_run, "follow", not_again)
        assert measured(runs, tmp_path / "again.json", *flags) == rows
    with monkeypatch.context() as patch:  # a further method follows the streams that are there
        patch.setattr(belief_run, "act", not_again)
        more = measured(runs, tmp_path / "more.json", *flags, FURTHER, "--parts", "steady", "change")
    reference = "power:kalman:temperature=0.5,belief_per=member,prior=learned"
    assert [row["method"] for row in more[:4]] == [OWN, FURTHER, reference, "oracle-reset"]
    assert more[0]["steady"] == own["steady"]
    assert more[1]["reference"] == reference
    capsys.readouterr()
    assert main(["benchmark", "belief", "--report", str(tmp_path / "rows.json")]) == 0
    assert first.endswith(capsys.readouterr().out)


def test_beliefs_that_follow_a_stream_end_where_those_of_the_one_who_acted_did(runs: list[Path]) -> None:
    family, trained = load_run(runs[0])[2:]
    probe = ContextProbe(trained.beliefs()[0].numpy(), family.train)
    trial = Trial("change", (Schedule(((0, 9.0), (10, 3.0))), Schedule.constant(3.0)), ("change", "stay"), 20)
    ends = []
    for reset in (False, True):
        acting, following = (group_for(trained, family, trial.starts) for _ in range(2))
        made = act(acting, family, trial, seed=0, reset=reset)
        found = follow(following, made, probe, trial.schedules, reset=reset)
        for one, other in zip(acting.beliefs(), following.beliefs(), strict=True):
            assert torch.allclose(one, other, rtol=1e-4, atol=1e-6)
        mean = probe.predict(following.beliefs()[0].numpy())
        assert ((found.low[-1, :, 0] < mean) & (mean < found.high[-1, :, 0])).all()
        ends.append(following.beliefs()[0])
    assert not torch.allclose(ends[0], ends[1])


def test_random_streams_need_no_plan_and_have_no_returns(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_planned(*_: Any) -> None:
        raise AssertionError("nothing is planned")

    monkeypatch.setattr("pyro_dynamics.agent.Agent.act", not_planned)
    rows = measured(runs[:1], tmp_path / "rows.json", "--acting", "random", "--parts", "steady", "recall", "return")
    assert (runs[0] / "belief-benchmark").is_dir()
    assert [sorted(set(row) & {"steady", "change", "recall", "return"}) for row in rows] == [
        ["recall", "steady"],
        ["recall"],
    ]
    before = sorted((runs[0] / "belief-benchmark").iterdir())
    again = measured(runs[:1], tmp_path / "again.json", "--acting", "random", "--parts", "recall", "--again")
    assert again[0]["recall"] == rows[0]["recall"]  # nothing but the seed decides it
    assert sorted((runs[0] / "belief-benchmark").iterdir()) == before


def test_several_parameters_are_judged_each_by_itself(tmp_path: Path) -> None:
    run = train(tmp_path / "run", "cartpole-force-length", "--belief", "recursive")
    (row, _) = measured([run], tmp_path / "rows.json", "--acting", "random", "--parts", "steady", "change")
    assert all(0 <= share <= 1 for share in row["steady"]["inside"]["coverage"])
    assert len(row["steady"]["z2_decoded"]) == 3
    assert all(value >= 0 for value in row["change"]["end_error"])


def test_runs_that_differ_in_more_than_their_seed_have_tables_of_their_own(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(runs[0], other := tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    config["offline"]["epochs"] = 7
    (other / "config.json").write_text(json.dumps(config))
    kept = ["--folder", str(tmp_path / "kept")]
    rows = measured([*runs, other], tmp_path / "rows.json", *kept, "--parts", "network")
    assert [row["setup"].removeprefix("pendulum-gravity, ") for row in rows] == [
        *["offline.epochs 1"] * 2,
        "offline.epochs 7",
    ]
    text = capsys.readouterr().out
    assert "| pendulum-gravity, offline.epochs 1, 2 runs |" in text
    assert "| pendulum-gravity, offline.epochs 7, 1 run |" in text


def test_mistakes_get_one_line(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(runs[0], same := tmp_path / "run-0")
    names = train(tmp_path / "names", "halfcheetah-crippled")
    general = train(tmp_path / "general", "--agent", "generalist")
    cases = {
        "give folders of trained runs": [],
        "2 runs are called 'run-0'": ["--runs", str(runs[0]), str(same)],
        "with numeric parameters": ["--runs", str(names)],
        "an agent that infers a latent": ["--runs", str(general)],
        "--steps must be at least 20": ["--runs", str(runs[0]), "--steps", "19"],
        "episodes must be positive": ["--runs", str(runs[0]), "--episodes", "0"],
        "does not read BELIEF:UPDATE": ["--runs", str(runs[0]), "--methods", "kalman"],
    }
    capsys.readouterr()
    for words, flags in cases.items():
        assert main(["benchmark", "belief", *flags]) == 2
        last = capsys.readouterr().err.strip().splitlines()[-1]
        assert last.startswith("pyro-dynamics: error: ")
        assert words in last
    assert load_run(runs[0])[0].path == runs[0]  # nothing was changed
