"""pyro-dynamics evaluate: score a trained run on its family's test contexts."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro

from pyro_dynamics.control import Device
from pyro_dynamics.datasets.logged_family import require_simulator
from pyro_dynamics.environments import Context, Family
from pyro_dynamics.environments.checked_env import limit_steps
from pyro_dynamics.environments.context_text import exact, label
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import ensure_parent, make_folder, write_json
from pyro_dynamics.io.tables import decimal
from pyro_dynamics.io.untrusted_folders import file_name
from pyro_dynamics.plots.video import Film, make_environments
from pyro_dynamics.processor import set_threads
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.rollouts.adaptation import adapt
from pyro_dynamics.rollouts.adaptation_summary import describe
from pyro_dynamics.rollouts.fault_log import Faults
from pyro_dynamics.runners.common.configuration import COMPILES, OnlineConfig, online_defaults
from pyro_dynamics.runners.common.factory import group_for, load_run, warn_of_changes
from pyro_dynamics.runners.common.limits import read_flags
from pyro_dynamics.runners.common.result_names import keep_older, name_of_flags, network_of
from pyro_dynamics.runners.main import run_as_module

VIDEO_DRAWS = 200
"""Draws of the belief behind its ellipse in a video."""


@dataclass(frozen=True)
class EvaluateFlags:
    """Evaluate a trained run on the test contexts of its family, each with a fresh belief that begins at its prior.

    Prints a table and stores it as JSON, with its settings: in DIR/evaluation.json, or under a name made of the flags
    that change the numbers, such as DIR/evaluation-steps=50-seed=1.json. Where the environment breaks, all that was
    made is stored, the episode counts in no mean, and the command ends with an error.
    """

    dir: tyro.conf.Positional[Path]
    """Folder of a trained run."""
    online: Annotated[OnlineConfig, tyro.conf.arg(name="")] = field(default_factory=OnlineConfig)
    contexts: tuple[str, ...] = ()
    """Other contexts than the family's test contexts."""
    episodes: int = 1
    """Episodes in every context, each with a fresh belief."""
    steps: int | None = None
    """Steps of an episode; as in training by default."""
    realtime: bool = False
    """Plan and update within a real-time budget of 50 ms, as in the preset `realtime`, whatever the run was trained
    with; the first update compiles, which takes up to a minute."""
    video: bool = False
    """Record the first episode in each context, with the robot and its belief."""
    step_limit: float | None = None
    """Seconds that one step or reset of an environment may take; then it is dropped like one that raises. No limit by
    default."""
    seed: int = 0
    """Names the random streams."""
    checkpoint: int | None = None
    """Round whose checkpoint acts; the newest by default."""
    out: Path | None = None
    """Where the table goes."""
    threads: int = 1
    """Processor threads."""
    device: Device | None = None
    """Where plans and compiled updates are computed, cpu or cuda; as in the run by default."""


def parse(arguments: Sequence[str]) -> EvaluateFlags:
    """The flags; how beliefs are updated comes from the run, where it is not given."""
    defaults = EvaluateFlags(dir=tyro.MISSING, online=online_defaults(arguments))
    return read_flags(EvaluateFlags, "evaluate", arguments, defaults)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = parse(arguments)
    set_threads(flags.threads)
    folder, config, family, trained = load_run(flags.dir, flags.checkpoint, flags.online, flags.realtime, flags.device)
    require_simulator(family)
    sets = family.test_sets
    if flags.contexts:
        sets = {"given": tuple(family.parse_context(text) for text in flags.contexts)}
    contexts = [context for chosen in sets.values() for context in chosen]
    named = [name for name, chosen in sets.items() for _ in chosen]
    steps = config.steps if flags.steps is None else flags.steps
    if steps < 1 or flags.episodes < 1:
        raise UserError("--steps and --episodes must be positive")

    own = online_defaults([str(flags.dir), *(["--realtime"] if flags.realtime else [])])
    checkpoint = folder.last_round if flags.checkpoint is None else flags.checkpoint
    newest = flags.out is None and flags.checkpoint is None

    def place_of(checkpoint: int | None) -> Path:
        return folder.path / f"evaluation{name_of(replace(flags, checkpoint=checkpoint), own)}.json"

    def films_of(checkpoint: int | None) -> Path:
        return folder.path / f"videos{name_of(replace(flags, checkpoint=checkpoint), own)}"

    out = ensure_parent(flags.out or place_of(flags.checkpoint))

    envs = make_environments(family, contexts, steps, flags.video)
    limit_steps(envs, flags.step_limit)
    warn_of_changes(folder, config, family, flags.step_limit)
    faults = Faults()
    films: list[Film] = []
    if flags.video:
        if newest:
            keep_older(films_of(None), checkpoint, films_of, network_of(out))
        where = make_folder(out.parent / f"{out.stem}-videos" if flags.out else films_of(flags.checkpoint))
        once = {file_name(exact(context)): k for k, context in reversed(list(enumerate(contexts)))}
        films = [Film(where / name, envs, k, steps, trained, family) for name, k in reversed(once.items())]
    if getattr(flags.online.update_config, "compiled", False):
        print(COMPILES, flush=True)
    episodes: list[list[dict[str, Any]]] = [[] for _ in contexts]
    videos: list[Path] = []
    with progress_bar(total=flags.episodes * steps, unit="step") as bar:
        for episode in range(flags.episodes):
            bar.set_description(f"episode {episode + 1}/{flags.episodes}")
            returns, log_likelihoods = torch.zeros(len(contexts)), torch.zeros(len(contexts))
            alive_steps = torch.zeros(len(contexts))
            draws = VIDEO_DRAWS if films else 0
            with ExitStack() as cameras:
                filming = [cameras.enter_context(film) for film in films]
                faults.begin()
                group = group_for(trained, family, contexts)
                for step in adapt(group, envs, flags.seed, episode, belief_draws=draws, on_fault=faults):
                    returns += step.reward * step.alive
                    log_likelihoods += torch.where(step.alive, step.log_likelihood, torch.zeros(()))
                    alive_steps += step.alive
                    for film in filming:
                        film.add(step)
                    bar.update()
            videos += [film.path for film in films]
            films = []  # the first episode is enough
            for k, context in enumerate(contexts):
                if not alive_steps[k]:
                    raise faults.now[k]
                row = {
                    "step": step.index,
                    "context": context,
                    "mean": step.mean[k].tolist(),
                    "sd": step.scale[k].tolist(),
                }
                episodes[k].append(
                    {
                        "return": float(returns[k]),
                        "log_likelihood": float(log_likelihoods[k] / alive_steps[k]),
                        "belief": describe(row, trained, family),
                        **faults.of([k]),
                    }
                )
    envs.close()

    print_table(family, sets, episodes)
    rows = zip(named, contexts, episodes, strict=True)
    table = [{"set": name, "context": context, "episodes": runs} for name, context, runs in rows]
    settings = {"seed": flags.seed, "steps": steps, "checkpoint": checkpoint, "realtime": flags.realtime}
    if newest:
        keep_older(out, checkpoint, place_of)
    write_json(out, {**settings, "online": asdict(flags.online), "contexts": table})
    print(f"\nresults: {out}" + "".join(f"\nvideo: {path}" for path in videos))
    require_whole(table)


def require_whole(contexts: Sequence[Mapping[str, Any]]) -> None:
    """Refuse results with episodes that a fault cut short.

    Args:
        contexts: as they stand in the JSON file.

    Raises:
        UserError: with their number, and the first fault.
    """
    runs = [run for context in contexts for run in context["episodes"]]
    if cut := [run["faults"][0] for run in runs if "faults" in run]:
        raise UserError(f"{len(cut)} of {len(runs)} episodes were cut short and are in no mean, the first so: {cut[0]}")


def name_of(flags: EvaluateFlags, own: OnlineConfig) -> str:
    """The part of the results' name from flags that change the numbers and are not the defaults.

    Args:
        flags: the flags.
        own: how the run itself updates its beliefs.
    """
    names = ("contexts", "episodes", "steps", "realtime", "seed", "checkpoint")
    usual = {field.name: field.default for field in fields(EvaluateFlags) if field.name in names}
    return name_of_flags({name: getattr(flags, name) for name in names}, usual, flags.online, own)


def print_table(
    family: Family, sets: Mapping[str, Sequence[Context]], episodes: Sequence[Sequence[dict[str, Any]]]
) -> None:
    """Returns and beliefs of every context, and a mean per set, of the episodes that no fault cut short.

    Args:
        family: of the contexts.
        sets: names of sets of contexts.
        episodes: of each context, in the order of the sets.
    """
    named = [(name, context) for name, contexts in sets.items() for context in contexts]
    width = max(21, len(family.axis) + 2)
    outside = [[not covers_truth(run["belief"]) for run in runs] for runs in episodes]
    print(f"\n{family.axis:<{width}}{'return':>10}{'log p(s)':>10}  belief at the end")
    returns_of: dict[str, list[float]] = {}
    for (name, context), runs, misses in zip(named, episodes, outside, strict=True):
        if len(sets) > 1 and name not in returns_of:
            print(f"{name}:")
        whole = [run for run in runs if "faults" not in run]
        mean = [sum(run["return"] for run in whole) / len(whole)] if whole else []
        value = decimal(mean[0]) if mean else "cut short"
        log_likelihood = sum(run["log_likelihood"] for run in runs) / len(runs)
        words = runs[-1]["belief"]["words"] + (" *" if misses[-1] else "")
        print(f"{label(context):<{width}}{value:>10}{log_likelihood:>10.2f}  {words}")
        returns_of.setdefault(name, []).extend(mean)
    for name, of_set in returns_of.items():
        value = decimal(sum(of_set) / len(of_set)) if of_set else "-"
        missing = len(sets[name]) - len(of_set)
        print(f"{f'mean ({name})':<{width}}{value:>10}" + (f"  without {missing} cut short" if missing else ""))
    if count := sum(map(sum, outside)):
        total = sum(map(len, outside))
        print(f"* the truth lies outside of the belief's 90 % interval at the end: in {count} of {total} episodes")


def covers_truth(belief: Mapping[str, Any]) -> bool:
    """Whether the true hidden parameters lie in the belief's 90 % intervals; True where that cannot be compared.

    Args:
        belief: from :func:`~pyro_dynamics.rollouts.adaptation_summary.describe`.
    """
    if "decoded_quantiles" not in belief or belief["context"] is None:
        return True
    low, _, high = (np.atleast_1d(part) for part in belief["decoded_quantiles"])
    truth = np.atleast_1d(belief["context"])
    return bool(((low <= truth) & (truth <= high)).all())


if __name__ == "__main__":
    run_as_module("evaluate")
