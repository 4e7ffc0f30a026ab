"""Commands that are started several times at once, on one folder."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import files_of

from pyro_dynamics.runners.main import main

pytestmark = pytest.mark.slow

TINY = (
    *("--rounds", "1", "--steps", "6", "--episodes", "1", "--offline.min-steps", "1", "--offline.epochs", "1"),
    *("--ensemble.members", "2", "--ensemble.hidden", "4", "--ensemble.weight-decay", "0", "0"),
    *("--controller.horizon", "2", "--controller.particles", "2"),
    *("--planner.candidates", "4", "--planner.elites", "2", "--planner.iterations", "1"),
)
REPRODUCE = ("reproduce", "--preset", "quick", "--seeds", "1", "--baseline-seeds", "1", "--figures", "learning")


def at_once(*arguments: str) -> tuple[list[int], list[str]]:
    """The exit codes of three processes, in order, and the lines that they print to standard error."""
    program = Path(__file__).with_name("at_once.py")
    done = subprocess.run([sys.executable, str(program), "3", *arguments], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr, done.stderr
    return [int(word) for word in done.stdout.split()], done.stderr.splitlines()


def codes(*arguments: str) -> list[int]:
    """The exit codes of three processes, in order; what goes wrong must be said in a line each."""
    return at_once(*arguments)[0]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home") / "run"
    assert main(["train", *TINY, "--out", str(folder)]) == 0
    return folder


def test_processes_share_a_reproduction_and_leave_what_one_would(tmp_path: Path) -> None:
    assert main([*REPRODUCE, "--out", str(tmp_path / "alone")]) == 0
    for attempt in range(2):
        out = tmp_path / str(attempt)
        assert codes(*REPRODUCE, "--out", str(out)) == [0, 0, 0]
        assert main([*REPRODUCE, "--out", str(out)]) == 0  # the report of all, whoever was first
        assert {name: content for name, content in files_of(out).items() if "provenance" not in name} == {
            name: content for name, content in files_of(tmp_path / "alone").items() if "provenance" not in name
        }


def test_one_training_has_a_folder(tmp_path: Path) -> None:
    assert codes("train", *TINY, "--out", str(tmp_path / "run")) == [0, 2, 2]
    assert main(["train", *TINY, "--out", str(tmp_path / "alone")]) == 0
    assert files_of(tmp_path / "run") == files_of(tmp_path / "alone")


def test_what_reads_a_run_may_do_it_at_once(run: Path) -> None:
    track = ("--schedule", "0:10,2:6", "--steps", "4", "--seeds", "1", "--beliefs", "recursive", "--updates", "kalman")
    assert codes("evaluate", str(run), "--steps", "2", "--contexts", "3") == [0, 0, 0]
    assert codes("track", str(run), *track) == [0, 0, 0]
    assert codes("adapt", str(run), "--steps", "3", "--quiet") in ([0, 2, 2], [0, 0, 2], [0, 0, 0])


@pytest.mark.parametrize(
    ("target", "root"), [("./exported/gravity-v0", "exported"), ("one/gravity-v0", "minari"), ("a/b/c-v1", "minari")]
)
def test_one_data_set_is_written_and_the_others_say_that_it_is_there(
    target: str, root: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minari = pytest.importorskip("minari")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    for _ in range(3):
        shutil.rmtree(tmp_path / root, ignore_errors=True)
        ended, said = at_once("export", str(run), "--minari", target)
        assert ended == [0, 2, 2]
        assert said == [f"pyro-dynamics: error: cannot write the Minari data set {target}: it already exists"] * 2
        name = "exported/gravity-v0" if root == "exported" else f"minari/{target}"
        data = minari.MinariDataset(tmp_path / name / "data")
        assert data.total_steps == 60
        assert not list(tmp_path.rglob("*.part"))


def test_different_data_sets_are_written_at_once(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("minari")
    program = "import sys; from pyro_dynamics.runners.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "export", str(run), "--minari"]
    ended = [subprocess.Popen([*command, str(tmp_path / f"set-v{i}")], stderr=subprocess.PIPE) for i in range(4)]
    assert [process.communicate()[1] for process in ended] == [b""] * 4
    assert sorted(path.name for path in tmp_path.glob("set-*")) == [f"set-v{i}" for i in range(4)]


def test_one_zip_is_written_and_the_others_say_who_has_the_run(run: Path, tmp_path: Path) -> None:
    ended, said = at_once("share", str(run), "--out", str(tmp_path / "run.zip"))
    assert ended[0] == 0
    busy = f"{run} is in use by another process: wait until that has ended, or share a copy of the folder"
    assert said == [f"pyro-dynamics: error: {busy}"] * sum(map(bool, ended))
    assert main(["share", str(run), "--out", str(tmp_path / "alone.zip")]) == 0
    assert (tmp_path / "run.zip").read_bytes() == (tmp_path / "alone.zip").read_bytes()
