"""A family that changes after a training: refused, warned of, or taken where nothing is wrong."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pyro_dynamics as pd
from pyro_dynamics.benchmarks.belief import trials
from pyro_dynamics.environments import find_family
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.rollouts.environment_record import FILE, EnvironmentRecord
from pyro_dynamics.runners.common.configuration import from_json
from pyro_dynamics.runners.common.sweep_jobs import Job, warn_of_changed
from pyro_dynamics.runners.main import main
from pyro_dynamics.sweeps.sweep_folder import SweepFolder

SMALL = (
    *("--rounds", "1", "--steps", "20", "--episodes", "1", "--offline.min-steps", "50"),
    *("--controller.horizon", "3", "--planner.candidates", "10", "--planner.elites", "3"),
)
ADAPT = ("--context", "3", "--steps", "2", "--quiet")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("changed")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parent)
        for name in ("trained", "is_shaken", "is_noisy"):
            assert main(["train", f"changed_mass:{name}", *SMALL, "--out", str(home / name)]) == 0
    return home


@pytest.fixture(autouse=True)
def _stand_beside_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    monkeypatch.chdir(tmp_path)


def become(home: Path, family: str, run: str = "trained") -> Path:
    """A run whose family is now another one."""
    shutil.copytree(home / run, "run")
    return name_family(family)


def name_family(family: str) -> Path:
    """Let the run be of another one."""
    config = json.loads(Path("run/config.json").read_text()) | {"family": f"changed_mass:{family}"}
    Path("run/config.json").write_text(json.dumps(config))
    return Path("run")


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("is_longer", "a state had 5 numbers in the training, and has 6"),
        ("WRONG", "a state had 5 numbers in the training, and has 6"),
        ("is_alone", "an action had 2 numbers in the training, and has 1"),
        ("has_swapped_names", "a state was x, y, speed along x, speed along y, gravity in the training, and is speed"),
        ("has_an_angle", "the angles in a state (entry, whole turn) were none, and are (0, 6.283)"),
        ("has_another_parameter", "the hidden parameters were drag in the training, and are friction"),
        ("has_other_features", "of the same first step its task made the features"),
    ],
)
def test_a_task_that_gives_the_network_other_numbers_is_refused(
    family: str, words: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    become(home, family)
    for command in (["adapt", "run", *ADAPT], ["train", "--resume", "run", "--rounds", "2"], ["diagnose", "run"]):
        assert main(command) == 2
        message = capsys.readouterr().err.strip()
        assert words in message
        assert "train in another folder" in message
        assert "\n" not in message


@pytest.mark.parametrize(
    ("family", "now"),
    [("has_fewer", "0.5 1 2"), ("has_one", "4"), ("has_more", "0.25 0.5 1 2 4 6"), ("is_reordered", "4 2 1 0.5 0.25")],
)
def test_other_contexts_are_named(family: str, now: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    become(home, family)
    words = f"was trained under drag (1/s) 0.25 0.5 1 2 4, and the family point-mass has {now} now"
    for command in (["adapt", "run", *ADAPT], ["train", "--resume", "run", "--rounds", "2"], ["diagnose", "run"]):
        assert main(command) == 2
        message = capsys.readouterr().err.strip()
        assert words in message
        assert "\n" not in message


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("is_heavy", "after the same reset and 1 of the same actions speed along"),
        ("is_swapped", "is 0, and was"),
        ("is_in_feet", "after the same reset"),
        ("is_on_mars", "after the same reset gravity is 3.71, and was 9.81"),
        ("starts_elsewhere", "after the same reset"),
        ("is_weaker", "the actions' bounds were 0, 0 to 5, 5 in the training, and are 1, 1 to 4, 4 now"),
        ("is_rescaled", "the actions' bounds were 0, 0 to 5, 5 in the training, and are -1, -1 to 1, 1 now"),
        ("is_noisy", "speed along"),
        ("has_other_names", "the names of a state's entries were x, y"),
        ("has_another_reward", "the task's reward is not the one of the training: a step to the state "),
        ("has_costly_actions", "the task's reward is not the one of the training"),
        ("ends_far_away", "ended no episode, and ends one now; what was acted was planned for that one"),
        ("has_another_unit", "the units of the hidden parameters were 1/s in the training, and are 1/min now"),
    ],
)
def test_an_environment_that_does_otherwise_is_warned_of(
    family: str, words: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    become(home, family)
    for command in (["adapt", "run", *ADAPT], ["train", "--resume", "run", "--rounds", "2"]):
        assert main(command) == 0
        warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
        assert any(words in line for line in warnings), warnings


def test_every_way_to_open_a_run_compares(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    become(home, "is_heavy")
    for command in (
        ["evaluate", "run", "--steps", "2"],
        ["track", "run", "--schedule", "0:1,2:3", "--steps", "4", "--seeds", "1", "--beliefs", "recursive"],
    ):
        assert main(command) == 0
        assert "the environment is not the one of the training" in capsys.readouterr().err
    with pytest.warns(UserWarning, match="the environment is not the one of the training") as found:
        pd.load("run")
    assert found[0].filename == __file__


def test_runs_of_an_edited_environment_are_not_compared_without_a_word(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    become(home, "trained", "is_noisy")
    shutil.copytree(home / "trained", "first")
    assert main(["compare", "first", "run"]) == 0
    message = capsys.readouterr().err
    assert "warning: run was trained in another environment than first: after the same reset and 1 of the" in message


@pytest.mark.parametrize("family", ["is_heavy", "starts_elsewhere", "is_in_feet", "again", "rounds_otherwise"])
def test_a_finished_job_of_a_sweep_in_an_edited_environment_is_named(
    family: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = become(home, family)
    record = EnvironmentRecord.load(run)
    assert record is not None
    config = from_json(RunFolder.open(run).config)
    now = EnvironmentRecord.of(find_family(config.family), config.steps)
    assert now is not None
    capsys.readouterr()
    warn_of_changed(Job("run", config), SweepFolder(Path(), "0"))
    said = capsys.readouterr().err
    edited = family not in ("again", "rounds_otherwise")
    assert ("warning: run: the environment is not the one of the training" in said) == edited
    assert bool(now.differs_from(record)) == edited


@pytest.mark.parametrize("changes", [["is_heavy"], ["is_heavy", "is_on_mars"], ["has_another_reward"]])
def test_a_track_in_a_changed_environment_is_measured_again(changes: list[str], home: Path) -> None:
    track = ["track", "run", "--schedule", "0:1,2:3", "--steps", "4", "--seeds", "1", "--updates", "kalman"]
    track += ["--beliefs", "recursive"]
    file = Path("run/track/0_1_2_3-steps=4-seeds=1-beliefs=recursive-updates=kalman/recursive-kalman.json")
    become(home, "trained")
    assert main(track) == 0
    before = [file.read_bytes()]
    for family in (*changes, "trained"):
        name_family(family)
        assert main(track) == 0
        assert file.read_bytes() != before[-1]
        before.append(file.read_bytes())
        assert main(track) == 0
        assert file.read_bytes() == before[-1]  # which is taken up while nothing changes
    without_times = [json.loads(found)["track"] | {"update_ms": 0} for found in (before[0], before[-1])]
    assert without_times[0] == without_times[1]


@pytest.mark.parametrize("family", ["is_heavy", "starts_elsewhere", "again"])
def test_streams_of_a_belief_benchmark_are_of_the_environment_that_is_there(
    family: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "INSIDE", 1)
    become(home, "trained")
    benchmark = ["benchmark", "belief", "--runs", "run", "--steps", "20", "--episodes", "1", "--acting", "random"]
    benchmark += ["--parts", "steady", "--methods", "recursive:kalman", "--folder", "kept", "--out", "rows.json"]
    assert main(benchmark) == 0
    before = set(Path("kept").rglob("*.npz"))
    assert before
    name_family(family)
    assert main(benchmark) == 0
    assert (set(Path("kept").rglob("*.npz")) == before) == (family == "again")


@pytest.mark.parametrize("family", ["again", "rounds_otherwise"])
def test_a_track_in_the_same_environment_is_taken_up(family: str, home: Path) -> None:
    become(home, "trained")
    track = ["track", "run", "--schedule", "0:1", "--steps", "4", "--seeds", "1", "--updates", "kalman", "--out", "out"]
    track += ["--beliefs", "recursive"]
    assert main(track) == 0
    stored = Path("out/recursive-kalman.json").stat().st_mtime_ns
    name_family(family)
    assert main(track) == 0
    assert Path("out/recursive-kalman.json").stat().st_mtime_ns == stored


@pytest.mark.parametrize(
    ("family", "run"),
    [
        ("trained", "trained"),
        ("again", "trained"),
        ("rounds_otherwise", "trained"),
        ("is_shaken", "is_shaken"),
        ("is_noisy", "is_noisy"),
        ("is_shaken", "trained"),  # which does not repeat itself, so that nothing is known
    ],
)
def test_nothing_is_said_where_nothing_is_wrong(
    family: str, run: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    become(home, family, run)
    assert main(["adapt", "run", *ADAPT]) == 0
    assert "warning" not in capsys.readouterr().err
    assert json.loads(Path("run", FILE).read_text())["repeats"] == (run != "is_shaken")


def test_the_same_training_again_says_that_its_reward_was_another(tmp_path: Path) -> None:
    import changed_mass

    settings: dict[str, Any] = {
        "rounds": 1,
        "steps": 10,
        "out": tmp_path / "run",
        "offline": {"min_steps": 20},
        "controller": {"horizon": 3},
        "planner_config": {"candidates": 10, "elites": 3},
    }
    pd.train(replace(changed_mass.trained(), name="edited"), **settings)
    with pytest.warns(UserWarning, match="the task's reward is not the one of the training"):
        pd.train(replace(changed_mass.has_another_reward(), name="edited"), **settings)


def test_a_resume_checks_the_task_too(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    become(home, "has_another_reward")
    assert main(["train", "--resume", "run", "--rounds", "2"]) == 0
    assert "warning: the task's reward is not the environment's own" in capsys.readouterr().err


def test_runs_of_older_versions_open_as_before(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    become(home, "is_heavy")
    Path("run", FILE).unlink()
    assert main(["adapt", "run", *ADAPT]) == 0
    assert main(["train", "--resume", "run", "--rounds", "2"]) == 0
    assert "warning" not in capsys.readouterr().err
    assert not Path("run", FILE).exists()  # what the environment was in the training is not known now


def test_a_record_without_the_task_is_taken_as_it_is(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = become(home, "has_another_reward")
    kept = json.loads((run / FILE).read_text())
    del kept["judged"]
    (run / FILE).write_text(json.dumps(kept))
    assert main(["adapt", "run", *ADAPT]) == 0
    assert "warning" not in capsys.readouterr().err


@pytest.mark.parametrize("change", [{"state": []}, {"contexts": [1.0]}, {"reward": "no"}, {"low": None}, {"judged": 3}])
def test_a_damaged_file_gets_one_line(change: Any, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = become(home, "trained")
    (run / FILE).write_text(json.dumps(json.loads((run / FILE).read_text()) | change))
    assert main(["adapt", "run", *ADAPT]) == 2
    message = capsys.readouterr().err.strip()
    assert f"{FILE} is damaged" in message
    assert "\n" not in message


def test_a_saved_agent_takes_what_its_run_was_trained_in_along(home: Path) -> None:
    become(home, "trained")
    pd.load("run").save("other")
    assert Path("other", FILE).read_bytes() == Path("run", FILE).read_bytes()


@pytest.mark.parametrize("name", ["pendulum-gravity", "halfcheetah-tilt", "hopper-mass", "cartpole-force-length"])
def test_our_own_families_repeat_themselves(name: str) -> None:
    family = pd.find_family(name)
    kept = EnvironmentRecord.of(family, 50)
    assert kept is not None
    assert kept.repeats
    assert kept.differences(family, 50) == []
