"""Commands that are stopped by Ctrl-C: one line that says what to do, exit code 130, and nothing lost."""

import copy
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import files_of
from tqdm import tqdm

import pyro_dynamics
from pyro_dynamics.runners.main import main, stop_behind

TINY = (
    *("--rounds", "1", "--steps", "12", "--episodes", "1", "--offline.min-steps", "20", "--offline.epochs", "4"),
    *("--ensemble.hidden", "8", "--ensemble.weight-decay", "0", "0"),
)
PLAN = ("--controller.horizon", "2", "--planner.candidates", "8", "--planner.elites", "2")
RESUMES = "the same command resumes it"
ANEW = "the same command begins anew, and earlier results are as they were"
COMMANDS = {
    "adapt": (("adapt", "RUN", "--context", "5", "--steps", "8", "--quiet", "--out", "OUT"), RESUMES),
    "track": (
        (
            "track",
            "RUN",
            "--schedule",
            "0:3,2:9",
            "--steps",
            "5",
            "--seeds",
            "1",
            "--updates",
            "kalman",
            "--out",
            "OUT",
        ),
        RESUMES,
    ),
    "evaluate": (("evaluate", "RUN", "--steps", "3", "--contexts", "5", "--out", "OUT/e.json"), ANEW),
    "calibrate": (("calibrate", "RUN", "--temperatures", "1", "0.5", "--steps", "4", "--out", "OUT/c.json"), ANEW),
    "diagnose": (("diagnose", "RUN", "--draws", "100", "--horizon", "2", "--particles", "20", "--out", "OUT"), ANEW),
    "fit": (("fit", "RUN.npz", "--group", "environment", *TINY[6:], "--out", "OUT"), ANEW),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home") / "run"
    assert main(["train", *TINY, *PLAN, "--out", str(folder)]) == 0
    assert main(["export", str(folder), "--npz", f"{folder}.npz"]) == 0
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_stopped_says_how_it_continues_and_ends_with_the_same_digits(
    name: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command, words = COMMANDS[name]
    alone, stopped = ([w.replace("RUN", str(run)).replace("OUT", str(tmp_path / o)) for w in command] for o in "ab")
    assert main(alone) == 0
    left = 3

    def update(self: tqdm, *_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    def each(self: tqdm) -> Iterator[Any]:
        for one in self.iterable:
            update(self)
            yield one

    capsys.readouterr()
    with monkeypatch.context() as patched:
        patched.setattr(tqdm, "update", update)
        patched.setattr(tqdm, "__iter__", each)
        assert main(stopped) == 130
    printed = capsys.readouterr().err
    assert printed.splitlines()[-1] == f"stopped: {words}"
    assert "Traceback" not in printed
    assert not list(tmp_path.rglob("*.part"))
    assert main(stopped) == 0
    timed = {"b/summary.json", "b/table.md", "b/recording.json"} if name == "track" else set()  # times of updates
    found, wanted = files_of(tmp_path / "b"), files_of(tmp_path / "a")
    assert set(found) == set(wanted)
    if name in ("adapt", "evaluate", "calibrate", "fit"):
        assert {key: found[key] for key in found if key not in timed} == wanted


def test_a_diagnosis_that_is_stopped_leaves_the_one_before(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [w.replace("RUN", str(run)).replace("OUT", str(tmp_path / "d")) for w in COMMANDS["diagnose"][0]]
    assert main(command) == 0
    before = files_of(tmp_path / "d")

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pyro_dynamics.runners.diagnose.predict_held_out", stop)
    assert main(command) == 130
    assert files_of(tmp_path / "d") == before


@pytest.mark.parametrize("kind", [ImportError, RuntimeError, OSError])
def test_an_interrupt_of_which_a_library_made_an_error_is_one(
    kind: type[Exception], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in mujoco's "ImportError: initialization failed", where it was just being imported."""

    def interrupted(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as stop:
            raise kind("initialization failed") from stop

    monkeypatch.setattr("pyro_dynamics.runners.families.main", interrupted)
    assert main(["families"]) == 130
    assert capsys.readouterr().err == f"\nstopped: {ANEW}\n"
    assert stop_behind(ValueError("x")) is None


def test_agents_are_copied_and_pickled_with_their_belief(run: Path) -> None:
    agent, env = pyro_dynamics.load(run), pyro_dynamics.make("pendulum-gravity", 7.0, max_steps=20)
    state, _ = env.reset(seed=0)
    for _ in range(3):
        action = agent.act(state)
        after, *_ = env.step(action)
        agent.update(state, action, after)
        state = after
    twins = [agent, copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))]
    actions = [twin.act(state) for twin in twins]
    assert all(np.array_equal(action, actions[0]) for action in actions)
    after, *_ = env.step(actions[0])
    for twin in twins:
        twin.update(state, actions[0], after)
    means = [twin.belief.mean for twin in twins]
    assert all(np.array_equal(mean, means[0]) for mean in means)


@pytest.mark.parametrize("agent", ["oracle", "last-layer", "generalist"])
def test_agents_of_every_kind_can_be_pickled(agent: str, tmp_path: Path) -> None:
    assert main(["train", *TINY, *PLAN, "--agent", agent, "--out", str(tmp_path / "run")]) == 0
    made = pyro_dynamics.load(tmp_path / "run", context=6.0)
    state = np.zeros(3, dtype=np.float32)
    twin = pickle.loads(pickle.dumps(made))
    assert np.array_equal(made.act(state), twin.act(state))


STARTING = """
import builtins, os, signal
imported, seen = builtins.__import__, []
def stopping(name, *rest, **how):
    if name == {name!r} and not seen:
        seen.append(name)
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            if {lost}:
                raise ImportError("initialization failed") from None
            raise
    return imported(name, *rest, **how)
builtins.__import__ = stopping
"""
BEGAN = {"importlib": False, "pathlib": False, "torch": True, "pyro_dynamics.environments": True, "numpy": True}
"""Whether the command has begun when one of these is imported."""


def hear_ctrl_c() -> None:
    """In the new process, where these tests run behind a shell that has it ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("name", BEGAN)
@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("how", ["module", "script"])
def test_a_stop_while_libraries_are_imported_is_one_line(name: str, lost: bool, how: str, tmp_path: Path) -> None:
    """Also where a C extension that was just being imported loses the interrupt behind an error of its own."""
    (tmp_path / "sitecustomize.py").write_text(STARTING.format(name=name, lost=lost))
    script = tmp_path / "pyro-dynamics"  # as pip writes it
    script.write_text("import sys\nfrom pyro_dynamics.runners.main import main\nsys.exit(main())\n")
    home = str(Path(pyro_dynamics.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), home])}
    command = [sys.executable, *([str(script)] if how == "script" else ["-m", "pyro_dynamics"]), "families"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, preexec_fn=hear_ctrl_c)
    words = ANEW if BEGAN[name] else "before the command began"
    assert (ran.returncode, ran.stderr.strip()) == (130, f"stopped: {words}"), ran.stdout


@pytest.mark.parametrize(
    "program", ["import pyro_dynamics", "from pyro_dynamics.runners.main import main; main(['families'])"]
)
def test_programs_that_import_the_package_keep_their_ctrl_c(program: str) -> None:
    check = "import signal; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler; import gymnasium"
    made = "assert 'pyro_dynamics/HopperMass-v0' in gymnasium.registry"
    command = [sys.executable, "-c", f"{program}\n{check}\n{made}"]
    subprocess.run(command, check=True, capture_output=True, preexec_fn=hear_ctrl_c)
