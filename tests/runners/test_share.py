"""A run that is shared: its card, its zip, and what somebody else can do with that."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest
import torch
from commands import refused
from foreign_files import TINY
from logged_pendulums import SMALL, pendulum_log, saved

from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.tables import decimal
from pyro_dynamics.reports.model_card import model_card
from pyro_dynamics.runners.common.factory import load_run
from pyro_dynamics.runners.main import main


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mine") / "swing"
    assert main(["train", *TINY, "--tracker", "tensorboard", "--out", str(folder)]) == 0
    assert main(["adapt", str(folder), "--context", "4", "--steps", "5", "--quiet"]) == 0
    return folder


@pytest.fixture
def shared(run: Path, tmp_path: Path) -> Path:
    (run / "README.md").unlink(missing_ok=True)
    out = tmp_path / "swing.zip"
    assert main(["share", str(run), "--out", str(out), "--license", "MIT"]) == 0
    return out


def test_a_shared_run_is_the_same_run_somewhere_else(run: Path, shared: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    there = Path(shutil.move(shared, theirs / "from-a-friend.zip"))
    folder, config, family, group = load_run(there)
    assert folder.path.parent == theirs
    mine = load_run(run)
    assert config == mine[1]
    assert family.train == mine[2].train
    for name, tensor in mine[3].agents[0].model.state_dict().items():
        assert torch.equal(group.agents[0].model.state_dict()[name], tensor)
    assert main(["adapt", str(there), "--context", "6", "--steps", "3", "--quiet"]) == 0
    assert (folder.path / "adapt" / "6-steps3-seed0" / "summary.json").is_file()
    adapted = folder.path / "adapt" / "4-steps5-seed0"
    assert json.loads((adapted / "summary.json").read_text())["run"] == "swing"
    assert main(["diagnose", str(adapted)]) == 0


def test_the_zip_holds_nothing_of_this_machine(run: Path, shared: Path) -> None:
    with zipfile.ZipFile(shared) as archive:
        names = archive.namelist()
        contents = [archive.read(name) for name in names]
    assert {"swing/config.json", "swing/README.md", "swing/checkpoints/round-001.pt"} < set(names)
    assert not [name for name in names if "lock" in name or "tensorboard" in name]
    assert not [name for name, content in zip(names, contents, strict=True) if str(run.parent).encode() in content]
    assert str(run).encode() in (run / "adapt" / "4-steps5-seed0" / "summary.json").read_bytes()


def test_the_same_run_is_shared_as_the_same_bytes(run: Path, shared: Path, tmp_path: Path) -> None:
    assert main(["share", str(run), "--out", str(tmp_path / "again.zip")]) == 0
    assert (tmp_path / "again.zip").read_bytes() == shared.read_bytes()


def test_the_card_says_what_was_trained_how_well_and_how_it_is_loaded(run: Path, shared: Path) -> None:
    card = (run / "README.md").read_text()
    assert card.startswith("---\nlicense: MIT\n")
    rows = RunFolder.open(run).metrics()
    for k, context in enumerate(("2", "4", "6", "8", "10")):
        returns = [row["return"] for row in rows if row["environment"] == k]
        assert f"| {context} | {decimal(returns[0])} | {decimal(returns[1])} | {decimal(max(returns))} |" in card
    for words in (
        "gravity (m/s^2)",
        "full-rank, 2 dimensions",
        "120 transitions",
        "Not judged yet",
        "pd.load(",
        "torch ",
    ):
        assert words in card
    settings = json.loads(card.partition("```json\n")[2].partition("\n```")[0])
    assert settings["rounds"] == 1
    assert main(["diagnose", str(run), "--draws", "100", "--particles", "20", "--horizon", "3"]) == 0
    diagnosis = run / "diagnose-draws=100-horizon=3-particles=20"
    word = json.loads((diagnosis / "diagnostics.json").read_text())["verdicts"][0]["word"]
    folder, _, family, _ = load_run(run)
    assert f"| 2 | {word} |" in model_card(folder, family, 120, None)
    shutil.rmtree(diagnosis)


def test_a_card_with_the_authors_own_words_is_kept(
    run: Path, shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "README.md").write_text("My own words.\n")
    assert main(["share", str(run), "--out", str(tmp_path / "own.zip")]) == 0
    with zipfile.ZipFile(tmp_path / "own.zip") as archive:
        assert archive.read("swing/README.md") == b"My own words.\n"
    assert "write the licence into it" in refused(["share", str(run), "--license", "MIT"], capsys)


def test_a_fit_is_shared_with_how_well_it_predicts(tmp_path: Path) -> None:
    (tmp_path / "alice").mkdir()
    log = saved(tmp_path / "alice" / "log.npz", pendulum_log((2.0, 10.0)))
    folder = tmp_path / "fitted"
    fit = ["fit", str(log), *SMALL, "--offline.min-steps", "1", "--group", "gravity", "--unit", "m/s^2"]
    assert main([*fit, "--out", str(folder)]) == 0
    assert main(["share", str(folder)]) == 0
    card = (folder / "README.md").read_text()
    assert "320 logged transitions" in card
    assert "--replay DATA.csv --group gravity" in card
    theirs = RunFolder.open(tmp_path / "fitted.zip")
    assert json.loads((theirs.path / "data.json").read_text())["sources"] == ["log.npz"]
    assert load_run(theirs.path)[2].train == (2.0, 10.0)


def test_what_cannot_be_shared_is_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "not a run folder" in refused(["share", str(tmp_path)], capsys)
    assert "--out names a zip" in refused(["share", str(run), "--out", str(tmp_path / "x.tar")], capsys)
    begun = tmp_path / "begun"
    begun.mkdir()
    shutil.copy(run / "config.json", begun)
    assert "no checkpoint yet" in refused(["share", str(begun)], capsys)
    (tmp_path / "junk.zip").write_bytes(b"junk")
    assert "not a zip that can be read" in refused(["adapt", str(tmp_path / "junk.zip"), "--context", "4"], capsys)
