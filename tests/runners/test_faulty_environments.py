"""Bad data: an environment that fails is named and dropped, and the run continues with the others."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import faulty_mass
import numpy as np
import pytest

from pyro_dynamics.environments import find_family
from pyro_dynamics.environments.checked_env import checked_envs, limit_steps
from pyro_dynamics.errors import EnvironmentFault, UserError
from pyro_dynamics.io.tables import decimal
from pyro_dynamics.rollouts.rollout import rollout
from pyro_dynamics.runners.common.protocols import PROTOCOLS
from pyro_dynamics.runners.common.sweep_jobs import is_finished, work
from pyro_dynamics.runners.main import main
from pyro_dynamics.runners.sweep import make_jobs, parse
from pyro_dynamics.sweeps.sweep_folder import SweepFolder
from pyro_dynamics.transitions import Transitions

SMALL = (
    *("--rounds", "1", "--steps", "12", "--episodes", "1", "--offline.min-steps", "5", "--offline.epochs", "1"),
    *("--controller.horizon", "2", "--controller.particles", "3", "--planner.candidates", "6", "--planner.elites", "2"),
    *("--ensemble.hidden", "8", "--ensemble.weight-decay", "0", "0", "--update", "kalman", "--belief", "recursive"),
)


@pytest.fixture(autouse=True)
def _stand_beside_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    monkeypatch.chdir(tmp_path)


def rows_of(run: str) -> list[dict]:
    return [json.loads(line) for line in Path(run, "metrics.jsonl").read_text().splitlines()]


def train(name: str, *more: str) -> int:
    limit = ["--step-limit", "0.3"] if name.endswith("hangs") else []
    return main(["train", f"faulty_mass:{name.replace('-', '8')}", *SMALL, *limit, "--out", "run", *more])


@pytest.mark.parametrize("fault", faulty_mass.FAULTS)
def test_the_run_names_it_and_continues_with_the_others(fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(fault) == 0
    printed = capsys.readouterr().err
    steps = 0 if "reset" in fault else 5
    line = f"environment 1 (drag (1/s) = 2.0), step {steps}: {faulty_mass.FAULTS[fault]}"
    assert printed.count(line) == 3  # in the check beforehand, and in both rounds
    assert printed.count("of the\nsimulator") == (fault == "raises")  # with the traceback, once
    for row in rows_of("run"):
        assert row["steps"] == (steps if row["environment"] == 1 else 12)
        assert ("faults" in row) == (row["environment"] == 1)
        assert np.isfinite([row["return"], row["log_likelihood"] or 0.0]).all()
    for m in (0, 1):
        data = Transitions.load(Path("run", "transitions", f"round-00{m}.npz"))
        data.require_finite("here")
        assert float(data.next_state.abs().max()) < 100


@pytest.mark.parametrize("fault", ["raises", "four", "nan", "old-reset"])
def test_where_all_break_at_once_nothing_is_started(fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(f"all_{fault}") == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("pyro-dynamics: error: environment 0 (drag (1/s) = 1.0), step")
    assert faulty_mass.FAULTS[fault] in last
    assert not Path("run").exists()


def test_where_all_break_later_the_steps_before_are_kept_and_the_run_resumes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert train("later_raises", "--steps", "120") == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert "every environment broke in round 0, the first so: environment 0" in last
    assert [row["steps"] for row in rows_of("run")] == [110] * 3
    assert main(["train", "--resume", "run"]) == 2  # it resumes with the next round, and keeps that too
    assert "in round 1" in capsys.readouterr().err
    assert [row["steps"] for row in rows_of("run")] == [110] * 6


def test_empty_episodes_and_infos_of_any_shape_are_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert train("empty") == 0
    assert [row["steps"] for row in rows_of("run")] == [12, 1, 12] * 2
    assert main(["train", "faulty_mass:all_infos", *SMALL, "--out", "other"]) == 0
    assert [row["steps"] for row in rows_of("other")] == [12] * 6
    assert "step 5" not in capsys.readouterr().err


def test_specialists_learn_without_the_one_that_never_moved(capsys: pytest.CaptureFixture[str]) -> None:
    assert train("reset-raises", "--agent", "specialist") == 0
    assert [row["steps"] for row in rows_of("run")] == [12, 0, 12] * 2


def test_adapt_keeps_what_was_before(capsys: pytest.CaptureFixture[str]) -> None:
    assert train("raises") == 0
    capsys.readouterr()
    assert main(["adapt", "run", "--context", "2", "--steps", "9", "--quiet", "--out", "here"]) == 2
    printed = capsys.readouterr().err
    assert "cut short after 5 steps, whose results were kept: environment 0 (drag (1/s) = 2.0), step 5" in printed
    assert "ZeroDivisionError" in printed.split("pyro-dynamics: error")[0]  # with the traceback of their code
    assert len(Path("here/steps.jsonl").read_text().splitlines()) == 5
    assert len(json.loads(Path("here/summary.json").read_text())["faults"]) == 1


@pytest.mark.parametrize("fault", ["raises", "nan", "reward-nan", "no-end"])
def test_an_evaluation_says_what_was_cut_short_and_takes_no_mean_over_it(
    fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(fault) == 0
    capsys.readouterr()
    assert main(["evaluate", "run", "--steps", "9", "--episodes", "2"]) == 2
    printed = capsys.readouterr()
    assert "error: 2 of 4 episodes were cut short and are in no mean, the first so: environment 0" in printed.err
    lines = {line[:10].strip(): line.split() for line in printed.out.splitlines()}
    broken, well = json.loads(Path("run/evaluation-episodes=2-steps=9.json").read_text())["contexts"]
    assert lines["2"][1:3] == ["cut", "short"]
    mean = sum(run["return"] for run in well["episodes"]) / 2
    assert lines["mean (test"][2:] == [decimal(mean), "without", "1", "cut", "short"]
    assert [len(run["faults"]) for run in broken["episodes"]] == [1, 1]
    assert not any("faults" in run for run in well["episodes"])
    assert main(["compare", "run"]) == 0
    assert "warning: run: 2 episodes were cut short" in capsys.readouterr().err


def test_a_benchmark_takes_no_evaluation_that_was_cut_short(capsys: pytest.CaptureFixture[str]) -> None:
    assert train("raises") == 0
    how = ["benchmark", "returns", "--runs", "run", "--against", "run", "--on", "tests", "--episodes", "1"]
    for _ in range(2):  # also where it was made before
        assert main(how) == 2
        assert "1 of 2 episodes were cut short" in capsys.readouterr().err


def test_episodes_that_end_at_once_are_evaluated() -> None:
    assert train("empty") == 0
    assert main(["evaluate", "run", "--steps", "9"]) == 0


def test_without_a_callback_the_fault_is_raised_with_its_cause() -> None:
    envs = faulty_mass.family("raises").make_vector([1.0, 2.0], 12)
    policy = lambda state: state[:, :2] * 0 + 2.5  # noqa: E731
    with pytest.raises(EnvironmentFault, match="step 5: step\\(\\) raised") as error:
        list(rollout(envs, policy, [0, 1]))
    assert isinstance(error.value.__cause__, ZeroDivisionError)


def test_a_track_ends_where_a_step_hangs(capsys: pytest.CaptureFixture[str]) -> None:
    assert train("hangs") == 0
    beliefs = ["--beliefs", "recursive", "--updates", "kalman", "--seeds", "1"]
    how = ["--schedule", "0:1,6:2", "--steps", "10", *beliefs, "--step-limit", "0.3"]
    assert main(["track", "run", *how]) == 2
    assert "step() took longer than 0.3 s" in capsys.readouterr().err.splitlines()[-1]


def test_a_job_of_a_sweep_continues_where_a_step_hangs() -> None:
    own = ["faulty_mass:hangs", "--step-limit", "0.3"]
    (job,) = make_jobs(parse(own), SMALL)
    (without,) = make_jobs(parse(own[:1]), SMALL)
    assert (job.step_limit, job.config) == (0.3, without.config)
    with SweepFolder.claimed(Path("sweep")) as folder:
        assert work(folder, job) == ""
        assert is_finished(without, folder)  # the limit is no setting of the run
    rows = rows_of(f"sweep/{job.name}")
    assert [row["steps"] for row in rows] == [12, 5, 12] * 2


def test_a_reproduction_ends_where_a_step_hangs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PROTOCOLS, "quick", replace(PROTOCOLS["quick"], family="faulty_mass:hangs", influence=()))
    command = ["reproduce", "--preset", "quick", "--seeds", "1", "--baseline-seeds", "1", "--out", "results"]
    assert main([*command, "--step-limit", "0.3"]) == 2
    assert "step() took longer than 0.3 s" in capsys.readouterr().err.splitlines()[-1]


def test_a_step_limit_must_make_sense() -> None:
    envs = faulty_mass.family("hangs").make_vector([1.0], 12)
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(UserError, match="--step-limit"):
            limit_steps(envs, seconds)
    limit_steps(envs, None)
    assert [guard.limit for guard in checked_envs(envs)] == [None]


def test_a_time_limit_needs_the_main_thread() -> None:
    envs = find_family("pendulum-gravity").make_vector((5.0,), 5)
    with ThreadPoolExecutor() as pool, pytest.raises(UserError, match="--step-limit needs the alarm of a Unix system"):
        pool.submit(limit_steps, envs, 1.0).result()
