"""Episodes of an agent whose model is the simulator, with a context that it is given or that it fits."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor

from pyro_dynamics.control import Planner
from pyro_dynamics.environments import Context, Family, Schedule
from pyro_dynamics.environments.nominal import nominal_context
from pyro_dynamics.rollouts.rollout import Policy, Step, rollout
from pyro_dynamics.rollouts.system_identification import Identification, identifying
from pyro_dynamics.rollouts.true_dynamics import Simulator, believe, planning
from pyro_dynamics.seeding import derive_generator, derive_seed


@dataclass(frozen=True)
class Search:
    """How the planner searches in the simulator.

    Attributes:
        make_planner: a fresh planner.
        horizon: H steps ahead.
        steps: of an episode.
        threads: for MuJoCo.
    """

    make_planner: Callable[[], Planner]
    horizon: int
    steps: int
    threads: int = 1


def episode(
    family: Family,
    contexts: Sequence[Context | Schedule],
    believed: Sequence[Context | Schedule] | None,
    search: Search,
    seed: int,
    starts: Sequence[int] | None = None,
) -> Iterator[Step]:
    """One episode in each of K environments, planned in the simulator.

    Args:
        family: of the environments.
        contexts: the true ones, ``[K]``.
        believed: those that the planner takes for true, ``[K]``; None where they are fitted on the way. It knows of a
            change when it comes, and not before.
        search: the planner and its length.
        seed: names the random streams; of two episodes with one seed the starts and the first candidates are the same.
        starts: the seed of each environment's reset, ``[K]``; by default this seed's own.
    """
    envs = family.make_vector(contexts, search.steps)
    schedules = [_schedule(one) for one in believed or [nominal_context(family)] * len(contexts)]
    simulator = Simulator(family, [schedule.at(0) for schedule in schedules], search.steps, search.threads)
    planner = search.make_planner()
    planner.reset()
    policy = planning(simulator, envs, planner, search.horizon, derive_generator(seed, "true dynamics", "plans"))
    if believed is None:
        policy = identifying(policy, simulator, envs, [Identification(family, search.steps) for _ in contexts])
    else:
        policy = _following(policy, simulator, schedules)
    own = [derive_seed(seed, "true dynamics", "reset", k) for k in range(envs.num_envs)]
    yield from rollout(envs, policy, own if starts is None else starts)
    envs.close()


def episode_returns(steps: Iterator[Step], on_step: Callable[[], object] = lambda: None) -> Tensor:
    """The return of an episode in each environment, ``[K]``."""
    total = torch.zeros(())
    for step in steps:
        total = total + step.reward.double() * step.alive
        on_step()
    return total


def _schedule(context: Context | Schedule) -> Schedule:
    return context if isinstance(context, Schedule) else Schedule.constant(context)


def _following(policy: Policy, simulator: Simulator, schedules: Sequence[Schedule]) -> Policy:
    """The policy, whose simulator is under the contexts of each step."""
    steps = count()

    def act(state: Tensor) -> Tensor:
        step = next(steps)
        for clone, schedule in zip(simulator.copies, schedules, strict=True):
            if step and schedule.at(step) != schedule.at(step - 1):
                believe(clone, schedule.at(step))
        return policy(state)

    return act
