"""Whether a task says of its environment what is so, seen on a few random steps before anything is trained."""

from collections.abc import Sequence

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from pyro_dynamics.errors import EnvironmentFault, UserError
from pyro_dynamics.rollouts.rollout import OnFault, Step, rollout, uniform_policy
from pyro_dynamics.rollouts.training import record
from pyro_dynamics.seeding import derive_generator, derive_seed
from pyro_dynamics.tasks import Task
from pyro_dynamics.tasks.functions import Function, evaluate

STEPS = 100
"""At most so many random steps in each environment."""
TOLERANCE = 1e-3
"""Rewards agree if they differ by less than this share of the largest: observations are rounded to float32."""


def check_task(task: Task, envs: VectorEnv, seed: int) -> list[str]:
    """Compare a task with what its environments do under random actions.

    Args:
        task: features, targets, reward and termination.
        envs: environments of the family, which are used up: make others for the run.
        seed: names the random streams.

    Returns:
        Lines to warn with: where the task's reward or termination is another than the environment's own, and where an
        environment broke.

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
    warnings = [
        f"{fault}: among the first random steps; it will be left out from there on" for fault in faults.values()
    ]
    warnings += [compare_rewards(evaluate("reward", task.reward, *rows), data.reward, contexts, data.step)]
    if task.can_terminate:
        warnings.append(compare_ends(evaluate("terminated", task.terminated, *rows), own_end))
    elif own_end.any():
        warnings.append(
            f"{int(own_end.sum())} of {envs.num_envs} random episodes ended early, which the task does not know of: "
            'give it a termination, as in BoxTask(env, ..., terminated="learned")'
        )
    return [warning for warning in warnings if warning]


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


def random_steps(envs: VectorEnv, seed: int, on_fault: OnFault | None = None) -> list[Step]:
    """The first steps of one random episode in each environment."""
    space = envs.single_action_space
    draws = derive_generator(seed, "task check", "actions")
    policy = uniform_policy(space.low, space.high, envs.num_envs, draws)  # type: ignore[attr-defined]
    seeds = [derive_seed(seed, "task check", "reset", k) for k in range(envs.num_envs)]
    return [step for _, step in zip(range(STEPS), rollout(envs, policy, seeds, on_fault), strict=False)]


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
