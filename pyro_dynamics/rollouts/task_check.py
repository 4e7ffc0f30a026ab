"""Whether a task says of its environment what is so, seen on a few random steps before anything is trained."""

from collections.abc import Sequence
from itertools import count, pairwise
from typing import Any

import numpy as np
import torch
from gymnasium.vector import SyncVectorEnv, VectorEnv
from gymnasium.wrappers import DelayObservation, StickyAction
from torch import Tensor

from pyro_dynamics.environments.layers import layers
from pyro_dynamics.errors import EnvironmentFault, UserError
from pyro_dynamics.likely_angles import likely_angles
from pyro_dynamics.rollouts.length_check import STEPS, compare_length
from pyro_dynamics.rollouts.lockstep_check import compare_alone
from pyro_dynamics.rollouts.rollout import OnFault, Step, rollout, uniform_policy
from pyro_dynamics.rollouts.training import record
from pyro_dynamics.seeding import derive_generator, derive_seed
from pyro_dynamics.tasks import BoxTask, Task
from pyro_dynamics.tasks.functions import Function, evaluate
from pyro_dynamics.tasks.own_task_check import check_own_task
from pyro_dynamics.tasks.spaces import choices_of, decide
from pyro_dynamics.transitions import Transitions
from pyro_dynamics.unusual_numbers import lost_digits, revealing

REPEATED = 20
"""Of these so many again from the same reset, by the same actions."""
CHANGED = 5
"""And once more with another action at this step."""
JUMP = 1.5
"""An observation jumps if it changes by so many times the most that it does in steps that end no episode."""
TOLERANCE = 1e-3
"""Rewards agree if they differ by less than this share of the largest: observations are rounded to float32."""
REPEATS = 1e-6
"""A simulator repeats itself to nearly the last digit of float32: noise of a sensor may be smaller than TOLERANCE."""


def check_task(task: Task, envs: SyncVectorEnv, seed: int, length: int) -> list[str]:
    """Compare a task with what its environments do under random actions.

    Args:
        task: features, targets, reward and termination; it is fitted to these steps: make another for the run.
        envs: environments of the family, which are used up: make others for the run.
        seed: names the random streams.
        length: steps that an episode should have.

    Returns:
        Lines to warn with: where the task's reward or termination is another than the environment's own, where an
        environment does not repeat itself or goes otherwise alone than beside the others, and where one broke.

    Raises:
        UserError: if sizes do not fit, a function cannot be planned with, or every environment breaks.
    """
    require_sizes(task, envs)
    faults: dict[int, EnvironmentFault] = {}
    steps = random_steps(envs, seed, faults.__setitem__)
    if len(faults) == envs.num_envs:
        raise faults[0]
    data = record(steps, torch.arange(envs.num_envs))
    rows = (data.state, data.action, data.next_state)
    for what, function in functions(task):  # a planner's leading axes, none of them as long as a state
        shape = (2, 4 if task.state_dim == 3 else 3)
        few = torch.arange(shape[0] * shape[1]).reshape(shape) % len(data)
        evaluate(what, function, *(values[few] for values in rows))
    alive = torch.cat([step.alive for step in steps])
    contexts = [context for step in steps for context in step.context]
    contexts = [context for context, lived in zip(contexts, alive.tolist(), strict=True) if lived]
    own_end = torch.cat([step.terminated for step in steps])[alive]
    if not own_end.all():
        check_own_task(task, *(values[~own_end] for values in rows))
    warnings = [
        f"{fault}: among the first random steps; it will be left out from there on" for fault in faults.values()
    ]
    warnings += [*unusual(data, task, envs), observed_context(data, task, contexts)]
    warnings += [compare_rewards(evaluate("reward", task.reward, *rows), data.reward, contexts, data.step)]
    if task.can_terminate:
        warnings.append(compare_ends(evaluate("terminated", task.terminated, *rows), own_end))
    elif own_end.any():
        warnings.append(
            f"{int(own_end.sum())} of {envs.num_envs} random episodes ended early, which the task does not know of: "
            'give it a termination, as in BoxTask(env, ..., terminated="learned")'
        )
    hidden = hidden_state(envs)
    warnings += hidden
    if not faults:
        warnings.append(compare_length(steps, envs, length))
        warnings.append(restarts(steps, task))
        unlike = compare_repeats(steps, random_steps(envs, seed, faults.__setitem__, REPEATED))
        found = [] if unlike else [compare_alone(steps[:REPEATED], envs, _reset_seeds(seed, envs), REPEATS)]
        if not unlike and not hidden:
            other = random_steps(envs, seed, faults.__setitem__, REPEATED, changed=CHANGED)
            found.append(compare_histories(steps, other, task))
        if not unlike:  # what comes with the number of episodes, such as a curriculum, may have come by now
            unlike = compare_repeats(steps, random_steps(envs, seed, faults.__setitem__, REPEATED))
        warnings += [unlike] if unlike else found
    return [warning for warning in warnings if warning]


def unusual(data: Transitions, task: Task, envs: VectorEnv) -> list[str]:
    """Warnings of numbers that a network learns badly as they are."""
    state, next_state = data.state.double().numpy(), data.next_state.double().numpy()
    space: Any = envs.single_observation_space
    widths = np.asarray(space.high, np.float64) - np.asarray(space.low, np.float64)
    known = task.angles.turn if isinstance(task, BoxTask) else ()
    return [
        lost_digits(state, next_state, task.state_names),
        likely_angles(state, next_state, widths, known, task.state_names),
    ]


def observed_context(data: Transitions, task: Task, contexts: Sequence[Any]) -> str:
    """A warning where hidden parameters are observed; ``contexts`` are those of the N transitions."""
    if any(isinstance(context, str) for context in contexts):
        return ""
    hidden = np.array(contexts, np.float64).reshape(len(data), -1)
    several = hidden.shape[1] > 1
    which = [f"the hidden parameter {i}" if several else "the hidden parameter" for i in range(hidden.shape[1])]
    return revealing(data.state.double().numpy(), hidden, which, task.state_names)


def functions(task: Task) -> list[tuple[str, Function]]:
    """The functions that a planner calls."""
    found: list[tuple[str, Function]] = [("reward", task.reward)]
    return [*found, ("terminated", task.terminated)] if task.can_terminate else found


def require_sizes(task: Task, envs: VectorEnv) -> None:
    """Refuse a task of other sizes than its environment's; raises :class:`UserError`."""
    for kind, size, space in (
        ("state_dim", task.state_dim, envs.single_observation_space),
        ("action_dim", task.action_dim, envs.single_action_space),
    ):
        if space.shape != (size,):
            raise UserError(f"the task has {kind} {size}, and the environment the space {space}: make them agree")
    if task.choices != choices_of(envs.single_action_space):
        raise UserError(
            f"the task has choices {task.choices}, and the environment's discrete actions are the one-hot codes (first "
            f"entry, length) {choices_of(envs.single_action_space)}: set the task's choices to that"
        )


def random_steps(
    envs: VectorEnv, seed: int, on_fault: OnFault | None = None, most: int = STEPS, changed: int | None = None
) -> list[Step]:
    """The first steps of one random episode in each environment; with the opposite action at step ``changed``."""
    space: Any = envs.single_action_space
    draws = derive_generator(seed, "task check", "actions")
    at_random, step = uniform_policy(space, envs.num_envs, draws), count()

    def policy(state: Tensor) -> Tensor:
        action = at_random(state)
        if next(step) != changed:
            return action
        return decide(torch.from_numpy(space.low + space.high).float() - action, choices_of(space))

    episode = rollout(envs, policy, _reset_seeds(seed, envs), on_fault)
    return [step for _, step in zip(range(most), episode, strict=False)]


def _reset_seeds(seed: int, envs: VectorEnv) -> list[int]:
    return [derive_seed(seed, "task check", "reset", k) for k in range(envs.num_envs)]


def compare_rewards(ours: Tensor, own: Tensor, contexts: Sequence[object], step: Tensor) -> str:
    """A warning if the rewards ``[N]`` of the task are not the environment's own; else nothing."""
    difference = (ours - own).abs()
    if difference.max() <= TOLERANCE * own.abs().max():
        return ""
    row = int(difference.argmax())
    return (
        f"the task's reward is not the environment's own: on {len(own)} random steps they differ by up to "
        f"{float(difference[row]):.3g} (task {float(ours[row]):.4g}, environment {float(own[row]):.4g}, at step "
        f"{int(step[row])} in context {contexts[row]}); the planner maximises the task's, tables show the environment's"
    )


def compare_ends(ours: Tensor, own: Tensor) -> str:
    """A warning if the terminations ``[N]`` of the task are not the environment's own; else nothing."""
    wrong = ours != own
    if not wrong.any():
        return ""
    return (
        f"the task's termination is not the environment's own: on {len(own)} random steps the environment ended "
        f"{int(own.sum())} episodes, of which the task ends {int((ours & own).sum())}, and the task would end "
        f"{int((ours & ~own).sum())} others"
    )


HIDE_STATE = {
    DelayObservation: "the environment is ahead of what is observed: delay the actions by "
    "pyro_dynamics.environments.DelayedActions instead, which appends those under way to the observation",
    StickyAction: "the last action is repeated at random, and not observed: take it off",
}
"""Wrappers of Gymnasium's behind which the next observation depends on more than observation and action."""


def hidden_state(envs: VectorEnv) -> list[str]:
    """A warning for each wrapper that is known to hide state: no model of single steps can predict what comes."""
    kinds = {type(layer): None for env in getattr(envs, "envs", ()) for layer in layers(env)}
    return [f"in the wrapper {kind.__name__} {words}" for kind, words in HIDE_STATE.items() if kind in kinds]


def compare_repeats(first: Sequence[Step], again: Sequence[Step]) -> str:
    """A warning if the same actions after the same reset lead elsewhere; else nothing.

    Then there is state that neither the observation nor a checkpoint holds, or noise that the seed does not decide: a
    latent would stand for what was observed before, and no run could be repeated.
    """
    pairs = list(zip(first, again, strict=False))
    size = torch.cat([_seen(one).abs() for one, _ in pairs]).amax(0).clamp(min=1e-30)
    for one, other in pairs:
        both = one.alive & other.alive
        apart = (_seen(one) - _seen(other)).abs() / size
        if (apart[both] > REPEATS).any():
            break
    else:
        return ""
    what = (
        "two resets with one seed give different observations"
        if one.index == 0 and not torch.equal(one.state[both], other.state[both])
        else f"the same actions after the same reset lead to another observation or reward at step {one.index}"
    )
    return (
        f"{what}: so does a wrapper with running statistics (such as NormalizeObservation), whose state no checkpoint "
        "keeps, noise that is not drawn from self.np_random, and a curriculum that counts episodes; what is learned "
        "will not hold, and no run can be repeated: take such a wrapper or curriculum off (states are normalised here "
        "anyway), and draw from self.np_random"
    )


def compare_histories(first: Sequence[Step], other: Sequence[Step], task: Task) -> str:
    """A warning if the same observation and action lead elsewhere after another history; else nothing.

    The action of step :data:`CHANGED` is another one: where that changes nothing that is observed, all that comes must
    stay the same, or something is not observed.
    """
    pairs = [(one, later) for one, later in zip(first, other, strict=False) if one.index >= CHANGED]
    size = torch.cat([_observed(task, one.next_state).abs() for one, _ in pairs] or [torch.ones(1, 1)]).amax(0)
    alike = torch.ones(1, dtype=torch.bool)
    for one, later in pairs:
        apart = (_observed(task, one.next_state) - _observed(task, later.next_state)).abs()
        led = (apart > TOLERANCE * size.clamp(min=1e-30)).any(1) & one.alive & later.alive
        if one.index > CHANGED and (led & alike).any():
            return (
                f"another action at step {CHANGED} changed nothing that is observed, and yet from the same observation "
                f"the same action led elsewhere at step {one.index}: something is not observed that the next state "
                "depends on, such as a velocity or actions under way (pyro_dynamics.environments.DelayedActions "
                "observes these): a model of single steps cannot predict it"
            )
        alike = alike & (apart == 0).all(1) & one.alive & later.alive
    return ""


def restarts(steps: Sequence[Step], task: Task) -> str:
    """A warning if each end of an episode leads to where episodes begin, by a jump; else nothing."""
    ended = [one.alive & (one.terminated | ~later.alive) for one, later in pairwise(steps)]
    ended.append(steps[-1].alive & steps[-1].terminated)
    before, after = (
        torch.cat([_observed(task, getattr(one, name)) for one in steps]) for name in ("state", "next_state")
    )
    ends, alive = torch.cat(ended), torch.cat([one.alive for one in steps])
    if ends.sum() < 2 or not (alive & ~ends).any():
        return ""
    begun = _observed(task, steps[0].state)
    low, high = begun.amin(0), begun.amax(0)
    change, width = (after - before).abs(), high - low
    jumps = (change[ends] > JUMP * change[alive & ~ends].amax(0)).any(1)
    inside = ((after[ends] >= low - width) & (after[ends] <= high + width)).all(1)
    if not (jumps & inside).all():
        return ""
    return (
        f"in all of {int(ends.sum())} ends of episodes the observation jumps to where episodes begin: the environment "
        "seems to reset itself in step(): let it return the last observation of the episode, and wait for reset()"
    )


def _observed(task: Task, state: Tensor) -> Tensor:
    """What the environment itself observes, without a learned reward or termination."""
    return task.observed(state) if isinstance(task, BoxTask) else state


def _seen(step: Step) -> Tensor:
    """All that is seen of a step, ``[B, 2 S + 1]``."""
    return torch.cat([step.state, step.next_state, step.reward[:, None]], 1)
