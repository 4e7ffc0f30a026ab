"""pyro-dynamics benchmark neural-fly: the force on a real drone in winds that it was not trained in."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from gymnasium.spaces import Box

from pyro_dynamics.agent import Agent
from pyro_dynamics.benchmarks import neural_fly
from pyro_dynamics.benchmarks.belief.streams import kept_file
from pyro_dynamics.benchmarks.neural_fly import Flight, ForceTask, Split
from pyro_dynamics.benchmarks.recording import Recording, Row
from pyro_dynamics.environments import Family
from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.inference import OfflineConfig
from pyro_dynamics.io.files import make_folder
from pyro_dynamics.io.reuse import stored_result, write_result
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.runners.benchmarks.common import RecordFlags
from pyro_dynamics.runners.common.configuration import RunConfig
from pyro_dynamics.runners.common.factory import build_group, last_layer_belief
from pyro_dynamics.runners.common.online_words import read_online
from pyro_dynamics.runners.fit import FitConfig, run_config, train_group
from pyro_dynamics.seeding import derive_generator

FIT = FitConfig()
HELD_OUT = 0.2
"""Of each flight that is learned from, its last part: the predicted noise is fitted to it."""
LAST_LAYER = ("changepoint", "recursive")
"""Beliefs about a last layer; the second is plain recursive least squares."""


@dataclass(frozen=True)
class NeuralFlyFlags(RecordFlags):
    """Predict the residual force on a real drone in wind, with one belief that is updated at every step.

    The flights are Neural-Fly's, which you download: git clone https://github.com/aerorobotics/neural-fly. They have no
    open licence, so none of them is in this package. One model learns the force from velocity, attitude and motor
    commands in the training flights, with a latent for each. Then each test flight is replayed strictly causally: a
    step is predicted, and only then is the belief updated by it. The table has the mean squared error in N^2 (mean of
    the three axes) of: no force at all; the force of the step before; the latent agent without adaptation, its belief
    staying at what it knows of new flights; each method of --methods; and the same for an agent that infers the last
    layer of its network instead (Bayesian linear regression, which is recursive least squares).

    For example: pyro-dynamics benchmark neural-fly neural-fly --seeds 5 --out neural-fly.json
    """

    folder: tyro.conf.Positional[Path | None] = None
    """The folder of your copy of the repository."""
    split: Split = "authors"
    """authors: learn from data/training (six winds up to 50 %, random trajectories), predict the flights of the
    baseline controller in data/experiment (a figure of eight); winds: data/experiment alone, each wind predicted by
    what was learned from the flights of all controllers in all other winds."""
    methods: tuple[str, ...] = ("changepoint:kalman", "recursive:natural")
    """Of the latent agent, each BELIEF:UPDATE, with settings behind a second colon, as in `benchmark belief`."""
    seeds: int = 3
    """Trainings of each network."""
    latent_dim: int = 4
    """Size d of each flight's latent."""
    offline: OfflineConfig = field(default_factory=lambda: FIT.offline)
    kept: Path = Path("runs/neural-fly")
    """Where finished figures are kept: the same command resumes after them, and more seeds are added to them."""

    def __post_init__(self) -> None:
        require_positive(self, "seeds", "latent_dim")
        for word in self.methods:
            if read_online(word, FIT.online).prior != FIT.online.prior:
                raise UserError(f"--methods {word}: beliefs about new flights begin at the learned prior here")


Flags = NeuralFlyFlags


def measure_rows(flags: NeuralFlyFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    if flags.folder is None:
        raise UserError(
            "give the folder of the flights: git clone https://github.com/aerorobotics/neural-fly, and then "
            "pyro-dynamics benchmark neural-fly neural-fly"
        )
    parts = neural_fly.splits(flags.folder, flags.split)
    rows: list[Row] = []
    for _, tests in parts:
        for flight in tests:
            errors = neural_fly.without_model(flight)
            rows += [row_of(flight, method, None, error) for method, error in errors.items()]
    make_folder(flags.kept)
    names = ("split", "methods", "latent_dim")
    settings = {name: getattr(flags, name) for name in names} | {"offline": asdict(flags.offline)}
    settings |= {"ensemble": asdict(FIT.ensemble), "guide": FIT.guide}
    for seed in range(flags.seeds):
        for learned, tests in parts:
            flights = {"seed": seed, "learned": neural_fly.digest(learned), "tests": neural_fly.digest(tests)}
            file = kept_file(flags.kept, f"{flags.split}-{tests[0].wind}-{seed}", settings | flights, ".json")
            found = stored_result(file, settings | flights, "rows")
            if found is None:
                found = rows_of(flags, seed, learned, tests)
                write_result(file, settings | flights, "rows", found)
            rows += found
    learned_from = {test.name: [one.name for one in learned] for learned, tests in parts for test in tests}
    return settings | {"seeds": flags.seeds, "learned_from": learned_from}, rows


def row_of(flight: Flight, method: str, seed: int | None, error: float) -> Row:
    """One figure."""
    return {"flight": flight.name, "wind": flight.wind, "method": method, "seed": seed, "error": error}


def rows_of(flags: NeuralFlyFlags, seed: int, learned: Sequence[Flight], tests: Sequence[Flight]) -> list[Row]:
    """The rows of one seed and one set of flights to learn from."""
    fit = replace(FIT, seed=seed, latent_dim=flags.latent_dim, offline=flags.offline)
    latent = run_config(fit, None, 1)
    rows: list[Row] = []
    for config, methods in ((latent, flags.methods), (replace(latent, agent="last-layer"), LAST_LAYER)):
        agent, kind = train(config, learned), config.agent
        jobs = {f"{kind}, no adaptation": FIT.online} | {
            f"{kind}, {word}": read_online(word if kind == "latent" else f"{word}:kalman", FIT.online)
            for word in methods
        }
        with progress_bar(total=len(jobs) * max(len(test.steps) for test in tests), unit="step") as bar:
            for index, (name, online) in enumerate(jobs.items()):
                bar.set_description(name)
                agent.make_belief = online.factory() if kind == "latent" else last_layer_belief(online)
                generator = derive_generator(seed, "neural-fly", name)
                errors = neural_fly.replay(agent, tests, index > 0, generator, bar.update)
                rows += [
                    row_of(test, name, seed, float(error.mean())) for test, error in zip(tests, errors, strict=True)
                ]
    return rows


def train(config: RunConfig, learned: Sequence[Flight]) -> Agent:
    """An agent that has learned from these flights."""
    names = tuple(flight.name for flight in learned)
    # The environment is never made: nothing acts here.
    family = Family("neural-fly", "none", "flight", "", names, names, ForceTask)
    limit = np.full(ForceTask.action_dim, np.inf, dtype=np.float32)
    group = build_group(config, family, Box(-limit, limit))
    trained, held_out = neural_fly.as_environments(learned, HELD_OUT)
    train_group(config, group, trained)
    group.calibrate(trained, held_out, derive_generator(config.seed, "fit", "calibration"))
    return group.agents[0]


def table(recording: Recording) -> str:
    """The rows as Markdown."""
    return neural_fly.table(recording.rows)
