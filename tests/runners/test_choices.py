"""Every guide, belief, update and planner as a person names them on the command line."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyro_dynamics.control import ICEM, PLANNERS, CEMConfig, MPPIConfig
from pyro_dynamics.environments import Schedule
from pyro_dynamics.guides import GUIDES
from pyro_dynamics.inference import BELIEFS, SVIUpdateConfig
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.registry import Registry
from pyro_dynamics.runners.common.configuration import (
    CHOICES,
    from_json,
    online_defaults,
    preset_config,
    to_json,
)
from pyro_dynamics.runners.common.factory import load_run
from pyro_dynamics.runners.main import main
from pyro_dynamics.runners.track import TrackFlags, name_of

TINY = [
    *("--rounds", "1", "--steps", "12", "--episodes", "1", "--offline.min-steps", "20"),
    *("--ensemble.hidden", "16", "--ensemble.weight-decay", "1e-5", "1e-5", "--offline.epochs", "2"),
    *("--controller.horizon", "4", "--planner.candidates", "12", "--planner.elites", "4"),
    *("--update", "svi", "--update.steps", "3"),
]


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(arguments) == 2
    return capsys.readouterr().err.strip()


@pytest.mark.parametrize(("flag", "registry"), CHOICES.items())
def test_the_help_lists_what_is_registered(
    flag: str, registry: Registry[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    unwrapped = re.sub(r"[\s│]", "", capsys.readouterr().out)
    assert f"--{flag}{registry.choices}" in unwrapped
    assert set(registry) <= set(re.split(r"[{,}]", registry.choices))


@pytest.mark.parametrize("flag", CHOICES)
def test_a_name_that_is_not_there_is_refused_with_the_names_that_are(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refused(["train", f"--{flag}", "hope"], capsys)
    assert f"unknown {flag} 'hope': choose one of {', '.join(CHOICES[flag])}, or give your own" in error
    assert len(error.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES)
def test_every_guide_trains_adapts_and_is_evaluated(
    guide: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["train", *TINY, "--guide", guide, "--out", str(run)]) == 0
    assert json.loads((run / "config.json").read_text())["guide"] == guide
    adapt = ["adapt", str(run), "--context", "5", "--steps", "4", "--quiet"]
    evaluate = ["evaluate", str(run), "--steps", "4"]
    if not GUIDES[guide].has_density:
        assert "no density" in refused(adapt, capsys)
        assert "no density" in refused(evaluate, capsys)
        return
    assert main(adapt) == 0
    rows = [json.loads(line) for line in next((run / "adapt").iterdir()).joinpath("steps.jsonl").open()]
    assert np.isfinite([row["mean"] + row["sd"] for row in rows]).all()
    assert rows[-1]["mean"] != rows[0]["mean"]
    assert main(evaluate) == 0


@pytest.mark.parametrize("planner", PLANNERS)
def test_every_planner_trains_and_resumes(planner: str, tmp_path: Path) -> None:
    run, flags = tmp_path / "run", [*TINY, "--planner", planner, "--planner.iterations", "2"]
    if planner == "mppi":  # it has no elites
        flags = [word for i, word in enumerate(flags) if "--planner.elites" not in flags[max(i - 1, 0) : i + 1]]
    assert main(["train", *flags, "--out", str(run)]) == 0
    config = from_json(RunFolder.open(run).config)
    assert type(config.make_planner()) is PLANNERS[planner]
    assert config.make_planner().config == config.planner_config
    assert main(["train", "--resume", str(run), "--rounds", "2"]) == 0
    assert main(["evaluate", str(run), "--steps", "4"]) == 0


def test_runs_from_before_there_was_a_choice_of_planners_still_load() -> None:
    data = to_json(preset_config("halfcheetah-tilt", "paper"))
    assert data.pop("planner") == "cem"
    data["controller"] = {**data["controller"], "cem": {**data.pop("planner_config"), "candidates": 70}}
    before = json.dumps(data)
    config = from_json(data)
    assert config.planner_config == CEMConfig(candidates=70)
    assert (config.controller.horizon, config.controller.particles) == (30, 20)
    assert json.dumps(data) == before
    assert from_json(to_json(config)) == config
    stored = json.loads((Path(__file__).parents[2] / "docs/results/halfcheetah-tilt/config.json").read_text())
    assert "cem" in stored["controller"]
    assert from_json(stored).planner_config == CEMConfig(candidates=100, elites=10, iterations=3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--planner.elites", "500"], "elites"),
        (["--planner", "icem", "--planner.elites", "30"], "elites"),
        (["--planner", "icem", "--planner.beta", "-1"], "beta"),
        (["--planner", "icem", "--planner.keep", "2"], "keep"),
        (["--planner", "mppi", "--planner.temperature", "0"], "temperature"),
    ],
)
def test_planners_settings_that_make_no_sense_are_reported(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(["train", "--out", str(tmp_path / "never"), *arguments], capsys)
    assert words in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    "flags",
    [
        ["--planner.min-variance", "1"],
        ["--planner", "mppi", "--planner.elites", "4"],
        ["--planner", "cem", "--planner.sigma", "1"],
    ],
)
def test_a_setting_of_another_planner_is_an_unknown_flag(flags: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["train", *flags])
    assert stop.value.code == 2


def test_a_planners_settings_are_flags(tmp_path: Path) -> None:
    run = tmp_path / "run"
    flags = ["--planner", "mppi", "--planner.beta", "2", "--planner.sigma", "0.3", "--rounds", "1", "--steps", "3"]
    flags += ["--offline.min-steps", "20", "--offline.epochs", "1", "--episodes", "1"]
    assert main(["train", *flags, "--out", str(run)]) == 0
    assert from_json(RunFolder.open(run).config).planner_config == MPPIConfig(beta=2, sigma=0.3)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "full-rank"
    assert main(["train", *TINY, "--guide", "full-rank", "--guide.initial-scale", "0.2", "--out", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("belief", BELIEFS)
def test_every_belief_adapts_by_the_kalman_update(belief: str, run: Path, tmp_path: Path) -> None:
    arguments = ["--context", "5", "--steps", "6", "--quiet", "--belief", belief, "--update", "kalman"]
    assert main(["adapt", str(run), *arguments, "--out", str(tmp_path)]) == 0


def test_in_real_time_whatever_the_run_was_trained_with(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = load_run(run, realtime=True)[-1].agents[0]
    assert isinstance(agent.controller.planner, ICEM)
    assert agent.controller.config.common_noise
    defaults = online_defaults([str(run), "--realtime"])
    assert defaults.update_config == SVIUpdateConfig(samples=4, compiled=True)
    assert online_defaults([str(run), "--realtime", "--update", "kalman"]).update == "kalman"
    arguments = ["--realtime", "--update", "kalman", "--context", "5", "--steps", "3", "--out", str(tmp_path)]
    assert main(["adapt", str(run), *arguments]) == 0
    assert re.search(r"plan and update: \d+ ms per step", capsys.readouterr().out)
    assert json.loads((tmp_path / "summary.json").read_text())["online"]["update"] == "kalman"


def test_settings_of_what_was_chosen_are_flags_and_are_stored(run: Path) -> None:
    config = from_json(RunFolder.open(run).config)
    assert config.guide_config == GUIDES["full-rank"].Config(initial_scale=0.2)
    assert config.online.update_config == SVIUpdateConfig(steps=3)


def test_track_measures_and_resumes_where_it_was(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["track", str(run), "--schedule", "0:3,6:9", "--steps", "14", "--seeds", "2", "--updates", "kalman"]
    arguments += ["--beliefs", "oracle-reset", "recursive", "power:forgetting_factor=0.5", "--out", str(tmp_path)]
    arguments += ["--figure-format", "svg"]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    assert len([line for line in first.splitlines() if line.startswith("|")]) == 5
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert set(summary["methods"]) == {"oracle-reset kalman", "recursive kalman", "power:forgetting_factor=0.5 kalman"}
    assert (tmp_path / "tracks.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "tracks.svg").read_bytes().startswith(b"<?xml")
    stored = (tmp_path / "oracle-reset-kalman.json").stat().st_mtime_ns
    assert main(arguments) == 0
    assert (tmp_path / "oracle-reset-kalman.json").stat().st_mtime_ns == stored
    assert json.loads((tmp_path / "summary.json").read_text()) == summary  # to the last digit
    names = ("oracle-reset", "recursive")
    reset, own = (json.loads((tmp_path / f"{name}-kalman.json").read_text())["track"] for name in names)
    decoded = {"reset": np.array(reset["decoded"]), "own": np.array(own["decoded"])}
    assert (decoded["reset"][:, :6] == decoded["own"][:, :6]).all()  # the same until the switch
    assert (decoded["reset"][:, 6:] != decoded["own"][:, 6:]).any()


def test_tracks_with_other_flags_lie_in_other_folders(run: Path) -> None:
    flags = ["track", str(run), "--schedule", "0:3,2:9", "--steps", "5", "--seeds", "1", "--updates", "kalman"]
    flags += ["--beliefs", "recursive"]
    others = (["--seed", "1"], ["--steps", "6"], ["--seeds", "2"], ["--temperature", "0.5"], ["--beliefs", "diffusion"])
    for more in ([], *others):
        before = {path: path.read_bytes() for path in run.glob("track/*/*.*")}
        assert main([*flags, *more]) == 0
        there = {path: path.read_bytes() for path in run.glob("track/*/*.*")}
        assert before.items() < there.items()  # what was there is as it was
    assert len(list(run.glob("track/0_3_2_9-*/table.md"))) == 1 + len(others)
    of_all = TrackFlags(run, schedule="0:3,2:9", steps=202)
    assert name_of(of_all, Schedule(((0, 3.0), (2, 9.0)))) == "0_3_2_9"  # what is the default is not in the name


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_track_of_an_edited_schedule_file_is_measured_again(kind: str, run: Path, tmp_path: Path) -> None:
    file, out = tmp_path / f"change.{kind}", tmp_path / "out"
    flags = ["track", str(run), "--schedule", f"file:{file}", "--steps", "5", "--seeds", "1", "--updates", "kalman"]
    flags += ["--beliefs", "recursive"]
    measured = []
    for begins, ends in ((3, 9), (3, 8), (3, 8)):
        file.write_text(json.dumps([[0, begins], [2, ends]]) if kind == "json" else f"0,{begins}\n2,{ends}\n")
        assert main([*flags, "--out", str(out)]) == 0
        measured.append((out / "recursive-kalman.json").read_bytes())
    assert measured[0] != measured[1] == measured[2]
    assert main(flags) == 0  # each has a folder of its own where none is named
    file.write_text("[[0, 3], [2, 9]]" if kind == "json" else "0,3\n2,9\n")
    assert main(flags) == 0
    assert len(list(run.glob(f"track/file*change.{kind}-*/table.md"))) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--belief", "power", "--belief.forgetting-factor", "0"], "forgetting_factor"),
        (["--belief", "power", "--belief.forgetting-factor", "1.5"], "forgetting_factor"),
        (["--belief", "changepoint", "--belief.hazard", "2"], "hazard"),
        (["--temperature", "0"], "temperature"),
        (["--temperature", "nan"], "temperature"),
    ],
)
def test_settings_that_make_no_sense_are_reported(
    arguments: list[str], words: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refused(["adapt", str(run), "--context", "5", "--steps", "3", *arguments], capsys)


def test_a_setting_of_another_choice_is_an_unknown_flag(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["adapt", str(run), "--context", "5", "--belief", "recursive", "--belief.forgetting-factor", "0.9"])
    assert stop.value.code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--schedule"),
        (["--schedule", "0:3,5:9,8:3"], "one change"),
        (["--schedule", "0:3,5:9", "--beliefs", "hope"], "unknown belief"),
        (["--schedule", "0:3,5:9", "--beliefs", "power:memory=3"], "has a setting 'memory'"),
        (["--schedule", "0:3,5:9", "--steps", "4"], "--steps must go beyond the change at step 5, not to 4"),
        (["--schedule", "0:3,5:9", "--seeds", "0"], "--seeds must be positive, not 0"),
    ],
)
def test_track_refuses_in_words(
    arguments: list[str], words: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refused(["track", str(run), "--out", str(tmp_path / "none"), *arguments], capsys)
