"""What a run was trained in, kept beside it: whether its family still gives the same task and the same environment."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from pyro_dynamics.data_files import AnyContext, Count, Finite, read_json, structure
from pyro_dynamics.environments import Context, Family
from pyro_dynamics.environments.checked_env import limit_steps
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import write_json
from pyro_dynamics.rollouts.rollout import Step, rollout, uniform_policy
from pyro_dynamics.rollouts.task_record import TaskRecord
from pyro_dynamics.seeding import derive_generator
from pyro_dynamics.tasks import BoxTask, Task
from pyro_dynamics.tasks.spaces import choices_of

FILE = "environment.json"
STEPS = 8
"""Steps that are made again: the fewer, the less another processor's rounding errors can grow."""
TOLERANCE = 1e-3
"""A number is another one if it is this share of its range over these steps away."""
ROUNDING = 1e-6
"""Or, where it does not move, this share of its size; and a thousandth of that of the largest number of all."""

SEEN = ("state", "action", "next_state", "reward", "alive")
"""What is kept of each step."""

Rows = list[list[Finite]]


@dataclass(frozen=True)
class EnvironmentRecord:
    """``environment.json`` of a run: what its family says, and the first steps of an episode in two contexts.

    Attributes:
        parameters: the hidden ones.
        units: of each.
        names: of the entries of a state; empty if unnamed.
        angles: entries that are angles, each with its whole turn.
        low: lower bounds of the actions, ``[A]``.
        high: upper bounds.
        choices: the one-hot codes in them.
        contexts: of the K environments that made the steps.
        repeats: whether they made them twice alike, from the same reset by the same actions.
        action: ``[T, K, A]``.
        state: before each action, ``[T, K, S]``.
        next_state: after it, ``[T, K, S]``.
        reward: ``[T, K]``.
        alive: whether the step is one of the episode, ``[T, K]``.
        features: what the network is given of the first states, ``[K, F]``.
        targets: what it shall predict of the first transitions, by a task that is not fitted yet, ``[K, D]``.
        judged: reward and termination of the steps by the task; None if an older version made the run.
    """

    parameters: list[str]
    units: list[str]
    names: list[str]
    angles: list[tuple[Count, Finite]]
    low: list[Finite]
    high: list[Finite]
    choices: list[tuple[Count, Count]]
    contexts: list[AnyContext]
    repeats: bool
    action: list[Rows]
    state: list[Rows]
    next_state: list[Rows]
    reward: Rows
    alive: list[list[bool]]
    features: Rows
    targets: Rows
    judged: TaskRecord | None = None

    @classmethod
    def of(cls, family: Family, length: int, step_limit: float | None = None) -> "EnvironmentRecord | None":
        """What a family gives now; None where no environment makes a step.

        Args:
            family: of environments.
            length: steps of an episode.
            step_limit: seconds that a step may take.
        """
        contexts, task = _contexts(family), family.make_task()
        envs = _environments(family, contexts, length, step_limit)
        space: Any = envs.single_action_space
        policy = uniform_policy(space, len(contexts), derive_generator(0, "training environment"))
        actions = [policy(torch.empty(0)) for _ in range(STEPS)]
        steps, again = _steps(envs, actions), _steps(envs, actions)
        envs.close()
        if not steps:
            return None
        names = list(task.state_names)
        state, next_state = steps[0].state, steps[0].next_state
        seen: dict[str, Any] = {name: torch.stack([getattr(step, name) for step in steps]).tolist() for name in SEEN}
        return cls(
            parameters=list(family.parameters),
            units=list(family.units),
            names=names,
            angles=_angles(task),  # type: ignore[arg-type]
            low=space.low.tolist(),
            high=space.high.tolist(),
            choices=_pairs(choices_of(space)),
            contexts=[AnyContext(list(one) if isinstance(one, tuple) else one) for one in contexts],
            repeats=not _difference(steps, again, names, contexts, tolerance=0),
            features=task.features(state).tolist(),
            targets=task.targets(state, next_state).tolist(),
            judged=TaskRecord.of(task, steps),
            **seen,
        )

    def save(self, path: Path) -> None:
        """Write the file into the folder of a run."""
        write_json(path / FILE, asdict(self))

    @classmethod
    def load(cls, path: Path) -> "EnvironmentRecord | None":
        """That of a run; None where an older version made the run, or it was fitted to logged data.

        Raises:
            UserError: if the file holds something else.
        """
        file = path / FILE
        if not file.is_file():
            return None
        try:
            found = structure(read_json(file), cls)
            found.steps()
        except (OSError, ValueError, RuntimeError) as fault:
            raise UserError(f"{file} is damaged ({fault}): bring it back, or remove it to continue unchecked") from None
        return found

    def steps(self) -> list[Step]:
        """The steps; raises ValueError if they do not fit together."""
        parts = {name: torch.tensor(getattr(self, name)) for name in SEEN}
        sizes = {tuple(part.shape[:2]) for part in parts.values()}
        if sizes != {(len(self.action), len(self.contexts))} or parts["state"].shape != parts["next_state"].shape:
            raise ValueError("its steps do not fit together")
        ends = torch.zeros(len(self.contexts), dtype=torch.bool)
        rows = zip(*parts.values(), strict=True)
        return [
            Step(index, **dict(zip(SEEN, row, strict=True)), terminated=ends, context=())
            for index, row in enumerate(rows)
        ]

    def require_same_task(self, where: Path, family: Family) -> None:
        """Refuse a family by which the networks would be given other numbers than those that they were trained on.

        Args:
            where: the run.
            family: that has the name of the run's.

        Raises:
            UserError: saying which are others.
        """
        words = self._other_task(family, family.make_task())
        if words:
            raise UserError(
                f"{where} is of another family than {family.name} is now: {words}; change that back, or give the "
                "family another name and train in another folder"
            )

    def _other_task(self, family: Family, task: Task) -> str:
        first, names = self.steps()[0], list(task.state_names)
        compared: list[tuple[str, Any, Any]] = [
            ("the hidden parameters were {} in the training, and are {}", self.parameters, list(family.parameters)),
            ("a state had {} numbers in the training, and has {}", first.state.shape[1], task.state_dim),
            ("an action had {} numbers in the training, and has {}", len(self.low), task.action_dim),
            ("the codes of discrete actions were {}, and are {}", _pairs(self.choices), list(task.choices)),
            ("the angles in a state (entry, whole turn) were {}, and are {}", _pairs(self.angles), _angles(task)),
        ]
        if sorted(self.names) == sorted(names):
            compared.append(("a state was {} in the training, and is {}", self.names, names))
        for words, before, now in compared:
            if before != now:
                return words.format(_text(before), _text(now))
        features, targets = task.features(first.state), task.targets(first.state, first.next_state)
        for what, given, found in (("features", self.features, features), ("targets", self.targets, targets)):
            stored = torch.tensor(given)
            if stored.shape != found.shape or not torch.allclose(stored, found, rtol=1e-4, atol=1e-6):
                return f"of the same first step its task made the {what} {_few(stored)}, and makes {_few(found)}"
        return ""

    def differences(self, family: Family, length: int, step_limit: float | None = None) -> list[str]:
        """What is not as it was in the training, and may be so on purpose: a warning each.

        Args:
            family: whose task is the same, see :meth:`require_same_task`.
            length: steps of an episode.
            step_limit: seconds that a step may take.
        """
        found, task = [], family.make_task()
        for what, before, now in (
            ("the units of the hidden parameters", self.units, list(family.units)),
            ("the names of a state's entries", self.names, list(task.state_names)),
        ):
            if before != now:
                found.append(f"{what} were {_text(before)} in the training, and are {_text(now)} now")
        found += [] if self.judged is None else self.judged.differences(task, self.steps())
        contexts: list[Any] = [tuple(one) if isinstance(one, list) else one for one in self.contexts]
        envs = _environments(family, contexts, length, step_limit)
        space: Any = envs.single_action_space
        actions = torch.tensor(self.action)
        low, high = torch.from_numpy(space.low).float(), torch.from_numpy(space.high).float()
        if not (torch.allclose(low, torch.tensor(self.low)) and torch.allclose(high, torch.tensor(self.high))):
            found.append(
                f"the actions' bounds were {_text(self.low)} to {_text(self.high)} in the training, and are "
                f"{_text(space.low.tolist())} to {_text(space.high.tolist())} now: the networks know no other actions "
                "than those of the training"
            )
        inside = bool(((actions >= low - ROUNDING) & (actions <= high + ROUNDING)).all())
        if self.repeats and inside:
            steps = _steps(envs, list(actions))
            words = _difference(self.steps(), steps, task.state_names, contexts)
            again = _steps(envs, list(actions)) if words else steps
            if words and not _difference(steps, again, task.state_names, contexts, tolerance=0):
                found.append(
                    f"the environment is not the one of the training: {words}; what was learned is about that one: "
                    "change back what was changed, or train again"
                )
        envs.close()
        return found

    def differs_from(self, first: "EnvironmentRecord") -> str:
        """Where the environment of this run did otherwise than that of another, in words; empty if it did not."""
        if self.action != first.action or self.contexts != first.contexts:
            return "its actions or contexts are others"
        if not (self.repeats and first.repeats):
            return ""
        contexts: list[Any] = [tuple(one) if isinstance(one, list) else one for one in self.contexts]
        return _difference(first.steps(), self.steps(), first.names, contexts)


def measured_in(path: Path, family: Family, length: int, step_limit: float | None = None) -> str:
    """A name of the environment that a family has now, the same as before if it does what the folder's record says.

    Results under that name can be taken up again. Where the environment does otherwise, its record takes the place of
    the folder's.

    Args:
        path: of results, not of the run.
        family: of environments.
        length: steps of an episode.
        step_limit: seconds that a step may take.

    Raises:
        UserError: if the folder's record is damaged.
    """
    kept = EnvironmentRecord.load(path)
    if kept is None or kept._other_task(family, family.make_task()) or kept.differences(family, length, step_limit):
        kept = EnvironmentRecord.of(family, length, step_limit)
        if kept is None:
            return "makes no step"
        kept.save(path)
    return sha256((path / FILE).read_bytes()).hexdigest()[:8]


def _contexts(family: Family) -> list[Context]:
    """The first and the last that are trained on, which differ as a rule the most."""
    return list(dict.fromkeys((family.train[0], family.train[-1])))


def _environments(family: Family, contexts: Sequence[Context], length: int, step_limit: float | None) -> VectorEnv:
    envs = family.make_vector(contexts, length)
    limit_steps(envs, step_limit)
    return envs


def _steps(envs: VectorEnv, actions: Sequence[Tensor]) -> list[Step]:
    """The first steps by these actions, each ``[K, A]``, from resets with the seeds 0, 1 and so on.

    An environment that breaks is not alive from there on: what it did wrong is said where it is trained or acted in.
    """
    given = iter(actions)
    episode = rollout(envs, lambda state: next(given), range(envs.num_envs), lambda number, fault: None)
    return [step for _, step in zip(actions, episode, strict=False)]


def _difference(
    first: Sequence[Step],
    then: Sequence[Step],
    names: Sequence[str],
    contexts: Sequence[Context],
    tolerance: float = TOLERANCE,
) -> str:
    """Where the steps of one episode first are others than those of another, in words; nothing where they agree.

    Another processor gets tolerance; one that repeats itself does so up to rounding, and noise may be small.
    """
    both = torch.stack([one.alive & other.alive for one, other in zip(first, then, strict=False)])
    was, now = (_seen(steps, len(both)) for steps in (first, then))
    alive = torch.cat([both[:1], both])[..., None]
    range_ = (was.amax(0) - was.amin(0)).amax(0)
    size = was.abs().amax(dim=(0, 1))
    allowed = torch.maximum(tolerance * range_ + ROUNDING * size, TOLERANCE * ROUNDING * size.max())
    beyond = torch.where(alive, (now - was).abs() / allowed.clamp(min=1e-30), torch.zeros(()))
    apart = (beyond > 1).any(-1).any(-1)
    if not apart.any():
        return ""
    step = int(apart.int().argmax())
    reward = not (beyond[step, :, :-1] > 1).any()
    among = beyond[step, :, -1:] if reward else beyond[step, :, :-1]
    k, entry = divmod(int(among.argmax()), among.shape[1])
    entry = was.shape[2] - 1 if reward else entry
    name = "the reward" if reward else names[entry] if names else f"state {entry}"
    when = f"after the same reset and {step} of the same actions" if step else "after the same reset"
    rest = ", while the observations agree" if reward and not (beyond[..., :-1] > 1).any() else ""
    return (
        f"{when} {name} is {float(now[step, k, entry]):.4g}, and was {float(was[step, k, entry]):.4g} (context "
        f"{label(contexts[k])}){rest}"
    )


def _seen(steps: Sequence[Step], count: int) -> Tensor:
    """The first state and all that follows, with the reward, ``[count + 1, K, S + 1]`` in float64."""
    rows = [torch.cat([steps[0].state, torch.zeros(len(steps[0].state), 1)], 1)]
    rows += [torch.cat([step.next_state, step.reward[:, None]], 1) for step in steps[:count]]
    return torch.stack(rows).double()


def _angles(task: Task) -> list[tuple[int, float]]:
    return [(entry, float(turn)) for entry, turn in task.angles.turn.items()] if isinstance(task, BoxTask) else []


def _pairs(values: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return [tuple(value) for value in values]


def _few(values: Tensor) -> str:
    return _text([float(f"{value:.4g}") for value in values[0].tolist()])


def _text(value: Any) -> str:
    """A value for a message: the first ones of a list, and four digits of a number."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    if isinstance(value, list):
        return ", ".join(map(_text, value[:8])) + (", ..." if len(value) > 8 else "") or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
