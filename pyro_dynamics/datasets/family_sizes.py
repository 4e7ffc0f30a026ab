"""Whether logged states and actions have the sizes of a family's task, and what is missing where they have not."""

from pyro_dynamics.errors import UserError
from pyro_dynamics.tasks import BoxTask, Task
from pyro_dynamics.transitions import Transitions

REWARD, TERMINATION = "the last reward", "1 where the episode ended, else 0"
"""What a task that learns it appends to the observation, in this order."""


def require_sizes_of(task: Task, rows: Transitions, environments: int, where: str) -> None:
    """Refuse transitions that are not of K environments of a task.

    Args:
        task: of the family.
        rows: logged transitions.
        environments: K.
        where: what these are, for the message.

    Raises:
        UserError: saying what to append to observations that are no states yet, how discrete actions are written, or
            which sizes do not fit.
    """
    state_dim, action_dim = rows.state.shape[1], rows.action.shape[1]
    if isinstance(task, BoxTask) and state_dim == task.observed_dim < task.state_dim:
        learned = [REWARD] * task.learns_reward + [TERMINATION] * task.learns_termination
        raise UserError(
            f"{where}: the states are observations of {state_dim} numbers, and what the task learns comes after them: "
            f"append {' and '.join(learned)} to state and next_state (0 where an episode begins), as export writes it"
        )
    codes = sum(length - 1 for _, length in task.choices)
    if codes and action_dim == task.action_dim - codes and (rows.action == rows.action.round()).all():
        first, length = next((first, length) for first, length in task.choices if length > 1)
        raise UserError(
            f"{where}: the actions are {action_dim} numbers, and the task's are {task.action_dim}, in which discrete "
            f"ones are one-hot codes: log the code in place of the number, here {length} columns from column {first} "
            f"on, as numpy.eye({length})[number] has it (from 0 on)"
        )
    rows.require_of(environments, task.state_dim, task.action_dim, where)
