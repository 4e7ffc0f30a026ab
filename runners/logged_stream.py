"""The steps that ``adapt --replay`` follows: of one environment of logged data."""

from dataclasses import dataclass, replace
from pathlib import Path

from pyro_dynamics.environments import Context, Family, Schedule
from pyro_dynamics.errors import UserError
from pyro_dynamics.experiments import RunFolder
from pyro_dynamics.experiments.logged_data import ENVIRONMENT, LoggedData, group_logs, in_words
from pyro_dynamics.runners.reading import read_log
from pyro_dynamics.tasks import Task
from pyro_dynamics.transitions import Transitions


@dataclass(frozen=True)
class LoggedStream:
    """T steps in one environment, in the order in which they happened; several episodes are one stream.

    Attributes:
        transitions: T of them, of environment 0, numbered from step 0.
        contexts: the true hidden parameter at each step; None where it is not known.
        rewarded: whether there were rewards.
        name: of data and environment, for a folder's name.
    """

    transitions: Transitions
    contexts: list[Context | None]
    rewarded: bool
    name: str


def read_stream(
    source: str, where: str | None, group: str | None, truth: Schedule | None, folder: RunFolder, family: Family
) -> LoggedStream:
    """One environment of logged data.

    Args:
        source: file or data set.
        where: which environment, if there are several.
        group: column that tells them apart; that of the run by default, where the data has it.
        truth: the true context, where it is known; else it is the environment's label, if the family knows it.
        folder: of the run.
        family: its family.

    Raises:
        UserError: if the data cannot be read or does not fit the run, or the environment is not told.
    """
    data = _grouped(source, group, folder, family)
    if where is None and len(data.labels) > 1:
        raise UserError(f"{source} has several environments ({', '.join(map(in_words, data.labels))}): give --where")
    data = data.of(in_words(data.labels[0]) if where is None else where)
    task: Task = family.task()
    data.transitions.require_of(1, task.state_dim, task.action_dim, source)
    rows = data.transitions
    if truth is not None:
        contexts: list[Context | None] = [truth.at(t) for t in range(len(rows))]
    else:
        contexts = [_known(family, data)] * len(rows)
    return LoggedStream(rows, contexts, data.rewarded, f"{Path(source).stem}-{in_words(data.labels[0])}")


def _grouped(source: str, group: str | None, folder: RunFolder, family: Family) -> LoggedData:
    """The data by environment; data without a column to group by is one environment."""
    log = read_log(source)
    if Path(source).resolve().parent == folder.path.resolve() / "transitions":  # numbered as the run numbers them
        data = group_logs([log], None)
        labels = tuple(family.train[int(number)] for number in data.labels)
        return replace(data, labels=labels, column=family.parameter)
    if group is None:
        group = next((name for name in (family.parameter, ENVIRONMENT) if name in log.columns), None)
    return group_logs([log], group, one_alone=True)


def _known(family: Family, data: LoggedData) -> Context | None:
    """The label of the one environment as a context; None if it tells nothing of the family's hidden parameter."""
    label = data.labels[0]
    if family.numeric and (data.column != family.parameter or isinstance(label, str)):
        return None
    try:
        return family.parse_context(label)
    except UserError:
        return None
