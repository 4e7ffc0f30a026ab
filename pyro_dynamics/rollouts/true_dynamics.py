"""The planner on the real simulator as its model: what planning could reach if nothing had to be learned."""

from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import SyncVectorEnv
from torch import Tensor

from pyro_dynamics.control import Planner
from pyro_dynamics.control.contract import in_units
from pyro_dynamics.environments import Context, Family
from pyro_dynamics.environments.hidden_parameter import hidden_parameter
from pyro_dynamics.environments.layers import layers
from pyro_dynamics.environments.schedule import Schedule, ScheduledContext
from pyro_dynamics.environments.state_copy import put_where
from pyro_dynamics.rollouts.rollout import Policy
from pyro_dynamics.tasks import Task


class Simulator:
    """Copies of K environments in their episodes, under contexts that a planner takes for true.

    They copy random streams too: of an environment with noise the planner foresees the noise.

    Args:
        family: of the environments.
        contexts: what is taken for true in each, ``[K]``; :func:`believe` changes it in one of the copies.
        max_steps: of an episode.
        threads: on which MuJoCo steps the copies, where that is possible.
    """

    def __init__(self, family: Family, contexts: Sequence[Context], max_steps: int, threads: int = 1) -> None:
        self.task: Task = family.make_task()
        self.copies = [family.make(context, max_steps) for context in contexts]
        for one in self.copies:
            one.reset(seed=0)
        self.threads = threads

    def returns(self, live: Sequence[gymnasium.Env], actions: Tensor) -> Tensor:
        """Sums of rewards from where the environments stand, until the horizon or the episode's end.

        Args:
            live: the K environments, which are left as they are.
            actions: candidates in the environment's units, ``[K, C, H, A]``.

        Returns:
            ``[K, C]``.
        """
        parts = zip(self.copies, live, actions.double().numpy(), strict=True)
        return torch.stack([self._of_one(clone, original, candidates) for clone, original, candidates in parts])

    def _of_one(self, clone: gymnasium.Env, original: gymnasium.Env, candidates: np.ndarray) -> Tensor:
        put_where(clone, original)
        if hasattr(clone.unwrapped, "path_observations") and not self.task.can_terminate:
            return self._in_one_call(clone.unwrapped, candidates)
        space: Any = clone.action_space
        returns = []
        for sequence in candidates:
            put_where(clone, original)
            returns.append(sum(_rewards(clone, np.clip(sequence, space.low, space.high).astype(space.dtype))))
        return torch.tensor(returns, dtype=torch.float32)

    def _in_one_call(self, inner: Any, candidates: np.ndarray) -> Tensor:
        """All candidates by MuJoCo's own loop, and rewards by the task: the same to rounding."""
        paths = mujoco_paths(inner, candidates, self.threads)
        state = torch.from_numpy(paths)
        action = torch.from_numpy(candidates)
        rewards = self.task.reward(state[:, :-1], action, state[:, 1:])
        return rewards.sum(1).float()


def believe(env: gymnasium.Env, context: Context) -> None:
    """Give an environment another context from now on, whatever it was made with."""
    for layer in layers(env):
        if isinstance(layer, ScheduledContext):  # which would return to what it was made with
            layer.schedule = Schedule.constant(context)
    hidden_parameter(env).set_context(context)


def _rewards(env: gymnasium.Env, actions: np.ndarray) -> Iterator[float]:
    """Until the episode ends."""
    for action in actions:
        _, reward, terminated, truncated, _ = env.step(action)
        yield float(reward)
        if terminated or truncated:
            return


def mujoco_paths(inner: Any, actions: np.ndarray, threads: int = 1) -> np.ndarray:
    """Observations along paths from where a MuJoCo environment stands.

    Args:
        inner: the environment itself, with ``path_observations``; it is left as it is.
        actions: ``[C, H, A]``.
        threads: on which to step.

    Returns:
        ``[C, H + 1, S]``, the first of which is where it stands.
    """
    import mujoco  # here, as few need it
    from mujoco import rollout

    model, data, count = inner.model, inner.data, len(actions)
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    start = np.empty(mujoco.mj_stateSize(model, kind))
    mujoco.mj_getState(model, data, start, kind)
    control = np.repeat(actions, inner.frame_skip, axis=1)
    workers = [mujoco.MjData(model) for _ in range(threads)]
    warm = np.tile(data.qacc_warmstart, (count, 1))
    found, _ = rollout.rollout(model, workers, np.tile(start, (count, 1)), control, initial_warmstart=warm)
    first = np.broadcast_to(start, (count, 1, len(start)))
    states = np.concatenate([first, found[:, inner.frame_skip - 1 :: inner.frame_skip]], 1)
    positions = states[..., 1 : 1 + model.nq]
    velocities = states[..., 1 + model.nq : 1 + model.nq + model.nv]
    return inner.path_observations(positions, velocities)


def planning(
    simulator: Simulator, envs: SyncVectorEnv, planner: Planner, horizon: int, generator: torch.Generator
) -> Policy:
    """The first actions of plans that are made in the simulator from where the environments stand."""
    space: Any = envs.single_action_space
    low, high = (torch.as_tensor(bound, dtype=torch.float32) for bound in (space.low, space.high))
    planner.choices = simulator.task.choices

    def policy(state: Tensor) -> Tensor:
        def returns(candidates: Tensor) -> Tensor:
            return simulator.returns(envs.envs, in_units(candidates, low, high))

        plan = planner.plan(lambda: returns, (len(state), horizon, len(low)), generator)
        return in_units(plan[:, 0], low, high).clamp(low, high)

    return policy
