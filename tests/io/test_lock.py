"""Two processes on one run folder."""

import errno
import fcntl
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyro_dynamics.errors import UserError
from pyro_dynamics.io.lock import LOCK, Busy, lock_folder
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.runners.main import main

HOLD = """
import sys, time
from pathlib import Path
from pyro_dynamics.io.lock import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(120)
"""


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, "subprocess.Popen[str]"]]:
    """A folder, and the process that holds it."""
    folder = tmp_path_factory.mktemp("held") / "run"
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield folder, process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_process_is_refused_until_the_first_is_killed(held: tuple[Path, Any], capsys: Any) -> None:
    folder, process = held
    with pytest.raises(Busy, match="is in use by another process"), lock_folder(folder):
        pass
    assert main(["train", "--out", str(folder)]) == 2
    message = capsys.readouterr().err.strip()
    assert "is in use by another process" in message
    assert len(message.splitlines()) == 1
    assert [file.name for file in folder.iterdir()] == ["lock"]  # nothing was written beside it

    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    with lock_folder(folder):
        RunFolder.create(folder, {})  # a lock that was left is no run


def test_one_process_does_not_hold_it_twice_and_lets_go(tmp_path: Path) -> None:
    with lock_folder(tmp_path):
        with pytest.raises(Busy), lock_folder(tmp_path):
            pass
        with lock_folder(tmp_path / "other"):
            pass
    with pytest.raises(ZeroDivisionError), lock_folder(tmp_path):
        _ = 1 / 0
    with lock_folder(tmp_path):
        pass


def test_what_else_lies_in_a_folder_is_still_refused_and_left_alone(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "thesis.tex").write_text("")
    assert main(["train", "--out", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
    with lock_folder(tmp_path), pytest.raises(UserError, match="exists already"):
        RunFolder.create(tmp_path, {})


def test_where_nothing_can_be_locked_one_warning_reports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.warns(UserWarning, match=r"cannot lock .* \(No locks available\)"), lock_folder(tmp_path):
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        with lock_folder(tmp_path):
            pass


def test_a_place_that_cannot_be_a_folder_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write to"), lock_folder(tmp_path / "file"):
        pass


def test_a_folder_in_the_place_of_the_lock_is_reported(tmp_path: Path) -> None:
    (tmp_path / LOCK).mkdir()
    with pytest.raises(UserError, match=r"cannot write to .*: Is a directory"), lock_folder(tmp_path):
        pass
