"""Videos of episodes, without a screen."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import imageio.v2 as imageio
import numpy as np
import pytest
from commands import refused

from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.errors import UserError
from pyro_dynamics.plots import video
from pyro_dynamics.plots.belief_panel import BeliefPanel
from pyro_dynamics.rollouts.adaptation import adapt
from pyro_dynamics.runners.common.factory import group_for, load_run
from pyro_dynamics.runners.main import main

TINY = [
    *("--rounds", "1", "--steps", "20", "--episodes", "1", "--offline.epochs", "1", "--offline.min-steps", "1"),
    *("--ensemble.hidden", "8", "--ensemble.weight-decay", "1e-5", "1e-5"),
    *("--controller.horizon", "3", "--planner.candidates", "20", "--planner.elites", "4", "--planner.iterations", "1"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "pendulum"
    assert main(["train", *TINY, "--out", str(folder)]) == 0
    return folder


def frames_of(file: Path) -> list[np.ndarray]:
    return [np.asarray(frame) for frame in imageio.mimread(file, memtest=False)]


def test_an_adaptation_is_filmed_and_acts_as_it_would_unseen(run: Path, tmp_path: Path) -> None:
    act = ["adapt", str(run), "--context", "7", "--steps", "6", "--quiet"]
    assert main([*act, "--out", str(tmp_path / "seen"), "--video"]) == 0
    assert main([*act, "--out", str(tmp_path / "unseen")]) == 0
    assert (tmp_path / "seen" / "steps.jsonl").read_bytes() == (tmp_path / "unseen" / "steps.jsonl").read_bytes()
    frames = frames_of(tmp_path / "seen" / "episode.mp4")
    assert len(frames) == 6
    assert not list((tmp_path / "seen").glob("*part*"))
    robot, panel = frames[0][:, :500], frames[0][:, 500:]
    assert frames[0].shape == (500, 1020, 3)
    assert min(robot.std(), panel.std()) > 5  # something is drawn on either side
    assert np.abs(frames[-1][:, :500].astype(int) - robot).max() > 50  # and it moves
    assert np.abs(frames[-1][:, 500:].astype(int) - panel).max() > 50


def filmed(run: Path, folder: Path) -> Iterator[video.Film]:
    """A film of six steps, given after each of them; it is closed at the end."""
    _, _, family, trained = load_run(run)
    envs = video.make_environments(family, [7.0], 6, film=True)
    group = group_for(trained, family, [7.0])
    with video.Film(folder / "episode", envs, 0, 6, trained, family) as film:
        for step in adapt(group, envs, 0, belief_draws=10):
            film.add(step)
            yield film


def test_a_video_that_does_not_fit_on_the_disk_is_reported_and_not_left(run: Path, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # for ffmpeg, which writes only at the end
    try:
        with pytest.raises(UserError, match=r"episode\.mp4 to its end: is there room on the disk"):
            list(filmed(run, tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="finds ffmpeg in /proc")
def test_an_ffmpeg_that_is_killed_is_reported(run: Path, tmp_path: Path) -> None:
    film = filmed(run, tmp_path)
    next(film)
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    for child in children:
        if b"ffmpeg" in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(int(child), signal.SIGKILL)
    with pytest.raises(UserError, match=r"episode\.mp4 to its end: is there room on the disk"):
        list(film)
    assert not list(tmp_path.iterdir())


def test_an_evaluation_films_each_context_as_a_gif_where_there_is_no_ffmpeg(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(video, "find_spec", lambda name: None if name == "imageio_ffmpeg" else find_spec(name))
    out = tmp_path / "evaluation.json"
    contexts = ["--contexts", "3", "9", "--steps", "4", "--episodes", "2"]
    assert main(["evaluate", str(run), *contexts, "--video", "--out", str(out)]) == 0
    films = tmp_path / "evaluation-videos"  # so that those of another --out beside it are others
    assert sorted(file.name for file in films.iterdir()) == ["3.gif", "9.gif"]
    assert len(frames_of(films / "3.gif")) == 4
    assert len(json.loads(out.read_text())["contexts"][0]["episodes"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("family", "context"), [("cadm-pendulum", "1,0.9"), ("hopper-mass", "1.1")])
def test_families_made_by_callables_are_filmed(family: str, context: str, tmp_path: Path) -> None:
    assert main(["train", family, *TINY, "--steps", "5", "--out", str(tmp_path)]) == 0
    film = tmp_path / "film"
    assert (
        main(["adapt", str(tmp_path), "--context", context, "--steps", "3", "--quiet", "--video", "--out", str(film)])
        == 0
    )
    frames = frames_of(film / "episode.mp4")
    assert len(frames) == 3
    assert min(frames[-1][:, :400].std(), frames[-1][:, -400:].std()) > 5


@pytest.mark.slow
def test_a_machine_that_cannot_draw_is_reported_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cheetah"
    assert main(["train", "halfcheetah-tilt", *TINY, "--out", str(folder)]) == 0
    monkeypatch.setenv("MUJOCO_GL", "nothing")
    message = refused(["adapt", str(folder), "--context", "3", "--steps", "5", "--video"], capsys)
    assert "cannot draw" in message
    assert "apt install" in message
    assert not list(folder.glob("adapt/*/steps.jsonl"))
    command = [sys.executable, "-m", "pyro_dynamics.runners.adapt", str(folder), "--context", "3", "--video"]
    broken = subprocess.run(command, env={**os.environ, "MUJOCO_GL": "nothing"}, capture_output=True, text=True)
    assert (broken.returncode, len(broken.stderr.splitlines())) == (2, 1), broken.stderr


@pytest.mark.parametrize("dimensions", [0, 1, 2, 4])
def test_the_panel_shows_latents_of_any_size(dimensions: int, rng: np.random.Generator) -> None:
    means, scales = rng.normal(size=(5, dimensions)), np.full((5, dimensions), 0.1)
    contexts = list(zip(range(5), rng.normal(size=5), strict=True))
    probe = ContextProbe(means, contexts) if dimensions else None
    panel = BeliefPanel(400, 300, 10, ("gravity", "mass"), list("abcde"), means, scales, probe, contexts)
    images = [panel.draw(f"step {t}", means[t] + 0.1 * rng.normal(size=(50, dimensions)), None) for t in range(2)]
    assert images[0].shape == (300, 400, 3)
    assert np.abs(images[1].astype(int) - images[0]).max() > 50


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_a_folder_that_is_gone_is_reported_before_the_episode(run: Path, tmp_path: Path) -> None:
    _, _, family, group = load_run(run)
    envs = video.make_environments(family, [family.parse_schedule("0:5")], 3, film=True)
    with pytest.raises(UserError, match=r"cannot write .*gone"):
        video.Film(tmp_path / "gone" / "episode", envs, 0, 3, group, family)
