"""Zips of runs: the same bytes for the same run, and nothing of a stranger's zip outside of its folder."""

import getpass
import json
import os
import socket
import stat
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pyro_dynamics.errors import UserError
from pyro_dynamics.io import shared_zip
from pyro_dynamics.io.private_text import cleaned, find_private
from pyro_dynamics.io.shared_zip import open_zip, shared_files, write_zip

Entry = tuple[str | zipfile.ZipInfo, bytes]
CONFIG: Entry = ("run/config.json", b"{}")


def made(file: Path, *entries: Entry, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return file


def link(name: str, target: str) -> Entry:
    entry = zipfile.ZipInfo(name)
    entry.create_system, entry.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return entry, target.encode()


def flagged(file: Path) -> Path:
    """A zip whose files say that they are encrypted."""
    content = bytearray(made(file, CONFIG).read_bytes())
    content[6] |= 1  # the flag in the local header, and in the directory
    content[content.index(b"PK\x01\x02") + 8] |= 1
    file.write_bytes(bytes(content))
    return file


def no_zip(file: Path) -> Path:
    file.write_bytes(b"no zip")
    return file


HOSTILE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "a parent folder": (lambda file: made(file, CONFIG, ("run/../../evil.json", b"x")), "written anywhere"),
    "a parent folder at the top": (lambda file: made(file, CONFIG, ("../evil.json", b"x")), "written anywhere"),
    "an absolute path": (lambda file: made(file, CONFIG, ("/tmp/evil.json", b"x")), "written anywhere"),
    "a drive": (lambda file: made(file, CONFIG, ("C:/evil.json", b"x")), "written anywhere"),
    "a backslash": (lambda file: made(file, CONFIG, ("run\\..\\evil.json", b"x")), "written anywhere"),
    "a dot at the end": (lambda file: made(file, CONFIG, ("run/evil.json.", b"x")), "written anywhere"),
    "a link": (lambda file: made(file, CONFIG, link("run/evil", "/etc")), "a link"),
    "a link as the folder": (lambda file: made(file, link("run", "/etc"), CONFIG), "a link"),
    "two of one name": (lambda file: made(file, CONFIG, ("run/A.json", b""), ("run/a.json", b"")), "one name"),
    "two folders": (lambda file: made(file, CONFIG, ("other/a.json", b"x")), "does not hold one run"),
    "no run": (lambda file: made(file, ("run/a.json", b"x")), "does not hold one run"),
    "no folder": (lambda file: made(file, ("config.json", b"{}")), "does not hold one run"),
    "nothing": (lambda file: made(file), "does not hold one run"),
    "a bomb": (lambda file: made(file, CONFIG, ("run/a.json", bytes(300 * 2**20))), "that is no run"),
    "encrypted": (flagged, "not a zip that can be read"),
    "no zip": (no_zip, "not a zip that can be read"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_zips_are_refused_in_one_line_and_leave_nothing(name: str, tmp_path: Path) -> None:
    make, words = HOSTILE[name]
    (tmp_path / "stranger").mkdir()
    file = make(tmp_path / "stranger" / "run.zip")
    with pytest.raises(UserError, match=words) as printed:
        open_zip(file)
    assert len(str(printed.value).splitlines()) == 1
    assert [path.name for path in tmp_path.rglob("*")] == ["stranger", "run.zip"]


def test_a_zip_with_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_zip, "MOST_FILES", 10)
    entries = [(f"run/{i}.json", b"{}") for i in range(10)]
    with pytest.raises(UserError, match="11 files"):
        open_zip(made(tmp_path / "run.zip", CONFIG, *entries))
    assert open_zip(made(tmp_path / "fine.zip", CONFIG, *entries[1:])).is_dir()


def test_a_damaged_zip_leaves_nothing(tmp_path: Path) -> None:
    file = made(tmp_path / "run.zip", CONFIG, ("run/a.json", b"abc" * 100), compression=zipfile.ZIP_STORED)
    content = bytearray(file.read_bytes())
    content[content.index(b"abcabc")] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(UserError, match="Bad CRC-32"):
        open_zip(file)
    assert [path.name for path in tmp_path.iterdir()] == ["run.zip"]


def test_a_zip_is_opened_once_for_each_content(tmp_path: Path) -> None:
    first = open_zip(made(tmp_path / "run.zip", CONFIG))
    (first / "mine.json").write_text("{}")
    assert open_zip(tmp_path / "run.zip") == first
    assert (first / "mine.json").exists()
    second = open_zip(made(tmp_path / "run.zip", CONFIG, ("run/adapt/a.json", b"[]")))
    assert second != first
    assert (second / "adapt" / "a.json").read_text() == "[]"


def a_run(folder: Path) -> Path:
    """Files of every kind that stays, and of every kind that does not."""
    for name in ("adapt/one", "adapt/two/unfinished", "checkpoints", "tensorboard", "wandb"):
        (folder / name).mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    summary = {"run": str(folder), "replay": "/data/alice/log.csv", "seed": 0, "words": "3 m/s^2, ~/x/y and a/b"}
    (folder / "adapt" / "one" / "summary.json").write_text(json.dumps(summary))
    (folder / "metrics.jsonl").write_text('{"a": 1}\n{"run": "../alice/runs/x"}\n')
    (folder / "report.md").write_text(
        f"made in {folder}/adapt, see https://x.org/home/a and C:\\Users\\alice\\log.csv\n"
    )
    for name in ("checkpoints/round-001.pt", "checkpoints/round-001.pt.1", "training.png"):
        (folder / name).write_bytes(b"\x00\x01")
    for name in ("lock", "config.json.part", "trackers.json", "tensorboard/a.json", "wandb/a.json", ".hidden.json"):
        (folder / name).write_text("{}")
    for name in ("adapt/two/unfinished/a.json", "secret.key", "data.pkl"):
        (folder / name).write_text("{}")
    (folder / "linked.json").symlink_to(folder / "config.json")
    return folder


SHARED = ["adapt/one/summary.json", "checkpoints/round-001.pt", "checkpoints/round-001.pt.1", "config.json"]
SHARED += ["metrics.jsonl", "report.md", "training.png"]


def test_the_same_run_makes_the_same_bytes_without_traces_of_this_machine(tmp_path: Path) -> None:
    zips = []
    for home in ("a", "b"):
        folder = a_run(tmp_path / home / "run")
        files, left = shared_files(folder)
        assert [str(file.relative_to(folder)) for file in files] == SHARED
        assert len(left) == 10
        write_zip(folder, files, tmp_path / f"{home}.zip")
        zips.append((tmp_path / f"{home}.zip").read_bytes())
        for file in files:
            os.utime(file, (1e9, 1e9))
    assert zips[0] == zips[1]
    opened = open_zip(tmp_path / "a.zip")
    assert sorted(str(file.relative_to(opened)) for file in opened.rglob("*") if file.is_file()) == SHARED
    summary = json.loads((opened / "adapt" / "one" / "summary.json").read_text())
    assert summary == {"run": "run", "replay": "log.csv", "seed": 0, "words": "3 m/s^2, y and a/b"}
    assert (opened / "metrics.jsonl").read_text() == '{"a": 1}\n{"run": "x"}\n'
    assert (opened / "report.md").read_text() == "made in adapt, see https://x.org/home/a and log.csv\n"


@pytest.mark.parametrize("what", ["home", "user", "host", "run"])
def test_what_cannot_be_taken_out_is_refused(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "alices-robot")
    folder = a_run(tmp_path / "run")
    text = {
        "home": f"\x00{Path.home()}/x\x00",
        "user": f"\x00/Benutzer/{getpass.getuser()}/x\x00",
        "host": "\x00 alices-robot \x00",
        "run": f"\x00{folder}/config.json\x00",
    }[what]
    (folder / "posterior.nc").write_bytes(text.encode())
    with pytest.raises(UserError, match=r"posterior\.nc says where or by whom it was made"):
        write_zip(folder, shared_files(folder)[0], tmp_path / "run.zip")
    assert not (tmp_path / "run.zip").exists()


def test_honest_text_is_left_as_it_is() -> None:
    fine = (
        b'{"unit": "m/s^2", "family": "my.module:make", "source": "logs/pendulum.csv", "minari": "pendulum/gravity-v0"}'
    )
    assert cleaned("a.json", fine) == fine
    assert find_private("a.json", fine) is None
    image = b'<img src="data:image/png;base64,AAAA/home/alice/AAAA"> a/b, 1/2, </td> https://x.org/tmp/y'
    assert cleaned("report.html", b"a/b, 1/2, </td> https://x.org/tmp/y") == b"a/b, 1/2, </td> https://x.org/tmp/y"
    assert find_private("report.html", image) is None
    with pytest.raises(ValueError, match="Expecting"):
        cleaned("a.json", b"{")


def test_many_may_open_one_zip_at_once(tmp_path: Path) -> None:
    file = made(tmp_path / "run.zip", CONFIG, *((f"run/{index}.json", bytes(9999)) for index in range(50)))
    with ThreadPoolExecutor(8) as pool:
        places = set(pool.map(lambda _: open_zip(file), range(8)))
    assert len(places) == 1
    assert len(list(places.pop().iterdir())) == 51
    assert len(list(tmp_path.iterdir())) == 2
