"""Commands on disks that are too small: real file systems, mounted where nobody else sees them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import write_bytes
from pyro_dynamics.runners.main import main

pytestmark = pytest.mark.slow

ALONE = ("unshare", "-rm")


def can_mount(tmp_path: Path) -> bool:
    try:
        tried = [*ALONE, "mount", "-t", "tmpfs", "-o", "size=1m", "disk", str(tmp_path)]
        return subprocess.run(tried, capture_output=True).returncode == 0
    except OSError:
        return False


def test_a_full_disk_ends_in_one_line_and_room_goes_on_to_the_same_files(tmp_path: Path) -> None:
    if not can_mount(tmp_path):
        pytest.skip("this system lets nobody but root mount a file system: unshare -rm mount -t tmpfs fails")
    program = [sys.executable, str(Path(__file__).with_name("full_disk.py")), "1", "1", "train", "export"]
    done = subprocess.run([*ALONE, *program], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = [tuple(map(int, pair)) for pair in re.findall(r"(\d+) disks too small, (\d+) survived", done.stdout)]
    assert len(counts) == 2
    assert all(refused == survived for refused, survived in counts)
    assert sum(refused for refused, _ in counts) >= 1


def test_what_is_printed_to_a_full_disk_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["families"]) == 2
    assert capsys.readouterr().err == "pyro-dynamics: error: cannot use the output: No space left on device\n"


def test_a_file_that_may_not_grow_leaves_the_one_before(tmp_path: Path) -> None:
    """The kernel refuses, as a full disk would; nobody has to be root for that."""
    resource = pytest.importorskip("resource")
    file = tmp_path / "file"
    write_bytes(file, b"before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
    try:
        with pytest.raises(UserError, match=r"cannot write .*file: File too large"):
            write_bytes(file, bytes(10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [file]
