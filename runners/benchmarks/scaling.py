"""pyro-dynamics benchmark scaling: how the cost of a plan grows with each of its sizes."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyro_dynamics.agent import Agent
from pyro_dynamics.benchmarks import timing
from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.benchmarks.timing import Cost
from pyro_dynamics.control import CEMConfig, MPCConfig
from pyro_dynamics.control.precision import Device, Precision
from pyro_dynamics.errors import require_positive
from pyro_dynamics.io.tables import markdown_table
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.runners.benchmarks import speed
from pyro_dynamics.runners.benchmarks.common import RecordFlags
from pyro_dynamics.runners.common.factory import accelerator, describe_planning

SEARCH = {"candidates": 100, "elites": 10, "iterations": 1}
HORIZON, PARTICLES = 15, 20


@dataclass(frozen=True)
class ScalingFlags(RecordFlags):
    """Measure how a plan's cost grows with candidates, particles, horizon and environments, one at a time.

    The networks are the paper's, with a smaller search (100 candidates, 20 particles, 15 steps, one iteration), so
    that all of it takes minutes.
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
    paper = speed.configuration(speed_flags, "paper")

    def build(name: str, size: int) -> Agent:
        search = CEMConfig(**{**SEARCH, **({name: size} if name == "candidates" else {})})
        horizon, particles = (
            size if name == kind else usual for kind, usual in (("horizon", HORIZON), ("particles", PARTICLES))
        )
        config = replace(paper, planner_config=search, controller=MPCConfig(horizon, particles))
        return speed.build_from(config, size if name == "environments" else 1)

    total = sum(map(len, timing.SCALES.values()))
    steps = progress_bar(timing.scaling(build, flags.calls), total=total, unit="size", desc="scaling")
    rows = [{"name": name, "size": size, "cpu_s": cost.cpu, "wall_s": cost.wall} for name, size, cost in steps]
    return {"calls": flags.calls, "planning": describe_planning(flags.precision, flags.device)}, rows


def table(recording: Recording) -> str:
    """The rows as Markdown."""
    lines = [
        [row["name"], str(row["size"]), f"{1000 * row['cpu_s']:.1f}", f"{1000 * row['wall_s']:.1f}"]
        for row in recording.rows
    ]
    return markdown_table(["what grows", "to", "CPU ms", "wall ms"], lines, words=1)


def figure(recording: Recording) -> bytes:
    """The rows as a PNG."""
    from pyro_dynamics.plots.scaling_figure import draw_scaling  # here, as matplotlib takes long

    costs: dict[str, list[tuple[int, Cost]]] = {}
    for row in recording.rows:
        costs.setdefault(row["name"], []).append((row["size"], Cost(row["cpu_s"], row["wall_s"])))
    return draw_scaling(costs)
