"""A model from logged transitions alone, and beliefs that follow a logged stream."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import refused
from logged_pendulums import SMALL, pendulum_log, saved

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.datasets.logged_rewards import other_rewards
from pyro_dynamics.datasets.sources import read_data
from pyro_dynamics.environments import find_family
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.runners import adapt
from pyro_dynamics.runners.common.factory import load_run
from pyro_dynamics.runners.main import main
from pyro_dynamics.transitions import Transitions

GRAVITIES = (2.0, 6.0, 10.0)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("logs") / "pendulum.npz", pendulum_log(GRAVITIES))


@pytest.fixture(scope="module")
def run(log: Path) -> Path:
    folder = log.parent / "run"
    assert main(["fit", str(log), *SMALL, "--group", "gravity", "--unit", "m/s^2", "--out", str(folder)]) == 0
    return folder


def test_the_latents_separate_the_environments(run: Path) -> None:
    rows = RunFolder.open(run).metrics()
    assert [row["context"] for row in rows] == list(GRAVITIES)
    for row in rows:
        assert row["log_likelihood"] > row["log_likelihood_wrong_latent"] + 1
    assert (run / "fit.png").read_bytes().startswith(b"\x89PNG")
    curve = [json.loads(line)["elbo"] for line in (run / "learning.jsonl").read_text().splitlines()]
    assert curve[-1] > curve[0] + 1


def test_whole_episodes_are_held_out_and_nothing_is_lost(run: Path, log: Path) -> None:
    trained, held_out = RunFolder.open(run).transitions()
    assert [len(episode) for episode in held_out.episodes()] == [40] * 3
    assert sorted(held_out.environment.unique().tolist()) == [0, 1, 2]
    arrays = np.load(log)
    both = torch.cat([trained.state, held_out.state])
    assert len(both) == len(arrays["state"])
    assert set(map(tuple, both.tolist())) == set(map(tuple, arrays["state"].tolist()))
    assert not set(map(tuple, trained.state.tolist())) & set(map(tuple, held_out.state.tolist()))


def test_diagnose_judges_what_was_held_out(run: Path) -> None:
    assert main(["diagnose", str(run), "--draws", "120", "--horizon", "5", "--particles", "20"]) == 0
    stored = json.loads((run / "diagnose-draws=120-horizon=5-particles=20" / "diagnostics.json").read_text())
    assert [one["environment"] for one in stored["verdicts"]] == ["2", "6", "10"]
    assert [one["transitions"] for one in stored["predictions"]] == [40] * 3


def test_a_belief_follows_a_logged_stream_to_its_gravity(run: Path, tmp_path: Path) -> None:
    new = saved(tmp_path / "new.npz", pendulum_log((8.0,), episodes=1))
    out = tmp_path / "replay"
    assert main(["adapt", str(run), "--replay", str(new), "--quiet", "--out", str(out)]) == 0
    rows = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    assert [row["context"] for row in rows] == [8.0] * 40
    stored = Transitions.load(out / "transitions.npz")
    assert np.array_equal(stored.action.numpy(), np.load(new)["action"])  # nobody else acted
    (belief,) = json.loads((out / "summary.json").read_text())["belief"]
    assert abs(belief["decoded"] - 8.0) < 1.5
    assert main(["diagnose", str(out)]) == 0
    assert json.loads((out / "diagnose" / "diagnostics.json").read_text())["length"] == 40


def test_a_stream_of_unknown_gravity_can_be_followed(run: Path, tmp_path: Path) -> None:
    arrays = pendulum_log((3.0,), episodes=2, steps=15)
    new = saved(tmp_path / "unknown.npz", {name: arrays[name] for name in ("state", "action", "next_state")})
    out = tmp_path / "replay"
    assert main(["adapt", str(run), "--replay", str(new), "--steps", "20", "--out", str(out)]) == 0
    rows = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    assert [row["context"] for row in rows] == [None] * 20
    assert main(["diagnose", str(out)]) == 0
    flags = ["--schedule", "0:3,10:4", "--steps", "12", "--out", str(out)]
    assert main(["adapt", str(run), "--replay", str(new), *flags]) == 0
    rows = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    assert [row["context"] for row in rows] == [3.0] * 10 + [4.0] * 2


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def test_a_replay_that_was_stopped_resumes_with_the_same_contexts_alone(
    run: Path, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    follow = ["adapt", str(run), "--replay", str(log), "--environment", "6", "--steps", "5", "--quiet"]
    follow += ["--out", str(tmp_path), "--schedule"]
    with monkeypatch.context() as patch:
        patch.setattr(adapt, "summarise", interrupted)
        assert main([*follow, "0:2,3:6"]) == 130
    message = refused([*follow, "0:2,3:10"], capsys)
    assert "another context or schedule" in message
    assert main([*follow, "0:2,3:6"]) == 0
    assert "resumes after 5 steps" in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert [row["context"] for row in rows] == [2.0] * 3 + [6.0] * 2


def test_other_data_of_the_same_name_and_other_long_schedules_are_other_results(
    run: Path, log: Path, tmp_path: Path
) -> None:
    follow = ["adapt", str(run), "--environment", "6", "--steps", "3", "--quiet", "--replay"]
    (tmp_path / "tuesday").mkdir()
    other = tmp_path / "tuesday" / log.name
    arrays = dict(np.load(log))
    np.savez(other, **{**arrays, "action": arrays["action"] / 2})
    changes = ",".join(f"{step}:{2 + step % 2}" for step in range(40))
    before = set((run / "adapt").glob("*"))
    for flags in (
        [str(log)],
        [str(other)],
        [str(log), "--schedule", f"0:6,1:7,2:{changes[-1]}"],
        [str(log), "--steps", "60", "--schedule", f"{changes},50:4"],
        [str(log), "--steps", "60", "--schedule", f"{changes},50:5"],
    ):
        assert main([*follow, *flags]) == 0
    made = set((run / "adapt").glob("*")) - before
    assert len(made) == 5
    assert main([*follow, str(log)]) == 0
    assert set((run / "adapt").glob("*")) - before == made


def test_a_fit_that_was_stopped_leaves_its_place_free(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = ["fit", str(log), *SMALL, "--offline.min-steps", "1", "--group", "gravity", "--out", str(tmp_path / "run")]
    with monkeypatch.context() as patch:
        patch.setattr(AgentGroup, "train", interrupted)
        assert main(fit) == 130
    assert main(fit) == 0


def test_the_runs_own_files_know_their_environments(run: Path, tmp_path: Path) -> None:
    kept = run / "transitions" / "round-001.npz"
    out = tmp_path / "replay"
    follow = ["adapt", str(run), "--replay", str(kept), "--steps", "5", "--quiet", "--out", str(out)]
    assert main([*follow, "--environment", "10"]) == 0
    assert json.loads((out / "steps.jsonl").read_text().splitlines()[0])["context"] == 10.0


def test_the_order_of_the_rows_separates_episodes_where_nothing_else_does(tmp_path: Path) -> None:
    arrays = pendulum_log((2.0, 10.0), episodes=2, steps=15)
    file = saved(
        tmp_path / "bare.npz",
        {name: arrays[name] for name in ("state", "action", "next_state")} | {"environment": arrays["gravity"] > 5},
    )
    out = tmp_path / "run"
    assert main(["fit", str(file), *SMALL, "--offline.min-steps", "1", "--out", str(out)]) == 0
    folder = RunFolder.open(out)
    assert sorted(len(episode) for data in folder.transitions() for episode in data.episodes()) == [15] * 4
    assert [row["context"] for row in folder.metrics()] == ["False", "True"]
    assert [row["return"] for row in folder.metrics()] == [None, None]


def test_of_a_single_episode_the_last_block_is_held_out(tmp_path: Path) -> None:
    files = [
        str(saved(tmp_path / f"g{gravity:g}.npz", pendulum_log((gravity,), episodes=1, steps=50)))
        for gravity in (2.0, 10.0)
    ]
    out = tmp_path / "run"
    assert main(["fit", *files, *SMALL, "--offline.min-steps", "1", "--out", str(out)]) == 0
    folder = RunFolder.open(out)
    assert [row["context"] for row in folder.metrics()] == ["g10", "g2"]
    held_out = folder.transitions()[1]
    assert held_out.step[held_out.environment == 0].tolist() == list(range(40, 50))


def test_our_own_transitions_work_as_they_are(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "again"
    ours = run / "transitions" / "round-000.npz"
    assert main(["fit", str(ours), *SMALL, "--offline.min-steps", "1", "--agent", "generalist", "--out", str(out)]) == 0
    assert [row["context"] for row in RunFolder.open(out).metrics()] == ["0", "1", "2"]


def test_a_registered_family_lends_task_and_simulator(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    family = ["--family", "pendulum-gravity", "--group", "gravity"]
    assert main(["fit", str(log), *SMALL, "--offline.min-steps", "1", *family, "--out", str(out)]) == 0
    assert load_run(out)[3].agents[0].task.target_dim == 2
    assert main(["adapt", str(out), "--context", "7", "--steps", "2", "--quiet"]) == 0


def test_several_columns_of_quantities_are_several_hidden_parameters(tmp_path: Path) -> None:
    arrays = pendulum_log((4.0, 8.0), episodes=3, masses=(0.5, 1.0))
    file, out = saved(tmp_path / "both.npz", arrays), tmp_path / "run"
    group = ["--group", "gravity,mass", "--unit", "m/s^2,kg"]
    assert main(["fit", str(file), *SMALL, *group, "--out", str(out)]) == 0
    rows = RunFolder.open(out).metrics()
    assert [row["context"] for row in rows] == [[4.0, 0.5], [4.0, 1.0], [8.0, 0.5], [8.0, 1.0]]
    assert load_run(out)[2].axes == ("gravity (m/s^2)", "mass (kg)")
    replay = ["adapt", str(out), "--quiet", "--out", str(tmp_path / "replay"), "--replay"]
    assert main([*replay, str(file), "--environment", "8,0.5", "--steps", "10"]) == 0
    steps = [json.loads(line) for line in (tmp_path / "replay" / "steps.jsonl").read_text().splitlines()]
    assert [row["context"] for row in steps] == [[8.0, 0.5]] * 10

    bare = saved(tmp_path / "bare.npz", {name: arrays[name][:20] for name in ("state", "action", "next_state")})
    assert main([*replay, str(bare)]) == 0
    (belief,) = json.loads((tmp_path / "replay" / "summary.json").read_text())["belief"]
    assert belief["context"] is None
    assert len(belief["decoded"]) == 2
    assert main(["diagnose", str(tmp_path / "replay")]) == 0
    stored = json.loads((tmp_path / "replay" / "diagnose" / "diagnostics.json").read_text())
    assert not any("the true" in reason for reason in stored["verdict"]["reasons"])


def test_a_replay_may_follow_every_kind_of_schedule(run: Path, log: Path, tmp_path: Path) -> None:
    replay = ["adapt", str(run), "--replay", str(log), "--environment", "6", "--quiet", "--steps", "8"]
    assert main([*replay, "--schedule", "ramp:0:2,4:6", "--out", str(tmp_path)]) == 0
    rows = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert [row["context"] for row in rows] == [2.0, 3.0, 4.0, 5.0, 6.0, 6.0, 6.0, 6.0]


def test_what_needs_a_simulator_says_so(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for command in (
        ["adapt", str(run), "--context", "3"],
        ["evaluate", str(run)],
        ["track", str(run), "--schedule", "0:3,5:9"],
    ):
        assert "no simulator" in refused(command, capsys)
    assert "logged data" in refused(["train", "--resume", str(run)], capsys)
    assert "logged data" in refused(["compare", str(run)], capsys)
    assert not (run / "evaluation.json").exists()


def test_bad_replays_are_refused(run: Path, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replay = ["adapt", str(run), "--replay", str(log)]
    assert "2, 6, 10" in refused(replay, capsys)
    assert "2, 6, 10" in refused([*replay, "--environment", "7"], capsys)
    assert "160" in refused([*replay, "--environment", "6", "--steps", "161"], capsys)
    assert "--video" in refused([*replay, "--environment", "6", "--video"], capsys)
    assert "--replay" in refused(["adapt", str(run), "--environment", "6", "--context", "6"], capsys)


def spoiled(arrays: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The arrays with one thing wrong."""
    state, rows = arrays["state"].copy(), len(arrays["state"])
    state[17, 2] = np.nan
    changes: dict[str, dict[str, np.ndarray | None]] = {
        "not finite": {"state": state},
        "missing": {"action": None},
        "shorter": {"reward": arrays["reward"][:-1]},
        "a vector": {"action": arrays["action"][:, 0]},
        "shapes": {"next_state": arrays["next_state"][:, :2]},
        "text": {"state": arrays["state"].astype(str)},
        "objects": {"gravity": np.array([{}] * rows, dtype=object)},
        "one": {"gravity": np.full(rows, 3.0)},
        "no group": {"gravity": None},
        "group not finite": {"gravity": np.where(np.arange(rows) == 5, np.nan, arrays["gravity"])},
        "too few": {"gravity": np.where(np.arange(rows) < 3, 1.0, arrays["gravity"])},
    }
    found = {key: value for key, value in (arrays | changes.get(name, {})).items() if value is not None}
    if name == "length 1":
        order = np.random.default_rng(0).permutation(rows)
        return {key: value[order] for key, value in found.items() if key not in ("step", "episode")}
    return {key: value[:0] for key, value in found.items()} if name == "empty" else found


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("not finite", "state is nan in row 17, column 2"),
        ("missing", "no array action: it has state, next_state"),
        ("shorter", "state 480, reward 479"),
        ("a vector", "action has the shape [480]"),
        ("shapes", "[480, 3] and [480, 2]"),
        ("text", "state must be numbers"),
        ("objects", "gravity holds Python objects"),
        ("one", "of one environment (gravity 3)"),
        ("no group", "no column 'gravity'"),
        ("group not finite", "gravity is nan in row 5"),
        ("too few", "gravity 1 has 3 transitions"),
        ("length 1", "every episode has length 1"),
        ("empty", "holds no transitions"),
    ],
)
def test_bad_data_is_refused_in_words(
    name: str, words: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with np.load(log) as stored:
        file = saved(tmp_path / "bad.npz", spoiled(dict(stored), name))
    message = refused(["fit", str(file), "--group", "gravity", "--out", str(tmp_path / "never")], capsys)
    assert words in message
    assert name in ("one", "too few", "length 1") or str(file) in message
    assert not (tmp_path / "never").exists()


def test_other_mistakes_are_refused_in_words(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "gravity" in refused(["fit", str(log)], capsys)  # names the columns
    assert "its columns are gravity" in refused(["fit", str(log), "--group", "mass"], capsys)
    assert "no file" in refused(["fit", str(tmp_path / "missing.npz")], capsys)
    junk = tmp_path / "junk.npz"
    junk.write_bytes(b"junk")
    assert "not an .npz file" in refused(["fit", str(junk)], capsys)
    assert "--hold-out" in refused(["fit", str(log), "--group", "gravity", "--hold-out", "1"], capsys)
    assert "more than once" in refused(["fit", str(log), str(log)], capsys)
    other = saved(tmp_path / "other.npz", {name: np.ones((20, 2)) for name in ("state", "action", "next_state")})
    assert "2 state entries" in refused(["fit", str(log), str(other)], capsys)
    assert "no column 'mass'" in refused(["fit", str(log), "--group", "gravity,mass"], capsys)
    whole = saved(tmp_path / "whole.npz", pendulum_log((2.0, 4.0)) | {"mass": np.arange(320) % 2})
    assert "mass holds no floats" in refused(["fit", str(whole), "--group", "gravity,mass"], capsys)
    two = saved(tmp_path / "two.npz", pendulum_log((2.0, 4.0), masses=(1.0, 2.0)))
    assert "names 3 units for 2 columns" in refused(
        ["fit", str(two), "--group", "gravity,mass", "--unit", "a,b,c", "--out", str(tmp_path / "never")], capsys
    )
    assert not (tmp_path / "never").exists()
    message = refused(["fit", str(log), "--group", "gravity", "--family", "halfcheetah-tilt"], capsys)
    assert "3 and 1 entries, not 18 and 6" in message
    rng = np.random.default_rng(0)
    sizes = {"state": 5, "next_state": 5, "action": 2}
    rows = {name: rng.normal(size=(60, size)) for name, size in sizes.items()}
    point = saved(tmp_path / "point.npz", rows | {"drag": np.repeat([0.0, 1.0], 30), "episode": np.arange(60) // 10})
    message = refused(["fit", str(point), "--group", "drag", "--family", "point_mass:learned"], capsys)
    assert "observations of 5 numbers, and what the task learns comes after them: append the last reward to" in message
    pushed = rows | {"action": rng.integers(1, 5, (60, 1)), "drag": np.repeat([0.0, 1.0], 30), "step": np.arange(60)}
    pushed |= {name: np.pad(rows[name], ((0, 0), (0, 1))) for name in ("state", "next_state")}
    buttons = saved(tmp_path / "buttons.npz", pushed)
    message = refused(["fit", str(buttons), "--group", "drag", "--family", "point_mass:buttons"], capsys)
    assert "log the code in place of the number, here 4 columns from column 0 on, as numpy.eye(4)[number]" in message


def test_a_large_run_is_judged_on_a_part_and_says_so(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = ["diagnose", str(run), "--draws", "120", "--horizon", "5", "--particles", "20", "--out", str(tmp_path)]
    assert main([*judge, "--rows", "90"]) == 0
    printed = capsys.readouterr().out
    assert "of 360 transitions that were trained on 90 are taken" in printed
    assert "of 120 held-out transitions 90 are predicted" in printed
    stored = json.loads((tmp_path / "diagnostics.json").read_text())
    assert stored["settings"]["rows"] == 90
    assert [one["transitions"] for one in stored["predictions"]] == [30] * 3
    assert "90 are taken" in (tmp_path / "report.md").read_text()
    assert all(max(map(abs, one["importance"]["shift"])) < 1 for one in stored["quality"])
    assert "--rows must be 30 or more for 3 environments, not 29" in refused([*judge, "--rows", "29"], capsys)
    assert "--rows must be at least 0, not -1" in refused([*judge, "--rows", "-1"], capsys)
    assert main([*judge, "--rows", "0"]) == 0
    assert "are taken" not in capsys.readouterr().out


def as_angles(arrays: dict[str, np.ndarray], degrees: bool) -> dict[str, np.ndarray]:
    """The same log of the angle itself, which wraps, in place of cosine and sine."""

    def of(state: np.ndarray) -> np.ndarray:
        angle = np.arctan2(state[:, 1], state[:, 0])
        return np.stack([np.rad2deg(angle) if degrees else angle, state[:, 2]], 1)

    return arrays | {"state": of(arrays["state"]), "next_state": of(arrays["next_state"])}


@pytest.mark.parametrize("degrees", [False, True])
def test_angles_in_a_log_are_warned_of_and_learned_where_they_are_named(
    degrees: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = saved(tmp_path / "log.npz", as_angles(pendulum_log(GRAVITIES), degrees))
    reached = []
    for name, named in (("without", []), ("with", ["--angles", "0"])):
        command = ["fit", str(log), *SMALL, "--group", "gravity", *named, "--out", str(tmp_path / name)]
        assert main(command) == 0
        assert ("fit --angles 0, or observe" in capsys.readouterr().err) == (not named)
        rows = RunFolder.open(tmp_path / name).metrics()
        reached.append(np.mean([row["log_likelihood"] for row in rows]))
    assert reached[1] > reached[0] + 1  # in nats for each transition
    assert main(["diagnose", str(tmp_path / "with"), "--draws", "120", "--horizon", "5", "--particles", "20"]) == 0
    new = saved(tmp_path / "new.npz", as_angles(pendulum_log((8.0,), episodes=1), degrees))
    assert main(["adapt", str(tmp_path / "with"), "--replay", str(new), "--quiet"]) == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--angles", "2"], "--angles names the entry 2: a state has the entries 0 to 1"),
        (["--angles", "1"], "neither radians nor degrees of one turn"),
        (["--angles", "0", "--family", "pendulum-gravity"], "leave one of them out"),
    ],
)
def test_angles_that_are_none_are_refused(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = pendulum_log((2.0, 6.0), episodes=2)
    if "--family" not in flags:
        arrays = as_angles(arrays, degrees=False)
        for name in ("state", "next_state"):
            arrays[name][:, 1] *= 1000
    log = saved(tmp_path / "log.npz", arrays)
    command = ["fit", str(log), *SMALL, "--group", "gravity", *flags, "--out", str(tmp_path / "run")]
    assert words in refused(command, capsys)


def test_a_row_that_decides_all_scales_and_digits_that_are_lost_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = pendulum_log((2.0, 6.0), episodes=2)
    arrays["state"], arrays["next_state"] = (arrays[name].astype(np.float64) for name in ("state", "next_state"))
    arrays["next_state"][50, 1] = 1e6
    for name in ("state", "next_state"):
        arrays[name][:, 0] += 4.5e6
    log = saved(tmp_path / "log.npz", arrays)
    assert main(["fit", str(log), *SMALL, "--group", "gravity", "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr()
    assert (
        "a few rows decide the scale of all: the change of state 1 (in 1 of 160 rows; 1e+06 in step 10 of gravity 2"
        in printed.err
    )
    assert "the numbers are too large for their changes: state 0 (about 4.5e+06" in printed.out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (lambda one: {"reward": np.roll(one["reward"], 1)}, "each is that of the row before it: move the column"),
        (lambda one: {"reward": np.roll(one["reward"], -1)}, "each is that of the row after it: move the column"),
        (lambda one: {name: one[name][:, [1, 0, 2]] for name in ("state", "next_state")}, "another order"),
        (lambda one: {"action": 10 * one["action"]}, "other units"),
        (lambda one: {"reward": -one["reward"]}, "another meaning"),
    ],
)
def test_rewards_that_are_not_those_of_the_family_are_named(changes: Any, words: str) -> None:
    log, task = pendulum_log((2.0, 6.0)), find_family("pendulum-gravity").make_task()
    logs: list[dict[str, np.ndarray]] = [log, log | changes(log)]
    found = [read_data(one, "gravity").transitions for one in logs]
    assert other_rewards(found[0], task, "pendulum-gravity", str) == ""
    warning = other_rewards(found[1], task, "pendulum-gravity", str)
    assert "the logged rewards are not those of the family pendulum-gravity in" in warning
    assert words in warning
