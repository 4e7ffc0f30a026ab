"""What a task of the user's own does, tried out on the first transitions before anything is trained."""

from collections.abc import Mapping

import torch
from torch import Tensor

from pyro_dynamics.errors import UserError, faults_of
from pyro_dynamics.registry import is_own
from pyro_dynamics.tasks.task import Task

TOLERANCE = 1e-3
"""The next state comes back from the targets within this share of the largest."""


def check_own_task(task: Task, state: Tensor, action: Tensor, next_state: Tensor) -> None:
    """Refuse, in words, a task of the user's own that a network could not be trained or planned with.

    Tasks of this project, whose tests say the same, are left alone. Reward and termination are checked by
    :func:`~pyro_dynamics.tasks.functions.evaluate`.

    Args:
        task: it is fitted to the transitions; take another for the training.
        state: of some transitions in which no episode ended, ``[N, S]``.
        action: ``[N, A]``.
        next_state: ``[N, S]``.

    Raises:
        UserError: naming the task's method and what is wrong.
    """
    if not is_own(type(task)):
        return
    name = type(task).__name__
    _check_names(task, name)
    _check_rows(task, name, state, action, next_state)
    with faults_of(f"{name}.fit(state, next_state), state_dict() or load_state_dict()"):
        task.fit(state, next_state)
        learned = task.state_dict()
        if not isinstance(learned, Mapping) or not all(isinstance(value, Tensor) for value in learned.values()):
            raise UserError(f"{name}.state_dict() must give tensors by name, for checkpoints, not {learned}")
        task.load_state_dict(learned)
    _check_rows(task, f"{name}, once fitted,", state, action, next_state)


def _check_names(task: Task, name: str) -> None:
    for what, size in (("state_names", task.state_dim), ("target_names", task.target_dim)):
        names = getattr(task, what)
        if isinstance(names, str) or len(names) not in (0, size):
            raise UserError(f"{name}.{what} must be a tuple of {size} names, or an empty one, not {names!r}")


def _check_rows(task: Task, name: str, state: Tensor, action: Tensor, next_state: Tensor) -> None:
    """Features, targets and their inverse have the task's sizes under any leading axes, as planners have them."""
    rows = (2, 4 if task.state_dim == 3 else 3)  # none of them as long as a state
    few = torch.arange(rows[0] * rows[1]).reshape(rows) % len(state)
    some, after = state[few], next_state[few]
    kept = some.clone(), after.clone()
    with faults_of(f"the features() of {name} for states {list(some.shape)}"):
        features = task.features(some)
    _require(f"the features() of {name}", "feature_dim", features, (*rows, task.feature_dim))
    with faults_of(f"the targets() of {name} for states {list(some.shape)}"):
        targets = task.targets(some, after)
    _require(f"the targets() of {name}", "target_dim", targets, (*rows, task.target_dim))
    with faults_of(f"the next_state() of {name} for states {list(some.shape)} and targets {list(targets.shape)}"):
        found = task.next_state(some, targets)
    _require(f"the next_state() of {name}", "state_dim", found, (*rows, task.state_dim))
    if not (torch.equal(some, kept[0]) and torch.equal(after, kept[1])):
        raise UserError(f"a method of {name} changes the states that it is given: write no x[...] = ... or x.add_()")
    every = task.next_state(state, task.targets(state, next_state))
    apart = (every - next_state).abs() / next_state.abs().amax(0).clamp(min=1.0)
    if not (apart <= TOLERANCE).all():
        row, entry = divmod(int(apart.nan_to_num(torch.inf).argmax()), task.state_dim)
        raise UserError(
            f"the next_state() of {name} must be the inverse of its targets(): of the targets of {_few(state[row])} to "
            f"{_few(next_state[row])} it makes {float(every[row, entry]):.4g} as entry {entry}"
        )


def _require(what: str, size: str, value: object, shape: tuple[int, ...]) -> None:
    if not isinstance(value, Tensor) or value.dtype != torch.float32:
        kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise UserError(f"{what} gives a {kind}, not a tensor of torch.float32")
    if tuple(value.shape) != shape:
        raise UserError(
            f"{what} gives the shape {list(value.shape)}, not {list(shape)}: its {size} is {shape[-1]}, and before "
            "it stand the states' own axes; index with [..., i]"
        )
    if value.requires_grad:
        raise UserError(f"{what} moves with parameters, which are never trained: end it with .detach()")
    if not value.isfinite().all():
        raise UserError(f"{what} is not finite on the first transitions: {_few(value.flatten())}")


def _few(values: Tensor) -> list[float]:
    return [float(f"{value:.3g}") for value in values[:6].tolist()]
