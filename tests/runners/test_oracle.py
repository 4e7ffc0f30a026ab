"""The oracle, which is given the true context: through every command, and whether it uses it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import refused

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.environments import Schedule, find_family
from pyro_dynamics.rollouts.acting import ContextChange
from pyro_dynamics.rollouts.adaptation import adapt
from pyro_dynamics.runners.common.factory import group_for, load_run
from pyro_dynamics.runners.main import main

TINY = [
    *("--rounds", "2", "--steps", "25", "--episodes", "1", "--agent", "oracle"),
    *("--ensemble.hidden", "16", "--ensemble.weight-decay", "1e-5", "1e-5"),
    *("--offline.epochs", "2", "--offline.min-steps", "50"),
    *("--controller.horizon", "5", "--planner.candidates", "20", "--planner.elites", "4"),
]
FAMILY = find_family("pendulum-gravity")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "oracle"
    assert (
        main(["train", *TINY, "--rounds", "1", "--steps", "60", "--offline.min-steps", "600", "--out", str(folder)])
        == 0
    )
    return folder


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_the_right_context_predicts_better_than_a_wrong_one(run: Path) -> None:
    last = metrics(run)[-5:]
    gaps = [row["log_likelihood"] - row["log_likelihood_wrong_latent"] for row in last]
    assert min(gaps) > 20  # nats per transition
    assert all(row["latent_mean"] == row["latent_sd"] == [] for row in last)


def test_the_true_context_moves_the_prediction_the_way_gravity_does(run: Path) -> None:
    """A pendulum at the side, left alone, falls faster the stronger gravity is: also between trained contexts."""
    group = load_run(run)[-1]
    agent = group_for(group, FAMILY, [3.0]).agents[0]
    state, action = torch.tensor([[0.0, 1.0, 0.0]]), torch.zeros(1, 1)

    def speed() -> float:
        latents = agent.posterior().sample((1,))
        location = agent.predict(state, action, latents)[0].mean((0, 1))
        return float(agent.task.next_state(state, location.detach())[0, 2])

    speeds = []
    for gravity in (3.0, 5.0, 9.0):
        agent.set_context([gravity])
        speeds.append(speed())
    expected = 1.5 * 0.05 * np.array([3.0, 5.0, 9.0])  # 3 g / (2 l) sin(theta) dt
    assert speeds == pytest.approx(expected, abs=0.12)


def test_the_true_context_changes_nothing_for_other_agents(tmp_path: Path) -> None:
    assert main(["train", *TINY, "--agent", "latent", "--rounds", "1", "--out", str(tmp_path / "latent")]) == 0
    group = load_run(tmp_path / "latent")[-1]
    before = [part.clone() for part in group.beliefs()]
    group.set_context([1.0] * 5)
    assert all(torch.equal(one, other) for one, other in zip(before, group.beliefs(), strict=True))


def test_two_runs_are_the_same_and_a_resumed_one_too(tmp_path: Path) -> None:
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    assert main(["train", *TINY, "--out", str(whole)]) == 0
    assert main(["train", *TINY, "--rounds", "1", "--out", str(resumed)]) == 0
    assert main(["train", "--resume", str(resumed), "--rounds", "2"]) == 0
    assert (whole / "metrics.jsonl").read_bytes() == (resumed / "metrics.jsonl").read_bytes()


def test_it_is_given_every_step_of_a_schedule(run: Path) -> None:
    """Given the switch it predicts what comes after far better than one that still believes in the old context."""

    def after_switch(change_given: bool) -> float:
        schedule = Schedule(((0, 2.0), (10, 10.0)))
        group: AgentGroup = group_for(load_run(run)[-1], FAMILY, [2.0])
        envs = FAMILY.make_vector([schedule], 25)
        follow = ContextChange(group, [schedule]) if change_given else None
        steps = list(adapt(group, envs, 0, before_step=follow))
        return float(torch.stack([step.log_likelihood for step in steps[10:]]).mean())

    assert after_switch(change_given=True) > after_switch(change_given=False) + 2


def test_adapt_gives_it_the_context_and_stores_no_belief(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--schedule", "0:2,5:10", "--steps", "12", "--quiet", "--out", str(tmp_path)]
    assert main(["adapt", str(run), *flags]) == 0
    assert "infers no latent" in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert [row["context"] for row in rows] == [2.0] * 5 + [10.0] * 7
    assert all(row["mean"] == row["sd"] == [] for row in rows)
    assert min(row["log_likelihood"] for row in rows) > -10
    assert not (tmp_path / "beliefs.npz").exists()
    assert main(["diagnose", str(tmp_path)]) == 0
    assert "infers no latent" in capsys.readouterr().out


def test_evaluate_compare_export_and_diagnose(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run), "--steps", "5", "--contexts", "3", "9", "--realtime"]) == 0
    assert main(["compare", str(run), "--out", str(tmp_path / "curves.png")]) == 0
    assert "oracle" in capsys.readouterr().out
    assert main(["export", str(run), "--npz", str(tmp_path / "data.npz")]) == 0
    small = ["--draws", "100", "--horizon", "3", "--particles", "20", "--out", str(tmp_path)]
    assert main(["diagnose", str(run), *small]) == 0
    assert "given the true context and infers nothing, has no posterior to judge" in capsys.readouterr().out
    assert "given its context" in (tmp_path / "report.md").read_text()
    assert "given the true context and infers nothing, has no posterior: leave" in refused(
        ["diagnose", str(run), *small, "--refits", "1"], capsys
    )


def test_commands_for_beliefs_say_why_they_cannot(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "an oracle is given the true context" in refused(["calibrate", str(run)], capsys)
    assert "an agent that infers a latent" in refused(["track", str(run), "--schedule", "0:3,10:9"], capsys)


def test_logged_steps_need_their_context(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.npz"
    generator = np.random.default_rng(0)
    states = generator.normal(size=(9, 3)).astype(np.float32)
    np.savez(log, state=states[:-1], next_state=states[1:], action=np.zeros((8, 1), np.float32))
    replay = ["adapt", str(run), "--replay", str(log), "--quiet", "--out", str(tmp_path / "out")]
    assert "must be given the true context" in refused(replay, capsys)
    assert main([*replay, "--context", "7"]) == 0


@pytest.mark.parametrize(
    ("family", "columns", "context"),
    [("halfcheetah-mass-damping", 2, "1.1,0.9"), ("halfcheetah-crippled", 5, "front-foot")],
)
def test_several_parameters_and_names(family: str, columns: int, context: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert main(["train", family, *TINY, "--rounds", "1", "--steps", "15", "--out", str(folder)]) == 0
    assert load_run(folder)[-1].agents[0].latent_dim == columns
    assert main(["adapt", str(folder), "--context", context, "--steps", "4", "--quiet"]) == 0
