"""pyro-dynamics adapt: act in a new or changing environment, and watch the belief about it."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from torch import Tensor
from tqdm import tqdm

from pyro_dynamics.diagnostics import ContextProbe, belief_health, coverage, pit_histogram
from pyro_dynamics.diagnostics.context_text import label
from pyro_dynamics.diagnostics.figures import draw_adaptation
from pyro_dynamics.diagnostics.health import RECENT, Stream
from pyro_dynamics.environments import Context, Family, Schedule
from pyro_dynamics.environments.guarded import limit_steps
from pyro_dynamics.errors import UserError
from pyro_dynamics.experiments import RunFolder, Team, adapt
from pyro_dynamics.experiments.adaptation import AdaptationStep, replay, telling
from pyro_dynamics.experiments.faults import Faults
from pyro_dynamics.experiments.files import make_folder, write_bytes, write_json, write_json_lines, write_whole
from pyro_dynamics.experiments.logged_family import require_simulator
from pyro_dynamics.experiments.stream_diagnosis import SHORT
from pyro_dynamics.experiments.trust import file_name, stamped
from pyro_dynamics.experiments.video import Film, make_robots
from pyro_dynamics.runners.assembly import load_run, set_threads, team_for
from pyro_dynamics.runners.configuration import OnlineConfig, RunConfig, online_defaults
from pyro_dynamics.runners.logged_stream import read_stream
from pyro_dynamics.runners.main import run_as_module
from pyro_dynamics.transitions import Transitions

BELIEF_DRAWS = 400
"""Draws of the belief that are stored after each step: the tail of k-hat is then fitted to about 60 of them."""


@dataclass(frozen=True)
class AdaptFlags:
    """Act in one environment with a trained model, updating the belief after every step (Eq. 5).

    With --replay it follows logged steps instead, without acting. The belief begins at the prior N(0, I). Prints a line
    a step, and stores the steps as JSON lines, the transitions, draws of the belief, a summary and a picture in
    DIR/adapt/NAME. At the end it tells how many of the targets lay in their 90 % intervals before they were seen, and
    whether the belief can be trusted: healthy, collapsed, stale, over-confident or out of the trained range.
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


def parse(arguments: Sequence[str]) -> AdaptFlags:
    """The flags; how beliefs are updated comes from the run, where it is not given."""
    defaults = AdaptFlags(dir=tyro.MISSING, online=online_defaults(arguments))
    return tyro.cli(AdaptFlags, prog="pyro-dynamics adapt", args=arguments, default=defaults)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = parse(arguments)
    set_threads(flags.threads)
    folder, config, family, trained = load_run(flags.dir, flags.checkpoint, flags.online, flags.realtime)
    meeting = (to_act if flags.replay is None else to_follow)(flags, folder, config, family, trained)
    out, film = meeting.out, meeting.film
    rows: list[dict[str, Any]] = []
    happened: list[Transitions] = []
    draws: list[tuple[Tensor, Tensor]] = []
    seconds: list[float] = []
    if not flags.quiet:
        numbers = f"{'reward':>8} {'log p(s)':>9} {'in 90 %':>8}"
        print(f"{'step':>5} {family.axis:>20} {numbers}  belief: mean +- sd of each latent")
    faults = meeting.faults
    with film or nullcontext():
        for step in tqdm(meeting.stream, total=meeting.steps, unit="step", disable=None):
            row = {
                "step": step.index,
                "context": as_json(step.context[0]),
                "reward": float(step.reward),
                "log_likelihood": float(step.log_likelihood),
                "coverage": float(coverage(step.pit[0])),
                "coverage_adaptive": float(step.inside[0].float().mean()),
                "pit": step.pit[0].tolist(),
                "mean": step.mean[0].tolist(),
                "sd": step.scale[0].tolist(),
            }
            rows.append(row)
            happened.append(transition(step))
            draws.append((step.draws[:, 0], step.log_q[:, 0]))
            seconds.append(step.seconds)
            if not flags.quiet:
                tqdm.write(line(row), file=sys.stdout)
            if film is not None:
                film.add(step)

    if not rows:
        raise faults.now[0]
    summary = summarise(rows, trained, family) | faults.of([0])
    summary["health"] = health(rows, trained, reached(folder, flags.checkpoint))
    settings = {
        "run": str(flags.dir.resolve()),
        "seed": flags.seed,
        "checkpoint": folder.last_round if flags.checkpoint is None else flags.checkpoint,
        "steps": meeting.steps,
        **meeting.told,
        "online": asdict(flags.online),
    }
    write_json_lines(out / "steps.jsonl", rows)
    write_stream(out, happened, draws)
    write_json(out / "summary.json", stamped(settings | summary))
    write_bytes(out / "belief.png", picture(rows, trained, family))
    rewarded = meeting.told.get("rewarded", True)
    print(f"\nreturn over {len(rows)} steps: " + (f"{summary['return']:.1f}" if rewarded else "no rewards were logged"))
    print(f"mean one-step log-likelihood: {summary['log_likelihood']:.2f} nats")
    print(coverage_line(summary["coverage"]))
    print(f"{'update' if flags.replay else 'plan and update'}: {1000 * np.median(seconds):.0f} ms a step (median)")
    for entry in summary["belief"]:
        print(f"after step {entry['step']} ({family.axis}: {label(entry['context'])}): {entry['words']}")
    for index, finding in enumerate(summary["health"]):
        print(f"{'also' if index else 'belief'}: {finding['state']}: {finding['why']}")
    print(f"results: {out}\npicture: {out / 'belief.png'}" + ("" if film is None else f"\nvideo: {film.path}"))
    if faults.now:
        raise UserError(f"cut short after {len(rows)} steps, whose results were kept: {faults.now[0]}")


@dataclass(frozen=True)
class Meeting:
    """What is about to happen in the one environment.

    Attributes:
        stream: the steps.
        steps: how many, at most.
        out: the folder of the results.
        told: what the summary tells of where the steps come from.
        film: the video, if there is to be one.
        faults: what the environment does wrong on the way, which ends the stream.
    """

    stream: Iterator[AdaptationStep]
    steps: int
    out: Path
    told: dict[str, Any]
    film: Film | None = None
    faults: Faults = field(default_factory=Faults)


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
    tell, faults = telling(team, [schedule]), Faults()
    stream = adapt(team, robots, flags.seed, before_step=tell, belief_draws=BELIEF_DRAWS, on_fault=faults)
    return Meeting(stream, steps, out, {"schedule": [list(change) for change in schedule.changes]}, film, faults)


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
    stream = replay(team, logged.transitions, contexts, flags.seed, BELIEF_DRAWS)
    return Meeting(stream, steps, out, {"replay": flags.replay, "rewarded": logged.rewarded})


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


def transition(step: AdaptationStep) -> Transitions:
    """What happened in the one environment, which is numbered 0."""
    zero = torch.zeros(1, dtype=torch.long)
    return Transitions(step.state, step.action, step.next_state, step.reward, zero, zero + step.index)


def write_stream(out: Path, happened: Sequence[Transitions], draws: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Write ``transitions.npz`` and, of an agent with a latent, ``beliefs.npz``.

    Args:
        out: the folder of the results.
        happened: one transition a step.
        draws: of the belief after each step ``[S, d]``, and its log density at them in nats ``[S]``.
    """
    arrays = Transitions.concatenate(happened).arrays()
    write_whole(out / "transitions.npz", lambda file: np.savez(file, allow_pickle=False, **arrays))
    latent, log_q = (torch.stack(part).float().numpy() for part in zip(*draws, strict=True))
    if latent.shape[-1]:
        write_whole(out / "beliefs.npz", lambda file: np.savez(file, allow_pickle=False, latent=latent, log_q=log_q))
    else:
        (out / "beliefs.npz").unlink(missing_ok=True)  # of another agent, whose results were here before


def as_json(context: Any) -> Context | None:
    """A context out of an array of the vector environment; None where it is not known."""
    return context if context is None or isinstance(context, str | tuple) else float(context)


def line(row: dict[str, Any]) -> str:
    """One step for people."""
    belief = "  ".join(f"{mean:+.3f} +- {sd:.3f}" for mean, sd in zip(row["mean"], row["sd"], strict=True))
    numbers = f"{row['reward']:>8.2f} {row['log_likelihood']:>9.2f} {row['coverage']:>8.0%}"
    return f"{row['step']:>5} {label(row['context']):>20} {numbers}  {belief}"


def summarise(rows: Sequence[dict[str, Any]], trained: Team, family: Family) -> dict[str, Any]:
    """Return, mean log-likelihood, coverage, and the belief at the end of every stretch of constant context.

    A context that stays for fewer than five steps changes all the time, and does not count as one.
    """
    ends = [i for i in range(len(rows)) if i + 1 == len(rows) or rows[i + 1]["context"] != rows[i]["context"]]
    ends = [i for i, before in zip(ends, [-1, *ends[:-1]], strict=True) if i - before >= SHORT or i == ends[-1]]
    return {
        "return": sum(row["reward"] for row in rows),
        "log_likelihood": sum(row["log_likelihood"] for row in rows) / len(rows),
        "coverage": {
            "all": float(np.mean([row["coverage"] for row in rows])),
            f"last_{RECENT}": float(np.mean([row["coverage"] for row in rows[-RECENT:]])),
        },
        "pit": pit_histogram(torch.tensor([row["pit"] for row in rows])),
        "belief": [describe(rows[i], trained, family) for i in ends],
    }


def coverage_line(shares: dict[str, float]) -> str:
    """How many of the targets lay in their 90 % intervals."""
    every, recent = shares.values()
    return f"coverage of 90 % intervals: {every:.0%} over the whole stream, {recent:.0%} over the last {RECENT} steps"


def reached(folder: RunFolder, checkpoint: int | None) -> float | None:
    """Mean log-likelihood in nats of the held-out episodes of the checkpoint's round; None after no training."""
    m = folder.last_round if checkpoint is None else checkpoint
    values = [row["log_likelihood"] for row in folder.metrics() if row["round"] == m]
    return float(np.mean(values)) if values and None not in values else None


def health(rows: Sequence[dict[str, Any]], trained: Team, expected: float | None) -> list[dict[str, str]]:
    """Whether the belief can be trusted, the most serious finding first; nothing for an agent without a latent."""
    if not rows[0]["mean"]:
        return []
    mean, scale, log_likelihood, pit = (
        np.array([row[key] for row in rows]) for key in ("mean", "sd", "log_likelihood", "pit")
    )
    trained_mean, trained_scale = (part.numpy() for part in trained.beliefs())
    stream = Stream(mean, scale, log_likelihood, pit, trained_mean, trained_scale, expected)
    return [asdict(finding) for finding in belief_health(stream)]


def describe(row: dict[str, Any], trained: Team, family: Family) -> dict[str, Any]:
    """Where a belief lies among the environments that were trained on."""
    entry = {key: row[key] for key in ("step", "context", "mean", "sd")}
    if not row["mean"]:
        return {**entry, "words": "this agent infers no latent, and so has no belief"}
    means = trained.beliefs()[0].numpy()
    here = np.array(row["mean"])
    closest = family.train[int(np.linalg.norm(means - here, axis=1).argmin())]
    entry["nearest_trained"] = closest
    words = f"nearest trained latent {label(closest)}"
    if family.numeric:
        probe = ContextProbe(means, family.train)
        decoded, spread = probe.predict(here), probe.spread(np.array(row["sd"]))
        entry["decoded"], entry["decoded_sd"] = decoded.tolist(), spread.tolist()
        names = [f"{name} " if len(family.parameters) > 1 else "" for name in family.parameters]
        numbers = zip(names, np.atleast_1d(decoded), np.atleast_1d(spread), family.units, strict=True)
        read = ", ".join(f"{name}{value:.2f} +- {sd:.2f} {unit}".rstrip() for name, value, sd, unit in numbers)
        words = f"decoded {read}, {words}"
    return {**entry, "words": words}


def picture(rows: Sequence[dict[str, Any]], trained: Team, family: Family) -> bytes:
    """The belief over time."""
    means = trained.beliefs()[0].numpy()
    probe = ContextProbe(means, family.train) if family.numeric and means.shape[1] else None
    return draw_adaptation(rows, family.axes, family.train, means, probe)


if __name__ == "__main__":
    run_as_module("adapt")
