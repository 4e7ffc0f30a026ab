"""pyro-dynamics track: compare how fast, and at what price, beliefs follow a change in mid-episode."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from pyro_dynamics.benchmarks.recording import Recording, save_recording
from pyro_dynamics.data_files import structure
from pyro_dynamics.datasets.logged_family import require_simulator
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.diagnostics.verdict import Verdict, Word
from pyro_dynamics.environments import Context, Family, Schedule, numbers
from pyro_dynamics.environments.checked_env import limit_steps, require_step_limit
from pyro_dynamics.environments.context_text import columns
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference import BELIEFS, UPDATES
from pyro_dynamics.io.files import results_folder, write_bytes, write_json
from pyro_dynamics.io.reuse import not_made, stored_result, write_result
from pyro_dynamics.io.stream_folder import Adaptation
from pyro_dynamics.io.tables import markdown_table
from pyro_dynamics.plots.formats import FigureFormat
from pyro_dynamics.processor import set_threads
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.rollouts.acting import ContextChange
from pyro_dynamics.rollouts.environment_record import measured_in
from pyro_dynamics.rollouts.stream_verdict import judge_adaptation, reached
from pyro_dynamics.rollouts.tracking import Track, summarise, track
from pyro_dynamics.runners.common.configuration import OnlineConfig
from pyro_dynamics.runners.common.factory import group_for, load_run, warn_of_changes
from pyro_dynamics.runners.common.limits import read_flags
from pyro_dynamics.runners.common.online_words import read_online
from pyro_dynamics.runners.common.result_names import name_of_schedule, name_of_values, text_of_schedule
from pyro_dynamics.runners.main import run_as_module

ORACLE_RESET = "oracle-reset"
"""The reference: a recursive belief that returns to the prior when the truth changes."""


@dataclass(frozen=True)
class TrackFlags:
    """Measure how beliefs follow a hidden parameter that changes in mid-episode.

    Every belief and update acts through the same schedule with the same seeds, beside the oracle-reset baseline, whose
    belief returns to the prior when the truth changes; where beliefs begin, and whether each member has its own, is as
    in the run. Prints a table with the verdict that `adapt` and `diagnose` give of the same stream; stores it, every
    step, a figure and rows for `benchmark tracking` in DIR/track/SCHEDULE, with the flags in its name that are not the
    defaults. What was measured before, in an environment that still does the same, is not measured again, so a killed
    command resumes where it was.
    """

    dir: tyro.conf.Positional[Path]
    """Folder of a trained run of a latent agent, in a family whose hidden parameter is a number."""
    schedule: str = ""
    """STEP:VALUE,STEP:VALUE with one change; a single 0:VALUE measures what a belief costs where nothing changes."""
    steps: int | None = None
    """Steps to act; 200 after the change by default."""
    seeds: int = 5
    """Episodes, in lockstep; each has its own initial state."""
    seed: int = 0
    """Names the random streams."""
    beliefs: tuple[str, ...] = (ORACLE_RESET, *BELIEFS)
    """Beliefs to measure, each as in the run or with the settings after a colon: power:forgetting_factor=0.9."""
    updates: tuple[str, ...] = tuple(UPDATES)
    """Updates to measure each belief with."""
    temperature: float | None = None
    """Power of the likelihood online; that of the run by default."""
    out: Path | None = None
    """Where the results go; by default DIR/track/NAME with a name made of the other flags."""
    step_limit: float | None = None
    """Seconds that one step or reset of an environment may take; one that takes longer ends the command. No limit by
    default."""
    figure_format: FigureFormat = "png"
    """Of the figure; pdf and svg, for print, are written beside the PNG."""
    threads: int = 1
    """CPU threads."""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = read_flags(TrackFlags, "track", arguments)
    set_threads(flags.threads)
    folder, config, family, trained = load_run(flags.dir)
    own = config.online if flags.temperature is None else replace(config.online, temperature=flags.temperature)
    schedule = check(flags, family, trained, own)
    warn_of_changes(folder, config, family, flags.step_limit)
    steps, text = flags.steps or usual_steps(schedule), text_of_schedule(flags.schedule, schedule)
    out = results_folder(flags.out or folder.path / "track" / name_of(flags, schedule), flags.dir)
    place, axis = line_of(family, schedule)
    probe = ContextProbe(trained.beliefs()[0].numpy(), [place(context) for context in family.train])
    fixed = {"network": trained.fingerprint(), "environment": measured_in(out, family, steps, flags.step_limit)}
    expected = reached(folder, None)

    def judge(made: Adaptation) -> Verdict:
        return judge_adaptation(made, trained, family, expected).verdict

    tracks: dict[str, Track] = {}
    measured = False
    methods = [(belief, update) for update in flags.updates for belief in flags.beliefs]
    with progress_bar(total=len(methods) * steps, unit="step") as bar:
        for belief, update in methods:
            bar.set_description(f"{belief} {update}")
            online = online_config(belief, update, own)
            settings = fixed | {"schedule": text, "steps": steps, "seed": flags.seed}
            settings |= {"seeds": flags.seeds, "online": repr(online)}
            file = out / f"{belief.replace(':', '-')}-{update.replace(':', '-')}.json"
            result = stored_track(file, settings)
            if result is None:
                group = group_for(load_run(flags.dir, online=online)[-1], family, [schedule.at(0)] * flags.seeds)
                envs = family.make_vector([schedule] * flags.seeds, steps)
                limit_steps(envs, flags.step_limit)
                schedules = [schedule] * flags.seeds
                reset = ContextChange(group, schedules, reset=True) if belief == ORACLE_RESET else None
                result = track(group, envs, probe, flags.seed, judge, reset, lambda: bar.update(1))
                envs.close()
                if (lasted := len(result.reward[0])) <= schedule.last_change:
                    raise UserError(
                        f"every episode ended within {lasted} steps, before the change: let it come earlier"
                    )
                write_result(file, settings, "track", result)
                measured = True
            else:
                bar.update(steps)
            tracks[f"{belief} {update}"] = result

    settle = min(50, (schedule.changes[-1][0] or steps) // 2)
    change = schedule.last_change or None
    goal = place(schedule.at(schedule.last_change))
    summary = {
        name: summarise(value, change, goal, tracks.get(f"{ORACLE_RESET} {name.split()[1]}"), settle)
        for name, value in tracks.items()
    }
    table = table_of(summary)
    write_json(out / "summary.json", {"run": str(flags.dir), "schedule": flags.schedule, "methods": summary})
    truth = np.array([place(schedule.at(step)) for step in range(steps)])
    write_bytes(out / "table.md", (table + "\n").encode())
    if measured or not (out / "recording.json").is_file():
        settings = {"run": str(flags.dir), "schedule": flags.schedule, "steps": steps, "seed": flags.seed}
        settings |= {"seeds": flags.seeds, "axis": axis, "truth": truth.tolist()}
        save_recording(Recording("tracking", settings, rows_of(summary, tracks)), out / "recording.json")
    from pyro_dynamics.plots.style import write_figure  # here, as matplotlib takes long
    from pyro_dynamics.plots.tracking_figure import draw_tracks

    figures = write_figure(out / "tracks.png", draw_tracks(tracks, truth, axis), flags.figure_format)
    print(f"{table}\n\nresults: {out}\nfigure: {figures[-1]}")


def usual_steps(schedule: Schedule) -> int:
    """Steps where none are given."""
    return schedule.changes[-1][0] + 200


def name_of(flags: TrackFlags, schedule: Schedule) -> str:
    """A folder's name for the results, made of what decides them."""
    names = ("steps", "seeds", "seed", "beliefs", "updates", "temperature")
    given, usual = ({name: getattr(of, name) for name in names} for of in (flags, TrackFlags(flags.dir)))
    for values in (given, usual):
        values["steps"] = values["steps"] or usual_steps(schedule)
    return name_of_schedule(text_of_schedule(flags.schedule, schedule)) + name_of_values(given, usual)


def line_of(family: Family, schedule: Schedule) -> tuple[Callable[[Context], float], str]:
    """Where a context lies on the line along which the schedule changes, and what that line is called.

    Of a single parameter that is its value; of several it is the way from the first context (0) to the last (1), with
    each parameter measured in the range that was trained on. Where nothing changes the line is that of the first
    parameter.
    """
    if len(family.parameters) == 1:
        return lambda context: numbers(context)[0], family.axis
    first, last = (np.array(numbers(context)) for context in (schedule.changes[0][1], schedule.changes[-1][1]))
    ranges = np.ptp(columns(family.train), axis=0)
    step = (last - first) / np.where(ranges > 0, ranges, 1.0) ** 2
    if not step.any():
        return lambda context: numbers(context)[0], family.axes[0]
    size = float(step @ (last - first))
    return lambda context: float(step @ (np.array(numbers(context)) - first)) / size, "share of the change"


def stored_track(file: Path, settings: dict[str, Any]) -> Track | None:
    """What was measured before with the same settings, if it was.

    Raises:
        UserError: if the file holds something else.
    """
    stored = stored_result(file, settings, "track")
    try:
        return None if stored is None else read_track(stored)
    except (ValueError, TypeError, KeyError) as fault:
        raise not_made(file, "a track", fault) from None


def read_track(values: dict[str, Any]) -> Track | None:
    """What a file says was measured, None if an older version did; raises ValueError or TypeError if it is none."""
    if isinstance(values, dict) and not {"verdicts", "width"} <= set(values):
        return None
    track = structure(values, Track)
    series = (track.decoded, track.spread, track.reward, track.inside, track.width)
    if len({(len(rows), len(row)) for rows in series for row in rows}) != 1:
        raise ValueError("its series have different lengths")
    if len(track.verdicts) != len(track.reward) or not all(one["word"] in set(Word) for one in track.verdicts):
        raise ValueError("its verdicts are none")
    return track


def check(flags: TrackFlags, family: Family, trained: Any, own: OnlineConfig) -> Schedule:
    """The schedule, if all flags make sense.

    Raises:
        UserError: if they do not.
    """
    require_simulator(family)
    require_step_limit(flags.step_limit)
    if not flags.schedule:
        raise UserError("give --schedule, for example 0:-6,200:6")
    if not flags.updates or not flags.beliefs:
        raise UserError("--beliefs and --updates need one name or more each")
    if not family.numeric or len(trained.agents) > 1 or not trained.agents[0].belief_dim:
        raise UserError(
            "only the beliefs of an agent that infers a latent, in a family with a numeric parameter, can be tracked"
        )
    schedule = family.parse_schedule(flags.schedule)
    if len(schedule.changes) > 2:
        raise UserError(f"a tracked schedule has one change or none, not {len(schedule.changes) - 1}")
    if flags.seeds < 1:
        raise UserError(f"--seeds must be positive, not {flags.seeds}")
    if flags.steps is not None and flags.steps <= schedule.last_change:
        raise UserError(f"--steps must go beyond the change at step {schedule.last_change}, not to {flags.steps}")
    for update in flags.updates:
        for belief in flags.beliefs:
            online_config(belief, update, own)
    return schedule


def online_config(belief: str, update: str, own: OnlineConfig) -> OnlineConfig:
    """The configuration of a belief (NAME, or NAME:setting=value,setting=value) and an update.

    Args:
        belief: its name, or ``package.module:Class``, and settings.
        update: its name, or ``package.module:Class``.
        own: the run's, where the settings are from that are not named.

    Raises:
        UserError: if there is no such belief, update or setting.
    """
    name, settings = belief_of(belief)
    BELIEFS.find(name)  # an error that names it
    UPDATES.find(update)
    return read_online(":".join(part for part in (name, update, settings) if part), own)


def belief_of(text: str) -> tuple[str, str]:
    """The name of a belief, or ``package.module:Class``, and the settings behind its colon."""
    name, _, settings = text.partition(":")
    if name == ORACLE_RESET:
        return "recursive", settings
    if name in BELIEFS or not settings:
        return name, settings
    name, _, settings = settings.partition(":")
    return f"{text.partition(':')[0]}:{name}", settings


def rows_of(summary: dict[str, dict[str, Any]], tracks: dict[str, Track]) -> list[dict[str, Any]]:
    """What is recorded of each method: its figures, and its path in few digits, by which its figure is drawn again."""
    rows = []
    for name, values in summary.items():
        belief, update = name.split()
        path = [[float(f"{value:.4g}") for value in series] for series in tracks[name].decoded]
        rows.append({"belief": belief, "update": update, **values, "decoded": path})
    return rows


def table_of(summary: dict[str, dict[str, Any]]) -> str:
    """The table as Markdown: medians over seeds of the steps, means of the rest."""
    reset = {name.split()[1]: value for name, value in summary.items() if name.startswith(ORACLE_RESET)}
    head = ["belief", "update", "steps to 90 %: median (each)", "return"]
    head += ["after the change: difference from oracle reset", "network's own 90 % cover: before", "after"]
    head += ["width for 90 %: before", "after", "verdict", "ms per update"]
    rows = []
    for name, value in summary.items():
        belief, update = name.split()
        recovery = value.get("recovery")
        each = "" if recovery is None else " ".join("-" if steps is None else str(steps) for steps in recovery)
        median = np.median([np.inf if steps is None else steps for steps in recovery or [np.inf]])
        lost = ""
        if "return_after" in value and update in reset:
            lost = f"{np.mean(value['return_after']) - np.mean(reset[update]['return_after']):+.1f}"
        shares = ["" if value[key] is None else f"{value[key]:.0%}" for key in ("inside_before", "inside_after")]
        widths = [value.get(key) for key in ("width_before", "width_after")]  # older rows have none
        shares += ["" if width is None else f"{width:.2g}" for width in widths]
        steps = "" if recovery is None else f"{'never' if np.isinf(median) else f'{median:.0f}'} ({each})"
        total = f"{np.mean(value['return']):.1f} +- {np.std(value['return']):.1f}"
        last = [words_of(value.get("verdicts", ())), f"{value['update_ms']:.1f}"]  # older rows have no verdicts
        rows.append([belief, update, steps, total, lost, *shares, *last])
    return markdown_table(head, rows)


def words_of(verdicts: Sequence[str]) -> str:
    """The words about the streams, with how often each was given where there are several."""
    counts = Counter(verdicts).most_common()
    return ", ".join(word if len(counts) == 1 else f"{word} ({count})" for word, count in counts)


if __name__ == "__main__":
    run_as_module("track")
