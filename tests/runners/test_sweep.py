"""Sweeps: their jobs, their mistakes, and a real one on Ray in which a worker is killed."""

import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import get_args

import pytest
from commands import refused

from pyro_dynamics.errors import UserError
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.runners import train
from pyro_dynamics.runners.common.configuration import Preset
from pyro_dynamics.runners.common.sweep_jobs import Job
from pyro_dynamics.runners.main import main
from pyro_dynamics.runners.sweep import make_jobs, parse, run_missing
from pyro_dynamics.sweeps.sweep_folder import SweepFolder

TINY = [
    *("--episodes", "1", "--precision", "float32", "--offline.min-steps", "150"),
    *("--ensemble.hidden", "8", "--ensemble.weight-decay", "1e-5", "1e-5"),
    *("--controller.horizon", "3", "--planner.candidates", "20", "--planner.elites", "4", "--planner.iterations", "1"),
]
LATENT, GENERALIST, SPECIALIST = (f"pendulum-gravity/{agent}-0" for agent in ("latent", "generalist", "specialist"))


def jobs_of(*own: str, for_train: tuple[str, ...] = ()) -> dict[str, Job]:
    return {job.name: job for job in make_jobs(parse(own), for_train)}


def test_only_latent_agents_are_multiplied_by_guides() -> None:
    jobs = jobs_of("--agents", "latent", "specialist", "--guides", "diagonal", "flow", "--seeds", "0", "7", "7")
    names = ("latent-diagonal-0", "latent-flow-0", "specialist-0", "latent-diagonal-7", "latent-flow-7", "specialist-7")
    assert list(jobs) == [f"pendulum-gravity/{name}" for name in names]


@pytest.mark.parametrize("preset", get_args(Preset))
def test_a_job_that_names_no_guide_has_that_of_the_preset(preset: str) -> None:
    (job,) = jobs_of("--preset", preset).values()
    assert job.name == "pendulum-gravity/latent-0"
    assert job.config == train.parse(["--preset", preset]).run


def test_a_job_has_the_configuration_of_train() -> None:
    after = ("--offline.compiled", "--belief", "power", "--belief.forgetting-factor", "0.9")
    jobs = jobs_of("halfcheetah-tilt", "--guides", "flow", "--preset", "cpu", "--rounds", "4", for_train=after)
    (job,) = jobs.values()
    alone = ["halfcheetah-tilt", "--guide", "flow", "--preset", "cpu", "--rounds", "4", *after]
    assert job.config == train.parse(alone).run
    assert job.config.offline.compiled
    assert job.config.rounds == 4


def test_every_point_of_a_grid_is_a_job_with_the_configuration_of_train() -> None:
    grid = ["--grid", "offline.learning-rate=1e-3,5e-3", "ensemble.hidden=64 64,8 8", "--grid", "calibrate=false"]
    jobs = jobs_of("--seeds", "0", "1", *grid, for_train=("--steps", "9"))
    names = [
        f"offline.learning-rate={rate}-ensemble.hidden={hidden}-calibrate=false-{seed}"
        for rate in ("1e-3", "5e-3")
        for hidden in ("64_64", "8_8")
        for seed in (0, 1)
    ]
    assert len({job.config for job in jobs.values()}) == len(jobs) == 8
    short = jobs_of("--grid", "latent-dim=1,2", "update=kalman,svi")
    assert list(short)[:2] == [f"pendulum-gravity/latent-latent-dim=1-update={word}-0" for word in ("kalman", "svi")]
    for name, job in zip(names, jobs.values(), strict=True):
        rate, hidden, seed = job.grid["offline.learning-rate"], job.grid["ensemble.hidden"].split(), name[-1]
        alone = ["--offline.learning-rate", rate, "--ensemble.hidden", *hidden, "--no-calibrate", "--seed", seed]
        assert job.config == train.parse(["--guide", "full-rank", *alone, "--steps", "9"]).run
        assert f"-offline.learning-rate={rate}-ensemble" in job.name  # too long for all of it: a digest ends it
        assert job.row(SweepFolder(Path("nowhere"), "0"), "unfinished")["grid"] == job.grid


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--grid", "offline.bad=1,2"], "--grid offline.bad=1: Unrecognized options: --offline.bad=1"),
        (["--grid", "guide.rank=1"], "--grid guide.rank=1: Unrecognized options"),  # of another guide
        (["--grid", "offline.learning-rate=1e-3,x"], "could not convert string to float: 'x'"),
        (["--grid", "offline.learning-rate=1e-3,5"], "=5: learning-rate must be at most 1"),
        (["--grid", "ensemble.hidden=64 64,8"], "--grid ensemble.hidden=8: 1 hidden layers need 2 weight decays"),
        (["--grid", "agent=latent,oracle"], "a sweep is given each agent by --agents"),
        (["--grid", "latent-dim"], "write NAME=VALUE,VALUE with a flag of train, such as"),
        (["--grid", "latent-dim=1,"], "write NAME=VALUE,VALUE"),
        (["--grid", "latent-dim=1", "latent-dim=2"], "names latent-dim twice"),
        (["--grid", "rounds=1,2", "--rounds", "3"], "leave --rounds out"),
        (["--grid", "latent-dim=1,2", "--", "--latent-dim=3"], "leave --latent-dim out"),
        (["--grid", "threads=1,2"], "--threads of train are not for the jobs"),
        (["nowhere"], "nowhere"),
        (["--seeds"], "at least one of the seeds"),
        (["--workers", "0"], "--workers must be at least 1"),
        (["--workers", "2", "--address", "auto"], "leave it out with --address"),
        (["--retries", "-1"], "--retries must not be negative"),
        (["--step-limit", "0"], "--step-limit must be a positive number of seconds"),
        (["--", "--step-limit", "5"], "--step-limit stands before the --"),
        (["--rounds", "0"], "rounds must be positive"),
        (["--", "--seed", "3"], "the seed is the sweep's to choose"),
        (["--", "--preset", "cpu"], "the preset is the sweep's to choose"),
        (["--", "--threads", "2"], "--threads of train are not for the jobs"),
        (["--", "--guide.components", "2"], None),
        (
            ["point_mass:given", "point_mass:own"],
            "two families have the same name, and would share the folder",
        ),
        (["--guides", "low-rank", "--", "--guide.rank", "9"], "rank 9 is above"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_reported_before_anything_starts(
    arguments: list[str],
    words: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # what were not refused would not start either
    split = arguments.index("--") if "--" in arguments else len(arguments)
    command = ["sweep", *arguments[:split], "--out", str(tmp_path / "never"), *arguments[split:]]
    if words is None:  # a flag that train does not have
        with pytest.raises(SystemExit, match="2"):
            main(command)
    else:
        assert words in refused(command, capsys)
    assert not (tmp_path / "never").exists()


def test_an_agent_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["sweep", "--agents", "latent", "prophet"])
    assert "prophet" in capsys.readouterr().err


def test_without_ray_a_line_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert 'pip install "pyro-dynamics[sweep]"' in refused(["sweep", "--out", str(tmp_path / "never")], capsys)
    assert not (tmp_path / "never").exists()


def test_a_cluster_that_does_not_answer_is_reported_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nobody listens
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        message = refused(["sweep", "--address", address, "--out", str(tmp_path / "sweep")], capsys)
    assert f"no Ray cluster answers at {address}" in message


def test_an_address_that_is_none_and_no_place_for_ray_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    message = refused(["sweep", "--address", ":", "--out", str(tmp_path / "sweep"), "--", *TINY], capsys)
    assert "Malformed" in message
    assert "(if : has token authentication, set RAY_AUTH_MODE=token)" in message
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "file"))
    message = refused(["sweep", "--out", str(tmp_path / "sweep"), "--", *TINY], capsys)
    assert "Ray does not start on this machine: [Errno 20] Not a directory" in message


@pytest.mark.slow
def test_a_worker_that_does_not_see_the_folder_ends_the_sweep(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    jobs, nowhere = jobs_of("--workers", "1", for_train=tuple(TINY)), SweepFolder(tmp_path / "nowhere", "0")
    with pytest.raises(UserError, match="nowhere as it is here: on a cluster --out must lie on a file system"):
        list(run_missing(parse(["--workers", "1"]), list(jobs.values()), dict.fromkeys(jobs, "unfinished"), nowhere))


def test_one_command_at_a_time_has_the_folder(tmp_path: Path) -> None:
    with SweepFolder.claimed(tmp_path / "sweep") as folder:
        assert folder.is_seen()
        assert not SweepFolder(tmp_path / "elsewhere", folder.command).is_seen()
        folder.note_try("family/latent-0", 3)
        with pytest.raises(UserError, match="is in use by another process"), SweepFolder.claimed(tmp_path / "sweep"):
            pass
    with SweepFolder.claimed(tmp_path / "sweep") as later:
        assert not folder.is_seen()
        assert later.tries("family/latent-0") == []  # they were the other command's


def test_what_is_left_of_a_run_killed_at_its_start_is_in_nobodys_way(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", {})
    (run.path / "config.json").rename(run.path / "config.json.part")
    assert RunFolder.create(tmp_path / "run", {"seed": 0}).path == run.path
    with pytest.raises(UserError, match="exists already"):
        RunFolder.create(tmp_path / "run", {})


class Killer(threading.Thread):
    """Kills the worker of a job once the job has two whole rounds."""

    def __init__(self, out: Path, name: str) -> None:
        super().__init__(daemon=True)
        self.folder, self.tries = out / name, out / "tries" / f"{name}.jsonl"
        self.killed: int | None = None
        self.written: dict[str, int] = {}  # when the rounds before were

    def run(self) -> None:
        until = time.monotonic() + 400  # Ray takes its time on a busy machine
        while self.killed is None and time.monotonic() < until:
            if (RunFolder(self.folder, {}).last_round or 0) >= 1:
                self.killed = json.loads(self.tries.read_text())["pid"]
                os.kill(self.killed, signal.SIGKILL)
                for m in range(2):
                    file = self.folder / "transitions" / f"round-00{m}.npz"
                    self.written[file.name] = file.stat().st_mtime_ns
            time.sleep(0.005)


@pytest.mark.slow
def test_a_killed_worker_and_a_failed_job_cost_nothing_but_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray")
    out, small = tmp_path / "sweep", ["--rounds", "4", "--steps", "15"]
    (out / SPECIALIST).mkdir(parents=True)
    (out / SPECIALIST / "notes.txt").write_text("in the way")
    killer = Killer(out, LATENT)
    killer.start()
    command = ["sweep", "--workers", "2", "--out", str(out), *small, "--agents", "latent", "generalist"]
    assert main([*command, "specialist", "--", *TINY]) == 1
    killer.join()

    # It was begun again by another process after a whole round; what was there was not made again.
    first, second = (json.loads(line) for line in (out / "tries" / f"{LATENT}.jsonl").read_text().splitlines())
    assert first["pid"] == killer.killed != second["pid"]
    assert first["after_round"] is None
    assert 1 <= second["after_round"] < 4
    assert len(killer.written) == 2
    for name, written in killer.written.items():
        assert (out / LATENT / "transitions" / name).stat().st_mtime_ns == written
    rows = {row["folder"]: row for row in json.loads((out / "sweep.json").read_text())}
    assert {name: (row["state"], row["rounds"], row["tries"]) for name, row in rows.items()} == {
        LATENT: ("finished", 4, 2),
        GENERALIST: ("finished", 4, 1),
        SPECIALIST: ("failed", None, 1),
    }
    assert "exists already" in (out / "failed" / f"{SPECIALIST}.txt").read_text()
    lines = capsys.readouterr().out.splitlines()
    again = f"{LATENT}: its worker died; restarted on {second['host']}, after round {second['after_round']}"
    assert lines.count(again) == 1
    assert sum(line.startswith(f"{SPECIALIST}: failed: ") for line in lines) == 1

    # Where a job ran, and how often it was begun, does not show in its numbers.
    for agent, name in (("latent", LATENT), ("generalist", GENERALIST)):
        assert main(["train", "--agent", agent, *small, *TINY, "--out", str(tmp_path / agent)]) == 0
        assert (out / name / "metrics.jsonl").read_bytes() == (tmp_path / agent / "metrics.jsonl").read_bytes()

    # What is finished is not run again.
    assert main([*command, "--step-limit", "60", "--", *TINY]) == 0
    assert [row["tries"] for row in json.loads((out / "sweep.json").read_text())] == [0, 0]
    # Nor is it resumed under other settings.
    assert "other settings (latent_dim)" in refused([*command, "--", *TINY, "--latent-dim", "3"], capsys)
