"""Flights in wind: made up here by a known force, as the real ones have no licence that would let them be copied."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import refused

from pyro_dynamics.agent import Agent
from pyro_dynamics.benchmarks.neural_fly import Flight, ForceTask, as_environments, read_flight, replay, splits, table
from pyro_dynamics.runners.benchmarks.neural_fly import FIT, LAST_LAYER, train
from pyro_dynamics.runners.common.factory import last_layer_belief
from pyro_dynamics.runners.fit import run_config
from pyro_dynamics.runners.main import main

NOISE = 0.1
STEPS = 200
FEW = ["--offline.epochs", "1", "--offline.min-steps", "400"]
LISTS = ("p", "p_d", "v", "v_d", "q", "w", "fa", "pwm", "T_sp", "hover_throttle", "q_sp")
Change = Callable[[list[dict[str, Any]]], object]


def force(wind: float, velocity: np.ndarray) -> np.ndarray:
    """In N: the wind pushes along x, and the drag grows with it."""
    push = np.array([-4 * wind, 0.5 * wind, wind])
    return push - (0.3 + wind) * velocity


def fly(file: Path, wind: float, steps: int = STEPS, change: Change | None = None) -> Path:
    """A made-up flight in a file with the columns of the real ones: a list of numbers as text in each cell."""
    rng, t = np.random.default_rng(int(100 * wind) + len(file.name)), 0.02 * np.arange(steps)
    v = np.stack([np.sin(1.3 * t), np.cos(1.7 * t), np.sin(2.9 * t)], 1)
    q = np.stack([0 * t, 0.1 * np.sin(t), 0 * t, 1 + 0 * t], 1)
    named = {"v": v, "q": q, "pwm": 1000 + 100 * np.stack([v[:, 2]] * 4, 1)}
    named["fa"] = force(wind, v) + NOISE * rng.standard_normal(v.shape)
    rows = [{"": i, "t": t[i], **{name: named.get(name, v)[i].tolist() for name in LISTS}} for i in range(steps)]
    if change is not None:
        change(rows)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("neural-fly")
    for wind in (0, 10, 20, 30, 40, 50):
        fly(root / f"data/training/custom_random3_baseline_{wind or 'no'}wind.csv", wind / 100)
    for wind, steps in ((0, STEPS), (35, STEPS - 7), (70, STEPS)):
        fly(root / f"data/experiment/custom_figure8_baseline_{wind or 'no'}wind.csv", wind / 100, steps)
        fly(root / f"data/experiment/custom_figure8_NF-C_{wind or 'no'}wind.csv", wind / 100)
    return root


@pytest.fixture(scope="module")
def agents(folder: Path) -> dict[str, Agent]:
    ((learned, _),) = splits(folder, "authors")
    config = run_config(replace(FIT, offline=replace(FIT.offline, epochs=1, min_steps=400)), None, 1)
    found = {"latent": train(config, learned), "last-layer": train(replace(config, agent="last-layer"), learned)}
    found["latent"].make_belief = FIT.online.factory()
    found["last-layer"].make_belief = last_layer_belief(FIT.online)
    return found


def follow(agent: Agent, flight: Flight, adapts: bool = True) -> torch.Tensor:
    (errors,) = replay(agent, [flight], adapts, torch.Generator().manual_seed(0), lambda: None)
    return errors


def test_what_is_read_is_what_is_in_the_file(folder: Path) -> None:
    file = folder / "data/experiment/custom_figure8_baseline_35wind.csv"
    with file.open() as text:
        rows = list(csv.DictReader(text))
    flight = read_flight(file)
    assert (flight.wind, flight.controller, len(flight.steps)) == ("35wind", "baseline", len(rows) - 1)
    task = ForceTask()
    inputs = task.inputs(flight.steps.state, flight.steps.action)
    for i in (0, 1, 50, len(rows) - 2):
        v, q, pwm, fa = (json.loads(rows[i][name]) for name in ("v", "q", "pwm", "fa"))
        assert inputs[i].tolist() == pytest.approx([*v, *q, *(one / 1000 for one in pwm)], abs=1e-6)
        assert flight.force[i].tolist() == pytest.approx(fa, abs=1e-5)
        if i:
            assert flight.steps.state[i, 7:].tolist() == pytest.approx(json.loads(rows[i - 1]["fa"]), abs=1e-5)
    assert len(flight.steps.episodes()) == 1
    trained, held_out = as_environments([flight, flight], 0.2)
    assert [len(trained), len(held_out)] == [2 * 154, 2 * 38]
    assert int(held_out.step.min()) > int(trained.step.max())


def test_adaptation_comes_to_the_true_force_and_nothing_else_does(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.json"
    how = ["benchmark", "neural-fly", str(folder), "--seeds", "1", "--methods", "recursive:natural", *FEW]
    how += ["--kept", str(tmp_path / "kept")]
    assert main([*how, "--out", str(out)]) == 0
    first = capsys.readouterr().out
    assert main(["benchmark", "neural-fly", "--report", str(out)]) == 0
    again = capsys.readouterr().out
    assert first.endswith(again)
    assert "| 35wind |" in again
    assert "| 0.74 |" in again
    recorded = json.loads(out.read_text())
    (kept,) = (tmp_path / "kept").glob("*.json")
    written = kept.stat().st_mtime_ns
    assert main([*how, "--out", str(out)]) == 0
    assert json.loads(out.read_text())["rows"] == recorded["rows"]
    assert kept.stat().st_mtime_ns == written  # nothing was trained or replayed again
    error = {(row["wind"], row["method"]): row["error"] for row in recorded["rows"]}
    assert list(dict.fromkeys(wind for wind, _ in error)) == ["nowind", "35wind", "70wind"]
    for wind in ("nowind", "35wind"):  # within the range of the training
        for method in ("latent, recursive:natural", "last-layer, recursive"):
            assert error[wind, method] < 5 * NOISE**2, (wind, method)
    for wind, times in (("nowind", 5), ("35wind", 2), ("70wind", 5)):  # the trained winds' mean is near the second
        for kind, method in (("latent", "recursive:natural"), ("last-layer", "recursive")):
            assert error[wind, f"{kind}, no adaptation"] > times * error[wind, f"{kind}, {method}"], (wind, kind)
    flight = read_flight(folder / "data/experiment/custom_figure8_baseline_70wind.csv")
    assert error["70wind", "force 0"] == pytest.approx(float(flight.force.square().mean()), rel=1e-5)
    assert error["70wind", "last force"] < 4 * NOISE**2 < error["70wind", "force 0"]
    assert all(
        name.endswith("wind") and "random3" in name for name in recorded["settings"]["learned_from"][flight.name]
    )


@pytest.mark.parametrize("kind", ["latent", "last-layer"])
def test_no_prediction_knows_the_force_that_it_predicts_or_a_later_one(
    kind: str, agents: dict[str, Agent], folder: Path
) -> None:
    """One force is another: predictions before and of that step are the same, those after it are not."""
    flight, at, size = read_flight(folder / "data/experiment/custom_figure8_baseline_35wind.csv"), 20, 2.0
    steps = flight.steps.select(torch.arange(30))
    errors, unadapted = [], []
    for sign in (0, 1, -1):
        after = steps.next_state.clone()
        after[at, 7] += sign * size
        other = replace(flight, steps=replace(steps, next_state=after))
        errors.append(follow(agents[kind], other))
        unadapted.append(follow(agents[kind], other, adapts=False))
    for own, up, down in (errors, unadapted):
        assert torch.equal(own[:at], up[:at])
        # ((p - f - s)^2 + (p - f + s)^2 - 2 (p - f)^2) / 3, if it is one prediction p in all of them
        assert float(up[at] + down[at] - 2 * own[at]) == pytest.approx(2 * size**2 / 3, rel=1e-4)
    assert not torch.isclose(errors[0][at + 1 :], errors[1][at + 1 :], rtol=1e-4).any()
    assert torch.equal(unadapted[0][at + 1 :], unadapted[1][at + 1 :])


def test_flights_side_by_side_are_those_one_by_one(agents: dict[str, Agent], folder: Path) -> None:
    """Also where one ends before the others."""
    ((_, tests),) = splits(folder, "authors")
    together = replay(agents["last-layer"], tests, True, torch.Generator(), lambda: None)
    assert [len(one) for one in together] == [len(one.steps) for one in tests]
    for flight, errors in zip(tests, together, strict=True):
        assert torch.allclose(follow(agents["last-layer"], flight), errors, rtol=1e-3, atol=1e-6)


def test_each_wind_is_predicted_by_the_others(folder: Path) -> None:
    found = splits(folder, "winds")
    assert [[one.wind for one in tests] for _, tests in found] == [["nowind"], ["35wind"], ["70wind"]]
    for learned, (test,) in found:
        assert len(learned) == 4
        assert test.wind not in {one.wind for one in learned}


def test_the_table_has_means_and_intervals() -> None:
    rows = [{"wind": "35wind", "method": "force 0", "seed": None, "error": 4.0}]
    rows += [{"wind": "35wind", "method": "latent", "seed": seed, "error": 1.0 + seed} for seed in range(3)]
    assert table(rows).splitlines()[-1] == "| 35wind | 4.00 | 2.00 +- 2.48 | 0.74 |"
    assert set(LAST_LAYER) == {"changepoint", "recursive"}


def dropped(name: str) -> Change:
    return lambda rows: [row.pop(name) for row in rows]


def put(row: int, name: str, value: object) -> Change:
    return lambda rows: rows[row].update({name: value})


FAULTS: dict[str, tuple[Change, str]] = {
    "no force": (dropped("fa"), "has no column fa: a flight has v, q, pwm, fa"),
    "no motors": (dropped("pwm"), "has no column pwm"),
    "no velocity": (dropped("v"), "has no column v:"),
    "three motors": (
        lambda rows: [row.update(pwm=[1, 2, 3]) for row in rows],
        "pwm has the shape [3] in each row, not",
    ),
    "a number alone": (lambda rows: [row.update(q=1.0) for row in rows], "q has the shape [] in each row, not [4]"),
    "a short cell": (put(7, "v", [0.0, 1.0]), "v has the shape [2] in row 7, and [3] in the first row"),
    "words": (put(3, "fa", "[a, b, c]"), "fa is '[a, b, c]' in row 3, and no list of numbers"),
    "an empty cell": (put(9, "q", ""), "q is 'nan' in row 9"),
    "not finite": (put(5, "fa", "[0, NaN, 0]"), "fa is nan in row 5, column 1"),
    "too short": (lambda rows: rows.__delitem__(slice(20, None)), "has 20 steps: a flight needs 50 or more"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_is_no_flight_is_refused_by_its_name(
    fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, words = FAULTS[fault]
    file = fly(tmp_path / "data/experiment/custom_figure8_baseline_nowind.csv", 0.0, change=change)
    printed = refused(["benchmark", "neural-fly", str(tmp_path)], capsys)
    assert words in printed
    assert str(file) in printed


def test_a_wrong_folder_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["benchmark", "neural-fly"]
    assert "give the folder of the flights: git clone" in refused(command, capsys)
    for wrong in (tmp_path / "nowhere", tmp_path, folder / "data"):
        assert f"{wrong}/data/experiment has no flights: give the folder" in refused([*command, str(wrong)], capsys)
    own = tmp_path / "data/experiment"
    fly(own / "custom_figure8_NF_nowind.csv", 0.0)
    assert "has no flight of the baseline controller" in refused([*command, str(tmp_path)], capsys)
    fly(own / "custom_figure8_baseline_nowind.csv", 0.0)
    assert "data/training has no flights" in refused([*command, str(tmp_path)], capsys)
    fly(own / "custom_figure8_baseline_35wind.csv", 0.35)
    assert "too few winds" in refused([*command, str(tmp_path), "--split", "winds"], capsys)
    assert "does not read BELIEF:UPDATE" in refused([*command, str(tmp_path), "--methods", "best"], capsys)
    prior = [*command, str(tmp_path), "--methods", "recursive:natural:prior=standard"]
    assert "begin at the learned prior here" in refused(prior, capsys)
    fly(own / "flight.csv", 0.35)
    assert "is called VEHICLE_TRAJECTORY_CONTROLLER_WIND.csv" in refused([*command, str(tmp_path)], capsys)
