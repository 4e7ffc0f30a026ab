"""Episodes of an agent whose model is the simulator, with a context that it is given or that it fits."""

from collections.abc import Iterator, Sequence

from pyro_dynamics.control import Planner
from pyro_dynamics.environments import Context, Family
from pyro_dynamics.environments.nominal import nominal_context
from pyro_dynamics.rollouts.rollout import Step, rollout
from pyro_dynamics.rollouts.system_identification import Identification, identifying
from pyro_dynamics.rollouts.true_dynamics import Simulator, planning
from pyro_dynamics.seeding import derive_generator, derive_seed


def episode(
    family: Family,
    contexts: Sequence[Context],
    believed: Sequence[Context] | None,
    planner: Planner,
    horizon: int,
    max_steps: int,
    seed: int,
    threads: int = 1,
) -> Iterator[Step]:
    """One episode in each of K environments, planned in the simulator.

    Args:
        family: of the environments.
        contexts: the true ones, ``[K]``.
        believed: those that the planner takes for true, ``[K]``; None where they are fitted on the way.
        planner: the search, with its settings.
        horizon: H steps ahead.
        max_steps: of the episode.
        seed: names the random streams; of two episodes with one seed the starts and the first candidates are the same.
        threads: for MuJoCo.
    """
    envs = family.make_vector(contexts, max_steps)
    simulator = Simulator(family, believed or [nominal_context(family)] * len(contexts), max_steps, threads)
    planner.reset()
    policy = planning(simulator, envs, planner, horizon, derive_generator(seed, "true dynamics", "plans"))
    if believed is None:
        policy = identifying(policy, simulator, envs, [Identification(family, max_steps) for _ in contexts])
    seeds = [derive_seed(seed, "true dynamics", "reset", k) for k in range(envs.num_envs)]
    yield from rollout(envs, policy, seeds)
    envs.close()
