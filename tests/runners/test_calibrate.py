"""The temperature of the online belief: the measures by themselves, and the command as a person types it."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from commands import refused
from torch.distributions import Independent, MultivariateNormal, Normal

from pyro_dynamics.diagnostics.stream.calibration import Calibration, choose, first_episodes, in_central_region
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.run_folder import METRICS
from pyro_dynamics.runners.main import main
from pyro_dynamics.transitions import Transitions

TINY = [
    *("--rounds", "1", "--steps", "25", "--episodes", "2"),
    *("--ensemble.hidden", "16", "--ensemble.weight-decay", "1e-5", "1e-5"),
    *("--offline.epochs", "2", "--offline.min-steps", "1"),
    *("--controller.horizon", "5", "--planner.candidates", "20", "--planner.elites", "4"),
]
FAST = ["--update", "kalman"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "pendulum"
    assert main(["train", *TINY, "--out", str(folder)]) == 0
    return folder


def made_in(run: Path) -> Path:
    """The table of 1, 0.5 and 0.1 that the members share."""
    return run / "calibration-temperatures=1.0,0.5,0.1-belief_per=ensemble.json"


def test_calibrate_prints_a_table_and_the_flag_to_use(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared = ["--belief-per", "ensemble"]  # of members that differ the mixture may also become narrower
    assert main(["calibrate", str(run), *FAST, *shared, "--temperatures", "0.1", "1", "0.5", "0.5"]) == 0
    printed = capsys.readouterr().out
    stored = json.loads(made_in(run).read_text())
    assert [row["temperature"] for row in stored["temperatures"]] == [1.0, 0.5, 0.1]
    assert (stored["round"], stored["steps"]) == (1, 25)
    assert (stored["online"]["belief"], stored["online"]["update"]) == ("changepoint", "kalman")
    for row in stored["temperatures"]:
        assert 0 <= row["belief_coverage"] <= 1
        assert 0 <= row["predictive_coverage"] <= 1
        assert len(row["by_environment"]) == 5
        assert row["belief_coverage"] == pytest.approx(sum(row["by_environment"]) / 5)
    spreads = [row["belief_sd"] for row in stored["temperatures"]]
    assert spreads == sorted(spreads)  # a lower temperature leaves the belief wider
    assert f"--belief changepoint --update kalman --temperature {stored['temperature']:g}" in printed
    assert sum(line.split()[0] in ("1", "0.5", "0.1") for line in printed.splitlines() if line.strip()) >= 3
    assert made_in(run).with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    flags = ["--context", "5", "--steps", "3", "--quiet", *FAST, "--temperature", f"{stored['temperature']:g}"]
    assert main(["adapt", str(run), *flags]) == 0


def test_same_seed_same_table_and_the_paper_s_update_works_too(run: Path, tmp_path: Path) -> None:
    tables = []
    for index in range(2):
        out = tmp_path / f"{index}" / "table.json"
        flags = ["--belief", "recursive", "--update", "svi", "--update.steps", "3", "--temperatures", "0.5"]
        flags += ["--steps", "6", "--out", str(out)]
        assert main(["calibrate", str(run), *flags]) == 0
        tables.append(out.read_bytes())
    assert tables[0] == tables[1]
    assert json.loads(tables[0])["steps"] == 6


def test_other_settings_have_tables_of_their_own(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("calibration*"))
    for flags in (["--belief", "power"], ["--seed", "1"], ["--temperatures", "1"]):
        assert main(["calibrate", str(tmp_path / "run"), "--steps", "2", *flags]) == 0
    assert len(list((tmp_path / "run").glob("calibration*.json"))) == 3
    assert "names the table" in refused(["calibrate", str(run), "--out", str(tmp_path / "table.png")], capsys)


def test_adapt_reports_coverage_and_the_verdict(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "adapt"
    assert main(["adapt", str(run), "--context", "5", "--steps", "12", *FAST, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    rows = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    summary = json.loads((out / "summary.json").read_text())
    for row in rows:
        assert row["coverage"] == pytest.approx(sum(0.05 <= value <= 0.95 for value in row["pit"]) / 2)
    mean = sum(row["coverage"] for row in rows) / 12
    assert summary["coverage"] == {"all": pytest.approx(mean), "last_50": pytest.approx(mean)}
    assert sum(summary["pit"]) == 2 * 12
    assert len(summary["pit"]) == 10
    assert "coverage of the network's own 90 % intervals" in printed
    verdict = summary["verdict"]
    assert f"\n{verdict['word']}" in printed
    assert all(f"\n  {reason}\n" in printed for reason in verdict["reasons"])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--temperatures", "0"], "in (0, 1]"),
        (["--temperatures", "1", "2"], "in (0, 1]"),
        (["--temperatures", "nan"], "in (0, 1]"),
        (["--temperatures"], "one or more"),
        (["--temperature", "0.5"], "--temperatures"),
        (["--steps", "1"], "--steps"),
        (["--checkpoint", "0"], "--checkpoint must be at least 1, not 0"),
        (["--out", "/proc/nowhere/table.json"], "cannot write"),
    ],
)
def test_bad_flags_are_refused(flags: list[str], words: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in refused(["calibrate", str(run), *flags], capsys)


def test_a_folder_that_cannot_be_written_into_is_reported_before_the_work(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pyro_dynamics.runners.calibrate.calibrate", lambda *_: pytest.fail("it has started"))
    place = "/proc/self"  # even for root; where there is none, nobody may make it
    assert f"cannot write to {place}: " in refused(
        ["calibrate", str(run), *FAST, "--out", f"{place}/table.json"], capsys
    )


@pytest.mark.parametrize("agent", ["generalist", "specialist"])
def test_a_run_without_a_latent_is_refused(agent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / agent
    assert main(["train", *TINY, "--steps", "5", "--agent", agent, "--out", str(folder)]) == 0
    message = refused(["calibrate", str(folder)], capsys)
    assert "no latent" in message
    assert agent in message


def test_a_run_without_a_round_to_replay_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "not a run folder" in refused(["calibrate", str(tmp_path)], capsys)
    (tmp_path / "config.json").write_bytes((run / "config.json").read_bytes())
    assert "no checkpoint yet" in refused(["calibrate", str(tmp_path)], capsys)
    (tmp_path / "checkpoints").mkdir()
    state = torch.load(run / "checkpoints" / "round-001.pt", weights_only=True)
    del state[METRICS]  # as in older runs, whose metrics are not compared with it
    torch.save(state, tmp_path / "checkpoints" / "round-000.pt")
    assert "only round 0" in refused(["calibrate", str(tmp_path)], capsys)
    torch.save(state, tmp_path / "checkpoints" / "round-001.pt")
    assert "does not hold transitions" in refused(["calibrate", str(tmp_path)], capsys)


def test_the_first_episode_of_each_environment_is_followed_to_its_end() -> None:
    # Instances 0 and 1 are of environment 0, 2 and 3 of environment 1; instance 0 ends after one step, 3 after two.
    alive = {0: [0, 1, 2, 3], 1: [1, 2, 3], 2: [1, 2]}
    rows = [(instance, step) for step, instances in alive.items() for instance in instances]
    state = torch.tensor([[10.0 * instance + step] for instance, step in rows])
    data = Transitions(
        state,
        torch.zeros(len(rows), 1),
        state + 1,
        torch.zeros(len(rows)),
        torch.tensor([instance // 2 for instance, _ in rows]),
        torch.tensor([step for _, step in rows]),
    )
    steps = first_episodes(data, 2)
    assert [step.state.flatten().tolist() for step in steps] == [[0, 20], [21], [22]]
    assert [step.environment.tolist() for step in steps] == [[0, 1], [1], [1]]
    with pytest.raises(UserError, match="environment 2"):
        first_episodes(data, 3)


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_the_central_region_holds_nine_of_ten_draws(form: str, generator: torch.Generator) -> None:
    mean = torch.randn(4000, 2, generator=generator)
    if form == "diagonal":
        factor = torch.diag_embed(torch.rand(4000, 2, generator=generator) + 0.1)
        posterior = Independent(Normal(mean, factor.diagonal(dim1=-2, dim2=-1)), 1)
    else:
        factor = torch.tensor([[1.0, 0.0], [0.9, 0.1]]).expand(4000, 2, 2)
        posterior = MultivariateNormal(mean, scale_tril=factor)  # type: ignore[assignment]
    truth = mean + (factor @ torch.randn(4000, 2, 1, generator=generator)).squeeze(-1)
    agent = SimpleNamespace(posterior=lambda: posterior)
    holds = in_central_region(agent, truth, generator)  # type: ignore[arg-type]
    assert float(holds.float().mean()) == pytest.approx(0.9, abs=0.015)
    far = in_central_region(agent, truth + 100, generator)  # type: ignore[arg-type]
    assert not far.any()


@pytest.mark.parametrize(
    ("coverages", "expected"),
    [
        ({1.0: 0.5, 0.5: 0.86, 0.2: 0.9, 0.1: 1.0}, 0.5),  # the largest that is enough
        ({1.0: 0.95, 0.5: 1.0}, 1.0),
        ({1.0: 0.1, 0.5: 0.6, 0.2: 0.5}, 0.5),  # none is: the nearest
        ({1.0: 0.4, 0.5: 0.4}, 1.0),
    ],
)
def test_the_largest_temperature_with_enough_coverage_is_chosen(coverages: dict[float, float], expected: float) -> None:
    rows = [Calibration(temperature, share, [share], 1.0, 0.0, 0.1) for temperature, share in coverages.items()]
    assert choose(rows).temperature == expected


@pytest.mark.parametrize(
    ("name", "figure"),
    [("table-0.5", "table-0.5.png"), ("v1.2.json", "v1.2.png"), ("table", "table.png"), ("of.run.3", "of.run.3.png")],
)
def test_a_dot_in_the_name_of_a_table_is_no_ending(name: str, figure: str, run: Path, tmp_path: Path) -> None:
    flags = [*FAST, "--temperatures", "0.5", "--steps", "3"]
    assert main(["calibrate", str(run), *flags, "--out", str(tmp_path / name)]) == 0
    assert {file.name for file in tmp_path.iterdir()} == {name, figure}


@pytest.mark.parametrize("command", ["adapt", "track", "diagnose"])
@pytest.mark.parametrize("place", ["", "..", "checkpoints/results"])
def test_results_are_not_put_onto_the_run(
    command: str, place: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(run.rglob("*"))
    flags = {"adapt": ["--context", "5"], "track": ["--schedule", "0:3,2:9"], "diagnose": []}[command]
    assert "name a" in refused([command, str(run), *flags, "--out", str(run / place)], capsys)
    assert sorted(run.rglob("*")) == before
