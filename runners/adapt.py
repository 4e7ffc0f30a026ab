"""pyro-dynamics adapt: act in a new or changing environment, and watch the belief about it."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from tqdm import tqdm

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.control import Device
from pyro_dynamics.datasets.log_arrays import ColumnNames
from pyro_dynamics.datasets.logged_family import require_simulator
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.environments import Family, Schedule
from pyro_dynamics.environments.checked_env import limit_steps
from pyro_dynamics.environments.context_text import exact, label
from pyro_dynamics.environments.example_schedule import example_schedule, in_words
from pyro_dynamics.environments.schedule_text import schedule_text
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import results_folder, write_json
from pyro_dynamics.io.lock import lock_folder
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.stream_folder import Adaptation, write_adaptation
from pyro_dynamics.io.tables import decimal
from pyro_dynamics.io.untrusted_folders import stamped
from pyro_dynamics.plots.formats import FigureFormat
from pyro_dynamics.plots.video import Film, make_environments
from pyro_dynamics.processor import set_threads
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.rollouts.acting import ContextChange
from pyro_dynamics.rollouts.adaptation import BELIEF_DRAWS, AdaptationStep, adapt, replay
from pyro_dynamics.rollouts.adaptation_lines import SummaryLines
from pyro_dynamics.rollouts.adaptation_summary import as_row, coverage_line, summarise
from pyro_dynamics.rollouts.fault_log import Faults
from pyro_dynamics.rollouts.stream_checkpoint import StreamCheckpoint
from pyro_dynamics.rollouts.stream_state import ResumePoint, StreamState
from pyro_dynamics.rollouts.stream_verdict import judge_adaptation, reached
from pyro_dynamics.runners.common.configuration import COMPILES, OnlineConfig, RunConfig, online_defaults
from pyro_dynamics.runners.common.factory import group_for, load_run, warn_of_changes
from pyro_dynamics.runners.common.limits import read_flags
from pyro_dynamics.runners.common.result_names import keep_older, name_of_flags, name_of_schedule, text_of_schedule
from pyro_dynamics.runners.main import run_as_module
from pyro_dynamics.seeding import derive_generator

UNFINISHED = "unfinished"
"""The folder of the steps of an adaptation that has not come to its end, inside that of its results."""


@dataclass(frozen=True)
class AdaptFlags:
    """Act in one environment with a trained model, updating the belief after every step (Eq. 5).

    Without --context and --schedule the hidden parameter changes once, after a fifth of the steps, between two values
    that were not trained on. With --replay it follows logged steps instead, without acting. The belief begins where
    --prior says: at a Gaussian around the latents that were trained on, or at N(0, I). Prints a line for every tenth of
    the steps and at every change, and stores the steps as JSON lines, the transitions, draws of the belief, a summary
    and a figure in DIR/adapt/NAME. At the end it reports how many of the targets lay in the network's own 90 %
    intervals before they were seen, and the verdict that `diagnose` also gives of the belief: believe, stale,
    overconfident, out of the trained range, collapsed, ...

    Flags that are not given are those of the run: DIR before --help shows them, and --help alone the paper's.

    The steps are brought to the disk every second. If it is stopped, the same command resumes after the last of them;
    one with --video begins anew.
    """

    dir: tyro.conf.Positional[Path]
    """Folder of a trained run."""
    online: Annotated[OnlineConfig, tyro.conf.arg(name="")] = field(default_factory=OnlineConfig)
    context: str | None = None
    """The true hidden parameter, for example 9 (degrees) or front-foot; it may be one that was never trained on.
    Several are written 1.5,0.8 in the family's order, or mass=1.5,damping=0.8."""
    schedule: str | None = None
    """A hidden parameter that changes: at steps (0:-6,500:6), or ramp:0:-6,400:6, sine:-6:6:200, walk:0:0.5:-9:9
    (start, standard deviation of a step, bounds), file:PATH (CSV or JSON of step and context); see
    docs/reference/families.md."""
    replay: str | None = None
    """Logged steps to follow: a file or data set of any kind that `fit` reads. The true parameter may be given by
    --context or --schedule."""
    environment: str | None = None
    """Which environment of the logged data, if it has several."""
    group: str | None = None
    """Column of the logged data that distinguishes its environments; as in the fit by default."""
    columns: Annotated[ColumnNames, tyro.conf.arg(name="")] = field(default_factory=ColumnNames)
    realtime: bool = False
    """Plan and update within a real-time budget of 50 ms, as the preset `realtime` does, whatever the run was trained
    with; the first update compiles, which takes up to a minute."""
    video: bool = False
    """Film the episode, with the belief beside it."""
    steps: int | None = None
    """Steps to act; by default as many as an episode of training has, and 500 after the last change of a schedule. Of
    logged steps, so many from the first one on; all by default."""
    seed: int = 0
    """Names the random streams."""
    checkpoint: int | None = None
    """Round whose checkpoint acts; the newest by default."""
    out: Path | None = None
    """Where the results go; by default DIR/adapt/NAME with a name made of the other flags."""
    step_limit: float | None = None
    """Seconds that one step or reset of an environment may take; then it is left out as one that raises. No limit by
    default."""
    every: int | None = None
    """Print a line for every so many steps, 1 for each; a tenth of them by default."""
    quiet: bool = False
    """Print only the summary."""
    figure_format: FigureFormat = "png"
    """Of the figure; pdf and svg, for print, are written beside the PNG."""
    threads: int = 1
    """CPU threads."""
    device: Device | None = None
    """Where plans and compiled updates are computed, cpu or cuda; as in the run by default."""


def parse(arguments: Sequence[str]) -> AdaptFlags:
    """The flags; how beliefs are updated comes from the run, where it is not given.

    Raises:
        UserError: if a number makes no sense.
    """
    defaults = AdaptFlags(dir=tyro.MISSING, online=online_defaults(arguments))
    flags = read_flags(AdaptFlags, "adapt", arguments, defaults)
    if flags.every is not None and flags.every < 1:
        raise UserError(f"--every must be positive, not {flags.every}")
    return flags


@dataclass(frozen=True)
class Episode:
    """What is about to run in the one environment.

    Attributes:
        stream: the steps, after those that were made before.
        stream_state: of the agents that make them.
        steps: how many, at most.
        out: the folder of the results.
        source: what the summary says of where the steps come from.
        prior: draws of what is believed before the first step, ``[S, d]``.
        truth: the text of the contexts, which the summary of a replay does not hold.
        schedule: of an environment that acts; None for a log.
        film: the video, if there is to be one.
        faults: what the environment does wrong on the way, which ends the stream.
    """

    stream: Callable[[ResumePoint | None], Iterator[AdaptationStep]]
    stream_state: StreamState
    steps: int
    out: Path
    source: dict[str, Any]
    prior: np.ndarray
    truth: str
    schedule: Schedule | None = None
    film: Film | None = None
    faults: Faults = field(default_factory=Faults)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = parse(arguments)
    set_threads(flags.threads)
    folder, config, family, trained = load_run(flags.dir, flags.checkpoint, flags.online, flags.realtime, flags.device)
    episode = (to_act if flags.replay is None else to_follow)(flags, folder, config, family, trained)
    with lock_folder(episode.out):
        settings = {
            "run": str(flags.dir.resolve()),
            "network": trained.fingerprint(),
            "seed": flags.seed,
            "checkpoint": folder.last_round if flags.checkpoint is None else flags.checkpoint,
            "steps": episode.steps,
            **episode.source,
            "online": asdict(flags.online),
        }
        decisive = {name: value for name, value in settings.items() if name != "run"}  # it may have been moved
        checkpoint = StreamCheckpoint(
            episode.out / UNFINISHED, decisive | {"context or schedule": episode.truth, "config": asdict(config)}
        )
        make_steps(flags, episode, checkpoint, family, trained)
        report_results(flags, episode, checkpoint, settings, family, trained, reached(folder, flags.checkpoint))


def make_steps(
    flags: AdaptFlags, episode: Episode, checkpoint: StreamCheckpoint, family: Family, trained: AgentGroup
) -> None:
    """Act, or follow the log, from the first step that is not in the checkpoint yet.

    Raises:
        UserError: if not one step could be made.
    """
    resume_point = None if episode.film else checkpoint.resume_point()
    if resume_point is None:
        checkpoint.clear()
    else:
        print(f"resumes after {len(resume_point)} steps, which are in {checkpoint.path}")
    lines = SummaryLines(trained, family, episode.steps, flags.every)

    def show(words: Sequence[str]) -> None:
        for line in () if flags.quiet else words:
            tqdm.write(line, file=sys.stdout)
            sys.stdout.flush()  # also where it goes to a file, which someone may be watching

    if getattr(flags.online.update_config, "compiled", False):
        print(COMPILES, flush=True)
    show([lines.head])
    with episode.film or nullcontext():
        stream = episode.stream(resume_point)
        for step in progress_bar(stream, initial=checkpoint.steps, total=episode.steps, unit="step"):
            row = as_row(step)
            checkpoint.add(row, step, episode.stream_state)
            show(lines.add(row, step.draws[:, 0].numpy(), bool(step.changed[0])))
            if episode.film is not None:
                episode.film.add(step)
    show(lines.rest())
    if not checkpoint.steps:
        raise episode.faults.now[0]
    checkpoint.save(episode.stream_state)


def report_results(
    flags: AdaptFlags,
    episode: Episode,
    checkpoint: StreamCheckpoint,
    settings: dict[str, Any],
    family: Family,
    trained: AgentGroup,
    expected: float | None,
) -> None:
    """Write and print what came of the steps.

    Raises:
        UserError: if the environment broke on the way.
    """
    out, faults, rows = episode.out, episode.faults, checkpoint.rows()
    adaptation = checkpoint.adaptation(rows, settings)
    summary = summarise(rows, trained, family, adaptation.latent) | faults.of([0])
    write_adaptation(out, adaptation)
    verdict = judge_adaptation(adaptation, trained, family, expected).verdict
    write_json(out / "summary.json", stamped(settings | summary | {"verdict": asdict(verdict)}))
    figures = write_belief_figure(out / "belief.png", adaptation, episode.prior, trained, family, flags.figure_format)
    seconds = checkpoint.arrays("seconds")["seconds"]
    checkpoint.remove()
    rewarded = episode.source.get("rewarded", True)
    if episode.schedule is not None and len(rows) < episode.steps:
        late = episode.schedule.unreached(len(rows))
        print(f"\nthe episode ended after {len(rows)} of {episode.steps} steps" + (late and f": {late}"))
    print(f"\nreturn over {len(rows)} steps: " + (decimal(summary["return"]) if rewarded else "no rewards were logged"))
    print(f"mean one-step log-likelihood: {summary['log_likelihood']:.2f} nats")
    print(coverage_line(summary["coverage"], summary["width"], len(rows)))
    print(f"{'update' if flags.replay else 'plan and update'}: {1000 * np.median(seconds):.0f} ms per step (median)")
    for entry in summary["belief"]:
        print(f"after step {entry['step']} ({family.axis}: {label(entry['context'])}): {entry['words']}")
    print(verdict.text)
    film = "" if episode.film is None else f"\nvideo: {episode.film.path}"
    print(f"results: {out}\nfigure: {figures[-1]}{film}")
    if faults.now:
        raise UserError(f"cut short after {len(rows)} steps, whose results were kept: {faults.now[0]}")


def to_act(flags: AdaptFlags, folder: RunFolder, config: RunConfig, family: Family, trained: AgentGroup) -> Episode:
    """Make the environment.

    Raises:
        UserError: if a flag makes no sense, or the run has no simulator.
    """
    require_simulator(family)
    if flags.environment is not None or flags.group is not None or flags.columns.given():
        raise UserError(
            "--environment and --group choose among logged data, and names of columns are its own: give --replay DATA "
            "with them"
        )
    if flags.steps is not None and flags.steps < 1:
        raise UserError(f"--steps must be positive, not {flags.steps}")
    if flags.context is None and flags.schedule is None:
        schedule = example_schedule(family, flags.steps or config.steps)
        flags = replace(flags, schedule=schedule_text(schedule))
        print(f"--schedule {flags.schedule}, as none was given: {in_words(schedule, family)}")
    else:
        schedule = read_schedule(flags, family, flags.steps or config.steps)
    steps = flags.steps or schedule.length or (schedule.last_change and schedule.last_change + 500) or config.steps
    warn_of_late_changes(schedule, steps)
    envs = make_environments(family, [schedule], steps, flags.video)
    limit_steps(envs, flags.step_limit)
    warn_of_changes(folder, config, family, flags.step_limit)
    # Made before anything runs: a folder that cannot be written to must not cost the results.
    contexts = text_of_schedule(flags.schedule, schedule) if flags.schedule else exact(schedule.at(0))
    out = results_folder(flags.out or own_place(flags, folder, contexts, steps), flags.dir)
    film = Film(out / "episode", envs, 0, steps, trained, family) if flags.video else None
    group = group_for(trained, family, [schedule.at(0)])
    prior = prior_draws(group, flags.seed)
    stream_state, faults = StreamState(group, flags.seed), Faults()
    stream = partial(
        adapt,
        group,
        envs,
        flags.seed,
        before_step=ContextChange(group, [schedule]),
        belief_draws=BELIEF_DRAWS,
        on_fault=faults,
        stream_state=stream_state,
    )
    source = {"schedule": [list(change) for change in schedule.changes]}
    return Episode(
        lambda resume_point: stream(resume_point=resume_point),
        stream_state,
        steps,
        out,
        source,
        prior,
        contexts,
        schedule,
        film,
        faults,
    )


def to_follow(flags: AdaptFlags, folder: RunFolder, _: RunConfig, family: Family, trained: AgentGroup) -> Episode:
    """Read the logged steps.

    Raises:
        UserError: if a flag makes no sense, or the data does not fit the run.
    """
    if flags.video:
        raise UserError("--video films a simulator, and --replay has none: leave one of them out")
    assert flags.replay is not None
    from pyro_dynamics.runners.common.logged_stream import read_stream  # here, as pandas takes long

    logged = read_stream(flags.replay, flags.environment, flags.group, flags.columns, folder, family)
    for note in logged.notes:
        print(note)
    there = len(logged.transitions)
    steps = there if flags.steps is None else flags.steps
    if not 1 <= steps <= there:
        raise UserError(f"--steps must lie between 1 and the {there} logged steps, not {steps}")
    contexts, truth = [logged.context] * steps, ""
    if flags.context is not None or flags.schedule is not None:
        schedule = read_schedule(flags, family, steps)
        warn_of_late_changes(schedule, steps)
        contexts = [schedule.at(step) for step in range(steps)]
        truth = text_of_schedule(flags.context or flags.schedule or "", schedule)
    group = group_for(trained, family, contexts[:1])
    what = f"replay-{logged.name}{truth and '-' + truth}"
    out = results_folder(flags.out or own_place(flags, folder, what, steps), flags.dir)
    prior = prior_draws(group, flags.seed)
    stream_state = StreamState(group, flags.seed, acting=False)
    stream = partial(replay, group, logged.transitions, contexts, flags.seed, BELIEF_DRAWS, stream_state)
    source = {"replay": flags.replay, "rewarded": logged.rewarded}
    return Episode(stream, stream_state, steps, out, source, prior, truth)


def read_schedule(flags: AdaptFlags, family: Family, steps: int) -> Schedule:
    """The one context, or the schedule over so many steps, with every value checked."""
    if (flags.context is None) == (flags.schedule is None):
        raise UserError("give either --context VALUE or --schedule STEP:VALUE,STEP:VALUE")
    if flags.context is not None:
        return Schedule.constant(family.parse_context(flags.context))
    assert flags.schedule is not None
    return family.parse_schedule(flags.schedule, steps)


def warn_of_late_changes(schedule: Schedule, steps: int) -> None:
    """Say where a change is scheduled for later than the last step."""
    if words := schedule.unreached(steps):
        print(f"warning: {words}", file=sys.stderr)


def own_place(flags: AdaptFlags, folder: RunFolder, what: str, steps: int) -> Path:
    """The folder of the results within the run; those of an older network, which are there already, make room."""

    def place_of(checkpoint: int | None) -> Path:
        return folder.path / "adapt" / name_of(replace(flags, checkpoint=checkpoint), what, steps)

    if flags.checkpoint is None:
        keep_older(place_of(None), folder.last_round, place_of)
    return place_of(flags.checkpoint)


def name_of(flags: AdaptFlags, what: str, steps: int) -> str:
    """A folder's name for the results, made of what decides them."""
    own = online_defaults([str(flags.dir), *(["--realtime"] if flags.realtime else [])])
    usual = {"realtime": False, "checkpoint": None}
    rest = name_of_flags({name: getattr(flags, name) for name in usual}, usual, flags.online, own)
    return f"{name_of_schedule(what)}-steps{steps}-seed{flags.seed}{rest}"


def prior_draws(group: AgentGroup, seed: int) -> np.ndarray:
    """Draws ``[S, d]`` of what is believed about the one environment before the first step."""
    draws = group.belief_draws(BELIEF_DRAWS, derive_generator(seed, "adapt", "prior"))[0]
    return draws[:, 0].numpy()


def write_belief_figure(
    path: Path, made: Adaptation, prior: np.ndarray, trained: AgentGroup, family: Family, figure_format: FigureFormat
) -> list[Path]:
    """Draw the belief over time, and write it; returns the files."""
    from pyro_dynamics.plots.adaptation_figure import draw_adaptation  # here, as matplotlib takes long
    from pyro_dynamics.plots.style import write_figure

    means = trained.beliefs()[0].numpy()
    probe = ContextProbe(means, family.train) if family.decodable and means.shape[1] else None
    drawn = draw_adaptation(made.rows, family.axes, family.train, means, probe, made.latent, prior)
    return write_figure(path, drawn, figure_format)


if __name__ == "__main__":
    run_as_module("adapt")
