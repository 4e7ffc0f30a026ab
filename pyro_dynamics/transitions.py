"""The data: transitions of K environments, and minibatches of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pyro_dynamics.data_files import read_arrays
from pyro_dynamics.errors import UserError
from pyro_dynamics.given_numbers import as_floats, as_indices


@dataclass(frozen=True)
class Transitions:
    """N transitions (s, a, s') and their environments, in temporal order.

    Attributes:
        state: ``[N, S]``.
        action: ``[N, A]``, in the environment's own units.
        next_state: ``[N, S]``.
        reward: ``[N]``.
        environment: ``[N]``, the index of each transition's environment.
        step: ``[N]``, its step within its episode.
    """

    state: Tensor
    action: Tensor
    next_state: Tensor
    reward: Tensor
    environment: Tensor
    step: Tensor

    def __len__(self) -> int:
        return len(self.environment)

    @classmethod
    def concatenate(cls, parts: Sequence["Transitions"]) -> "Transitions":
        """All of ``parts``, one after the other."""
        return cls(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def as_tensors(self) -> "Transitions":
        """The same of torch.float32 and torch.long, out of any type of number of numpy or torch.

        Raises:
            UserError: if the fields do not belong together.
        """
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        indices = ("environment", "step")
        counts = {name: as_indices(given[name], len(given[name]), 2**31, name) for name in indices}
        numbers = {name: as_floats(one, name) for name, one in given.items() if name not in indices}
        data = Transitions(**numbers, **counts)
        try:
            data._check_shapes()
        except ValueError as fault:
            raise UserError(f"these are no transitions: {fault}") from None
        return data

    def select(self, rows: Tensor) -> "Transitions":
        """The rows given by a mask or by indices ``[n]``."""
        return Transitions(*(getattr(self, field.name)[rows] for field in fields(self)))

    def of(self, environments: Sequence[int]) -> "Transitions":
        """The transitions of some environments, which are numbered 0, 1, ... anew."""
        rows = self.select(torch.isin(self.environment, torch.tensor(environments)))
        renumbered = torch.zeros(max(environments) + 1, dtype=torch.long)
        renumbered[torch.tensor(environments)] = torch.arange(len(environments))
        return Transitions(
            rows.state, rows.action, rows.next_state, rows.reward, renumbered[rows.environment], rows.step
        )

    def _check_shapes(self) -> None:
        """Raises ValueError if the fields do not belong together."""
        axes = {"state": 2, "action": 2, "next_state": 2, "reward": 1, "environment": 1, "step": 1}
        for name, count in axes.items():
            value = getattr(self, name)
            if value.dim() != count or len(value) != len(self.step) or not len(value):
                raise ValueError(f"{name} has the shape {list(value.shape)}")
            if name not in ("environment", "step"):
                if value.dtype != torch.float32:
                    raise ValueError(f"{name} is {value.dtype}, not torch.float32")
            elif value.dtype != torch.long or value.min() < 0 or value.max() >= 2**31:
                raise ValueError(f"{name} is not made of counts")
        if self.state.shape != self.next_state.shape:
            raise ValueError("state and next_state have different shapes")

    def checked(self, environments: int, state_dim: int, action_dim: int) -> "Transitions":
        """The same of any type of number as float32, if they are of some of these environments.

        Raises:
            UserError: naming what does not fit, or is not finite.
        """
        data = self.as_tensors()
        data.require_within(environments, state_dim, action_dim, "the transitions")
        data.require_finite("the transitions")
        return data

    def require_of(self, environments: int, state_dim: int, action_dim: int, where: str) -> None:
        """Refuse transitions of other environments than those of a run.

        Args:
            environments: K; each must have a transition.
            state_dim: S.
            action_dim: A.
            where: what these transitions are, for the message.

        Raises:
            UserError: naming what does not fit.
        """
        self.require_within(environments, state_dim, action_dim, where)
        found = self.environment.unique().tolist()
        if found != list(range(environments)):
            raise UserError(
                f"{where}: there are transitions of the environments {found}, not of 0 to {environments - 1}"
            )

    def require_within(self, environments: int, state_dim: int, action_dim: int, where: str) -> None:
        """The same, where environments may have none."""
        sizes = self.state.shape[1], self.action.shape[1]
        if sizes != (state_dim, action_dim):
            raise UserError(
                f"{where}: states and actions have {sizes[0]} and {sizes[1]} entries, not {state_dim} and {action_dim}"
            )
        largest = int(self.environment.max())
        if largest >= environments:
            raise UserError(
                f"{where}: there are transitions of the environment {largest}, not of 0 to {environments - 1} alone"
            )

    def require_finite(self, where: str) -> None:
        """Refuse transitions that hold NaN or infinity.

        Args:
            where: what these transitions are, for the message.

        Raises:
            UserError: naming the field, environment and step of the first one.
        """
        for name in ("state", "action", "next_state", "reward"):
            bad = ~getattr(self, name).isfinite().reshape(len(self), -1).all(1)
            if bad.any():
                row = int(bad.int().argmax())
                raise UserError(
                    f"{where}: the {name} of environment {int(self.environment[row])} at step {int(self.step[row])} "
                    f"is not finite ({int(bad.sum())} of {len(self)} rows are not)"
                )

    def episodes(self) -> list[Tensor]:
        """Rows of each episode, in the order in which the episodes began.

        An episode continues in the next row of its environment whose state is the last next state, one step later:
        the rows of several instances of an environment alternate.
        """
        found: list[list[int]] = []
        # Where an episode continues: environment, step and state of its next row. Adding 0 turns -0 into 0.
        running: dict[tuple[int, int, bytes], list[list[int]]] = {}
        states, next_states = (values.numpy() + np.float32(0) for values in (self.state, self.next_state))
        for row, (environment, step) in enumerate(zip(self.environment.tolist(), self.step.tolist(), strict=True)):
            waiting = running.get((environment, step, states[row].tobytes()))
            if waiting:
                episode = waiting.pop(0)
            else:
                episode = []
                found.append(episode)
            episode.append(row)
            running.setdefault((environment, step + 1, next_states[row].tobytes()), []).append(episode)
        return [torch.tensor(rows) for rows in found]

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields as numpy arrays, ready for ``np.savez``."""
        return {field.name: getattr(self, field.name).numpy() for field in fields(self)}

    @classmethod
    def load(cls, path: Path) -> "Transitions":
        """Read back what was saved from :meth:`arrays`.

        Raises:
            UserError: if the file does not hold transitions.
        """
        try:
            arrays = read_arrays(path, [field.name for field in fields(cls)])
            data = cls(**{name: torch.from_numpy(array) for name, array in arrays.items()})
            data._check_shapes()
            return data
        except (OSError, ValueError, TypeError) as fault:
            raise UserError(f"{path} does not hold transitions: {fault}") from None


@dataclass(frozen=True)
class Minibatch:
    """Rows for a Pyro model; every ensemble member has its own rows.

    Attributes:
        inputs: features and action, ``[M, B, F + A]``.
        targets: the network's targets, ``[M, B, T]``.
        environment: index of each row's environment, ``[M, B]``.
        total: the number N of rows that the minibatch stands for (times a temperature, if any); the likelihood is
            scaled by N / B.
    """

    inputs: Tensor
    targets: Tensor
    environment: Tensor
    total: float


def shuffled_minibatches(
    inputs: Tensor,
    targets: Tensor,
    environment: Tensor,
    members: int,
    size: int,
    generator: torch.Generator,
    environments: int = 0,
) -> Iterator[Minibatch]:
    """One epoch over N rows, in an order of its own for each of M members.

    "each member of the ensemble is trained on distinct shuffles of the same data, and are reshuffled at every epoch"
    (the paper, appendix A.1). The last minibatch may be smaller.

    Args:
        inputs: ``[N, F + A]``.
        targets: ``[N, T]``.
        environment: ``[N]``.
        members: M.
        size: rows B of each member in a minibatch.
        generator: source of the shuffles.
        environments: each minibatch has rows of about so many environments, the same for all members; 0 for rows of
            all alike.
    """
    total = len(environment)
    order = torch.stack([torch.randperm(total, generator=generator) for _ in range(members)])
    if environments:
        order = _by_environment(order, environment, -(-size // environments), generator)
    for rows in order.split(size, dim=1):
        flat = rows.flatten()  # to select rows is much faster than to index by a matrix
        x, y, k = (whole.index_select(0, flat).unflatten(0, rows.shape) for whole in (inputs, targets, environment))
        yield Minibatch(x, y, k, total)


def _by_environment(order: Tensor, environment: Tensor, length: int, generator: torch.Generator) -> Tensor:
    """Shuffles ``[M, N]`` in which blocks of so many rows are of one environment, the same one for all members."""
    order = torch.stack([rows[environment[rows].argsort(stable=True)] for rows in order])
    blocks = [block for part in environment.bincount().tolist() for block in _cut(part, length)]
    ends = torch.tensor(blocks).cumsum(0).tolist()
    places = [torch.arange(end - block, end) for block, end in zip(blocks, ends, strict=True)]
    shuffled = torch.randperm(len(places), generator=generator).tolist()
    return order[:, torch.cat([places[index] for index in shuffled])]


def _cut(rows: int, length: int) -> list[int]:
    """Sizes of the blocks of some rows; the last one may be smaller."""
    return [length] * (rows // length) + [rows % length] * bool(rows % length)
