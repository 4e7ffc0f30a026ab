"""pyro-dynamics benchmark long-run: many updates of several beliefs about a small ensemble's latent."""

from dataclasses import dataclass
from typing import Any

import torch

from pyro_dynamics.benchmarks import long_run
from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.errors import require_positive
from pyro_dynamics.guides import DiagonalGuide
from pyro_dynamics.inference import BELIEFS, UPDATES
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel
from pyro_dynamics.runners.benchmarks.common import RecordFlags

METHODS = (("recursive", "kalman"), ("window", "kalman"), ("changepoint", "kalman"), ("recursive", "svi"))
SLOWER = 10
"""A gradient update takes 60 steps: there are a tenth as many."""


@dataclass(frozen=True)
class LongRunFlags(RecordFlags):
    """Update beliefs many times in a row, and see whether time or memory per update grows."""

    updates: int = 20_000
    """Of each belief; a tenth of that by gradient steps."""

    def __post_init__(self) -> None:
        require_positive(self, "updates")


Flags = LongRunFlags


def measure_rows(flags: LongRunFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    rows = []
    for belief, update in METHODS:
        count = flags.updates if update == "kalman" else -(-flags.updates // SLOWER)
        believed, ensemble = build(belief, update)
        found = long_run.measure(believed, ensemble, count, f"{belief} {update}")
        rows.append({"belief": belief, "update": update, "updates": count, **long_run.summary(*found)})
    return {"updates": flags.updates}, rows


def build(belief: str, update: str) -> tuple[Any, Ensemble]:
    """A belief about one environment, with default settings, and the likelihood of its model."""
    torch.manual_seed(0)
    config = EnsembleConfig(members=long_run.MEMBERS, hidden=(32, 32), weight_decay=(0.0, 0.0, 0.0))
    ensemble = Ensemble(long_run.INPUTS, long_run.LATENT, long_run.TARGETS, config)
    model = HierarchicalModel(ensemble, 1, long_run.LATENT)
    rule: Any = UPDATES.find(update)
    guide = DiagonalGuide(1, long_run.LATENT).for_environments(1)
    return BELIEFS.find(belief)(model, guide, rule(rule.Config())), ensemble


def table(recording: Recording) -> str:
    """The rows as Markdown."""
    return long_run.table(recording.rows)
