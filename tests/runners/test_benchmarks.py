"""Every benchmark measures, records, and prints the same table from its rows."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from pyro_dynamics.benchmarks import collapse, long_run, planners, reliability, returns, training
from pyro_dynamics.benchmarks.crossed_states import means
from pyro_dynamics.control import CEMConfig
from pyro_dynamics.environments import find_family
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference import OfflineConfig
from pyro_dynamics.runners import benchmark
from pyro_dynamics.runners.benchmarks import cadm, guides
from pyro_dynamics.runners.benchmarks.returns import ReturnsFlags, measure_rows
from pyro_dynamics.runners.main import main
from pyro_dynamics.runners.train import parse

TINY = ["--rounds", "1", "--steps", "12", "--episodes", "1", "--offline.min-steps", "20", "--offline.epochs", "1"]
TINY += ["--ensemble.hidden", "8", "--ensemble.weight-decay", "0", "0", "--controller.horizon", "3"]
TINY += ["--controller.particles", "3", "--planner.candidates", "8", "--planner.elites", "2"]
TINY += ["--planner.iterations", "1"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", *TINY, "--out", str(folder)]) == 0
    return folder


def recorded(arguments: list[str], out: Path, capsys: pytest.CaptureFixture[str]) -> list[dict]:
    """The rows of a benchmark, whose table --report prints again."""
    capsys.readouterr()
    assert main(["benchmark", *arguments, "--out", str(out)]) == 0
    first = capsys.readouterr().out
    assert main(["benchmark", arguments[0], "--report", str(out)]) == 0
    again = capsys.readouterr().out
    assert first.endswith(again)
    assert "| " in again
    assert "Rows of " in again.splitlines()[-1]
    rows: list[dict] = json.loads(out.read_text())["rows"]
    return rows


def test_planners(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wide, narrow = CEMConfig(8, 2, 1), CEMConfig(4, 2, 1)
    few = [planners.Candidate(*planners.kind_of(config)) for config in (wide, narrow)]
    monkeypatch.setattr("pyro_dynamics.runners.benchmarks.planners.candidates", lambda: few)
    rows = recorded(["planners", str(run)], tmp_path / "rows.json", capsys)
    assert [row["evaluations"] for row in rows] == [8, 4]
    for row in rows:
        returns = torch.tensor(row["returns"])
        assert returns.shape == (5, 5)
        assert row["return"] == pytest.approx(float(returns.mean()))
        assert row["by_environment"] == pytest.approx(returns.mean(0).tolist())
    assert len(planners.candidates()) > 10


def test_crossed_states(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = recorded(["crossed-states", str(run)], tmp_path / "rows.json", capsys)
    assert row["run"] == "run"
    assert all(abs(row[name]) < 1e4 for name in ("own", "others"))
    found = torch.tensor([[1.0, 2.0], [3.0, 4.0], [7.0, 6.0]])  # rows 0 and 1 are of context 0
    assert means(found, torch.tensor([0, 0, 1])) == pytest.approx(((2.0 + 6.0) / 2, (3.0 + 7.0) / 2))


def test_guides(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guides, "FIT", OfflineConfig(guide_learning_rate=0.02, min_steps=20))
    monkeypatch.setattr(guides, "DRAWS", 100)
    rows = recorded(["guides", str(run)], tmp_path / "rows.json", capsys)
    assert len(rows) == 10
    assert {row["guide"] for row in rows} == {"diagonal", "full-rank"}
    assert all(min(row["elpd_diff"] for row in rows[k : k + 2]) == 0 for k in range(0, 10, 2))


def test_collapse(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collapse, "REMEDIES", {name: collapse.REMEDIES[name] for name in ("none", "free bits")})
    rows = recorded(["collapse", "--steps", "3", "--seeds", "2"], tmp_path / "rows.json", capsys)
    assert [(row["case"], row["remedy"], row["seed"]) for row in rows[:4]] == [
        ("quick guide", remedy, seed) for remedy in ("none", "free bits") for seed in (0, 1)
    ]


def test_cadm(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cadm, "PLANNER", "")
    monkeypatch.setattr(cadm, "JOBS", {"fixed": {("cadm-pendulum", "latent"): (" ".join(TINY), 2)}})
    arguments = ["cadm", "--runs", str(tmp_path / "runs"), "--families", "cadm-pendulum"]
    made_before = cadm.run
    rows = recorded(arguments, tmp_path / "rows.json", capsys)
    assert [row["seed"] for row in rows] == [0, 1]
    assert {"train", "moderate", "extreme"} <= set(rows[0]["returns"])
    made = {file: file.stat().st_mtime_ns for file in (tmp_path / "runs").rglob("*.json")}
    assert recorded(arguments, tmp_path / "others.json", capsys) == rows
    shutil.rmtree(tmp_path / "runs" / "cadm-pendulum-latent-1")
    again = recorded(arguments, tmp_path / "rows.json", capsys)  # as on another machine, where no runs are
    assert [{**row, "measured": again[0]["measured"]} for row in rows] == again
    assert {file: file.stat().st_mtime_ns for file in made if file.exists()} == {
        file: time for file, time in made.items() if "latent-1" not in str(file)
    }  # nothing was trained or evaluated again
    assert main(["benchmark", "cadm", "--families", "pendulum"]) == 2

    def run(flags: cadm.CadmFlags, family: str, agent: str, settings: str, seed: int) -> Path:
        if seed:
            raise KeyboardInterrupt
        return made_before(flags, family, agent, settings, seed)

    monkeypatch.setattr(cadm, "run", run)
    assert main(["benchmark", *arguments, "--out", str(tmp_path / "stopped.json")]) == 130
    assert [row["seed"] for row in json.loads((tmp_path / "stopped.json").read_text())["rows"]] == [0]


def test_ceiling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["ceiling", "--families", "pendulum-gravity", "--given", "true", "nominal", "--steps", "3"]
    arguments += ["--horizon", "2", "--folder", str(tmp_path / "kept"), "--seeds"]
    few = recorded([*arguments, "1"], tmp_path / "rows.json", capsys)
    assert {(row["given"], row["seed"]) for row in few} == {("true", 0), ("nominal", 0)}
    shutil.rmtree(tmp_path / "kept")
    more = recorded([*arguments, "2"], tmp_path / "rows.json", capsys)  # elsewhere: the rows are all that came along
    assert [{name: value for name, value in row.items() if name != "measured"} for row in more[: len(few)]] == few
    assert {(row["given"], row["seed"]) for row in more[len(few) :]} == {("true", 1), ("nominal", 1)}
    assert not list((tmp_path / "kept").glob("*-0-*.json"))
    assert recorded([*arguments, "2"], tmp_path / "anew.json", capsys)[-1]["returns"] == more[-1]["returns"]
    assert main(["benchmark", *arguments, "2", "--steps", "4", "--out", str(tmp_path / "rows.json")]) == 2
    assert "holds rows of other settings (steps 3, not 4)" in capsys.readouterr().err


def test_cadm_with_contexts_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings have CaDM's amount of data and draw from its grids; more seeds are added to those that are there."""
    for settings, _ in cadm.JOBS["drawn"].values():
        config = parse([*f"cadm-pendulum {settings}".split(), *cadm.PLANNER.split()]).run
        episodes = (config.rounds + 1) * config.episodes * len(find_family("cadm-pendulum").train)
        assert 39_000 < episodes * config.steps <= 40_000
        assert config.episode_contexts == "list"
    assert {agent for _, agent in cadm.JOBS["drawn"]} == {"latent", "latent, amortized guide", "generalist"}
    tiny = " ".join([*TINY, "--episode-contexts", "list"])
    jobs = {
        ("cadm-cartpole", agent): (f"{how} {tiny}", 2)
        for agent, how in (("latent", ""), ("generalist", "--agent generalist"))
    }
    monkeypatch.setattr(cadm, "PLANNER", "")
    monkeypatch.setattr(cadm, "JOBS", {"drawn": jobs})
    arguments = ["cadm", "--contexts", "drawn", "--runs", str(tmp_path / "runs")]
    first = recorded([*arguments, "--seeds", "1"], tmp_path / "one.json", capsys)
    rows = recorded(arguments, tmp_path / "rows.json", capsys)
    assert [(row["agent"], row["seed"]) for row in rows] == [
        ("latent", 0),
        ("latent", 1),
        ("generalist", 0),
        ("generalist", 1),
    ]
    assert rows[::2] == first
    assert 11 * 2 * 12 >= rows[0]["steps"] > 11 * 2 * 5
    assert main(["benchmark", "cadm", "--contexts", "drawn", "--families", "cadm-halfcheetah"]) == 2
    assert "is measured on cadm-cartpole alone" in capsys.readouterr().err


def test_returns(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a run against itself the difference is 0; rewards that fall show in it."""
    other = tmp_path / "other"
    shutil.copytree(run, other)
    arguments = ["returns", "--runs", str(run), "--against", str(other)]
    rows = recorded(arguments, tmp_path / "training.json", capsys)
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    last = [row["return"] for row in metrics if row["round"] == 1]
    assert rows[0]["returns"] == rows[1]["returns"] == {"trained on": pytest.approx(sum(last) / len(last))}
    rows = recorded([*arguments, "--on", "tests", "--episodes", "1"], tmp_path / "rows.json", capsys)
    assert rows[0]["returns"] == rows[1]["returns"]
    evaluated = json.loads((run / "evaluation-returns-1.json").read_text())["contexts"]
    of_all = [context["episodes"][0]["return"] for context in evaluated]
    assert rows[0]["returns"]["all"] == pytest.approx(sum(of_all) / len(of_all))
    found = returns.table(
        [
            {"family": "f", "seed": seed, "group": group, "returns": {"all": seed + size * (seed + 1)}}
            for group, size in (("runs", 1.0), ("against", 0.0))
            for seed in range(3)
        ]
    )
    assert found.splitlines()[-1] == "| f | all | 3 | 3.0 +- 5.0 | 1.0 +- 2.5 | +2.0 +- 2.5 |"
    with pytest.raises(UserError, match="same families and seeds"):
        measure_rows(ReturnsFlags(runs=(run,)))


def test_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every return of its runs; one that was there already is kept, without a CPU time."""
    flags = ["--by", "context", "--seeds", "2", "--runs", str(tmp_path / "runs")]
    arguments = ["training", "--commands", " ".join(["train", *TINY]), *flags]
    rows = recorded(arguments, tmp_path / "rows.json", capsys)
    assert [row["command"][-8:] for row in rows] == ["--seed 0", "--seed 1"]
    for row in rows:
        assert list(row["parts_cpu_s"]) == ["plans", "updates", "training"]
        assert row["parts_cpu_s"]["plans"] > 0 < row["parts_cpu_s"]["training"]
        assert row["parts_cpu_s"]["updates"] == 0, "the belief is not updated while training, by default"
        assert sum(row["parts_cpu_s"].values()) < row["cpu_s"]
    for seed, row in enumerate(rows):
        lines = (tmp_path / f"runs/0-{seed}/metrics.jsonl").read_text().splitlines()
        assert row["metrics"] == [json.loads(line) for line in lines]
    again = recorded(arguments, tmp_path / "again.json", capsys)
    kept = [{name: value for name, value in row.items() if name != "parts_cpu_s"} for row in rows]
    assert again == [{**row, "cpu_s": None} for row in kept]


@pytest.mark.parametrize(
    ("command", "named"),
    [
        *((f"train {words}", "settings of a run alone") for words in ("--out here", "--threads 2", "--tracker wandb")),
        ("adapt runs/one", "begins with `train`"),
        ("", "begins with `train`"),
        ("train --preset none", "--preset"),
    ],
)
def test_a_training_is_refused(command: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    with suppress(SystemExit):  # tyro's own, of a value that is none of the choices
        assert main(["benchmark", "training", "--commands", command]) == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--since", "1"], ["--by", "context", "--since", "-1"]])
def test_rounds_to_start_from_are_of_contexts(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "training", *flags]) == 2
    assert "--by context" in capsys.readouterr().err


def test_the_tables_of_trainings() -> None:
    """Means over contexts by round, and over rounds by context."""
    returns = {(0, 2.0): 1.0, (0, 4.0): 3.0, (1, 2.0): 5.0, (1, 4.0): 7.0, (2, 2.0): 10.0, (2, 4.0): 30.0}
    metrics = [{"round": m, "context": c, "return": value} for (m, c), value in returns.items()]
    row = {"command": "train", "family": "pendulum-gravity", "cpu_s": 4.4, "metrics": metrics}
    assert training.by_round([row, {**row, "metrics": metrics[:4], "cpu_s": None}]).splitlines() == [
        "| run | random | round 1 | round 2 | CPU s |",
        "|---|--:|--:|--:|--:|",
        "| `train` | 2.0 | 6.0 | 20.0 | 4 |",
        "| `train` | 2.0 | 6.0 |  |  |",
    ]
    last, since = (training.by_context([{**row, "cpu_s": None}], since) for since in (None, 1))
    assert last.splitlines()[0] == "| run | gravity (m/s^2): 2 | 4 | mean |"
    assert last.splitlines()[2] == "| `train` | 10.0 | 30.0 | 20.0 |"
    assert since.splitlines()[2] == "| `train` | 7.5 | 18.5 | 13.0 |"
    seeds = [{**row, "command": f"train --seed {seed}", "cpu_s": 4.0 + 2 * seed} for seed in range(2)]
    seeds[1]["metrics"] = [*metrics[:5], {"round": 2, "context": 4.0, "return": 50.0}]
    assert training.by_command(seeds).splitlines()[0] == "| run | seeds | return of the last round | CPU s |"
    # Means of 20 and 30, and of 4 and 6 s; Student's 95 % of two is 12.7 standard errors.
    assert training.by_command(seeds).splitlines()[2] == "| `train` | 2 | 25.0 +- 63.5 | 5.0 +- 12.7 |"
    parts = training.by_round([{**row, "parts_cpu_s": {"plans": 2.2, "training": 1.1}}])
    assert parts.splitlines()[0] == "| run | random | round 1 | round 2 | CPU s | plans | training |"
    assert parts.splitlines()[2] == "| `train` | 2.0 | 6.0 | 20.0 | 4 | 50% | 25% |"


def test_long_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = recorded(["long-run", "--updates", "11"], tmp_path / "rows.json", capsys)
    assert [row["updates"] for row in rows] == [11, 11, 11, 2]
    assert all(row["ms_first"] > 0 and row["mib_last"] > 10 for row in rows)
    summary = long_run.summary([*[1.0] * 10, *[5.0] * 10], [*range(20)])
    assert summary == {"ms_first": 1.0, "ms_last": 5.0, "mib_first": 1, "mib_last": 19}


def test_long_control(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = recorded(["long-control", "--steps", "100"], tmp_path / "rows.json", capsys)
    assert [row["steps"] for row in rows] == [10 * k for k in range(1, 11)]
    assert all(0 < row["ms"] <= row["ms_99"] for row in rows)


def test_reliability_counts_what_pytest_ran(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_some.py").write_text(
        "import pytest\n\n"
        "@pytest.mark.parametrize('n', [1, 2, 3])\ndef test_fine(n): assert n < 3\n\n"
        "def test_not_here(): pytest.skip('no')\n\n"
        "@pytest.fixture\ndef broken(): raise ValueError\n\ndef test_error(broken): pass\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    fault = reliability.Fault("wild numbers", ("tests/test_some.py",), "refused")
    row = reliability.count(fault, tmp_path)
    assert (row["passed"], row["failed"], row["skipped"]) == (2, 2, 1)
    assert "| wild numbers | `tests/test_some.py` | 2 | 2 | refused |" in reliability.table([row])


def test_the_files_of_the_fault_injection_tests_are_there() -> None:
    root = Path(__file__).parents[2]
    for fault in reliability.FAULTS:
        assert (root / fault.tests[0]).is_file()


@pytest.mark.parametrize("name", benchmark.BENCHMARKS)
def test_every_benchmark_teaches_its_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["benchmark", name, "--help"])
    assert stop.value.code == 0
    assert f"usage: pyro-dynamics benchmark {name}" in capsys.readouterr().out


def test_a_page_is_renewed_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.json"
    recorded(["collapse", "--steps", "1", "--seeds", "1"], rows, capsys)
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n<!-- begin: pyro-dynamics benchmark collapse --report {rows} -->\n<!-- end -->\n")
    assert main(["benchmark", "pages", str(page)]) == 0
    assert "| quick guide | none |" in page.read_text()
    assert "renewed" in capsys.readouterr().out
    assert main(["benchmark", "pages", str(page)]) == 0
    assert "as its rows say" in capsys.readouterr().out
    assert main(["benchmark", "index", "--report", str(tmp_path)]) == 0
    assert f"[Page](page.md) | `pyro-dynamics benchmark pages {page}`" in capsys.readouterr().out
