"""What docs/how-to and docs/concepts show works as it stands."""

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
from pyro_dynamics.control import PLANNERS, MPCConfig
from pyro_dynamics.diagnostics.verdict import Word
from pyro_dynamics.environments import find_family
from pyro_dynamics.guides import GUIDES, DiagonalGuide
from pyro_dynamics.inference import BELIEFS, UPDATES, OfflineConfig
from pyro_dynamics.models import Ensemble, EnsembleConfig
from pyro_dynamics.runners.main import main
from pyro_dynamics.transitions import Transitions

DOCS = Path(__file__).parents[1] / "docs"
EXTEND = (DOCS / "how-to/extend.md").read_text()
OWN_ENVIRONMENT = (DOCS / "how-to/own-environment.md").read_text()


def block(page: str, start: str, language: str = "python") -> str:
    """The first block of a language after ``start``."""
    found = re.search(rf"```{language}\n(.*?)```", page[page.index(start) :], re.DOTALL)
    assert found is not None
    return found.group(1)


def run(text: str, page: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(text, page, "exec"), names)
    return names


# docs/how-to/extend.md; its planner and belief are in tests/runners/test_own_parts.py


@pytest.fixture
def my_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The current folder holds the page's my_guide.py."""
    text = block(EXTEND, "## A guide")
    assert len([line for line in text.splitlines() if line.strip()]) < 30
    (tmp_path / "my_guide.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("my_guide", None)


@pytest.mark.usefixtures("my_guide")
def test_the_guide_of_ones_own_learns_and_follows(generator: torch.Generator) -> None:
    text = block(EXTEND, "Below that interface")
    names = run(text.replace("EnsembleConfig()", "EnsembleConfig(2, (16,), (0.0, 0.0))"), "extend.md")
    agent, task = names["agent"], names["task"]
    state = torch.randn(50, 3, generator=generator)
    action = torch.rand(50, 1, generator=generator)
    next_state = state + 0.1 * torch.randn(50, 3, generator=generator)
    environment = torch.arange(50) % 5
    data = Transitions(state, action, next_state, torch.zeros(50), environment, torch.arange(50))
    before = agent.posterior().stddev.clone()
    agent.train(data, generator)
    assert not torch.equal(agent.posterior().stddev, before)
    agent.observe(state[:5], action[:5], next_state[:5], torch.arange(5), generator)
    assert agent.posterior().stddev.isfinite().all()
    assert task.target_dim == 2


@pytest.mark.usefixtures("my_guide")
def test_the_guide_of_ones_own_trains_as_a_class() -> None:
    text = block(EXTEND, "A class takes the place of its name")
    small = 'rounds=1, steps=12, episodes=1, offline={"min_steps": 20, "epochs": 2}, controller={"horizon": 4}'
    agent = run(text.replace('update="svi")', f'update="svi", {small})'), "extend.md")["agent"]
    assert agent.config["guide_config"] == {"df": 4.0, "initial_scale": 0.1}
    assert agent.belief.sd.shape == (2,)


@pytest.mark.usefixtures("my_guide")
def test_the_guide_of_ones_own_trains_and_adapts_by_command() -> None:
    train, adapt = [line.split()[1:] for line in block(EXTEND, "## A guide", "sh").splitlines()]
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
    text = block(EXTEND, "## A likelihood")
    assert len([line for line in text.splitlines() if line.strip()]) < 10
    names = run(text, "extend.md")
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


# docs/how-to/own-environment.md


def test_the_environment_of_ones_own_trains_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = block(OWN_ENVIRONMENT, "Write a Gymnasium environment")
    assert len(text.splitlines()) <= 35
    assert len([line for line in text.splitlines() if line.strip()]) < 30
    (tmp_path / "my_robot.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    small = ["--rounds", "1", "--steps", "20", "--episodes", "1", "--offline.min-steps", "50"]
    assert main(["train", "my_robot:make_family", *small]) == 0
    assert "warning" not in capsys.readouterr().err
    folder = "runs/sledge-latent-quick-0"
    rows = [json.loads(line) for line in Path(folder, "metrics.jsonl").read_text().splitlines()]
    assert [row["context"] for row in rows[4:]] == [0.5, 1.0, 2.0, 4.0]
    assert main(["adapt", folder, "--context", "3", "--steps", "3"]) == 0
    small_too = 'make_family, rounds=1, steps=20, episodes=1, offline={"min_steps": 50})'
    text = block(OWN_ENVIRONMENT, "or the same in Python").replace("make_family)\nenv", f"{small_too}\nenv")
    run(text.replace("range(100)", "range(3)"), "own-environment.md")
    assert re.match(r"friction -?\d", capsys.readouterr().out.splitlines()[-1])
    sys.modules.pop("my_robot", None)


def test_an_environment_is_made_and_changed_without_an_agent() -> None:
    names = run(block(OWN_ENVIRONMENT, "## Environments without an agent"), "own-environment.md")
    assert names["env"].unwrapped.context == -6.0


# docs/concepts


@pytest.mark.parametrize(
    ("page", "shows"),
    [
        ("model", "[5, 2]"),
        ("beliefs", "power: -1."),  # the recursive belief is still on the other side of 0
        ("guides", "low-rank"),
        ("planners", "[1, 4, 2]"),
        ("diagnostics", "believe"),
    ],
)
def test_the_code_of_a_concept_runs(page: str, shows: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (DOCS / f"concepts/{page}.md").read_text()
    run("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), f"{page}.md")
    assert shows in capsys.readouterr().out


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("guides", GUIDES),
        ("beliefs", BELIEFS),
        ("beliefs", UPDATES),
        ("planners", PLANNERS),
        ("diagnostics", [str(word) for word in Word]),
    ],
)
def test_the_tables_of_concepts_have_every_part(page: str, names: Any) -> None:
    rows = set(re.findall(r"^\| `([^`]+)` \|", (DOCS / f"concepts/{page}.md").read_text(), re.MULTILINE))
    assert set(names) <= rows
