"""pyro-dynamics benchmark scaling: how the cost of a plan grows with each of its sizes, and that of training."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from pyro_dynamics.agent import Agent
from pyro_dynamics.benchmarks import timing
from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.benchmarks.timing import Cost
from pyro_dynamics.control import CEMConfig, MPCConfig
from pyro_dynamics.control.precision import Device, Precision
from pyro_dynamics.environments import Family, find_family
from pyro_dynamics.errors import require_positive
from pyro_dynamics.io.tables import markdown_table
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.runners.benchmarks import speed
from pyro_dynamics.runners.benchmarks.common import RecordFlags
from pyro_dynamics.runners.common.configuration import preset_config
from pyro_dynamics.runners.common.factory import accelerator, describe_planning
from pyro_dynamics.tasks import BoxTask

ENVIRONMENTS = 5
"""Of the transitions."""
SEARCH = {"candidates": 100, "elites": 10, "iterations": 1}
HORIZON, PARTICLES = 15, 20


@dataclass(frozen=True)
class ScalingFlags(RecordFlags):
    """Measure how a plan's cost grows with each of its sizes, and a training epoch's with the number of transitions.

    Plans are made with the paper's networks and a smaller search (100 candidates, 20 particles, 15 steps, one
    iteration), so that all of it takes minutes; epochs are those of the preset cpu, in batches of 256.
    """

    calls: int = 3
    """Plans of each size that are timed."""
    precision: Precision = "auto"
    """Of the networks in planning."""
    device: Device = "cpu"
    """Where plans are computed."""
    figure: Path | None = None
    """Draw the rows here (PNG)."""

    def __post_init__(self) -> None:
        require_positive(self, "calls")


Flags = ScalingFlags


def measure_rows(flags: ScalingFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    accelerator(flags.device)
    speed_flags = speed.SpeedFlags(calls=flags.calls, precision=flags.precision, device=flags.device)
    paper, cpu = speed.configuration(speed_flags, "paper"), preset_config(speed.FAMILY, "cpu")
    epoch = replace(cpu.offline, batch_size=speed.BATCH, epochs=1, min_steps=1, compiled=True)

    def build(name: str, size: int) -> Agent:
        if name == "transitions":
            return speed.build_from(replace(cpu, offline=epoch), ENVIRONMENTS)
        search = CEMConfig(**{**SEARCH, **({name: size} if name == "candidates" else {})})
        horizon, particles = (
            size if name == kind else usual for kind, usual in (("horizon", HORIZON), ("particles", PARTICLES))
        )
        config = replace(paper, planner_config=search, controller=MPCConfig(horizon, particles))
        family = of_state(size) if name == "state" else None
        return speed.build_from(config, size if name == "environments" else 1, family)

    total = sum(map(len, timing.SCALES.values()))
    steps = progress_bar(timing.scaling(build, flags.calls), total=total, unit="size", desc="scaling")
    rows = [
        {"name": name, "size": size, "cpu_s": cost.cpu, "wall_s": cost.wall, "peak_bytes": peak}
        for name, size, cost, peak in steps
    ]
    return {"calls": flags.calls, "planning": describe_planning(flags.precision, flags.device)}, rows


class Room(gymnasium.Env):
    """The spaces of an environment that observes so many numbers, and has the six actions of the cheetah."""

    def __init__(self, entries: int) -> None:
        self.observation_space, self.action_space = Box(-np.inf, np.inf, (entries,)), Box(-1.0, 1.0, (6,))


def of_state(entries: int) -> Family:
    """The slopes, with an observation of another size, and a reward that costs little."""

    def task() -> BoxTask:
        return BoxTask(Room(entries), reward=lambda state, action, next_state: next_state[..., 0])

    return replace(find_family(speed.FAMILY), task=task)


def table(recording: Recording) -> str:
    """The rows as Markdown."""
    lines = [
        [
            row["name"],
            f"{row['size']:,}",
            f"{1000 * row['cpu_s']:.1f}",
            f"{1000 * row['wall_s']:.1f}",
            f"{row['peak_bytes'] / 2**20:.0f}" if row["name"] == "transitions" and row["peak_bytes"] else "",
        ]
        for row in recording.rows
    ]
    return markdown_table(["what grows", "to", "CPU ms", "wall ms", "peak memory, MiB"], lines, words=1)


def figure(recording: Recording) -> bytes:
    """The rows as a PNG."""
    from pyro_dynamics.plots.scaling_figure import draw_scaling  # here, as matplotlib takes long

    costs: dict[str, list[tuple[int, Cost]]] = {}
    for row in recording.rows:
        costs.setdefault(row["name"], []).append((row["size"], Cost(row["cpu_s"], row["wall_s"])))
    return draw_scaling(costs)
