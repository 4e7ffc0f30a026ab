"""pyro-dynamics benchmark planners: every planner with the model of one run."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import tyro

from pyro_dynamics.benchmarks import planners
from pyro_dynamics.benchmarks.planners import SEEDS, act, candidates, differences, realtime_candidates
from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.control.precision import Precision
from pyro_dynamics.runners.benchmarks.common import RecordFlags, require_run
from pyro_dynamics.runners.common.configuration import preset_config
from pyro_dynamics.runners.common.factory import build_group, describe_planning, load_run
from pyro_dynamics.seeding import derive_generator, derive_seed


@dataclass(frozen=True)
class PlannersFlags(RecordFlags):
    """Act with every planner, and record returns and times.

    Model and beliefs are fixed; every planner acts for an episode in each of the trained environments, from the same
    initial states, with the run's horizon and particles.
    """

    run: tyro.conf.Positional[Path | None] = None
    """Folder of a run of a latent agent."""
    realtime: bool = False
    """Compare the planner of the preset realtime with CEM with ten times its evaluations, and no others."""
    seed: int = 100
    """The first of five; names initial states and draws."""
    precision: Precision | None = None
    """Of the networks in planning; as in the run if not given."""


Flags = PlannersFlags


def measure_rows(flags: PlannersFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    _, config, family, trained = load_run(require_run(flags.run, "planners"))
    config = replace(config, precision=flags.precision or config.precision)
    contexts = len(family.train)
    named = range(flags.seed, flags.seed + SEEDS)
    settings = {
        "family": config.family,
        "steps": config.steps,
        "contexts": list(family.train),
        "horizon": config.controller.horizon,
        "particles": config.controller.particles,
        "seeds": list(named),
        "planning": describe_planning(config.precision),
    }
    envs = family.make_vector(family.train * SEEDS, config.steps)
    environment = torch.arange(contexts).repeat(SEEDS)
    seeds = [derive_seed(one, "planners", k) for one in named for k in range(contexts)]
    rows = []
    compared = realtime_candidates(preset_config(config.family, "realtime").planner_config)
    for one in compared if flags.realtime else candidates():
        name = one.kind.__name__.lower()
        controller = replace(config.controller, common_noise=one.common_noise)
        changed = replace(config, controller=controller, planner=name, planner_config=one.config)
        group = build_group(changed, family, envs.single_action_space)
        group.load_state_dict(trained.state_dict())
        generator = derive_generator(flags.seed, "planners")
        returns, seconds = act(group, envs, environment, seeds, config.steps, generator)
        rows.append(
            {
                "planner": name,
                "settings": differences(one.config),
                "noise": "common" if one.common_noise else "own",
                "evaluations": one.evaluations,
                **planners.summary(returns.view(SEEDS, contexts)),
                "returns": returns.view(SEEDS, contexts).tolist(),
                "plan_ms": 1000 * seconds / config.steps,
            }
        )
    envs.close()
    return settings, rows


def table(recording: Recording) -> str:
    """The rows as Markdown."""
    return planners.table(recording.rows)
