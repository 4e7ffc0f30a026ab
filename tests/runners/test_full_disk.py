"""A disk that takes no more: one line, nothing half-written, and with room again the same files.

The kernel refuses to let a file grow, as a full disk would; nobody has to be root for that.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import files_of

from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import write_bytes
from pyro_dynamics.runners.main import main

SMALL = (
    *("--rounds", "1", "--steps", "10", "--episodes", "1", "--offline.min-steps", "2", "--offline.epochs", "1"),
    *("--controller.horizon", "2", "--controller.particles", "3", "--planner.candidates", "6", "--planner.elites", "2"),
    *("--ensemble.hidden", "48", "--ensemble.weight-decay", "0", "0"),
)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_what_is_printed_to_a_full_disk_gets_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["families"]) == 2
    assert capsys.readouterr().err == "pyro-dynamics: error: cannot use the output: No space left on device\n"


def test_a_file_that_may_not_grow_leaves_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_bytes(file, b"before")
    with files_of_at_most(5000), pytest.raises(UserError, match=r"cannot write .*file: File too large"):
        write_bytes(file, bytes(10_000))
    assert file.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [file]


def test_a_training_without_room_for_its_checkpoint_ends_in_one_line_and_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert main(["train", *SMALL, "--out", str(whole)]) == 0
    capsys.readouterr()
    with files_of_at_most(20_000):
        assert main(["train", *SMALL, "--out", str(run)]) == 2
    printed = capsys.readouterr().err.strip().splitlines()[-1]
    assert printed.startswith("pyro-dynamics: error: cannot write ")
    assert printed.endswith(".pt: File too large")
    assert not list(run.rglob("*.part"))
    wanted = files_of(whole)
    assert all(content == wanted.get(name, content) for name, content in files_of(run).items())
    assert main(["train", "--resume", str(run)]) == 0
    assert files_of(run) == wanted
