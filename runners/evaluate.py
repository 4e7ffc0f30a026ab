"""pyro-dynamics evaluate: score a trained run on its family's test contexts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from tqdm import tqdm

from pyro_dynamics.diagnostics.context_text import label
from pyro_dynamics.errors import UserError
from pyro_dynamics.experiments import adapt
from pyro_dynamics.experiments.files import make_folder, write_json
from pyro_dynamics.runners.adapt import describe
from pyro_dynamics.runners.assembly import load_run, set_threads, team_for
from pyro_dynamics.runners.configuration import OnlineConfig, online_defaults
from pyro_dynamics.runners.main import run_as_module


@dataclass(frozen=True)
class EvaluateFlags:
    """Score a trained run on the test contexts of its family, each begun with the belief at the prior N(0, I).

    Prints a table and stores it as JSON in DIR/evaluation.json.
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
    seed: int = 0
    """Names the random streams."""
    checkpoint: int | None = None
    """Round whose checkpoint acts; the newest by default."""
    out: Path | None = None
    """Where the table goes; DIR/evaluation.json by default."""
    threads: int = 1
    """Processor threads."""


def parse(arguments: Sequence[str]) -> EvaluateFlags:
    """The flags; how beliefs are updated comes from the run, where it is not given."""
    defaults = EvaluateFlags(dir=tyro.MISSING, online=online_defaults(arguments))
    return tyro.cli(EvaluateFlags, prog="pyro-dynamics evaluate", args=arguments, default=defaults)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = parse(arguments)
    set_threads(flags.threads)
    folder, config, family, trained = load_run(flags.dir, flags.checkpoint, flags.online)
    sets = family.test_sets
    if flags.contexts:
        sets = {"given": tuple(family.parse_context(text) for text in flags.contexts)}
    contexts = [context for chosen in sets.values() for context in chosen]
    named = [name for name, chosen in sets.items() for _ in chosen]
    steps = config.steps if flags.steps is None else flags.steps
    if steps < 1 or flags.episodes < 1:
        raise UserError("--steps and --episodes must be positive")

    out = flags.out or folder.path / "evaluation.json"
    make_folder(out.parent)

    robots = family.make_vector(contexts, steps)
    episodes: list[list[dict[str, Any]]] = [[] for _ in contexts]
    with tqdm(total=flags.episodes * steps, unit="step", dynamic_ncols=True) as bar:
        for episode in range(flags.episodes):
            bar.set_description(f"episode {episode + 1}/{flags.episodes}")
            returns, log_likelihoods = torch.zeros(len(contexts)), torch.zeros(len(contexts))
            alive_steps = torch.zeros(len(contexts))
            for step in adapt(team_for(trained, family, contexts), robots, flags.seed, episode):
                returns += step.reward * step.alive
                log_likelihoods += torch.where(step.alive, step.log_likelihood, torch.zeros(()))
                alive_steps += step.alive
                bar.update()
            for k, context in enumerate(contexts):
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
                    }
                )
    robots.close()

    width = max(21, len(family.axis) + 2)
    print(f"\n{family.axis:<{width}}{'return':>10}{'log p(s)':>10}  belief at the end")
    returns_of: dict[str, list[float]] = {name: [] for name in sets}
    for name, context, runs in zip(named, contexts, episodes, strict=True):
        if len(sets) > 1 and not returns_of[name]:
            print(f"{name}:")
        mean = {key: sum(run[key] for run in runs) / len(runs) for key in ("return", "log_likelihood")}
        words = runs[-1]["belief"]["words"]
        print(f"{label(context):<{width}}{mean['return']:>10.1f}{mean['log_likelihood']:>10.2f}  {words}")
        returns_of[name].append(mean["return"])
    for name, of_set in returns_of.items():
        print(f"{f'mean ({name})':<{width}}{sum(of_set) / len(of_set):>10.1f}")
    rows = zip(named, contexts, episodes, strict=True)
    table = [{"set": name, "context": context, "episodes": runs} for name, context, runs in rows]
    write_json(out, {"seed": flags.seed, "steps": steps, "contexts": table})
    print(f"\nresults: {out}")


if __name__ == "__main__":
    run_as_module("evaluate")
