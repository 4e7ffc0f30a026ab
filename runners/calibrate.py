"""pyro-dynamics calibrate: choose the largest temperature at which the online belief is calibrated."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro

from pyro_dynamics.agent import Agent
from pyro_dynamics.diagnostics.stream.calibration import ENOUGH, Calibration, calibrate, choose, first_episodes
from pyro_dynamics.environments import Family
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.environments.drawn_family import DrawnFamily
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import ensure_parent, write_bytes, write_json
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.processor import set_threads
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.runners.common.configuration import OnlineConfig, RunConfig, flag_values, online_defaults
from pyro_dynamics.runners.common.drawn_episodes import newest_environments
from pyro_dynamics.runners.common.factory import load_run
from pyro_dynamics.runners.common.limits import read_flags
from pyro_dynamics.runners.common.result_names import name_of_flags
from pyro_dynamics.runners.main import run_as_module
from pyro_dynamics.transitions import Transitions

HARDLY_VARIES = 0.05
"""Predictive coverages that differ by less than this carry no information about the temperature."""


@dataclass(frozen=True)
class CalibrateFlags:
    """Choose the temperature of the online likelihood, by replaying episodes that the model was not trained on.

    Transitions are correlated and the network is imperfect, so that a belief with the full likelihood (temperature 1)
    is overconfident. That is another error than predicted noise of the wrong size, which `train --calibrate` corrects.
    Fresh beliefs about the training environments are updated with the last round's episodes, step by step, at each
    temperature. There the right latent is known: training found it from all the data (and, in runs with
    --update-while-training, from these episodes too).
    The largest temperature is chosen at which at least 85 % of the belief's central 90 % regions cover it, over the
    second half of each episode. Prints a table and the flag for `adapt` and `evaluate`, and stores both in
    DIR/calibration.json, with a figure in the same folder; other flags have files of their own.
    """

    dir: tyro.conf.Positional[Path]
    """Folder of a trained run, with a latent."""
    online: Annotated[OnlineConfig, tyro.conf.arg(name="")] = field(default_factory=OnlineConfig)
    temperatures: tuple[float, ...] = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
    """Those to try, each in (0, 1]; they take the place of --temperature, which must not be given here."""
    steps: int | None = None
    """Steps of each episode to replay; all of them by default."""
    seed: int = 0
    """Names the random streams."""
    checkpoint: int | None = None
    """Round whose checkpoint and episodes are taken; the newest by default."""
    out: Path | None = None
    """Where the table goes, and its figure beside it as .png; DIR/calibration.json by default, with the flags in its
    name that are not the defaults."""
    threads: int = 1
    """Processor threads."""


def parse(arguments: Sequence[str]) -> CalibrateFlags:
    """The flags; how beliefs are updated comes from the run, where it is not given.

    Raises:
        UserError: if a temperature makes no sense.
    """
    defaults = CalibrateFlags(dir=tyro.MISSING, online=online_defaults(arguments))
    flags = read_flags(CalibrateFlags, "calibrate", arguments, defaults)
    if "--temperature" in flag_values(arguments):
        raise UserError("calibrate chooses the temperature itself: give those to try by --temperatures")
    if not flags.temperatures or not all(0 < temperature <= 1 for temperature in flags.temperatures):
        raise UserError("--temperatures needs one or more numbers in (0, 1]")
    if flags.steps is not None and flags.steps < 2:
        raise UserError(f"--steps must be at least 2, not {flags.steps}")
    if flags.out is not None and flags.out.suffix.lower() == ".png":
        raise UserError(f"--out {flags.out} names the table, such as {flags.out.stem}.json: its figure goes beside it")
    return replace(flags, temperatures=tuple(sorted(set(flags.temperatures), reverse=True)))


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = parse(arguments)
    set_threads(flags.threads)
    folder, config, family, trained = load_run(flags.dir, flags.checkpoint, flags.online)
    refuse_without_latent(config)
    if isinstance(family, DrawnFamily):
        m, family, trained, _, second = newest_environments(folder, family, trained, flags.checkpoint)
        episodes = first_episodes(second, len(family.train))[: flags.steps]
    else:
        m, episodes = held_out(folder, family, flags)
    out = ensure_parent(flags.out or folder.path / f"calibration{name_of(flags)}.json")

    agent = trained.agents[0]
    with progress_bar(total=len(flags.temperatures) * len(episodes), unit="step") as bar:

        def on_step(temperature: float) -> None:
            bar.set_description(f"temperature {temperature:g}", refresh=False)
            bar.update()

        rows = calibrate(
            lambda temperature: with_temperature(agent, flags.online, temperature),
            trained.beliefs()[0],
            episodes,
            flags.temperatures,
            flags.seed,
            on_step,
        )
    chosen = choose(rows)
    words = in_words(rows, chosen)
    print_table(rows, chosen, family)
    print("\n" + "\n".join(words))
    table = [asdict(row) for row in rows]
    summary = {
        "run": str(flags.dir),
        "round": m,
        "seed": flags.seed,
        "steps": len(episodes),
        "online": asdict(replace(flags.online, temperature=chosen.temperature)),
        "temperature": chosen.temperature,
        "enough": chosen.belief_coverage >= ENOUGH,
        "words": words,
        "temperatures": table,
    }
    write_json(out, summary)
    from pyro_dynamics.plots.figures import draw_calibration  # here, as matplotlib takes long

    figure = out.with_name(f"{out.name.removesuffix('.json')}.png")  # not with_suffix: of table-0.5 that is table-0.png
    write_bytes(figure, draw_calibration(table, chosen.temperature))
    online = f"--belief {flags.online.belief} --update {flags.online.update} --temperature {chosen.temperature:g}"
    print(f"\nuse with adapt and evaluate: {online}\nresults: {out}\nfigure: {figure}")


def name_of(flags: CalibrateFlags) -> str:
    """The part of the default file's name from flags that change the numbers."""
    own = online_defaults([str(flags.dir)])
    names = ("temperatures", "steps", "seed", "checkpoint")
    given, usual = ({name: getattr(of, name) for name in names} for of in (flags, CalibrateFlags(flags.dir)))
    for values in (given, usual):
        values["temperatures"] = tuple(map(str, values["temperatures"]))
    return name_of_flags(given, usual, flags.online, own)


def refuse_without_latent(config: RunConfig) -> None:
    """Raises :class:`UserError` where there is no belief to calibrate."""
    reasons = {
        "specialist": "specialists have a model for each environment and no latent",
        "generalist": "a generalist has no latent",
        "last-layer": "the last layer's belief is calibrated by its own noise, which is learned",
        "oracle": "an oracle is given the true context and infers no latent",
    }
    if config.agent in reasons:
        raise UserError(f"{reasons[config.agent]}, so there is no belief to calibrate: give a run of --agent latent")


def held_out(folder: RunFolder, family: Family, flags: CalibrateFlags) -> tuple[int, list[Transitions]]:
    """A round, and its first episode in each environment; the agent saved with it acted in them, untrained on them.

    Raises:
        UserError: if there is no such round.
    """
    m = folder.last_round if flags.checkpoint is None else flags.checkpoint
    assert m is not None  # a checkpoint was loaded
    if m == 0:
        raise UserError(f"{folder.path} has only round 0, which acted at random and trained nothing: train for longer")
    data = Transitions.load(folder.path / "transitions" / f"round-{m:03d}.npz")
    return m, first_episodes(data, len(family.train))[: flags.steps]


def with_temperature(agent: Agent, online: OnlineConfig, temperature: float) -> Agent:
    """The agent with fresh beliefs about as many environments, whose updates have this temperature."""
    fresh = agent.for_environments(agent.environments)
    fresh.belief = replace(online, temperature=temperature).factory()(fresh.model, fresh.guide)
    return fresh


def print_table(rows: Sequence[Calibration], chosen: Calibration, family: Family) -> None:
    """A line for each temperature."""
    environments = "".join(f"{label(context)[:10]:>11}" for context in family.train)
    print(f"\n{'':<13}{'coverage of 90 % regions':^24}\n{'temperature':<13}{'belief':>9}{'predictive':>13}", end="")
    print(f"{'log p(s)':>11}{'sd at end':>11}  belief at:{environments}")
    for row in rows:
        parts = "".join(f"{share:>11.0%}" for share in row.by_environment)
        numbers = f"{row.belief_coverage:>9.0%}{row.predictive_coverage:>13.0%}{row.log_likelihood:>11.2f}"
        mark = "*" if row is chosen else " "
        print(f"{row.temperature:<11g}{mark} {numbers}{row.belief_sd:>11.3f}            {parts}")


def in_words(rows: Sequence[Calibration], chosen: Calibration) -> list[str]:
    """The table's result as text."""
    if chosen.belief_coverage >= ENOUGH:
        words = [
            f"{chosen.temperature:g} is the largest of these temperatures at which at least {ENOUGH:.0%} of the "
            "belief's 90 % regions cover the trained latent."
        ]
    else:
        words = [
            f"at none of these temperatures do {ENOUGH:.0%} of the belief's 90 % regions cover the trained latent; "
            f"at {chosen.temperature:g} the share is nearest to 90 %: try other --temperatures, or another --belief."
        ]
    shares = [row.predictive_coverage for row in rows]
    if len(rows) > 1 and max(shares) - min(shares) < HARDLY_VARIES:
        words.append(
            f"predictive coverage hardly varies ({min(shares):.0%} to {max(shares):.0%}): one step ahead it is "
            "dominated by the network's own noise, and carries no information about the belief."
        )
    return words


if __name__ == "__main__":
    run_as_module("calibrate")
