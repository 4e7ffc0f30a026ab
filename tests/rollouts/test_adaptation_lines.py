"""What `adapt` prints while it runs."""

from typing import Any

import numpy as np
import pytest
import torch

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.environments import Family, find_family
from pyro_dynamics.rollouts.adaptation_lines import SummaryLines
from pyro_dynamics.rollouts.adaptation_summary import coverage_line
from pyro_dynamics.runners.common.configuration import RunConfig
from pyro_dynamics.runners.common.factory import build_group

PENDULUM = find_family("pendulum-gravity")


def group_of(family: Family) -> AgentGroup:
    """Agents whose trained latents lie in the order of the contexts."""
    group = build_group(RunConfig(family=family.name), family, family.make(family.train[0], 5).action_space)
    guide: Any = group.agents[0].guide
    with torch.no_grad():
        guide.location.copy_(torch.linspace(-1, 1, len(family.train))[:, None] * torch.tensor([1.0, 0.0]))
    group.agents[0].belief.set_prior()
    return group


@pytest.fixture(scope="module")
def pendulums() -> AgentGroup:
    return group_of(PENDULUM)


def row(step: int, context: Any, place: float, reward: float = -1.0) -> dict[str, Any]:
    seen = {"step": step, "context": context, "reward": reward, "coverage": 1.0, "width": 0.25}
    return {**seen, "mean": [place, 0.0], "sd": [0.1, 0.1]}


def draws_at(place: float) -> np.ndarray:
    return np.stack([np.linspace(place - 0.25, place + 0.25, 101), np.zeros(101)], axis=1)


def lines_of(lines: SummaryLines, rows: list[dict[str, Any]], changed: int | None = None) -> list[str]:
    printed = [line for one in rows for line in lines.add(one, draws_at(one["mean"][0]), one["step"] == changed)]
    return printed + lines.rest()


def test_a_tenth_of_the_run_is_a_line_with_means_and_the_belief_in_units(pendulums: AgentGroup) -> None:
    rows = [row(t, 6.0, 0.0, reward=-float(t)) for t in range(95)]
    printed = lines_of(SummaryLines(pendulums, PENDULUM, 95), rows)
    assert len(printed) == 10
    assert printed[0].split()[:6] == ["0", "to", "9", "6", "-4.50", "100%"]
    assert printed[-1].split()[:3] == ["90", "to", "94"]
    # Half a unit of the latent is 2 m/s^2; of 101 draws between -1 and 1 there 90 % lie between -0.9 and 0.9.
    assert printed[0].endswith("gravity 6.00 m/s^2 (90 %: 5.10 to 6.90)")


def test_changes_have_lines_of_their_own(pendulums: AgentGroup) -> None:
    rows = [row(t, 9.0 if t < 13 else 3.0, 0.75 if t < 15 else -0.75) for t in range(40)]
    printed = lines_of(SummaryLines(pendulums, PENDULUM, 40, every=20), rows, changed=15)
    assert [line.split("  ")[0].strip() or line.strip().split("   ")[0] for line in printed] == [
        "0 to 12",
        "13 to 15",
        "16 to 35",
        "36 to 39",
    ]
    assert printed[1].endswith("; change found at step 15")
    assert "gravity 9.00" in printed[0]
    assert "gravity 3.00" in printed[1]


def test_a_context_that_changes_all_the_time_makes_no_lines(pendulums: AgentGroup) -> None:
    rows = [row(t, 2.0 + t % 8, 0.0) for t in range(40)]
    assert len(lines_of(SummaryLines(pendulums, PENDULUM, 40), rows)) == 10
    assert len(lines_of(SummaryLines(pendulums, PENDULUM, 40, every=1), rows)) == 40


def test_names_have_the_nearest_trained_latent_and_no_latent_has_nothing() -> None:
    family = find_family("halfcheetah-crippled")
    group = group_of(family)
    printed = lines_of(SummaryLines(group, family, 5), [row(t, "front-foot", -0.9) for t in range(5)])
    assert printed[0].endswith(f"nearest trained latent {family.train[0]}")
    nothing: dict[str, Any] = {"mean": [], "sd": []}
    (line,) = SummaryLines(group, family, 1).add(row(0, "front-foot", 0.0) | nothing, np.zeros((400, 0)), False)
    assert line.split()[-2:] == ["100%", "0.25"]


def test_coverage_is_said_of_as_many_steps_as_there_are() -> None:
    shares = {"all": 0.5, "last_50": 0.25}
    width = {"all": 0.4, "last_50": 1.5}
    assert coverage_line(shares, width, 30) == (
        "coverage of the network's own 90 % intervals: 50% over all 30 steps (1.5 times as wide they would cover 90 %)"
    )
    assert "50% over all 80 steps, 25% over the last 50 steps" in coverage_line(shares, width, 80)
