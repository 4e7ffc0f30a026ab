"""Planners compared by their return with one trained model.

Model and beliefs are fixed; every planner acts for an episode in each of the trained environments, from the same
initial states, with the run's horizon and particles.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from tqdm import tqdm

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.benchmarks.recording import Row
from pyro_dynamics.control import CEM, ICEM, MPPI, PLANNERS, CEMConfig, ICEMConfig, MPPIConfig, Planner
from pyro_dynamics.io.tables import markdown_table
from pyro_dynamics.rollouts.rollout import rollout

SEEDS = 5


@dataclass(frozen=True)
class Candidate:
    """A planner with its settings, the action sequences that it evaluates per step, and the kind of noise."""

    kind: type[Planner]
    config: Any
    evaluations: int
    common_noise: bool = False


def candidates() -> list[Candidate]:
    """CEM as in the cpu preset, and every planner with about a quarter and a tenth of its evaluations."""
    cem = [CEMConfig(100, 10, 3), CEMConfig(25, 3, 3), CEMConfig(10, 2, 3)]
    mppi = [MPPIConfig(100, 3), MPPIConfig(25, 3), MPPIConfig(10, 3)]
    icem = [ICEMConfig(28, 6), ICEMConfig(11, 3)]
    icem += [replace(config, beta=2.0) for config in icem]  # smoother action sequences
    icem.append(replace(icem[1], execute="best"))
    plain = [(CEM, config) for config in cem] + [(MPPI, config) for config in mppi]
    evaluated = [Candidate(kind, config, config.evaluations) for kind, config in plain]
    evaluated += [Candidate(ICEM, config, config.evaluations) for config in icem]
    white = ICEMConfig(28, 6, beta=0.0)
    quick: list[Any] = [ICEMConfig(28, 6), white, replace(white, sigma=0.7), ICEMConfig(40, 8, beta=0.0)]
    quick += [ICEMConfig(11, 3), MPPIConfig(25, 5)]
    return evaluated + [replace(Candidate(*kind_of(config)), common_noise=True) for config in quick]


def realtime_candidates(realtime: Any) -> list[Candidate]:
    """The planner of the preset realtime, its variants, and CEM with ten times its evaluations.

    Args:
        realtime: the configuration of that planner.
    """
    ours = [
        ICEMConfig(28, 6, beta=0.0),
        ICEMConfig(28, 6, beta=0.0, std_carry=0.5),
        replace(realtime, std_carry=0.0),
        realtime,
    ]
    tenfold = CEMConfig(10 * realtime.evaluations // 3, realtime.evaluations // 3, 3)
    return [*(replace(Candidate(*kind_of(config)), common_noise=True) for config in ours), Candidate(*kind_of(tenfold))]


def kind_of(config: Any) -> tuple[type[Planner], Any, int]:
    """The planner of these settings, the settings, and the action sequences evaluated in a step."""
    kind = next(kind for kind in PLANNERS.values() if kind.Config is type(config))
    return kind, config, config.evaluations


def act(
    group: AgentGroup, envs: Any, environment: torch.Tensor, seeds: list[int], steps: int, draws: torch.Generator
) -> tuple[torch.Tensor, float]:
    """The return of each environment ``[B]``, and the CPU time in seconds spent on planning."""
    seconds = 0.0

    def policy(state: torch.Tensor) -> torch.Tensor:
        nonlocal seconds
        start = time.process_time()
        action = group.act(state, environment, draws)
        seconds += time.process_time() - start
        return action

    group.reset()
    returns = torch.zeros(len(seeds))
    for step in tqdm(rollout(envs, policy, seeds), total=steps, unit="step"):
        returns += step.reward * step.alive
    return returns, seconds


def differences(config: Any) -> str:
    """Candidates, iterations and what is not a planner's default."""
    always = ("candidates", "iterations")
    default = type(config)()
    names = [*always, *(n for n in vars(config) if n not in always and getattr(config, n) != getattr(default, n))]
    return ", ".join(f"{name} {getattr(config, name)}" for name in names)


def summary(returns: torch.Tensor) -> Row:
    """What is reported of the returns of S seeds in K environments, ``[S, K]``."""
    return {
        "return": float(returns.mean()),
        "standard_error": float(returns.mean(1).std() / math.sqrt(len(returns))),
        "by_environment": returns.mean(0).tolist(),
    }


HEAD = ("planner", "settings", "noise", "evaluations", "return", "by environment", "ms")


def table(rows: Sequence[Row]) -> str:
    """Mean return with its standard error over seeds, and the mean in each environment, as Markdown."""
    lines = []
    for row in rows:
        mean, error = row["return"], row["standard_error"]
        each = " ".join(f"{value:.0f}" for value in row["by_environment"])
        cells = [row["planner"], row["settings"], row["noise"], str(row["evaluations"])]
        lines.append([*cells, f"{mean:.0f} +- {error:.0f}", each, f"{row['plan_ms']:.0f}"])
    return markdown_table(HEAD, lines, words=3)
