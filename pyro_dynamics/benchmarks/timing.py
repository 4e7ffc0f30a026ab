"""Timings of planning, updating and training: the same work as the peer's, and its scaling."""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch

from pyro_dynamics.agent import Agent
from pyro_dynamics.control import TrajectorySampler
from pyro_dynamics.control.precision import matrix_product_rate
from pyro_dynamics.control.trajectory_sampling import Dynamics
from pyro_dynamics.transitions import Transitions

TRANSITIONS = 10_000
"""Of a training epoch, as in the peer's benchmark."""


@dataclass(frozen=True)
class Cost:
    """Median seconds of one call: CPU time and wall time."""

    cpu: float
    wall: float


def measure(call: Callable[[], Any], calls: int, prepare: bool = True) -> Cost:
    """The cost of a call, over so many of them; by default after a first one that prepares (memory, compilation)."""
    cpu, wall = [], []
    if prepare:
        call()
    for _ in range(calls):
        before = time.process_time(), time.perf_counter()
        call()
        cpu.append(time.process_time() - before[0])
        wall.append(time.perf_counter() - before[1])
    return Cost(statistics.median(cpu), statistics.median(wall))


class Work:
    """The work of one agent, with random weights, on synthetic data: speed does not depend on what is learned.

    Args:
        agent: the agent, over K environments; every call is for one instance of each.
        seed: of data and draws.
    """

    def __init__(self, agent: Agent, seed: int = 0) -> None:
        self.agent, self.draws = agent, torch.Generator().manual_seed(seed)
        self.environment = torch.arange(agent.environments)
        self.state, self.action, self.next_state = self._transitions(agent.environments)

    def plan(self) -> None:
        """One control step without an update."""
        self.agent.act(self.state, self.environment, self.draws)

    def update(self) -> None:
        """The update of every belief by one transition (Eq. 5)."""
        self.agent.observe(self.state, self.action, self.next_state, self.environment, self.draws)

    def control_step(self) -> None:
        """A plan and an update."""
        self.plan()
        self.update()

    def train_epoch(self, transitions: int = TRANSITIONS) -> None:
        """One pass over so many transitions; the agent must be configured for one epoch a training."""
        state, action, next_state = self._transitions(transitions)
        environment = torch.arange(transitions) % self.agent.environments
        reward, step = torch.zeros(transitions), torch.arange(transitions)
        self.agent.train(Transitions(state, action, next_state, reward, environment, step), self.draws)

    def _transitions(self, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        task = self.agent.task
        state = 0.3 * torch.randn(count, task.state_dim, generator=self.draws)
        action = 2 * torch.rand(count, task.action_dim, generator=self.draws) - 1
        return state, action, state + 0.05 * torch.randn(state.shape, generator=self.draws)


def network_evaluations(agent: Agent) -> int:
    """How often the planner evaluates a network in one control step of one environment."""
    controller, planner = agent.controller.config, cast(Any, agent.controller.planner.config)
    return int(planner.evaluations * controller.particles * controller.horizon)


def share_of_matrix_products(agent: Agent, plan: Cost) -> float:
    """The plan's rate of operations in matrix products over the processor's own, in the planner's precision."""
    likelihood = cast(Any, agent.model.likelihood)  # an ensemble of ours
    operations = 2 * sum(weight[0].numel() for weight in likelihood.weights) * network_evaluations(agent)
    rate = 1e9 * matrix_product_rate(likelihood.planning_dtype, seconds=0.2)
    return operations * agent.environments / plan.cpu / rate


def forwards(agent: Agent, dynamics: Dynamics) -> Callable[[], None]:
    """The plan's forward passes, by this implementation, and nothing else."""
    likelihood, task, controller = agent.model.likelihood, agent.task, agent.controller.config
    planner = cast(Any, agent.controller.planner.config)
    rows = agent.environments * planner.candidates * controller.particles // likelihood.members
    inputs = torch.randn(likelihood.members, rows, task.input_dim)
    latent = torch.randn(likelihood.members, rows, agent.latent_dim)

    @torch.inference_mode()
    def run() -> None:
        for _ in range(planner.iterations * controller.horizon):
            dynamics(inputs, latent)

    return run


@torch.inference_mode()
def rank_correlation(agent: Agent, precision: torch.dtype, candidates: int = 200) -> float:
    """Spearman correlation of the returns of random candidates with those in float64, without noise."""
    likelihood, controller = cast(Any, agent.model.likelihood), agent.controller
    draws = torch.Generator().manual_seed(0)
    horizon, task = controller.config.horizon, agent.task
    state = 0.1 * torch.randn(1, task.state_dim, generator=draws)
    actions = 2 * torch.rand(1, candidates, horizon, task.action_dim, generator=draws) - 1
    latents = torch.randn(1, controller.config.particles, agent.latent_dim, generator=draws)

    def means(inputs: torch.Tensor, latent: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        location, _ = likelihood.for_planning()(inputs, latent)
        return location, torch.zeros_like(location)

    sampler = TrajectorySampler(means, task, likelihood.members, controller.config.particles)
    from scipy.stats import spearmanr  # here, as it takes long

    chosen = likelihood.planning_dtype
    try:
        likelihood.planning_dtype = precision
        ours = sampler.returns(state, actions, latents, draws)
        likelihood.planning_dtype = torch.float32
        likelihood.double()
        exact = sampler.returns(state.double(), actions.double(), latents.double(), draws)
    finally:
        likelihood.float()
        likelihood.planning_dtype = chosen
    return float(spearmanr(ours[0].numpy(), exact[0].numpy()).statistic)


SCALES: dict[str, tuple[int, ...]] = {
    "candidates": (50, 100, 200, 400, 800, 1600),
    "particles": (5, 10, 20, 40, 80),
    "horizon": (4, 8, 15, 30, 60),
    "environments": (1, 2, 4, 8, 16, 32),
    "state": (17, 50, 100),
    "transitions": (10_000, 100_000, 1_000_000),
}
"""Where the cost of a plan is measured, and of a training epoch by the number of transitions; one size at a time."""


def scaling(build: Callable[[str, int], Agent], calls: int) -> Iterator[tuple[str, int, Cost, int | None]]:
    """The cost of a plan as one of its sizes grows, or of a training epoch as its transitions do.

    Args:
        build: an agent with the named size changed.
        calls: how many plans to take the median of; of training epochs one is measured.

    Yields:
        The size's name, its value, the cost, and :func:`peak_memory`, which never falls: the largest work comes last.
    """
    for name, sizes in SCALES.items():
        for size in sizes:
            work = Work(build(name, size))
            if name == "transitions":
                work.train_epoch(100)  # which compiles
                cost = measure(partial(work.train_epoch, size), 1, prepare=False)
            else:
                cost = measure(work.plan, calls)
            yield name, size, cost, peak_memory()


def peak_memory() -> int | None:
    """The most that this process has needed so far, in bytes; None where the system does not say (Windows)."""
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
