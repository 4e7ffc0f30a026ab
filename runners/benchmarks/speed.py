"""pyro-dynamics benchmark speed: times of plans, updates and training, beside the peer and the processor's rate."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal, cast, get_args

import torch

from pyro_dynamics.agent import Agent
from pyro_dynamics.benchmarks import peer_mbrl_lib, peer_rl_blox
from pyro_dynamics.benchmarks import timing as benchmark
from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.benchmarks.timing import Cost, Work, measure
from pyro_dynamics.control.precision import Device, Precision
from pyro_dynamics.environments import Family, find_family
from pyro_dynamics.errors import UserError, last_line, require_positive
from pyro_dynamics.inference import OfflineConfig, RecursiveConfig, SVIUpdateConfig
from pyro_dynamics.io.tables import markdown_table
from pyro_dynamics.models import Ensemble
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.runners.benchmarks.common import RecordFlags
from pyro_dynamics.runners.common.configuration import OnlineConfig, RunConfig, preset_config
from pyro_dynamics.runners.common.factory import accelerator, action_space, build_agent, describe_planning

BenchmarkPreset = Literal["paper", "realtime"]
Job = tuple[BenchmarkPreset, str]
"""A kind of work at the settings of a preset."""
PRESETS: tuple[BenchmarkPreset, ...] = get_args(BenchmarkPreset)
KINDS = ("plan", "update", "control_step", "train_epoch")
PEERS_JOBS: list[Job] = [("paper", "plan"), ("paper", "train_epoch")]
PEERS = {
    "mbrl-lib": ("--peer", "peer_cpu_s", peer_mbrl_lib),
    "rl-blox": ("--rl-blox", "rl_blox_cpu_s", peer_rl_blox),
}
"""The flag, the column and the script of each."""
FAMILY = "halfcheetah-tilt"
BATCH = 256
"""Of the training epoch: the peer's, so that both do the same work."""


@dataclass(frozen=True)
class SpeedFlags(RecordFlags):
    """Time plans, updates and training at the paper's settings and at those of the preset `realtime`.

    Networks have random weights and data is synthetic: speed does not depend on what was learned. Every number is the
    median of some calls after a first one that prepares. Prints a table; compare CPU seconds on a shared machine.
    """

    calls: int = 3
    """Calls of each kind that are timed; with a peer also the number of alternations."""
    precision: Precision = "auto"
    """Of the networks in planning."""
    device: Device = "cpu"
    """Where plans, updates and the gradients of training are computed."""
    peer: Path | None = None
    """Python of an environment with mbrl-lib: its plan and its training epoch are timed in alternation with ours. How
    to make one is described at the top of pyro_dynamics/benchmarks/peer_mbrl_lib.py."""
    rl_blox: Path | None = None
    """The same of one with rl-blox, PETS in JAX: pyro_dynamics/benchmarks/peer_rl_blox.py."""

    def __post_init__(self) -> None:
        require_positive(self, "calls")

    @property
    def peers(self) -> dict[str, Path]:
        """The Python of each peer that is given, by its name in :data:`PEERS`."""
        given = {"mbrl-lib": self.peer, "rl-blox": self.rl_blox}
        return {name: python for name, python in given.items() if python is not None}


Flags = SpeedFlags


def measure_rows(flags: SpeedFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    accelerator(flags.device)  # fails where there is none
    planning = describe_planning(flags.precision, flags.device)
    print(planning)
    rows, notes = timed(flags)
    return {"calls": flags.calls, "planning": planning, "notes": notes}, rows


def table(recording: Recording) -> str:
    """The rows as Markdown, and the remarks below."""
    known = {name: column for name, (_, column, _) in PEERS.items() if any(row.get(column) for row in recording.rows)}
    head = ["work", "preset", "CPU ms", "wall ms"]
    head += [words for name in known for words in (f"{name}, CPU ms", "ours / theirs")]
    lines = []
    for one in recording.rows:
        times = [one.get(column) for column in known.values()]
        beside = [
            text
            for theirs in times
            for text in ([f"{1000 * theirs:.0f}", f"{one['cpu_s'] / theirs:.2f}"] if theirs else ["", ""])
        ]
        cost = [f"{1000 * one['cpu_s']:.1f}", f"{1000 * one['wall_s']:.1f}"]
        lines.append([one["work"].replace("_", " "), one["preset"], *cost, *beside])
    notes = [f"\n{line}" for line in recording.settings.get("notes", ())]
    return "\n".join([markdown_table(head, lines, words=2), *notes])


def timed(flags: SpeedFlags) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each kind of work and preset, and remarks.

    Work that the peer does too is timed in alternation with it, so that both have the same load of the machine.
    """
    jobs: list[Job] = [(preset, kind) for preset in PRESETS for kind in KINDS]
    agents = {preset: build_from(configuration(flags, preset), 1) for preset in PRESETS}
    turns = [jobs] if not flags.peers else [jobs, *[PEERS_JOBS] * (flags.calls - 1)]
    ours: dict[Job, list[Cost]] = {job: [] for job in jobs}
    theirs: dict[str, dict[Job, list[float]]] = {name: {job: [] for job in jobs} for name in PEERS}
    total = sum(map(len, turns)) + len(flags.peers) * len(turns)
    with progress_bar(total=total, unit="job") as bar:
        for turn in turns:
            for name, python in flags.peers.items():
                bar.set_description(name)
                for job, seconds in peer_times(name, python, flags.threads).items():
                    theirs[name][job].append(seconds)
                bar.update()
            for preset, kind in turn:
                bar.set_description(f"{preset} {kind}")
                calls = calls_for(flags, preset, kind)
                ours[preset, kind].append(measure(getattr(Work(agents[preset]), kind), calls))
                bar.update()
    rows = [
        row(flags, *job, agents[job[0]], median_cost(ours[job]), {name: found[job] for name, found in theirs.items()})
        for job in jobs
    ]
    notes = remarks(agents["paper"], flags.calls) if flags.device == "cpu" else []
    return rows, notes  # which are about this processor


def remarks(agent: Agent, calls: int) -> list[str]:
    """How close the plan is to the processor's rate, and the effect of its precision."""
    likelihood, work = cast(Ensemble, agent.model.likelihood), Work(agent)
    planned = likelihood.for_planning()
    passes = benchmark.forwards(agent, planned)
    # In alternation: the machine's speed varies within minutes.
    turns = [(measure(work.plan, 1), measure(passes, 1)) for _ in range(calls)]
    beside, bare = (median_cost(costs) for costs in zip(*turns, strict=True))
    share = benchmark.share_of_matrix_products(agent, beside)
    ranks = {name: benchmark.rank_correlation(agent, getattr(torch, name)) for name in ("float32", "bfloat16")}
    layer_by_layer = likelihood if likelihood.planning_dtype == torch.float32 else likelihood.in_bfloat16
    times = measure(benchmark.forwards(agent, layer_by_layer), calls).cpu / bare.cpu
    return [
        f"The paper's plan takes {beside.cpu / bare.cpu:.2f} times its bare forward passes.",
        *([f"Layer by layer they would take {times:.1f} times as long."] if planned != layer_by_layer else []),
        f"It runs at {share:.0%} of the rate that this processor reaches in matrix products alone.",
        *(f"Rank correlation of returns with those in float64: {name} {rank:.5f}." for name, rank in ranks.items()),
    ]


def median_cost(costs: Sequence[Cost]) -> Cost:
    """Of several measurements."""
    return Cost(median(cost.cpu for cost in costs), median(cost.wall for cost in costs))


def calls_for(flags: SpeedFlags, preset: str, kind: str) -> int:
    """Short calls are noisy, so more of them are timed; with a peer the plan is timed once in every alternation."""
    if (preset, kind) in (("paper", "plan"), ("paper", "control_step")):
        return 1 if flags.peers and kind == "plan" else flags.calls
    return 5 * flags.calls


def configuration(flags: SpeedFlags, preset: BenchmarkPreset) -> RunConfig:
    """The preset; the paper's update with one draw a gradient (as many as it names) and compiled, as ours can be."""
    config = preset_config(FAMILY, preset)
    if preset == "paper":
        update = SVIUpdateConfig(samples=1, compiled=True)
        config = replace(config, online=OnlineConfig("recursive", RecursiveConfig(), "svi", update))
    return replace(
        config,
        offline=OfflineConfig(batch_size=BATCH, epochs=1, compiled=True),
        precision=flags.precision,
        device=flags.device,
    )


def build_from(config: RunConfig, environments: int, family: Family | None = None) -> Agent:
    """An agent over a number of environments, by default of the slopes."""
    family = family or find_family(FAMILY)
    return build_agent(config, family, action_space(family, config.steps), environments)


def row(
    flags: SpeedFlags, preset: str, kind: str, agent: Agent, cost: Cost, peers: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """One line of the JSON file."""
    return {
        "work": kind,
        "preset": preset,
        "device": flags.device,
        "precision": str(cast(Ensemble, agent.model.likelihood).planning_dtype).removeprefix("torch."),
        "threads": flags.threads,
        "environments": agent.environments,
        "cpu_s": cost.cpu,
        "wall_s": cost.wall,
        **{PEERS[name][1]: median(times) if times else None for name, times in peers.items()},
    }


def peer_times(name: str, python: Path, threads: int) -> dict[Job, float]:
    """The peer's CPU seconds at :data:`PEERS_JOBS`; raises :class:`UserError` if it cannot run."""
    flag, _, module = PEERS[name]
    script = str(module.__file__)
    command = [str(python), script, "--threads", str(threads), "--calls", "2"]
    environment = {variable: value for variable, value in os.environ.items() if variable != "PYTHONPATH"}
    try:
        ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    except OSError as fault:
        raise UserError(f"{flag} must name the Python of an environment with {name}: {fault}") from None
    if ran.returncode:
        raise UserError(
            f"{name} does not run under {python}: {last_line(ran.stderr)}; how to install it stands in {script}"
        )
    times: dict[str, float] = json.loads(last_line(ran.stdout))
    return {("paper", work): seconds for work, seconds in times.items()}
