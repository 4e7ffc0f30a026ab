"""A user's environment, from the command line: bounds 0 to 5, float64, an observation that never changes."""

import json
from dataclasses import replace
from pathlib import Path

import imageio.v2 as imageio
import numpy as np
import point_mass
import pytest
import torch

from pyro_dynamics import Family
from pyro_dynamics.datasets.exporting import RunData
from pyro_dynamics.rollouts.task_check import check_task, random_steps
from pyro_dynamics.rollouts.training import record
from pyro_dynamics.runners.common.factory import load_run
from pyro_dynamics.runners.main import main
from pyro_dynamics.tasks import BoxTask

SMALL = (
    *("--rounds", "1", "--steps", "20", "--episodes", "1", "--offline.min-steps", "50"),
    *("--controller.horizon", "3", "--planner", "cem", "--planner.candidates", "10", "--planner.elites", "3"),
)
LONGER = (*SMALL, "--steps", "60", "--offline.min-steps", "500")


@pytest.fixture(autouse=True)
def _stand_beside_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    monkeypatch.chdir(tmp_path)
    # Some of the point masses draw from numpy's global generator: the same draws in every run of the tests.
    np.random.seed(0)  # noqa: NPY002


def test_it_learns_adapts_and_is_evaluated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "point_mass:given", *LONGER, "--rounds", "2", "--out", "run"]) == 0
    assert "warning" not in capsys.readouterr().err
    rows = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 15
    assert np.isfinite([row["log_likelihood"] for row in rows if row["round"]]).all()
    last = [row for row in rows if row["round"] == 2]
    right, wrong = (sum(row[name] for row in last) / 5 for name in ("log_likelihood", "log_likelihood_wrong_latent"))
    assert right > wrong + 0.5  # the network uses the latent, in spite of the constant entry
    assert main(["adapt", "run", "--context", "3", "--steps", "5"]) == 0
    assert main(["evaluate", "run", "--steps", "5"]) == 0
    with np.load("run/transitions/round-002.npz") as file:
        assert file["action"].min() >= 0
        assert 2.5 < file["action"].max() <= 5


def test_a_resumed_run_knows_what_the_task_has_learned() -> None:
    assert main(["train", "point_mass:fenced", *SMALL, "--rounds", "2", "--out", "whole"]) == 0
    assert main(["train", "point_mass:fenced", *SMALL, "--rounds", "1", "--out", "run"]) == 0
    assert main(["train", "--resume", "run", "--rounds", "2"]) == 0
    assert Path("run/metrics.jsonl").read_bytes() == Path("whole/metrics.jsonl").read_bytes()


@pytest.mark.parametrize("family", ["own", "learned", "of_context", "fenced", "winds_as_is_known"])
def test_rewards_and_ends_of_every_kind_train(family: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", f"point_mass:{family}", *SMALL, "--out", "run"]) == 0
    assert "warning" not in capsys.readouterr().err
    with np.load("run/transitions/round-001.npz") as file:
        assert file["state"].shape[1] == 5 + (family != "own")
        if family in ("learned", "of_context", "winds_as_is_known"):
            assert np.allclose(file["next_state"][:, -1], file["reward"], atol=1e-6)


def test_discrete_actions_are_learned_and_planned_as_codes() -> None:
    assert main(["train", "point_mass:buttons", *LONGER, "--episodes", "2", "--out", "run"]) == 0
    rows = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    random, planned = (sum(row["return"] for row in rows if row["round"] == m) for m in (0, 1))
    assert planned > random + 2  # five environments come nearer than by chance
    for m in (0, 1):
        with np.load(f"run/transitions/round-00{m}.npz") as file:
            assert file["action"].shape[1] == 4
            assert (np.sort(file["action"], axis=1) == [0.0, 0.0, 0.0, 1.0]).all()
            assert file["action"].any(axis=0).all()  # every button
    assert main(["adapt", "run", "--context", "3", "--steps", "5"]) == 0


def test_observations_in_parts_become_a_vector_with_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "point_mass:parts", *SMALL, "--out", "run"]) == 0
    assert "warning" not in capsys.readouterr().err
    with np.load("run/transitions/round-001.npz") as file:
        assert file["state"].shape[1] == 6
        assert np.array_equal(file["state"][:, 2], np.hypot(*file["state"][:, 4:6].T) <= 0.3)
    assert main(["adapt", "run", "--context", "3", "--steps", "5"]) == 0
    assert main(["families", "point_mass:parts"]) == 0
    names = "place[0], place[1], rest.fast = 0, rest.fast = 1, rest.speed.0, rest.speed.1"
    assert names in " ".join(capsys.readouterr().out.split())


def test_a_learned_reward_is_what_the_environment_gives() -> None:
    assert main(["train", "point_mass:learned", *LONGER, "--episodes", "3", "--out", "run"]) == 0
    _, config, family, group = load_run(Path("run"))
    agent, envs = group.agents[0], family.make_vector(family.train, config.steps)
    data = record(random_steps(envs, seed=1), torch.arange(5))  # episodes that were not trained on
    with torch.no_grad():
        location, _ = agent.predict(data.state, data.action, agent.posterior().mean[data.environment][None])
        predicted = agent.task.next_state(data.state, location.mean(dim=(0, 1)))
    planned = agent.task.reward(data.state, data.action, predicted)
    assert (planned - data.reward).square().mean() < 0.35 * data.reward.var()  # it has a kink where the mass turns
    assert torch.equal(agent.task.reward(data.state, data.action, data.next_state), data.reward)


def test_the_end_that_an_environment_declares_is_what_counts_before_any_training() -> None:
    family = point_mass.fenced()
    envs = family.make_vector(family.train, 60)
    steps = random_steps(envs, seed=0)
    data = record(steps, torch.arange(5))
    ended = torch.cat([step.terminated[step.alive] for step in steps])
    assert ended.any()
    assert np.array_equal(RunData.of([data], family).terminated(), ended)  # and so it is exported
    assert check_task(family.task(), envs, seed=0, length=20) == []


def test_it_is_filmed_where_it_draws(capsys: pytest.CaptureFixture[str]) -> None:
    act = ["--context", "3", "--steps", "3", "--quiet", "--video"]
    assert main(["train", "point_mass:drawn", *SMALL, "--out", "run"]) == 0
    assert main(["adapt", "run", *act, "--out", "film"]) == 0
    frames = imageio.mimread("film/episode.mp4", memtest=False)
    assert len(frames) == 3
    assert frames[0].shape[0] == 362  # thrice as large, and even
    for family, words in (("given", "takes no render_mode"), ("undrawn", "draws no ")):
        assert main(["train", f"point_mass:{family}", *SMALL, "--out", family]) == 0
        capsys.readouterr()
        assert main(["adapt", family, *act]) == 2
        message = capsys.readouterr().err.strip()
        assert words in message
        assert "render()" in message
        assert "\n" not in message
        assert not list(Path(family).glob("adapt/*/*"))


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("sums_all", "gives the shape [] for state [2, 3, 5]"),
        ("indexes_rows", "gives the shape [2, 5]"),
        ("is_boolean", "gives torch.bool, not torch.float32"),
        ("is_numpy", "on_numpy"),
        ("is_not_finite", "gives nan for the state"),
        ("takes_two", "takes 2 arguments: it gets (state, action, next_state)"),
        ("context_does_not_take", "drag"),
        ("counted", "Counted has the action space Box(0, 5, (2,), int64): only real numbers and discrete choices"),
        ("image", "Camera has the observation space (at eye) Box(0, 255, (64, 64, 3), uint8): images are not modelled"),
        ("unbounded", "action 0 lies between 0 and inf"),
    ],
)
def test_a_wrong_declaration_gets_one_line(family: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", f"point_mass:{family}", *SMALL, "--out", "run"]) == 2
    message = capsys.readouterr().err.strip()
    assert words in message
    assert "\n" not in message
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("is_another_reward", "the task's reward is not the environment's own: on 150 random steps"),
        ("does_not_end", "random episodes ended early, which the task does not know of"),
        ("ends_elsewhere", "the task's termination is not the environment's own"),
        ("is_cut", "the environment cuts its episodes itself after 30 steps, so that none has the 60 of --steps"),
        ("cuts_itself", "the environment cuts its episodes itself after 25 steps, so that none has the 60 of --steps"),
        ("does_not_hear_the_seed", "two resets with one seed give different observations"),
        ("is_shaken", "the same actions after the same reset lead to another observation or reward at step 0"),
        ("wears_out", "the same actions after the same reset lead to another observation or reward at step"),
        ("has_running_statistics", "two resets with one seed give different observations"),
        ("has_running_rewards", "the same actions after the same reset lead to another observation or reward"),
        ("is_far_north", "the numbers are too large for their changes: state 0 (about 4.5e+06"),
        ("winds", "an entry jumps by a whole turn from one end of its range to the other: state 0"),
    ],
)
def test_what_differs_from_the_environment_is_warned_of(
    family: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", f"point_mass:{family}", *SMALL, "--steps", "60", "--out", "run"]) == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    (line,) = [line for line in warned if "in all that was trained on" not in line]  # so little training may lead far
    assert words.replace("150", "300") in line


def test_a_limit_beyond_the_first_steps_is_warned_of_by_the_first_round(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "point_mass:cuts_itself_late", *SMALL, "--steps", "110", "--out", "run"]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "cuts its episodes itself" in line]
    assert "after 104 steps, so that none has the 110 of --steps" in line
    assert main(["adapt", "run", "--schedule", "0:0.5,106:1", "--steps", "110", "--quiet"]) == 0
    found = capsys.readouterr()
    assert "the episode ended after 104 of 110 steps: the schedule changes at step 106, and that never" in found.out
    assert main(["train", "point_mass:cuts_itself_late", *SMALL, "--steps", "104", "--out", "whole"]) == 0
    assert "cuts its episodes" not in capsys.readouterr().err


@pytest.mark.parametrize("made", [*(point_mass.late(steps) for steps in (1, 2, 4)), point_mass.outdated()])
def test_an_action_that_is_seen_later_than_the_next_state_is_found(made: Family) -> None:
    envs = made.make_vector(made.train, 60)
    found = [words for words in check_task(made.make_task(), envs, seed=0, length=60) if "not observed" in words]
    assert len(found) == 1
    assert "DelayedActions" in found[0]


@pytest.mark.parametrize("kind", [point_mass.Restarting, point_mass.RestartingEarly, point_mass.RestartingWhenFast])
def test_an_environment_that_resets_itself_is_found(kind: type[point_mass.Restarting]) -> None:
    made = point_mass.restarting(kind)
    envs = made.make_vector(made.train, 120)
    found = [words for words in check_task(made.make_task(), envs, seed=0, length=120) if "reset itself" in words]
    assert len(found) == 1


class Revealing(point_mass.PointMass):
    """Its constant number is its drag, in another unit."""

    unit = 1.0

    def observe(self) -> np.ndarray:
        return np.array([*super().observe()[:4], self.unit * self.drag])


@pytest.mark.parametrize("unit", [1.0, 60.0])
def test_a_hidden_parameter_that_is_observed_is_found(unit: float) -> None:
    kind = type("Revealing", (Revealing,), {"unit": unit})
    made = replace(point_mass.learned(), environment=kind, task=lambda: BoxTask(kind(), lambda s, a, n: n[..., 0]))
    envs = made.make_vector(made.train, 60)
    found = [words for words in check_task(made.make_task(), envs, seed=0, length=60) if "hidden parameter" in words]
    assert len(found) == 1
    assert "state 4 is the hidden parameter itself in every row" in found[0]


@pytest.mark.parametrize("name", ["learned", "fenced", "buttons", "given", "parts"])
def test_what_is_observed_at_once_is_not_accused(name: str) -> None:
    made = getattr(point_mass, name)()
    envs = made.make_vector(made.train, 120)
    assert check_task(made.make_task(), envs, seed=0, length=120) == []
