"""pyro-dynamics benchmark crossed-states: predictions of trained runs in states of other contexts' episodes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro

from pyro_dynamics.benchmarks import crossed_states
from pyro_dynamics.benchmarks.recording import Recording, Row
from pyro_dynamics.errors import UserError
from pyro_dynamics.reproduction.sensitivity import crossed_targets
from pyro_dynamics.runners.benchmarks.common import RecordFlags
from pyro_dynamics.runners.common.factory import load_run
from pyro_dynamics.seeding import derive_seed

STATES = 150


@dataclass(frozen=True)
class CrossedStatesFlags(RecordFlags):
    """Compare predictions in states of a context's own episodes with those in states of other contexts.

    The states are from the last round of each run; the targets are from the simulator set to the same state.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Folders of runs."""


Flags = CrossedStatesFlags


def measure_rows(flags: CrossedStatesFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    if not flags.runs:
        raise UserError("give one or more folders of runs")
    return {"states": STATES}, [row(path) for path in flags.runs]


def row(path: Path) -> Row:
    """Of one run."""
    folder, config, family, group = load_run(path)
    m = folder.last_round or 0
    data = folder.transitions()[m]
    seeds = [derive_seed(config.seed, "round", m, "reset", i) for i in range(len(data.episodes()))]
    some = set(torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:STATES].tolist())
    rows = [index for episode in data.episodes() for index in episode.tolist() if index in some]
    targets = crossed_targets(family, data, seeds, rows, config.steps, [1])[:, 0].float()  # [n, K, T]
    found = crossed_states.crossed_log_likelihood(group.agents[0], data.state[rows], data.action[rows], targets)
    own, others = crossed_states.means(found, data.environment[rows])
    return {"run": path.name, "own": own, "others": others}


def table(recording: Recording) -> str:
    """The rows as Markdown."""
    return crossed_states.table(recording.rows)
