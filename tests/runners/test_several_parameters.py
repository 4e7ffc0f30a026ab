"""Two hidden parameters at once, in a family of one's own, through every command; and runs from before."""

import json
from pathlib import Path

import numpy as np
import pytest
from xarray import open_datatree

from pyro_dynamics import find_family
from pyro_dynamics.environments import Schedule
from pyro_dynamics.environments.context_text import columns
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.stream_folder import load_adaptation
from pyro_dynamics.plots.training_figure import draw_training
from pyro_dynamics.runners.common.configuration import from_json
from pyro_dynamics.runners.common.factory import nearest
from pyro_dynamics.runners.main import main
from pyro_dynamics.runners.track import line_of

TINY = [
    *("--rounds", "2", "--steps", "25", "--episodes", "1"),
    *("--ensemble.hidden", "16", "--ensemble.weight-decay", "1e-5", "1e-5"),
    *("--offline.epochs", "2", "--offline.min-steps", "50"),
    *("--controller.horizon", "4", "--planner.candidates", "20", "--planner.elites", "4"),
]
SOURCE = """
from dataclasses import replace
from pyro_dynamics import find_family
def carts():
    return replace(find_family("cartpole-force-length"), name="my-carts")
"""
SMALL = ["--draws", "100", "--horizon", "3", "--particles", "20"]
OWN = "their_carts:carts"
PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("own")
    (place / "their_carts.py").write_text(SOURCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)  # where their module is found, and where runs/ goes
        assert main(["train", OWN, *TINY]) == 0
    return place / "runs" / "my-carts-latent-quick-0"


def test_the_configuration_names_the_family_as_it_was_typed(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    assert config["family"] == OWN
    assert find_family(config["family"]).name == "my-carts"
    rows = RunFolder.open(run).metrics()
    assert [tuple(row["context"]) for row in rows[:6]] == list(find_family(OWN).train)


@pytest.mark.parametrize("context", ["9,0.55", "length=0.55,force=9"])
def test_adapt_decodes_each_parameter(context: str, run: Path, tmp_path: Path) -> None:
    flags = ["--context", context, "--steps", "6", "--quiet", "--out", str(tmp_path)]
    assert main(["adapt", str(run), *flags]) == 0
    rows = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert rows[0]["context"] == [9.0, 0.55]
    (belief,) = json.loads((tmp_path / "summary.json").read_text())["belief"]
    assert np.shape(belief["decoded"]) == np.shape(belief["decoded_sd"]) == (2,)
    assert "force" in belief["words"]
    assert "length" in belief["words"]
    assert (tmp_path / "belief.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("schedule", ["0:9,0.5,4:14,0.6", "ramp:0:9,0.5,8:14,0.6", "sine:9,0.5:14,0.6:10"])
def test_a_belief_along_a_schedule_of_both_is_diagnosed(schedule: str, run: Path, tmp_path: Path) -> None:
    flags = ["--schedule", schedule, "--steps", "12", "--quiet", "--out", str(tmp_path)]
    assert main(["adapt", str(run), *flags]) == 0
    expected = find_family(OWN).parse_schedule(schedule, 12)
    assert np.allclose(columns(load_adaptation(tmp_path).contexts), [expected.at(step) for step in range(12)])
    assert main(["diagnose", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "diagnose" / "diagnostics.json").read_text())
    assert np.shape(found["decoded"]) == (3, 12, 2)
    assert np.shape(found["probe_error"]) == (2,)
    assert (tmp_path / "diagnose" / "figures" / "stream.png").read_bytes().startswith(PNG)


def test_evaluate_names_the_sets(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run), "--steps", "3"]) == 0
    table = json.loads((run / "evaluation-steps=3.json").read_text())["contexts"]
    assert {row["set"] for row in table} == {"interpolation", "extrapolation"}
    assert main(["evaluate", str(run), "--steps", "3", "--contexts", "9,0.5", "force=7,length=0.4"]) == 0
    (file,) = run.glob("evaluation-contexts=9,0.5,force=7,length=0.4-steps=3.json")
    table = json.loads(file.read_text())["contexts"]
    assert [(row["set"], row["context"]) for row in table] == [("given", [9.0, 0.5]), ("given", [7.0, 0.4])]


def test_track_follows_the_way_from_one_context_to_the_other(run: Path, tmp_path: Path) -> None:
    methods = ["--beliefs", "oracle-reset", "recursive", "--updates", "kalman", "--seeds", "2", "--out", str(tmp_path)]
    assert main(["track", str(run), "--schedule", "0:9,0.5,4:14,0.6", "--steps", "10", *methods]) == 0
    assert (tmp_path / "tracks.png").read_bytes().startswith(PNG)
    place, axis = line_of(find_family(OWN), Schedule(((0, (9.0, 0.5)), (4, (14.0, 0.6)))))
    assert (place((9.0, 0.5)), place((14.0, 0.6)), place((11.5, 0.55))) == pytest.approx((0, 1, 0.5))
    assert axis == "share of the change"
    place, axis = line_of(find_family("halfcheetah-tilt"), Schedule(((0, -6.0), (4, 6.0))))
    assert (place(3.0), axis) == (3.0, "tilt (degrees)")


def test_track_says_so_when_every_episode_ends_before_the_change(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    methods = ["--beliefs", "recursive", "--updates", "kalman", "--seeds", "1", "--out", str(tmp_path)]
    assert main(["track", str(run), "--schedule", "0:900,0.1,400:901,0.1", "--steps", "410", *methods]) == 2
    assert "before the change" in capsys.readouterr().err


def test_calibrate_compare_and_diagnose(run: Path, tmp_path: Path) -> None:
    assert main(["calibrate", str(run), "--temperatures", "1", "0.1", "--steps", "10"]) == 0
    assert main(["compare", str(run), "--out", str(tmp_path / "c.png")]) == 0
    assert main(["diagnose", str(run), *SMALL, "--out", str(tmp_path)]) == 0
    latents = json.loads((tmp_path / "diagnostics.json").read_text())["latents"]
    assert np.shape(latents["rank_correlation"]) == np.shape(latents["r_squared"]) == (2,)
    report = (tmp_path / "report.md").read_text()
    assert "for force" in report
    assert "for length" in report
    with open_datatree(tmp_path / "posterior.nc", engine="h5netcdf") as tree:
        context = tree["constant_data"]["context"]
        assert context.dims == ("environment", "parameter")
        assert [tuple(row) for row in context.to_numpy()] == list(find_family(OWN).train)


def test_a_mistake_in_a_context_of_two_gets_one_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for context in ("9", "9,0.5,1", "mass=9,length=0.5", "9,-1", "9,long"):
        capsys.readouterr()
        assert main(["adapt", str(run), "--context", context]) == 2
        message = capsys.readouterr().err.strip()
        assert len(message.splitlines()) == 1
        assert "length" in message


def test_the_nearest_specialist_is_found_in_the_ranges_that_were_trained_on() -> None:
    family = find_family("cartpole-force-length")  # forces 6 to 14 N, lengths 0.4 to 0.6 m
    assert family.train[nearest(family, (7.0, 0.59))] == (6.0, 0.6)
    assert family.train[nearest(family, (13.0, 0.3))] == (14.0, 0.4)
    tilt = find_family("halfcheetah-tilt")
    assert tilt.train[nearest(tilt, 4.0)] == 6.0


def test_a_run_from_before_still_loads() -> None:
    folder = RunFolder.open(Path(__file__).parents[2] / "docs" / "results" / "halfcheetah-tilt")
    family = find_family(from_json(folder.config).family)
    rows = [json.loads(line) for line in (folder.path / "metrics.jsonl").read_text().splitlines()]
    assert [row["context"] for row in rows[:5]] == list(family.train)
    assert draw_training(rows, family.axis).startswith(PNG)
    for steps in sorted(folder.path.glob("adapt/*/steps.jsonl")):
        contexts = {json.loads(line)["context"] for line in steps.read_text().splitlines()}
        assert contexts == {family.parse_context(context) for context in contexts}
