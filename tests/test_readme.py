"""What the README shows works as it stands."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributions import StudentT

from pyro_dynamics.agent import Agent
from pyro_dynamics.control import MPCConfig
from pyro_dynamics.environments import find_family
from pyro_dynamics.guides import DiagonalGuide
from pyro_dynamics.inference import OfflineConfig
from pyro_dynamics.models import Ensemble, EnsembleConfig
from pyro_dynamics.runners.main import main
from pyro_dynamics.transitions import Transitions

README = (Path(__file__).parents[1] / "README.md").read_text()


def block(start: str, language: str) -> str:
    """The first block of a language after the line that begins with ``start``."""
    found = re.search(rf"```{language}\n(.*?)```", README[README.index(start) :], re.DOTALL)
    assert found is not None
    return found.group(1)


def python_block(start: str) -> str:
    return block(start, "python")


@pytest.fixture
def my_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The current folder holds the README's my_guide.py."""
    text = python_block("A guide of your own")
    assert len([line for line in text.splitlines() if line.strip()]) < 30
    (tmp_path / "my_guide.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("my_guide", None)


@pytest.mark.usefixtures("my_guide")
def test_the_guide_of_ones_own_learns_and_follows(generator: torch.Generator) -> None:
    text = python_block("In Python all of")
    names: dict[str, object] = {}
    exec(compile(text.replace("EnsembleConfig()", "EnsembleConfig(2, (16,), (0.0, 0.0))"), "README.md", "exec"), names)
    agent, task = names["agent"], names["task"]
    state = torch.randn(50, 3, generator=generator)
    action = torch.rand(50, 1, generator=generator)
    next_state = state + 0.1 * torch.randn(50, 3, generator=generator)
    environment = torch.arange(50) % 5
    data = Transitions(state, action, next_state, torch.zeros(50), environment, torch.arange(50))
    before = agent.posterior().stddev.clone()  # type: ignore[attr-defined]
    agent.train(data, generator)  # type: ignore[attr-defined]
    assert not torch.equal(agent.posterior().stddev, before)  # type: ignore[attr-defined]
    agent.observe(state[:5], action[:5], next_state[:5], torch.arange(5), generator)  # type: ignore[attr-defined]
    assert agent.posterior().stddev.isfinite().all()  # type: ignore[attr-defined]
    assert task.target_dim == 2  # type: ignore[attr-defined]


@pytest.mark.usefixtures("my_guide")
def test_the_guide_of_ones_own_trains_and_adapts_by_command() -> None:
    train, adapt = [line.split()[1:] for line in block("A guide of your own", "sh").splitlines()]
    assert (train[:3], adapt[0]) == (["train", "--guide", "my_guide:StudentGuide"], "adapt")
    small = ["--rounds", "1", "--steps", "12", "--episodes", "1", "--offline.min-steps", "20", "--offline.epochs", "2"]
    small += ["--controller.horizon", "4", "--planner.candidates", "12", "--planner.elites", "4"]
    assert main([*train, *small]) == 0
    config = json.loads(Path("runs/student/config.json").read_text())
    assert (config["guide"], config["guide_config"]) == ("my_guide:StudentGuide", {"df": 4.0, "initial_scale": 0.1})
    assert main([*adapt, "--steps", "4", "--quiet", "--update.steps", "5"]) == 0
    (steps,) = Path("runs/student/adapt").rglob("steps.jsonl")
    rows = [json.loads(line) for line in steps.read_text().splitlines()]
    assert rows[-1]["mean"] != rows[0]["mean"]


def test_the_likelihood_of_ones_own_is_what_all_paths_use(generator: torch.Generator) -> None:
    text = python_block("A likelihood of your own")
    assert len([line for line in text.splitlines() if line.strip()]) < 10
    names: dict[str, Any] = {}
    exec(compile(text, "README.md", "exec"), names)
    task = find_family("pendulum-gravity").task()
    ensemble = Ensemble(task.input_dim, 2, task.target_dim, EnsembleConfig(2, (16,), (0.0, 0.0)))
    model, bounds = names["StudentModel"](ensemble, 5, 2), (torch.tensor([-2.0]), torch.tensor([2.0]))
    agent = Agent(model, DiagonalGuide(5, 2), task, bounds, OfflineConfig(epochs=2), MPCConfig(3, 4))
    state, action = torch.randn(50, 3, generator=generator), torch.rand(50, 1, generator=generator)
    environment, step = torch.arange(50) % 5, torch.arange(50)
    agent.train(Transitions(state, action, state.roll(1, 0), torch.zeros(50), environment, step), generator)
    five = state[:5], action[:5], state[:5] + 0.1, torch.arange(5)
    agent.observe(*five, generator)
    latents = agent.posterior().mean[None]
    location, scale = ensemble(task.inputs(*five[:2]).expand(1, 2, -1, -1), latents[:, None].expand(1, 2, -1, -1))
    expected = StudentT(4.0, location, scale).log_prob(task.targets(state[:5], five[2])).sum(-1)
    torch.testing.assert_close(agent.log_likelihood(*five[:3], latents), expected)
    assert agent.act(state[:5], five[3], generator).isfinite().all()


def test_the_environment_is_made_and_changed() -> None:
    names: dict[str, object] = {}
    exec(compile(python_block("`models`, `guides` and `runners` are imported"), "README.md", "exec"), names)
    assert names["env"].unwrapped.context == -6.0  # type: ignore[attr-defined]


def test_the_environment_of_ones_own_trains_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = python_block("Write a Gymnasium environment")
    assert len(text.splitlines()) <= 35
    assert len([line for line in text.splitlines() if line.strip()]) < 30
    (tmp_path / "my_robot.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    small = ["--rounds", "1", "--steps", "20", "--episodes", "1", "--offline.min-steps", "50"]
    assert main(["train", "my_robot:make_family", *small]) == 0
    assert "warning" not in capsys.readouterr().err
    run = "runs/sledge-latent-quick-0"
    rows = [json.loads(line) for line in Path(run, "metrics.jsonl").read_text().splitlines()]
    assert [row["context"] for row in rows[4:]] == [0.5, 1.0, 2.0, 4.0]
    assert main(["adapt", run, "--context", "3", "--steps", "3"]) == 0
