"""A training and its folder: begun, continued after its last whole round, or found whole."""

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tqdm import tqdm

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.datasets.logged_rewards import other_rewards
from pyro_dynamics.datasets.logged_start import outside, start_metrics
from pyro_dynamics.environments import Family, find_family
from pyro_dynamics.environments.checked_env import limit_steps
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.environments.drawn_family import DrawnFamily
from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import GUIDES
from pyro_dynamics.io.lock import lock_folder
from pyro_dynamics.io.reuse import require_same_settings
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.plots.formats import FigureFormat
from pyro_dynamics.rollouts.context_check import check_context
from pyro_dynamics.rollouts.environment_record import EnvironmentRecord
from pyro_dynamics.rollouts.length_check import compare_whole_length
from pyro_dynamics.rollouts.progress import Progress
from pyro_dynamics.rollouts.task_check import check_task
from pyro_dynamics.rollouts.trackers.contract import TrackerName, open_tracker, require_tracker
from pyro_dynamics.rollouts.training import train
from pyro_dynamics.rollouts.training_environments import FixedEnvironments, TrainingEnvironments
from pyro_dynamics.runners.common.configuration import (
    RunConfig,
    from_json,
    to_json,
)
from pyro_dynamics.runners.common.drawn_episodes import drawn_environments, require_drawable
from pyro_dynamics.runners.common.factory import (
    build_group,
    describe_planning,
    family_of,
    family_of_rounds,
    require_own,
    warn_of_changes,
)
from pyro_dynamics.runners.common.started_from import read_start, require_begun
from pyro_dynamics.transitions import Transitions


def train_or_resume(
    config: RunConfig,
    path: Path,
    after_round: Callable[[int], None] | None = None,
    step_limit: float | None = None,
    tracker: TrackerName = "none",
    start_from: Path | None = None,
) -> RunFolder:
    """Train a run, or the rest of it where a part is there, or nothing where all of it is.

    Raises:
        UserError: if the folder holds a run with other settings, or one that began with other transitions.
    """
    folder = part_there(config, path, start_from)
    if folder is not None and is_whole(folder, config):
        return folder
    how: dict[str, Any] = {"tracker": tracker, "after_round": after_round, "step_limit": step_limit}
    return train_run(config, path, resume=None, start_from=start_from, **how)


def part_there(config: RunConfig, path: Path, start_from: Path | None = None) -> RunFolder | None:
    """The run of this configuration that was started in a folder, or None where there is none.

    Raises:
        UserError: if the folder holds a run with other settings, or one that began with other transitions.
    """
    if not (path / "config.json").is_file():
        return None
    folder = RunFolder.open(path)
    there = from_json(folder.config)
    require_same_settings("a run", path, to_json(there), to_json(config), ignored=["rounds"])
    require_begun(folder, find_family(config.family), start_from)
    return folder


def is_whole(folder: RunFolder, config: RunConfig) -> bool:
    """Whether a run has all its rounds and its figure."""
    return (folder.last_round or 0) >= config.rounds and (folder.path / "training.png").is_file()


def train_run(
    config: RunConfig,
    path: Path,
    *,
    resume: bool | None,
    start_from: Path | None = None,
    tracker: TrackerName = "none",
    after_round: Callable[[int], None] | None = None,
    step_limit: float | None = None,
) -> RunFolder:
    """Learn what a configuration says, and keep the run in a folder.

    Args:
        config: the configuration.
        path: the folder.
        resume: after the last whole round of the run that is there; if False the folder must be new; None resumes the
            same run where it was begun, and leaves it as it is where it is whole.
        start_from: a run whose transitions take the place of round 0.
        tracker: where the metrics of each round are written beside the folder.
        after_round: called with each round that is safe on the disk; what it raises ends the training there.
        step_limit: seconds that a step of an environment may take.

    Raises:
        UserError: if a setting makes no sense, or the folder does not hold what it should.
    """
    require_tracker(tracker)  # refused before there is a folder, if it is missing
    require_drawable(config)
    family = find_family(config.family)
    drawn = config.episode_contexts != "fixed"
    if drawn and start_from is not None:
        raise UserError("--start-from begins with the family's own environments: leave out --episode-contexts")
    environments = family.make_vector(family.train * config.episodes, config.steps)
    limit_steps(environments, step_limit)
    actions = environments.single_action_space
    group = build_group(config, family_of_rounds(config, 0), actions)
    start = None if start_from is None or resume else start_of(start_from, family, group)
    if resume is False:
        warn_of_task(config, family, step_limit)
        RunFolder.require_free(path)
    with closing(environments), lock_folder(path):  # only now: settings that make no sense have been refused
        if resume is None:  # looked up while it is held: another process may have made it in the meantime
            there = part_there(config, path, start_from)
            if there is not None and is_whole(there, config):
                return there
            resume = there is not None
            if not resume:
                warn_of_task(config, family, step_limit)
        folder = open_folder(config, path, resume)
        if folder.last_round is None:
            keep_environment(folder, config, family, step_limit)
        own = family_of(folder, config)
        if resume:  # only now: a family that is another one has been refused
            warn_of_task(config, family, step_limit)
        warn_of_changes(folder, config, family, step_limit)
        if drawn and folder.last_round:  # the checkpoint is over the environments of all its rounds
            group.extend(build_group(config, family_of_rounds(config, folder.last_round), actions))
        data = taken_up(folder, own, group, start)
        print(describe_planning(config.precision, config.device))
        sizes = config.offline, len(group.agents), config.episodes
        first = len(data[0]) if data else None
        progress = Progress(family.train, config.rounds, config.steps, len(data), *sizes, first)
        if drawn:
            training: TrainingEnvironments = drawn_environments(config, step_limit)
        else:
            training = FixedEnvironments(environments, family.train)
        tracked = open_tracker(tracker, folder.path, len(data), to_json(config))

        def save(m: int, transitions: Transitions, rows: list[dict[str, Any]]) -> None:
            if m and (words := group.far_outside(transitions)):
                tqdm.write(f"warning: round {m}: {words}; later rounds learn from it", file=sys.stderr)
            whole = not m and not any("faults" in row for row in rows)
            if whole and (words := compare_whole_length(progress.last, environments, config.steps)):
                tqdm.write(f"warning: {words}", file=sys.stderr)
            folder.save_round(m, transitions, rows, group.state_dict(), config.keep_checkpoints)
            tracked.round(m, [mean_of(rows)] if drawn else rows, progress.elbo)
            if after_round is not None:
                after_round(m)

        with closing(progress), closing(training), closing(tracked):
            train(
                group,
                training,
                data,
                rounds=config.rounds,
                seed=config.seed,
                update_while_training=config.update_while_training,
                calibrate=config.calibrate,
                on_round=save,
                progress=progress,
            )
        write_training_figure(folder, family)
        return folder


def keep_environment(folder: RunFolder, config: RunConfig, family: Family, step_limit: float | None) -> None:
    """Write what the environment does now beside the run, for later commands to compare."""
    found = EnvironmentRecord.of(family, config.steps, step_limit)
    if found is not None:
        found.save(folder.path)


def mean_of(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The mean of a round's episodes, for trackers: their contexts do not come again, so that none has a curve."""
    names = ("return", "log_likelihood", "log_likelihood_wrong_latent")
    found = {name: [row[name] for row in rows if row[name] is not None] for name in names}
    means = {name: sum(values) / len(values) if values else None for name, values in found.items()}
    return {"context": "mean", "latent_mean": None, "latent_sd": None, **means}


def start_of(start_from: Path, family: Family, group: AgentGroup) -> Transitions:
    """The transitions of another run as round 0, with warnings where actions or rewards are not those of the family."""
    start = read_start(start_from, family)

    def place(row: int) -> str:
        return f"step {int(start.step[row])} of {family.axis} {label(family.train[int(start.environment[row])])}"

    bounds = (bound.numpy() for bound in group.agents[0].action_bounds)
    for warning in (outside(start, *bounds), other_rewards(start, family.make_task(), family.name, place)):
        if warning:
            print(f"warning: {start_from}: {warning}", file=sys.stderr)
    return start


def taken_up(folder: RunFolder, family: Family, group: AgentGroup, start: Transitions | None) -> list[Transitions]:
    """The transitions of each round so far, with the agents as they were after the last.

    Args:
        folder: of a run that begins or is resumed.
        family: of its environments.
        group: fresh agents.
        start: in the place of round 0, if the run has none yet.
    """
    if start is not None and folder.last_round is None:
        folder.save_round(0, start, start_metrics(start, family.train), group.state_dict(), ())
    data = folder.transitions()
    if data:
        require_same(folder, family)
        group.load_state_dict(folder.checkpoint())
    return data


def open_folder(config: RunConfig, path: Path, resume: bool) -> RunFolder:
    """The folder of a new run, or of one to resume."""
    if not resume:
        return RunFolder.create(path, to_json(config))
    folder = RunFolder.open(path)
    folder.require_checkpoint()
    for left in path.rglob("*.part"):  # of one that was killed
        left.unlink(missing_ok=True)
    if (folder.last_round or 0) > config.rounds:
        raise UserError(f"{folder.path} has {folder.last_round} rounds already, more than --rounds {config.rounds}")
    folder.save_config(to_json(config))
    return folder


def require_same(folder: RunFolder, family: Family) -> None:
    """Refuse to resume a run whose transitions or metrics are of other environments than its family's.

    Raises:
        UserError: saying what does not fit.
    """
    require_own(folder, family)
    data = folder.transitions()
    count = family.in_a_round if isinstance(family, DrawnFamily) else len(family.train)
    for m, rows in enumerate(data):
        rows.require_finite(f"{folder.path}, transitions of round {m}")
    metrics = folder.metrics()
    step = count if isinstance(family, DrawnFamily) else 0  # from the environments of one round to those of the next
    places = sorted((m, m * step + k) for m in range(len(data)) for k in range(count))
    whole = sorted((row["round"], row["environment"]) for row in metrics) == places
    if not whole or any(row["return"] is None for row in metrics):
        raise UserError(f"{folder.path}: metrics.jsonl has no return for each of {count} environments in every round")


def warn_of_task(config: RunConfig, family: Family, step_limit: float | None) -> None:
    """Check the task on environments of their own, and say where it is not what the environment does."""
    if len(family.train) == 1 and config.agent == "latent":
        print(
            f"warning: family {family.name} trains on one context, and a latent distinguishes several", file=sys.stderr
        )
    if config.agent == "latent" and not GUIDES.find(config.guide).has_density:
        print(
            f"warning: --guide {config.guide} has no density, so that no belief can be updated with it after the "
            "training: for adapt, evaluate and track train with another, such as laplace",
            file=sys.stderr,
        )
    environments = family.make_vector(family.train, config.steps)
    limit_steps(environments, step_limit)
    for warning in check_task(family.make_task(), environments, config.seed, config.steps):
        print(f"warning: {warning}", file=sys.stderr)
    environments.close()
    if warning := check_context(family, config.seed, config.steps, step_limit):
        print(f"warning: {warning}", file=sys.stderr)


def write_training_figure(folder: RunFolder, family: Family, figure_format: FigureFormat = "png") -> None:
    """Write ``training.png`` and, where another format is wanted, a file of it beside."""
    from pyro_dynamics.plots.style import write_figure  # here, as matplotlib takes long
    from pyro_dynamics.plots.training_figure import draw_training

    write_figure(folder.path / "training.png", draw_training(folder.metrics(), family.axis), figure_format)
