"""pyro-dynamics adapt: act in a new or changing environment, and watch the belief about it."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from tqdm import tqdm

from pyro_dynamics.agent_group import Team
from pyro_dynamics.control import Device
from pyro_dynamics.datasets.logged_family import require_simulator
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.environments import Family, Schedule
from pyro_dynamics.environments.checked_env import limit_steps
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import make_folder, write_bytes, write_json, write_json_lines, write_whole
from pyro_dynamics.io.lock import lock_folder
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.untrusted_folders import file_name, stamped
from pyro_dynamics.plots.figures import draw_adaptation
from pyro_dynamics.plots.video import Film, make_robots
from pyro_dynamics.rollouts.adaptation import AdaptationStep, adapt, replay, telling
from pyro_dynamics.rollouts.adaptation_summary import as_row, coverage_line, health, line, reached, summarise
from pyro_dynamics.rollouts.fault_log import Faults
from pyro_dynamics.rollouts.stream_checkpoint import Journal
from pyro_dynamics.rollouts.stream_state import Begun, Memory
from pyro_dynamics.runners.common.configuration import OnlineConfig, RunConfig, online_defaults
from pyro_dynamics.runners.common.factory import load_run, set_threads, team_for
from pyro_dynamics.runners.common.logged_stream import read_stream
from pyro_dynamics.runners.main import run_as_module

UNFINISHED = "unfinished"
"""The folder of the steps of an adaptation that has not come to its end, inside that of its results."""
BELIEF_DRAWS = 400
"""Draws of the belief that are stored after each step: the tail of k-hat is then fitted to about 60 of them."""


@dataclass(frozen=True)
class AdaptFlags:
    """Act in one environment with a trained model, updating the belief after every step (Eq. 5).

    With --replay it follows logged steps instead, without acting. The belief begins at the prior N(0, I). Prints a line
    a step, and stores the steps as JSON lines, the transitions, draws of the belief, a summary and a picture in
    DIR/adapt/NAME. At the end it tells how many of the targets lay in their 90 % intervals before they were seen, and
    whether the belief can be trusted: healthy, collapsed, stale, over-confident or out of the trained range.

    The steps are brought to the disk every second. If it is stopped, the same command goes on after the last of them;
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
    (start, standard deviation of a step, bounds), file:PATH (CSV or JSON of step and context); see docs/families.md."""
    replay: str | None = None
    """Logged steps to follow: an .npz file, or a Minari data set by id or folder (see `fit`). The true parameter may be
    told by --context or --schedule."""
    where: str | None = None
    """Which environment of the logged data, if it has several."""
    group: str | None = None
    """Column of the logged data that tells its environments apart; as in the fit by default."""
    realtime: bool = False
    """Plan and update within a robot's clock of 50 ms, as the preset `realtime` does, whatever the run was trained
    with; the first update compiles, which takes some ten seconds."""
    video: bool = False
    """Film the robot, with the belief beside it."""
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
    quiet: bool = False
    """Print only the summary."""
    threads: int = 1
    """Processor threads."""
    device: Device | None = None
    """Where plans and compiled updates are computed, cpu or cuda; as in the run by default."""


def parse(arguments: Sequence[str]) -> AdaptFlags:
    """The flags; how beliefs are updated comes from the run, where it is not given."""
    defaults = AdaptFlags(dir=tyro.MISSING, online=online_defaults(arguments))
    return tyro.cli(AdaptFlags, prog="pyro-dynamics adapt", args=arguments, default=defaults)


@dataclass(frozen=True)
class Meeting:
    """What is about to happen in the one environment.

    Attributes:
        stream: the steps, after those that were made before.
        memory: of the agents that make them.
        steps: how many, at most.
        out: the folder of the results.
        told: what the summary tells of where the steps come from.
        film: the video, if there is to be one.
        faults: what the environment does wrong on the way, which ends the stream.
    """

    stream: Callable[[Begun | None], Iterator[AdaptationStep]]
    memory: Memory
    steps: int
    out: Path
    told: dict[str, Any]
    film: Film | None = None
    faults: Faults = field(default_factory=Faults)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = parse(arguments)
    set_threads(flags.threads)
    folder, config, family, trained = load_run(flags.dir, flags.checkpoint, flags.online, flags.realtime, flags.device)
    meeting = (to_act if flags.replay is None else to_follow)(flags, folder, config, family, trained)
    with lock_folder(meeting.out):
        settings = {
            "run": str(flags.dir.resolve()),
            "network": trained.fingerprint(),
            "seed": flags.seed,
            "checkpoint": folder.last_round if flags.checkpoint is None else flags.checkpoint,
            "steps": meeting.steps,
            **meeting.told,
            "online": asdict(flags.online),
        }
        decisive = {name: value for name, value in settings.items() if name != "run"}  # it may have been moved
        truth = [flags.context, flags.schedule]  # which the summary of a replay does not tell
        journal = Journal(meeting.out / UNFINISHED, decisive | {"context or schedule": truth, "config": asdict(config)})
        make_steps(flags, meeting, journal, family)
        tell_results(flags, meeting, journal, settings, family, trained, reached(folder, flags.checkpoint))


def make_steps(flags: AdaptFlags, meeting: Meeting, journal: Journal, family: Family) -> None:
    """Act, or follow the log, from the first step that is not in the journal yet.

    Raises:
        UserError: if not one step could be made.
    """
    begun = None if meeting.film else journal.begun()
    if begun is None:
        journal.clear()
    else:
        print(f"goes on after {len(begun)} steps, which are in {journal.path}")
    if not flags.quiet:
        numbers = f"{'reward':>8} {'log p(s)':>9} {'in 90 %':>8}"
        print(f"{'step':>5} {family.axis:>20} {numbers}  belief: mean +- sd of each latent")
    with meeting.film or nullcontext():
        stream = meeting.stream(begun)
        for step in tqdm(stream, initial=journal.steps, total=meeting.steps, unit="step", disable=None):
            row = as_row(step)
            journal.add(row, step, meeting.memory)
            if not flags.quiet:
                tqdm.write(line(row), file=sys.stdout)
            if meeting.film is not None:
                meeting.film.add(step)
    if not journal.steps:
        raise meeting.faults.now[0]
    journal.save(meeting.memory)


def tell_results(
    flags: AdaptFlags,
    meeting: Meeting,
    journal: Journal,
    settings: dict[str, Any],
    family: Family,
    trained: Team,
    expected: float | None,
) -> None:
    """Write and print what came of the steps.

    Raises:
        UserError: if the environment broke on the way.
    """
    out, faults, rows = meeting.out, meeting.faults, journal.rows()
    summary = summarise(rows, trained, family) | faults.of([0])
    summary["health"] = health(rows, trained, expected)
    write_json_lines(out / "steps.jsonl", rows)
    write_stream(out, journal)
    write_json(out / "summary.json", stamped(settings | summary))
    write_bytes(out / "belief.png", picture(rows, trained, family))
    seconds = journal.arrays("seconds")["seconds"]
    journal.remove()
    rewarded = meeting.told.get("rewarded", True)
    print(f"\nreturn over {len(rows)} steps: " + (f"{summary['return']:.1f}" if rewarded else "no rewards were logged"))
    print(f"mean one-step log-likelihood: {summary['log_likelihood']:.2f} nats")
    print(coverage_line(summary["coverage"]))
    print(f"{'update' if flags.replay else 'plan and update'}: {1000 * np.median(seconds):.0f} ms a step (median)")
    for entry in summary["belief"]:
        print(f"after step {entry['step']} ({family.axis}: {label(entry['context'])}): {entry['words']}")
    for index, finding in enumerate(summary["health"]):
        print(f"{'also' if index else 'belief'}: {finding['state']}: {finding['why']}")
    film = "" if meeting.film is None else f"\nvideo: {meeting.film.path}"
    print(f"results: {out}\npicture: {out / 'belief.png'}{film}")
    if faults.now:
        raise UserError(f"cut short after {len(rows)} steps, whose results were kept: {faults.now[0]}")


def to_act(flags: AdaptFlags, folder: RunFolder, config: RunConfig, family: Family, trained: Team) -> Meeting:
    """Make the robot.

    Raises:
        UserError: if a flag makes no sense, or the run has no simulator.
    """
    require_simulator(family)
    if flags.where is not None or flags.group is not None:
        raise UserError("--where and --group choose among logged data: give --replay DATA with them")
    if flags.steps is not None and flags.steps < 1:
        raise UserError(f"--steps must be positive, not {flags.steps}")
    schedule = read_schedule(flags, family, flags.steps or config.steps)
    steps = flags.steps or schedule.length or (schedule.last_change and schedule.last_change + 500) or config.steps
    robots = make_robots(family, [schedule], steps, flags.video)
    limit_steps(robots, flags.step_limit)
    # Made before anything runs: a folder that cannot be written to must not cost the results.
    contexts = re.sub(r"[:,=/\s]", "_", flags.schedule or label(schedule.at(0)))
    out = make_folder(flags.out or folder.path / "adapt" / name_of(flags, contexts, steps))
    film = Film(out / "episode", robots, 0, steps, trained, family) if flags.video else None
    team = team_for(trained, family, [schedule.at(0)])
    memory, faults = Memory(team, flags.seed), Faults()
    stream = partial(
        adapt,
        team,
        robots,
        flags.seed,
        before_step=telling(team, [schedule]),
        belief_draws=BELIEF_DRAWS,
        on_fault=faults,
        memory=memory,
    )
    told = {"schedule": [list(change) for change in schedule.changes]}
    return Meeting(lambda begun: stream(begun=begun), memory, steps, out, told, film, faults)


def to_follow(flags: AdaptFlags, folder: RunFolder, _: RunConfig, family: Family, trained: Team) -> Meeting:
    """Read the logged steps.

    Raises:
        UserError: if a flag makes no sense, or the data does not fit the run.
    """
    if flags.video:
        raise UserError("--video films a simulator, and --replay has none: leave one of them out")
    assert flags.replay is not None
    logged = read_stream(flags.replay, flags.where, flags.group, folder, family)
    there = len(logged.transitions)
    steps = there if flags.steps is None else flags.steps
    if not 1 <= steps <= there:
        raise UserError(f"--steps must lie between 1 and the {there} logged steps, not {steps}")
    contexts = [logged.context] * steps
    if flags.context is not None or flags.schedule is not None:
        schedule = read_schedule(flags, family, steps)
        contexts = [schedule.at(step) for step in range(steps)]
    team = team_for(trained, family, contexts[:1])
    out = make_folder(flags.out or folder.path / "adapt" / name_of(flags, f"replay-{logged.name}", steps))
    memory = Memory(team, flags.seed, acting=False)
    stream = partial(replay, team, logged.transitions, contexts, flags.seed, BELIEF_DRAWS, memory)
    return Meeting(stream, memory, steps, out, {"replay": flags.replay, "rewarded": logged.rewarded})


def read_schedule(flags: AdaptFlags, family: Family, steps: int) -> Schedule:
    """The one context, or the schedule over so many steps, with every value checked."""
    if (flags.context is None) == (flags.schedule is None):
        raise UserError("give either --context VALUE or --schedule STEP:VALUE,STEP:VALUE")
    if flags.context is not None:
        return Schedule.constant(family.parse_context(flags.context))
    assert flags.schedule is not None
    return family.parse_schedule(flags.schedule, steps)


def name_of(flags: AdaptFlags, what: str, steps: int) -> str:
    """A folder's name for the results, made of what decides them."""
    checkpoint = "" if flags.checkpoint is None else f"-round{flags.checkpoint}"
    return file_name(what) + f"-steps{steps}-seed{flags.seed}{checkpoint}"


def write_stream(out: Path, journal: Journal) -> None:
    """Write ``transitions.npz`` and, of an agent with a latent, ``beliefs.npz``: draws of the belief after each step
    ``[T, S, d]``, and its log density at them in nats ``[T, S]``.
    """
    happened = journal.arrays("state", "action", "next_state", "reward")
    steps = len(happened["reward"])
    happened |= {"environment": np.zeros(steps, dtype=np.int64), "step": np.arange(steps)}
    write_whole(out / "transitions.npz", lambda file: np.savez(file, allow_pickle=False, **happened))
    believed = journal.arrays("latent", "log_q")
    if believed["latent"].shape[-1]:
        write_whole(out / "beliefs.npz", lambda file: np.savez(file, allow_pickle=False, **believed))
    else:
        (out / "beliefs.npz").unlink(missing_ok=True)  # of another agent, whose results were here before


def picture(rows: Sequence[dict[str, Any]], trained: Team, family: Family) -> bytes:
    """The belief over time."""
    means = trained.beliefs()[0].numpy()
    probe = ContextProbe(means, family.train) if family.numeric and means.shape[1] else None
    return draw_adaptation(rows, family.axes, family.train, means, probe)


if __name__ == "__main__":
    run_as_module("adapt")
