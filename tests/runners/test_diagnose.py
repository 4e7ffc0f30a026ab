"""`pyro-dynamics diagnose` as a person types it, on every kind of run."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray

from pyro_dynamics.diagnostics.posterior.importance import Importance
from pyro_dynamics.diagnostics.verdict import MEANINGS
from pyro_dynamics.io.checkpoint_files import load_state, save_state
from pyro_dynamics.io.files import write_whole
from pyro_dynamics.io.run_folder import DIGESTS
from pyro_dynamics.runners import diagnose
from pyro_dynamics.runners.main import main

TINY = [
    *("--rounds", "1", "--steps", "40"),
    *("--ensemble.hidden", "16", "--ensemble.weight-decay", "1e-5", "1e-5"),
    *("--offline.epochs", "2", "--offline.min-steps", "1"),
    *("--controller.horizon", "5", "--planner.candidates", "20", "--planner.elites", "4"),
]
FEW = ["--draws", "120", "--horizon", "8", "--particles", "20"]


def train(folder: Path, *more: str) -> Path:
    assert main(["train", *TINY, *more, "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("runs") / "pendulum")


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that reports a mistake."""
    capsys.readouterr()
    assert main(["diagnose", *arguments]) == 2
    printed = capsys.readouterr().err.strip()
    lines = [line for line in printed.replace("\r", "\n").splitlines() if line.startswith("pyro-dynamics")]
    assert len(lines) == 1, printed
    return lines[0]


def test_a_run_is_compared_with_those_of_its_own_environments(
    run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = train(tmp_path / "other", "--episode-contexts", "range", "--guide", "amortized")
    line = refused([str(run), *FEW, "--compare", str(other)], capsys)
    assert "has latents of --episode-contexts range, and this run of fixed" in line


def test_a_run_gets_report_numbers_and_posterior(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = train(tmp_path / "other", "--seed", "1")
    more = ["--refits", "1", "--sbc", "50", "--compare", str(other)]
    assert main(["diagnose", str(run), *FEW, *more]) == 0
    printed = capsys.readouterr().out
    (out,) = run.glob("diagnose-*")
    found = json.loads((out / "diagnostics.json").read_text())
    assert [one["environment"] for one in found["verdicts"]] == ["2", "4", "6", "8", "10"]
    lines = printed.splitlines()
    for verdict, held_out in zip(found["verdicts"], found["predictions"], strict=True):
        name, word = verdict["environment"], verdict["word"]
        (row,) = [line for line in lines if line.startswith(f"{name} ") and word in line]
        assert row.endswith(f"{held_out['coverage']:.0%}")
        assert lines.count(f"{word}: {MEANINGS[word]}") == 1
        why = f"  {name}: {'; '.join(verdict['reasons'])}"
        assert (why in lines) == (word != "believe")
    assert len(found["quality"]) == len(found["predictions"]) == 5
    assert len(found["latents"]["r_hat"]) == 5  # there is a refit
    assert len(found["sbc"]["ranks"]) == 50
    assert found["nuts"] is None
    html = (out / "report.html").read_text()
    names = {file.stem for file in (out / "figures").glob("*.png")}
    assert names == {"k-hat", "latents", "prior-posterior", "pairs", "traversal", "sbc", "pit", "coverage", "fans"}
    assert html.count("data:image/png;base64,") == len(names)
    written = re.sub(r"base64,[A-Za-z0-9+/=]+", "", html)  # figures may spell anything
    assert "http" not in written.replace("http-equiv", "")  # nothing is fetched from elsewhere
    markdown = (out / "report.md").read_text()
    assert all(f"figures/{name}.png" in markdown for name in names)
    tree = xarray.open_datatree(out / "posterior.nc", engine="h5netcdf")
    assert tree["posterior"]["e"].sizes == {"chain": 2, "draw": 120, "environment": 5, "latent": 2}
    assert tree.attrs["parameter"] == "gravity"


@pytest.mark.slow
@pytest.mark.parametrize("wide", [True, False])
def test_more_draws_are_taken_where_a_wide_guide_needs_them(
    wide: bool, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnose, "DRAWS", (100, 150))
    monkeypatch.setattr(Importance, "only_wide", wide)
    assert main(["diagnose", str(run), *FEW[2:], "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "diagnostics.json").read_text())
    assert found["settings"]["draws"] == found["quality"][0]["importance"]["draws"] == (150 if wide else 100)


@pytest.mark.slow
def test_same_seed_same_numbers(run: Path, tmp_path: Path) -> None:
    texts = []
    for name in ("a", "b"):
        assert main(["diagnose", str(run), *FEW, "--out", str(tmp_path / name)]) == 0
        texts.append((tmp_path / name / "diagnostics.json").read_text())
    assert texts[0] == texts[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        ["--agent", "generalist"],
        ["--agent", "specialist"],
        ["--guide", "point"],
        ["--latent-dim", "1"],
        ["--latent-dim", "3", "--guide", "full-rank"],
        ["--guide", "mixture"],
        ["--guide", "amortized"],
        ["--guide", "flow", "--guide.transforms", "1"],
    ],
    ids=" ".join,
)
def test_every_kind_of_run_gets_a_sensible_report(more: list[str], tmp_path: Path) -> None:
    folder = train(tmp_path / "run", *more)
    assert main(["diagnose", str(folder), *FEW]) == 0
    (out,) = folder.glob("diagnose-*")
    found = json.loads((out / "diagnostics.json").read_text())
    has_posterior = "--agent" not in more and "point" not in more
    assert ("quality" in found) == has_posterior == (out / "posterior.nc").exists()
    assert all((one["word"] == "no posterior") != has_posterior for one in found["verdicts"])
    assert (out / "report.html").stat().st_size > 10_000
    assert (out / "figures" / "pairs.png").exists() == (has_posterior and "1" not in more[1:2])


def test_findings_of_other_flags_lie_in_other_folders(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("diagnose*"))
    others = (["--seed", "1"], ["--rows", "150"], ["--checkpoint", "1"], ["--refits", "1"])
    for more in ([], *others):
        before = {path: path.read_bytes() for path in folder.glob("diagnose*/diagnostics.json")}
        assert main(["diagnose", str(folder), *FEW, *more]) == 0
        there = {path: path.read_bytes() for path in folder.glob("diagnose*/diagnostics.json")}
        assert before.items() < there.items()  # what was there is as it was
    assert (folder / "diagnose-draws=120-horizon=8-particles=20-seed=1" / "report.html").is_file()
    assert len(there) == 1 + len(others)


def test_an_adaptation_is_judged_along_its_stream(
    run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "adapted"
    flags = ["--schedule", "0:3,20:9", "--steps", "40", "--quiet", "--out", str(out)]
    assert main(["adapt", str(run), *flags]) == 0
    assert main(["diagnose", str(out)]) == 0
    printed = capsys.readouterr().out
    found = json.loads((out / "diagnose" / "diagnostics.json").read_text())
    assert found["verdict"]["word"] in printed
    assert all(reason in printed for reason in found["verdict"]["reasons"])
    assert found["steps"][-1] == 39
    assert len(found["k_hat"]) == len(found["steps"])
    assert (out / "diagnose" / "report.html").read_text().count("data:image/png;base64,") == 1
    summary = json.loads((out / "summary.json").read_text())
    (out / "summary.json").write_text(json.dumps({**summary, "network": "0" * 16}))
    assert "was made with another network than the one that" in refused([str(out)], capsys)


def test_the_documents_lines_for_a_notebook(
    run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/checking-a-posterior.md").read_text()
    lines = page[page.index("## In a notebook") :].split("```python\n")[1].split("```")[0]
    out = tmp_path / "runs" / "pendulum-gravity-latent-quick-0" / "diagnose"
    assert main(["diagnose", str(run), *FEW, "--out", str(out)]) == 0
    monkeypatch.chdir(tmp_path)
    exec(compile(lines, "checking-a-posterior.md", "exec"), {})
    assert "e[10, 1]" in capsys.readouterr().out


def test_transitions_that_are_not_finite_are_named(
    run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = train(tmp_path / "run")
    file = folder / "transitions" / "round-001.npz"
    with np.load(file) as stored:
        arrays = {name: stored[name] for name in stored.files}
    row = int(np.flatnonzero((arrays["environment"] == 3) & (arrays["step"] == 7))[0])
    arrays["next_state"][row, 1] = np.nan
    write_whole(file, lambda opened: np.savez(opened, **arrays))
    checkpoint = folder / "checkpoints" / "round-001.pt"
    state = load_state(checkpoint)
    del state[DIGESTS]  # as in older runs: others are refused before anybody looks into the file
    save_state(checkpoint, state)
    message = refused([str(folder)], capsys)
    assert "round 1: the next_state of environment 3 at step 7 is not finite" in message
    assert not list(folder.glob("diagnose*"))


def test_figures_for_print_lie_beside_the_others(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    earlier = tmp_path / "figures" / "earlier.svg"  # of another report
    earlier.parent.mkdir()
    earlier.touch()
    assert main(["diagnose", str(run), *FEW, "--figure-format", "pdf", "--out", str(tmp_path)]) == 0
    assert "weighing 120 draws of each posterior ...\n" in capsys.readouterr().err  # what takes time is announced
    endings = {ending: {file.stem for file in (tmp_path / "figures").glob(f"*.{ending}")} for ending in ("png", "pdf")}
    assert endings["pdf"] == endings["png"] != set()
    assert not earlier.exists()


def test_mistakes_get_one_line(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "--draws must be at least 100" in refused([str(run), "--draws", "5"], capsys)
    assert "at least 50 simulations" in refused([str(run), "--sbc", "3"], capsys)
    assert "not a run folder" in refused([str(tmp_path)], capsys)
    assert "no checkpoint of round 7" in refused([str(run), "--checkpoint", "7"], capsys)
    generalist = train(tmp_path / "generalist", "--agent", "generalist")
    assert "no posterior" in refused([str(generalist), "--nuts"], capsys)


def test_what_cannot_be_written_is_reported_in_one_line(
    run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "report.html" / "full").mkdir(parents=True)  # a folder in the place of a file
    message = refused([str(run), *FEW, "--out", str(tmp_path)], capsys)
    assert f"cannot write {tmp_path / 'report.html'}: Is a directory" in message
    assert not list(tmp_path.glob("*.part"))
    assert "--seed" in refused([str(run), "--seed", "-1"], capsys)
