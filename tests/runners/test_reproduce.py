"""The reproduction of the paper's experiments, on the family that takes seconds."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import files_of

from pyro_dynamics.control import ICEMConfig
from pyro_dynamics.io.lock import lock_folder
from pyro_dynamics.reproduction.results import Measurement, Results
from pyro_dynamics.runners.common.configuration import preset_config
from pyro_dynamics.runners.common.protocols import PROTOCOLS, run_config
from pyro_dynamics.runners.main import main

pytestmark = pytest.mark.slow

QUICK = ["reproduce", "--preset", "quick", "--seeds", "1", "--baseline-seeds", "1"]


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reproduction") / "results"
    assert main([*QUICK, "--out", str(folder)]) == 0
    return folder


def test_scores_have_every_agent_split_and_checkpoint(undisturbed: Path) -> None:
    scores = lines(undisturbed / "scores.jsonl")
    found = {(row["agent"], row["split"], row["checkpoint"]) for row in scores}
    trained = ("latent", "generalist", "specialist", "oracle", "encoder")
    expected: set[tuple[str, str, int | None]] = {(agent, "train", None) for agent in (*trained, "random")}
    expected |= {("random", split, None) for split in ("test", "dynamic")}
    expected |= {("true-dynamics", split, None) for split in ("train", "test", "dynamic")}
    for checkpoint in (1, 2):
        expected |= {(agent, split, checkpoint) for agent in trained for split in ("test", "dynamic")}
        expected |= {("prior-only", split, checkpoint) for split in ("test", "dynamic")}
        expected |= {("shuffled", "test", checkpoint), ("oracle-reset", "dynamic", checkpoint)}
    assert found == expected
    assert {row["context"] for row in scores if row["split"] == "test"} == {1, 3, 5, 7, 9, 11}
    assert {row["context"] for row in scores if row["split"] == "dynamic"} == {"0:4,10:8"}
    assert {(row["preset"], row["family"]) for row in scores} == {("quick", "pendulum-gravity")}


def test_baselines_of_a_belief_do_what_they_say(undisturbed: Path) -> None:
    latents = lines(undisturbed / "latents.jsonl")
    tests = [row for row in latents if row["split"] == "test" and row["checkpoint"] == 2]
    ends = {row["agent"]: row for row in tests}
    priors = [(row["mean"], row["sd"]) for row in tests if row["agent"] == "prior-only"]
    assert all(prior == priors[0] for prior in priors)  # the learned one, whatever the environment
    assert max(ends["latent"]["sd"]) < max(ends["prior-only"]["sd"])
    assert {"generalist", "specialist", "oracle"}.isdisjoint(ends)
    returns = {
        agent: [row["return"] for row in lines(undisturbed / "scores.jsonl") if row["agent"] == agent]
        for agent in ("latent", "prior-only", "shuffled")
    }
    assert returns["latent"] != returns["prior-only"] != returns["shuffled"]


def test_the_report_has_its_figures(undisturbed: Path) -> None:
    page = (undisturbed / "report.md").read_text()
    for name in ("learning-normalised", "learning-by-environment", "test", "dynamic", "latents-map"):
        assert f"figures/{name}.png" in page
        assert (undisturbed / "figures" / f"{name}.png").stat().st_size > 10_000
    assert "inconclusive" in page  # of one seed all are


def test_again_nothing_is_done_again(undisturbed: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in undisturbed.glob("[mr]*/**/*.*")}
    assert main([*QUICK, "--step-limit", "60", "--out", str(undisturbed)]) == 0  # no setting of the results
    assert before == {file: file.stat().st_mtime_ns for file in undisturbed.glob("[mr]*/**/*.*")}


def test_what_was_measured_needs_no_runs(undisturbed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "moved"
    shutil.copytree(undisturbed, folder, ignore=shutil.ignore_patterns("runs", "scores.jsonl", "latents.jsonl"))
    lost = folder / "measurements" / "pendulum-gravity" / "specialist-0-test-round-002.json"
    lost.unlink()
    assert main([*QUICK, "--out", str(folder)]) == 0
    for name in ("scores.jsonl", "latents.jsonl"):
        assert (folder / name).read_text() == (undisturbed / name).read_text()
    assert [path.name for path in (folder / "runs" / "pendulum-gravity").iterdir()] == ["specialist-0"]


def test_ten_kills_leave_the_same_files(undisturbed: Path, tmp_path: Path) -> None:
    arguments = [*QUICK, "--out", str(tmp_path / "results")]
    program = Path(__file__).parents[1] / "killed.py"
    done = subprocess.run(
        [sys.executable, str(program), "10", "0", "2.5", *arguments], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == 10
    left = {name: content for name, content in files_of(tmp_path / "results").items() if not name.endswith(".part")}
    assert left == files_of(undisturbed)


def test_stopped_by_its_budget_and_moved_it_resumes_to_the_same_files(undisturbed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "0"
    names = ("latent", "generalist", "specialist")

    def runs() -> list[Path]:
        return [folder / "runs" / "pendulum-gravity" / f"{agent}-0" for agent in names]

    while not all((run / "training.png").is_file() for run in runs()):
        assert main([*QUICK, "--figures", "learning", "--time-budget", "1", "--out", str(folder)]) == 0
        folder = folder.rename(tmp_path / str(int(folder.name) + 1))
    assert int(folder.name) > 1
    for run in runs():
        assert files_of(run) == files_of(undisturbed / run.relative_to(folder))


def test_a_run_that_another_process_has_is_left_to_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs" / "pendulum-gravity"
    with lock_folder(runs / "latent-0"):
        assert main([*QUICK, "--figures", "learning", "--out", str(tmp_path)]) == 0
    assert "another process has it" in capsys.readouterr().out
    assert not (runs / "latent-0" / "config.json").exists()
    assert (runs / "generalist-0" / "training.png").is_file()


def test_mistakes_get_one_line(undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--preset", "cpu", "--report-only", "--out", str(undisturbed)]) == 2
    assert "holds a reproduction with other settings (preset, family, rounds" in capsys.readouterr().err
    assert main([*QUICK, "--figures", "nothing", "--out", str(tmp_path)]) == 2
    assert "there is no figure 'nothing': choose from learning, tests" in capsys.readouterr().err
    (tmp_path / "mine.txt").write_text("mine")
    assert main([*QUICK, "--out", str(tmp_path)]) == 2
    assert "holds something else already" in capsys.readouterr().err


def test_a_damaged_measurement_is_named(undisturbed: Path, tmp_path: Path) -> None:
    results = Results(tmp_path, "quick", {})
    one = Measurement("pendulum-gravity", "latent", 0, "test", 1)
    results.save(one, [], [])
    (tmp_path / "measurements" / one.name).write_text("{")
    with pytest.raises(Exception, match="delete it, and it is made again"):
        results.gather([], [one])


def test_the_cpu_scale_is_the_preset_realtime_for_20_rounds() -> None:
    config = run_config("cpu", "halfcheetah-tilt", "latent", 3)
    realtime = preset_config("halfcheetah-tilt", "realtime")
    assert (config.rounds, config.steps, config.seed, config.keep_checkpoints) == (20, 200, 3, (4, 10, 20))
    assert (config.ensemble, config.controller, config.online) == (
        realtime.ensemble,
        realtime.controller,
        realtime.online,
    )
    assert config.planner_config == ICEMConfig(candidates=28, elites=6, beta=0.0)  # of the recorded results


def test_the_paper_scale_is_the_papers_protocol() -> None:
    protocol = PROTOCOLS["paper"]
    assert (protocol.checkpoints, protocol.rounds, protocol.random_episodes) == ((15, 40, 80), 80, 50)
    assert protocol.dynamic()[0] == "0:-6,500:6"
    assert protocol.dynamic_episodes == 5
    assert run_config("paper", "halfcheetah-tilt", "specialist", 0).keep_checkpoints == (15, 40, 80)
    assert run_config("paper", "halfcheetah-tilt-6", "latent", 0).rounds == 100
