"""pyro-dynamics benchmark collapse: the remedies against collapse, on a small ensemble with a diagonal guide."""

from dataclasses import asdict, dataclass
from typing import Any

import torch

from pyro_dynamics.benchmarks import collapse
from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.errors import require_positive
from pyro_dynamics.guides import DiagonalConfig, DiagonalGuide
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.runners.benchmarks.common import RecordFlags


@dataclass(frozen=True)
class CollapseFlags(RecordFlags):
    """Train with every remedy against collapse, on two cases that collapse without, and measure what it changes."""

    steps: int = collapse.STEPS
    """Gradient steps of each training."""
    seeds: int = 5
    """Trainings of each case and remedy."""

    def __post_init__(self) -> None:
        require_positive(self, "steps", "seeds")


Flags = CollapseFlags


def measure_rows(flags: CollapseFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    jobs = [(c, r, seed) for c in collapse.CASES for r in collapse.REMEDIES for seed in range(flags.seeds)]
    rows = []
    for case, remedy, seed in progress_bar(jobs, unit="training"):
        found = collapse.measure(build, case, remedy, seed, flags.steps)
        rows.append({"case": case, "remedy": remedy, "seed": seed, **asdict(found)})
    return {"steps": flags.steps, "seeds": flags.seeds}, rows


def build(seed: int, initial_scale: float) -> tuple[HierarchicalModel, DiagonalGuide]:
    """A small ensemble, and the guide."""
    guide = DiagonalGuide(collapse.ENVIRONMENTS, collapse.LATENT, DiagonalConfig(initial_scale))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        settings = EnsembleConfig(members=2, hidden=(32,), weight_decay=(1e-5, 1e-5))
        network = Ensemble(2, collapse.LATENT, 1, settings)
    return HierarchicalModel(network, collapse.ENVIRONMENTS, collapse.LATENT), guide


def table(recording: Recording) -> str:
    """The rows as Markdown."""
    return collapse.table(recording.rows)
