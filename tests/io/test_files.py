"""Files that are written whole or not at all."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import (
    ensure_parent,
    make_folder,
    plain,
    results_folder,
    write_bytes,
    write_json,
    write_whole,
)


def test_what_was_there_stays_if_writing_fails(tmp_path: Path) -> None:
    file = tmp_path / "numbers"
    write_bytes(file, b"before")

    def half(stream: BinaryIO) -> None:
        stream.write(b"af")
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match=r"numbers.*No space left on device"):
        write_whole(file, half)
    assert file.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["numbers"]


def test_a_link_stays_a_link_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    for name in ("there", "not there yet"):
        link, target = tmp_path / name, tmp_path / "disk" / name
        link.symlink_to(target)
        write_bytes(ensure_parent(link), b"new")
        write_bytes(link, b"newer")
        assert link.is_symlink()
        assert target.read_bytes() == b"newer"
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_gets_everything_and_stays(tmp_path: Path, linked: bool) -> None:
    pipe = place = tmp_path / "pipe"
    os.mkfifo(pipe)
    if linked:  # as /dev/stdout is
        place = tmp_path / "link"
        place.symlink_to(pipe)
    numbers = np.arange(20_000.0)
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(pipe.read_bytes)
        write_whole(ensure_parent(place), lambda stream: np.savez(stream, a=numbers))  # goes back in what it writes
        content = reader.result(timeout=30)
    np.testing.assert_array_equal(np.load(BytesIO(content))["a"], numbers)
    assert pipe.is_fifo()
    assert place.is_symlink() == linked


def test_many_may_write_the_same_file_at_once(tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda index: write_json(file, {"number": index, "more": list(range(500))}), range(200)))
    assert json.loads(file.read_text())["more"] == list(range(500))
    assert [path.name for path in tmp_path.iterdir()] == ["numbers.json"]


def test_json_has_no_nan_and_plain_numbers(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", plain({"array": np.arange(2), "number": np.float32(0.5), "missing": float("nan")}))
    found = json.loads((tmp_path / "a.json").read_text(), parse_constant=lambda name: pytest.fail(name))
    assert found == {"array": [0, 1], "number": 0.5, "missing": "nan"}


def test_a_place_that_cannot_be_used_is_said_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write to"):
        make_folder(tmp_path / "file" / "inside")
    with pytest.raises(UserError, match="is a folder: name a file in it"):
        ensure_parent(tmp_path)
    assert ensure_parent(tmp_path / "new" / "file") == tmp_path / "new" / "file"
    assert (tmp_path / "new").is_dir()


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("runs/one", "--out .*one is .*one, which is read"),
        ("runs/one/../one", "is .*one, which is read"),
        ("runs", "--out .*runs holds .*one, which is read"),
        (".", "holds .*one, which is read"),
        ("link", "is .*one, which is read"),
        ("runs/one/transitions", "is a part of the run in .*one"),
        ("runs/one/checkpoints/new", "is a part of the run in .*one"),
        ("other", "--out .*other is a run"),
    ],
)
def test_results_lie_in_a_folder_of_their_own(place: str, words: str, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "one"
    for folder in (run, tmp_path / "other"):
        write_json(make_folder(folder) / "config.json", {})
    (tmp_path / "link").symlink_to(run)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=words):
        results_folder(tmp_path / place, run)
    assert sorted(tmp_path.rglob("*")) == before
    for free in (run / "adapt" / "9", tmp_path / "runs" / "results", tmp_path / "new"):
        assert results_folder(free, run).is_dir()


@pytest.mark.parametrize("name", ["config.json", "data.json", "learning.jsonl", "transitions/round-000.npz"])
def test_no_file_of_a_run_is_written_over(name: str, tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {})
    with pytest.raises(UserError, match="is a part of the run in"):
        ensure_parent(tmp_path / name)
