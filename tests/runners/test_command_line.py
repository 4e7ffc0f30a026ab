"""The commands as a person types them."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from commands import refused

from pyro_dynamics import FAMILIES
from pyro_dynamics.guides import GUIDES
from pyro_dynamics.inference import BELIEFS
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.runners.common.configuration import from_json, online_defaults
from pyro_dynamics.runners.common.result_names import keep_older, name_of_schedule, network_of
from pyro_dynamics.runners.compare import names
from pyro_dynamics.runners.evaluate import name_of, parse
from pyro_dynamics.runners.main import COMMANDS, main, with_home

TINY = [
    *("--rounds", "2", "--steps", "25", "--episodes", "1"),
    *("--ensemble.hidden", "16", "--ensemble.weight-decay", "1e-5", "1e-5"),
    *("--offline.epochs", "2", "--offline.min-steps", "100", "--update", "svi", "--update.steps", "5"),
    *("--controller.horizon", "5", "--planner.candidates", "20", "--planner.elites", "4"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "pendulum"
    assert main(["train", *TINY, "--out", str(folder)]) == 0
    return folder


def test_train_leaves_a_whole_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [(row["round"], row["environment"]) for row in rows] == [(m, k) for m in range(3) for k in range(5)]
    assert [row["context"] for row in rows[:5]] == list(FAMILIES["pendulum-gravity"].train)
    assert all(row["return"] < 0 for row in rows)
    assert json.loads((run / "config.json").read_text())["steps"] == 25
    assert (run / "training.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in (run / "transitions").iterdir()) == [f"round-00{m}.npz" for m in range(3)]
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["round-002.pt"]


def test_train_says_what_to_look_at_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "one"
    assert main(["train", *TINY, "--rounds", "1", "--figure-format", "svg", "--out", str(folder)]) == 0
    last = capsys.readouterr().out.splitlines()[-2:]
    assert last == [
        f"next: pyro-dynamics adapt {folder}",
        "      (gravity changes from 9 to 3 m/s^2 at step 5)",
    ]
    assert (folder / "training.svg").is_file()
    assert (folder / "training.png").is_file()


def test_adapt_stores_every_step_and_a_figure(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adapt", str(run), "--schedule", "0:3,10:9", "--steps", "15"]) == 0
    printed = capsys.readouterr().out
    (out,) = (run / "adapt").iterdir()
    steps = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    assert [step["context"] for step in steps] == [3.0] * 10 + [9.0] * 5
    for step in steps:
        assert len(step["mean"]) == len(step["sd"]) == 2
        assert all(sd > 0 for sd in step["sd"])
        assert {"reward", "log_likelihood"} < set(step)
    assert (out / "belief.png").read_bytes().startswith(b"\x89PNG")
    summary = json.loads((out / "summary.json").read_text())
    assert summary["return"] == pytest.approx(sum(step["reward"] for step in steps))
    assert [entry["step"] for entry in summary["belief"]] == [9, 14]
    # A line for every two steps, and one that ends where the context changes.
    ranges = [line.split("  ")[0:] for line in printed.splitlines() if line.strip()[:1].isdigit()]
    assert len(ranges) >= 8
    assert main(["adapt", str(run), "--schedule", "0:3,10:9", "--steps", "15", "--every", "1"]) == 0
    printed = capsys.readouterr().out
    first = [line.split()[0] for line in printed.splitlines() if line.strip()]
    assert [word for word in first if word.isdigit()] == list(map(str, range(15)))


def test_adapt_shows_a_change_where_none_is_given(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adapt", str(run), "--figure-format", "pdf"]) == 0
    printed = capsys.readouterr().out
    assert "--schedule 0:9,5:3, as none was given: gravity changes from 9 to 3 m/s^2 at step 5" in printed
    assert "over all 25 steps" in printed
    out = run / "adapt" / "0_9_5_3-steps25-seed0"
    contexts = [json.loads(line)["context"] for line in (out / "steps.jsonl").read_text().splitlines()]
    assert contexts == [9.0] * 5 + [3.0] * 20
    assert (out / "belief.pdf").read_bytes().startswith(b"%PDF")
    assert (out / "belief.png").is_file()


def test_adaptations_with_other_beliefs_lie_in_other_folders(run: Path) -> None:
    flags = ["--context", "7", "--steps", "3", "--quiet"]
    for more in (
        [],
        ["--update.steps", "5"],
        ["--update.steps", "3"],
        ["--temperature", "0.25"],
        ["--prior", "standard"],
    ):
        assert main(["adapt", str(run), *flags, *more]) == 0
    names = {folder.name for folder in (run / "adapt").glob("7-*")}
    start = "7-steps3-seed0"  # the run's own settings
    assert names == {start, f"{start}-temperature=0.25", f"{start}-prior=standard", f"{start}-update.steps=3"}


@pytest.mark.parametrize("contexts", [("7.000001", "7.000002"), ("7.00000001", "7.00000002"), ("8.123456", "8.123457")])
def test_adaptations_in_contexts_of_many_digits_lie_in_other_folders(contexts: tuple[str, str], run: Path) -> None:
    for context in contexts:
        assert main(["adapt", str(run), "--context", context, "--steps", "2", "--quiet"]) == 0
        found = json.loads((run / "adapt" / f"{context}-steps2-seed0" / "summary.json").read_text())
        assert found["schedule"] == [[0, float(context)]]


def test_adaptations_to_other_schedule_files_lie_in_other_folders(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "walks").mkdir()
    there = [("a.csv", "0,3\n2,9\n"), ("a.csv", "0,4\n2,9\n"), ("walks/a.csv", "0,3\n2,9\n"), ("walks_a.csv", "0,5\n")]
    there += [("walks_a.csv", "0,3\n2,9\n"), ("a.json", "[[0, 3], [2, 9]]"), ("a.json", "[[0, 3], [1, 9]]")]
    for name, content in (*there, there[0]):
        Path(name).write_text(content)
        assert main(["adapt", str(run), "--schedule", f"file:{name}", "--steps", "3", "--quiet"]) == 0
    folders = list((run / "adapt").glob("file_*"))
    assert len(folders) == len(there)  # and the same file again is the same place
    schedules = [json.loads((folder / "summary.json").read_text())["schedule"] for folder in folders]
    assert sorted(schedules).count([[0, 3.0], [2, 9.0]]) == 4


def test_what_is_left_of_a_replay_under_a_schedule_file_is_not_taken_up_after_an_edit(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "truth.csv"
    replay = ["adapt", str(run), "--replay", str(run / "transitions" / "round-000.npz"), "--environment", "4"]
    replay += ["--schedule", f"file:{file}", "--steps", "4", "--quiet", "--out", str(tmp_path / "out")]
    file.write_text("0,3\n2,9\n")
    with monkeypatch.context() as patched:
        patched.setattr("pyro_dynamics.runners.adapt.report_results", lambda *_: None)  # it is stopped there
        assert main(replay) == 0
    file.write_text("0,3\n2,8\n")
    assert "another context or schedule" in refused(replay, capsys)
    file.write_text("0,3\n2,9\n")
    assert main(replay) == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [("left leg", "left_leg"), ("0:a/b,5:c", "0:a_b,5:c"), ("0:a\tb", "0:a b"), ("x" * 120 + "/b", "x" * 120 + "_b")],
)
def test_texts_of_other_schedules_are_other_names(one: str, other: str) -> None:
    assert name_of_schedule(one) != name_of_schedule(other)
    assert name_of_schedule(one) == name_of_schedule(one)
    assert len(name_of_schedule(one)) <= 100
    assert name_of_schedule("0:-6,500:6.5") == "0_-6_500_6.5"


def test_a_diagnosis_of_other_steps_does_not_stay(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["adapt", str(run), "--context", "8", "--steps", "4", "--quiet"]
    out = run / "adapt" / "8-steps4-seed0"
    assert main(flags) == 0
    assert main(["diagnose", str(out)]) == 0
    assert (out / "diagnose" / "report.html").is_file()
    assert "8-steps4-seed0" in refused(["diagnose", str(run / "adapt")], capsys)
    assert main(flags) == 0
    assert not (out / "diagnose").exists()


def test_evaluate_scores_the_test_contexts(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run)]) == 0
    table = json.loads((run / "evaluation.json").read_text())
    assert (table["steps"], table["checkpoint"], table["realtime"]) == (25, 2, False)
    assert table["online"]["update_config"]["steps"] == 5
    assert [row["context"] for row in table["contexts"]] == list(FAMILIES["pendulum-gravity"].test_contexts)
    printed = capsys.readouterr().out
    assert all(f"\n{context:g} " in printed for context in FAMILIES["pendulum-gravity"].test_contexts)


def test_evaluations_with_other_flags_have_other_names(run: Path) -> None:
    own = online_defaults([str(run)])

    def name(*flags: str) -> str:
        return name_of(parse([str(run), *flags]), own)

    assert name() == name("--threads", "2", "--step-limit", "9", "--update", "svi", "--update.steps", "5") == ""
    assert name("--contexts", "3", "9", "--seed", "1") == name("--seed", "1", "--contexts", "3", "9")
    assert name("--contexts", "3", "9", "--seed", "1") == "-contexts=3,9-seed=1"
    assert name("--update.steps", "7", "--temperature", "0.25") == "-temperature=0.25-update.steps=7"
    power = name("--belief", "power", "--belief.forgetting-factor", "0.9")
    assert power == "-belief=power-belief.forgetting_factor=0.9"
    many = [name("--contexts", *map(str, range(count))) for count in (60, 61)]
    assert len(set(many)) == 2
    assert max(map(len, many)) < 100


def test_compare_prints_what_differs(run: Path) -> None:
    config = from_json(RunFolder.open(run).config)
    flow = replace(config, guide="flow", guide_config=GUIDES["flow"].Config())
    generalist = replace(config, agent="generalist", guide="flow", guide_config=GUIDES["flow"].Config())
    power = replace(config, online=replace(config.online, belief="power", belief_config=BELIEFS["power"].Config()))
    assert names([config, replace(config, seed=3), generalist]) == ["latent", "latent", "generalist"]
    assert names([config, flow, generalist]) == ["latent, full-rank", "latent, flow", "generalist"]
    assert names([config, power]) == [f"latent, {config.online.belief}", "latent, power"]
    wide = replace(config, guide_config=replace(config.guide_config, initial_scale=0.5))  # type: ignore[type-var]
    first, second = names([config, wide])
    assert first.startswith("latent, guide.initial_scale=")
    assert second == "latent, guide.initial_scale=0.5"
    fewer = replace(config, planner_config=replace(config.planner_config, candidates=10))  # type: ignore[type-var]
    assert names([generalist, fewer]) == ["generalist, planner.candidates=20", "latent, planner.candidates=10"]
    longer = replace(config, steps=80, calibrate=not config.calibrate)
    assert names([config, longer])[1] == f"latent, steps=80, calibrate={longer.calibrate}"


@pytest.mark.parametrize("kind", ["file", "folder", "diagnosis"])
def test_results_of_an_older_network_keep_a_place(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def place_of(checkpoint: int | None) -> Path:
        return tmp_path / ("newest" if checkpoint is None else f"checkpoint={checkpoint}")

    def write(checkpoint: object) -> None:
        file = place_of(None)
        if kind != "file":
            file.mkdir(exist_ok=True)
            file /= "summary.json" if kind == "folder" else "diagnostics.json"
        file.write_text(json.dumps({"round" if kind == "diagnosis" else "checkpoint": checkpoint}))

    keep_older(place_of(None), 2, place_of)  # nothing is there
    write(2)
    keep_older(place_of(None), 2, place_of)  # the same network
    assert not place_of(2).exists()
    keep_older(place_of(None), 3, place_of)
    assert place_of(2).exists()
    assert not place_of(None).exists()
    assert f"after round 2 are kept in {place_of(2)}" in capsys.readouterr().out
    for other in (2, None, "x"):  # what is kept is never replaced; results of another kind stay
        write(other)
        keep_older(place_of(None), 3, place_of)
        assert place_of(None).exists()
    films = tmp_path / "films"
    films.mkdir()
    keep_older(films, 3, lambda checkpoint: tmp_path / f"films-{checkpoint}", network_of(place_of(None)))
    assert films.exists()
    keep_older(films, 3, lambda checkpoint: tmp_path / f"films-{checkpoint}", 1)
    assert (tmp_path / "films-1").exists()


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["generalist", "specialist"])
def test_agents_without_a_latent_run_through_every_command(agent: str, run: Path, tmp_path: Path) -> None:
    folder = tmp_path / agent
    assert main(["train", *TINY, "--agent", agent, "--out", str(folder)]) == 0
    assert main(["adapt", str(folder), "--context", "7", "--steps", "5", "--quiet"]) == 0
    assert main(["evaluate", str(folder), "--steps", "5", "--contexts", "3", "9"]) == 0
    assert main(["compare", str(run), str(folder), "--out", str(tmp_path / "both.png")]) == 0
    assert (tmp_path / "both.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("family", "context"), [("halfcheetah-tilt", "-9"), ("halfcheetah-crippled", "front-foot")])
def test_the_other_families_train_and_adapt(family: str, context: str, tmp_path: Path) -> None:
    folder = tmp_path / family
    assert main(["train", family, *TINY, "--rounds", "1", "--out", str(folder)]) == 0
    assert json.loads((folder / "config.json").read_text())["family"] == family
    assert main(["adapt", str(folder), "--context", context, "--steps", "5", "--quiet"]) == 0


def test_beliefs_can_follow_training_episodes_too(tmp_path: Path) -> None:
    folder = tmp_path / "literal"
    assert main(["train", *TINY, "--rounds", "1", "--update-while-training", "--out", str(folder)]) == 0


def test_same_seed_same_metrics_and_global_generators_untouched(run: Path, tmp_path: Path) -> None:
    before = torch.get_rng_state()
    assert main(["train", *TINY, "--out", str(tmp_path / "again")]) == 0
    assert torch.equal(torch.get_rng_state(), before)
    assert (tmp_path / "again" / "metrics.jsonl").read_bytes() == (run / "metrics.jsonl").read_bytes()
    assert main(["train", *TINY, "--seed", "1", "--out", str(tmp_path / "other")]) == 0
    assert (tmp_path / "other" / "metrics.jsonl").read_bytes() != (run / "metrics.jsonl").read_bytes()


@pytest.mark.slow
def test_a_run_killed_in_mid_round_resumes_to_the_same_metrics(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    command = [sys.executable, "-m", "pyro_dynamics.runners.train", *TINY, "--out", str(folder)]
    for wait in (0.0, 0.15):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        deadline = time.monotonic() + 60
        rounds = len(list(folder.glob("transitions/round-*.npz")))
        while len(list(folder.glob("transitions/round-*.npz"))) == rounds and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL  # it was still at work
        command = [sys.executable, "-m", "pyro_dynamics.runners.train", "--resume", str(folder)]
    assert main(["train", "--resume", str(folder)]) == 0
    assert (folder / "metrics.jsonl").read_bytes() == (run / "metrics.jsonl").read_bytes()


def test_a_finished_run_can_be_resumed_for_more_rounds(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "short"
    assert main(["train", *TINY, "--rounds", "1", "--out", str(folder)]) == 0
    assert main(["train", "--resume", str(folder), "--rounds", "2"]) == 0
    assert (folder / "metrics.jsonl").read_bytes() == (run / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches_its_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert "usage: pyro-dynamics" in capsys.readouterr().out


def test_an_unknown_family_or_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "pendulum-gravity" in refused(["train", "walker"], capsys)
    assert "train" in refused(["trian"], capsys)


def test_a_folder_that_is_not_a_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        ["adapt", str(tmp_path), "--context", "1"],
        ["evaluate", str(tmp_path)],
        ["compare", str(tmp_path)],
    ):
        assert "not a run folder" in refused(command, capsys)
    assert "not a run folder" in refused(["train", "--resume", str(tmp_path / "missing")], capsys)
    (tmp_path / "config.json").write_text("{}")
    assert refused(["adapt", str(tmp_path), "--context", "1"], capsys)
    (tmp_path / "config.json").write_text("[")
    assert "not JSON" in refused(["adapt", str(tmp_path), "--context", "1"], capsys)


def test_an_existing_folder_is_never_written_over(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run / "metrics.jsonl").read_bytes()
    assert "--resume" in refused(["train", *TINY, "--out", str(run)], capsys)
    assert "--rounds" in refused(["train", "--resume", str(run), "--seed", "5"], capsys)
    assert "rounds already" in refused(["train", "--resume", str(run), "--rounds", "1"], capsys)
    assert (run / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["--context", "1000"],
        ["--context", "steep"],
        ["--schedule", "0:5,10:1000"],
        ["--schedule", "5:5"],
        ["--schedule", "nonsense"],
        ["--context", "5", "--every", "0"],
        ["--context", "5", "--schedule", "0:5"],
        ["--context", "5", "--steps", "0"],
        ["--context", "5", "--checkpoint", "1"],
        ["--context", "5", "--threads", "0"],
        ["--context", "5", "--out", "/proc/nowhere"],
    ],
)
def test_bad_adaptations_are_refused_before_anything_runs(
    arguments: list[str], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(["adapt", str(run), *arguments], capsys)


def test_settings_that_make_no_sense_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags in (
        ["--rounds", "0"],
        ["--controller.particles", "4"],
        ["--planner.elites", "1000"],
        ["--ensemble.hidden", "8"],
        ["--offline.learning-rate", "-1"],
    ):
        refused(["train", *flags, "--out", str(tmp_path / "never")], capsys)
        assert not (tmp_path / "never").exists()


def test_a_checkpoint_of_another_architecture_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = json.loads((run / "config.json").read_text())
    config["latent_dim"] = 3
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "checkpoints").mkdir()
    checkpoint = tmp_path / "checkpoints" / "round-002.pt"
    checkpoint.write_bytes((run / "checkpoints" / "round-002.pt").read_bytes())
    assert "metrics.jsonl is not what round-002.pt was saved with: it is missing" in refused(
        ["adapt", str(tmp_path), "--context", "5"], capsys
    )
    (tmp_path / "metrics.jsonl").write_bytes((run / "metrics.jsonl").read_bytes())
    assert "another architecture" in refused(["adapt", str(tmp_path), "--context", "5"], capsys)
    checkpoint.write_bytes(b"not a checkpoint")
    assert "not a checkpoint" in refused(["adapt", str(tmp_path), "--context", "5"], capsys)


def test_a_reader_that_leaves_does_not_end_the_work(run: Path, tmp_path: Path) -> None:
    """As in `pyro-dynamics adapt ... | head -1`: the results are there, and say so by the exit code."""
    arguments = ["--context", "3", "--steps", "15", "--out", str(tmp_path / "adapted")]
    command = [sys.executable, "-m", "pyro_dynamics.runners.adapt", str(run), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait() == 0
    assert len((tmp_path / "adapted" / "steps.jsonl").read_text().splitlines()) == 15
    assert (tmp_path / "adapted" / "summary.json").is_file()


@pytest.mark.skipif(os.name != "posix", reason="closes streams by the shell")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize("command", [["families"], ["adapt"]])
def test_closed_streams_do_not_end_the_work(command: list[str], closed: str, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "adapted"
    if command == ["adapt"]:
        command = ["adapt", str(run), "--context", "3", "--steps", "5", "--out", str(out)]
    words = shlex.join([sys.executable, "-m", "pyro_dynamics", *command])
    done = subprocess.run(["sh", "-c", f"{words} {closed}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") or (done.returncode == 0 and closed == ">&-")
    assert "Traceback" not in done.stderr
    assert (out / "summary.json").is_file() == ("adapt" in command)


def test_home_is_found_behind_an_equals_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert with_home(["~", "~/runs", "--out=~/x"]) == ["/home/someone", "/home/someone/runs", "--out=/home/someone/x"]
    untouched = ["--out=~other/x", "a~/b", "--contexts=1,~", "-~"]
    assert with_home(untouched) == untouched


def test_a_training_that_is_stopped_says_how_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: object, *_: object) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr("pyro_dynamics.io.run_folder.RunFolder.save_round", stop)
        assert main(["train", *TINY, "--out", str(folder)]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"stopped: pyro-dynamics train --resume {folder} continues after its last whole round"
    )
    assert main(["train", "--resume", str(folder)]) == 0


@pytest.mark.parametrize("schedule", ["\u00b2:3", "0:3,\u00b2:4", "0:3,\u0967:x"])
def test_digits_of_other_kinds_in_a_schedule_are_refused(
    schedule: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(["adapt", str(run), "--schedule", schedule], capsys)


@pytest.mark.parametrize("lost", ["round-*.pt*", "round-002.pt*"])
def test_a_run_that_lost_its_checkpoint_is_not_begun_again(
    lost: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert main(["train", *TINY, "--rounds", "2", "--keep-checkpoints", "0", "--out", str(folder)]) == 0
    for file in folder.glob(f"checkpoints/{lost}"):
        file.unlink()
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    message = refused(["train", "--resume", str(folder)], capsys)
    assert "has transitions up to round 2" in message
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
