"""The steps that ``adapt --replay`` follows: of one environment of logged data."""

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from pyro_dynamics.datasets.log_arrays import ColumnNames
from pyro_dynamics.datasets.logged_data import LoggedData, group_logs
from pyro_dynamics.datasets.sources import read_log
from pyro_dynamics.environments import Context, Family
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.untrusted_folders import file_name
from pyro_dynamics.tasks import Task
from pyro_dynamics.transitions import Transitions


@dataclass(frozen=True)
class LoggedStream:
    """T steps in one environment, in temporal order; several episodes are one stream.

    Attributes:
        transitions: T of them, of environment 0, numbered from step 0.
        context: the true hidden parameter in the data; None if it has none.
        rewarded: whether there were rewards.
        notes: what was done to the rows when they were read, for people.
        name: of data and environment, for a folder's name.
    """

    transitions: Transitions
    context: Context | None
    rewarded: bool
    notes: tuple[str, ...]
    name: str


def read_stream(
    source: str, environment: str | None, group: str | None, names: ColumnNames, folder: RunFolder, family: Family
) -> LoggedStream:
    """One environment of logged data.

    Args:
        source: file or data set.
        environment: which environment, if there are several.
        group: column that identifies them; that of the run by default, where the data has it.
        names: what the data's columns are called.
        folder: of the run.
        family: its family.

    Raises:
        UserError: if the data cannot be read or does not fit the run, or the environment is not given.
    """
    data = _grouped(source, group, names, folder, family)
    if environment is None and len(data.labels) > 1:
        raise UserError(f"{source} has several environments ({', '.join(map(label, data.labels))}): give --environment")
    data = data.of(label(data.labels[0]) if environment is None else environment)
    task: Task = family.make_task()
    data.transitions.require_of(1, task.state_dim, task.action_dim, source)
    # Other data of the same name is other results: two days may each have a log.csv.
    content = sha256(b"".join(array.tobytes() for array in data.transitions.arrays().values())).hexdigest()[:8]
    name = f"{file_name(f'{Path(source).stem}-{label(data.labels[0])}')[:60]}-{content}"
    return LoggedStream(data.transitions, _known(family, data), data.rewarded, data.notes, name)


def _grouped(source: str, group: str | None, names: ColumnNames, folder: RunFolder, family: Family) -> LoggedData:
    """The data by environment; data without a column to group by is one environment."""
    log = read_log(source, group or ",".join(family.parameters), names)
    if Path(source).resolve().parent == folder.path.resolve() / "transitions":  # numbered as the run numbers them
        data = group_logs([log], None)
        labels = tuple(family.train[int(str(number))] for number in data.labels)
        return replace(data, labels=labels, column=",".join(family.parameters))
    if group is None and set(family.parameters) <= set(log.columns):
        group = ",".join(family.parameters)
    return group_logs([log], group, one_alone=True)


def _known(family: Family, data: LoggedData) -> Context | None:
    """The label of the one environment as a context; None if it is not one of the family's hidden parameter."""
    found = data.labels[0]
    if family.numeric and (data.column != ",".join(family.parameters) or isinstance(found, str)):
        return None
    try:
        return family.parse_context(found)
    except UserError:
        return None
