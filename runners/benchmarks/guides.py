"""pyro-dynamics benchmark guides: a diagonal and a full-rank guide on the network of one run."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import tyro

from pyro_dynamics.benchmarks import guides
from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.diagnostics.posterior.datatree import to_datatree
from pyro_dynamics.guides import DiagonalGuide, FullRankGuide
from pyro_dynamics.inference import OfflineConfig
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.runners.benchmarks.common import RecordFlags, require_run
from pyro_dynamics.runners.common.factory import load_run
from pyro_dynamics.transitions import Transitions

FIT = OfflineConfig(guide_learning_rate=0.02, batch_size=256, min_steps=4000, lr_decay=True)
DRAWS, POINTWISE = 2000, 300


@dataclass(frozen=True)
class GuidesFlags(RecordFlags):
    """Swap the guide on a trained run and compare: k-hat, and ArviZ's own `compare`.

    The network stays as it is; each guide is fitted to the run's transitions from the prior, for as many gradient
    steps.
    """

    run: tyro.conf.Positional[Path | None] = None
    """Folder of a run of a latent agent."""


Flags = GuidesFlags


def measure_rows(flags: GuidesFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    folder, config, family, group = load_run(require_run(flags.run, "guides"))
    agent, data = group.agents[0], Transitions.concatenate(folder.transitions()[:-1])
    trees = {}
    for name, kind in progress_bar({"diagonal": DiagonalGuide, "full-rank": FullRankGuide}.items(), unit="guide"):
        guide = kind(agent.environments, agent.latent_dim)
        fitted = agent.refit(data, guide, FIT, torch.Generator().manual_seed(0))
        trees[name] = to_datatree(fitted, data, draws=DRAWS, contexts=family.train, pointwise=POINTWISE)
    settings = {"family": config.family, "axis": family.axis, "transitions": len(data), "draws": DRAWS}
    return settings | {"fit": asdict(FIT)}, guides.compare(trees)


def table(recording: Recording) -> str:
    """The rows as Markdown."""
    return guides.table(recording.rows, recording.settings["axis"])
