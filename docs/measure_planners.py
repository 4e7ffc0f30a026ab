"""Compare planners by their return with one trained model. Prints Markdown.

    python docs/measure_planners.py RUN
    python docs/measure_planners.py RUN --realtime --seed 300

RUN is a run of a latent agent. Model and beliefs are fixed; every planner acts for an episode in each of the trained
environments, from the same initial states, with the run's horizon and particles.
"""

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from tqdm import tqdm

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.control import (
    CEM,
    ICEM,
    MPPI,
    PLANNERS,
    CEMConfig,
    ICEMConfig,
    MPPIConfig,
    Planner,
    Precision,
)
from pyro_dynamics.io.tables import markdown_head, markdown_row
from pyro_dynamics.rollouts.rollout import rollout
from pyro_dynamics.runners.common.configuration import preset_config
from pyro_dynamics.runners.common.factory import build_group, describe_planning, load_run, set_threads
from pyro_dynamics.seeding import derive_generator, derive_seed

SEEDS = 5


@dataclass(frozen=True)
class Row:
    """A planner with its settings, the action sequences that it evaluates per step, and the kind of noise."""

    kind: type[Planner]
    config: Any
    evaluations: int
    common_noise: bool = False


def rows() -> list[Row]:
    """CEM as in the cpu preset, and every planner with about a quarter and a tenth of its evaluations."""
    cem = [CEMConfig(100, 10, 3), CEMConfig(25, 3, 3), CEMConfig(10, 2, 3)]
    mppi = [MPPIConfig(100, 3), MPPIConfig(25, 3), MPPIConfig(10, 3)]
    icem = [ICEMConfig(28, 6), ICEMConfig(11, 3)]
    icem += [replace(config, beta=2.0) for config in icem]  # smoother action sequences
    icem.append(replace(icem[1], execute="best"))
    plain = [(CEM, config) for config in cem] + [(MPPI, config) for config in mppi]
    evaluated = [Row(kind, config, config.evaluations) for kind, config in plain]
    evaluated += [Row(ICEM, config, config.evaluations) for config in icem]
    white = ICEMConfig(28, 6, beta=0.0)
    quick = [ICEMConfig(28, 6), white, replace(white, sigma=0.7), ICEMConfig(40, 8, beta=0.0)]
    quick += [ICEMConfig(11, 3), MPPIConfig(25, 5)]
    return evaluated + [replace(Row(*kind_of(config)), common_noise=True) for config in quick]


def realtime_rows() -> list[Row]:
    """The planner of the preset realtime, its variants, and CEM with ten times its evaluations."""
    realtime = preset_config("halfcheetah-tilt", "realtime").planner_config
    ours = [
        ICEMConfig(28, 6, beta=0.0),
        ICEMConfig(28, 6, beta=0.0, std_carry=0.5),
        replace(realtime, std_carry=0.0),
        realtime,
    ]
    tenfold = CEMConfig(10 * realtime.evaluations // 3, realtime.evaluations // 3, 3)
    return [*(replace(Row(*kind_of(config)), common_noise=True) for config in ours), Row(*kind_of(tenfold))]


def kind_of(config: Any) -> tuple[type[Planner], Any, int]:
    """The planner of these settings, the settings, and the action sequences evaluated in a step."""
    kind = next(kind for kind in PLANNERS.values() if kind.Config is type(config))
    return kind, config, config.evaluations


def main(
    run: Annotated[Path, tyro.conf.Positional],
    realtime: bool = False,
    seed: int = 100,
    precision: Precision | None = None,
) -> None:
    """Act with every planner, and print returns and times.

    Args:
        run: the folder of a run.
        realtime: compare the planner of the preset realtime with CEM with ten times its evaluations, and no others.
        seed: the first of five; names starts and draws.
        precision: of the networks in planning; as in the run if not given.
    """
    named = range(seed, seed + SEEDS)
    set_threads(1)
    _, config, family, trained = load_run(run)
    config = replace(config, precision=precision or config.precision)
    contexts = len(family.train)
    print(f"# Planners on one model: {config.family}\n\n    python docs/measure_planners.py RUN\n")
    print(
        f"Mean return of {config.steps} steps over {contexts} trained environments, with its standard error over "
        f"{SEEDS} seeds; horizon {config.controller.horizon}, {config.controller.particles} particles. "
        "Evaluations are action sequences in a step. The time is CPU time, on one thread, for one plan of "
        f"{contexts * SEEDS} environments, {describe_planning(config.precision)}.\n"
    )
    print(markdown_head(["planner", "settings", "noise", "evaluations", "return", "by environment", "ms"]))
    envs = family.make_vector(family.train * SEEDS, config.steps)
    environment = torch.arange(contexts).repeat(SEEDS)
    seeds = [derive_seed(one, "planners", k) for one in named for k in range(contexts)]
    for row in realtime_rows() if realtime else rows():
        chosen = {"planner": row.kind.__name__.lower(), "planner_config": row.config}
        controller = replace(config.controller, common_noise=row.common_noise)
        group = build_group(replace(config, controller=controller, **chosen), family, envs.single_action_space)
        group.load_state_dict(trained.state_dict())
        returns, seconds = act(group, envs, environment, seeds, config.steps, derive_generator(seed, "planners"))
        of_seeds = returns.view(SEEDS, contexts)
        mean, error = of_seeds.mean(), of_seeds.mean(1).std() / math.sqrt(SEEDS)
        each = " ".join(f"{value:.0f}" for value in of_seeds.mean(0))
        cost = 1000 * seconds / config.steps
        noise = "common" if row.common_noise else "own"
        cells = [chosen["planner"], differences(row.config), noise, str(row.evaluations)]
        print(markdown_row([*cells, f"{mean:.0f} +- {error:.0f}", each, f"{cost:.0f}"]), flush=True)
    envs.close()


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


if __name__ == "__main__":
    tyro.cli(main)
