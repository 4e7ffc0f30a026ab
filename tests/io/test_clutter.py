"""Folders that a Mac, Windows or a notebook has looked at are read as before."""

import shutil
from pathlib import Path

import pytest

from pyro_dynamics.errors import UserError
from pyro_dynamics.io.clutter import without_clutter
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.stream_folder import load_adaptation
from pyro_dynamics.reproduction.results import Results


def litter(folder: Path) -> None:
    """What a Finder, an Explorer and a notebook leave beside every file and in every folder."""
    for file in [one for one in folder.rglob("*") if one.is_file()]:
        file.with_name(f"._{file.name}").write_bytes(b"\0\5\x16\7\xff")
        copies = file.parent / ".ipynb_checkpoints"
        copies.mkdir(exist_ok=True)
        shutil.copyfile(file, copies / f"{file.stem}-checkpoint{file.suffix}")
        shutil.copyfile(file, copies / file.name)
    for inside in [folder, *(one for one in folder.rglob("*") if one.is_dir())]:
        for name in (".DS_Store", "Thumbs.db", "desktop.ini"):
            (inside / name).write_bytes(b"\0\0\0\1Bud1\xff")


def test_what_nobody_wrote_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    for name in ("b.json", "a.json", "inside/c.json"):
        (tmp_path / name).write_text("{}")
    litter(tmp_path)
    found = without_clutter(tmp_path.rglob("*.json"), tmp_path)
    assert [str(one.relative_to(tmp_path)) for one in found] == ["a.json", "b.json", "inside/c.json"]
    hidden = tmp_path / ".hidden" / "runs"  # a place that the user chose is no clutter
    hidden.mkdir(parents=True)
    (hidden / "a.json").write_text("{}")
    assert without_clutter(hidden.glob("*"), hidden) == [hidden / "a.json"]


def test_a_folder_with_clutter_alone_is_free(tmp_path: Path) -> None:
    (tmp_path / "run" / "empty").mkdir(parents=True)
    litter(tmp_path / "run")
    RunFolder.create(tmp_path / "run", {})
    (tmp_path / "results").mkdir()
    litter(tmp_path / "results")
    results = Results(tmp_path / "results", "quick", {})
    results.save_influence("pendulum", {"horizons": [{"influence": 0.5}]})
    litter(tmp_path / "results")
    assert list(results.influences()) == ["pendulum"]


def test_folders_of_adaptations_are_named_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("one", ".ipynb_checkpoints"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "steps.jsonl").write_text("")
    with pytest.raises(UserError, match=r"give one of those inside: one$"):
        load_adaptation(tmp_path)
