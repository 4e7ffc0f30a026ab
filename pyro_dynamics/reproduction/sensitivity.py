"""The variance of the next steps explained by a hidden parameter, measured in the simulator, without any learning.

The same state and action are simulated under each of the K training contexts c, for n visited states. With y[i, c] the
task's target h steps later, under the recorded actions, the influence of the context on a target is the share of its
variance that state and actions do not explain:

    influence = mean_i Var_c y[i, c]  /  Var_{i,c} y[i, c]        in [0, 1]

That is Sobol's total-effect index of the context (Homma and Saltelli, 1996), by the law of total variance, with every
context equally likely in every state. A model that is given state and actions but not the context
has at least this share of the variance as its mean squared error, however well it is trained; where it is 0 no latent
can help.

Limitations: it says nothing about returns, nor about how easily the context is inferred. One step is little: a small
effect of the same sign adds up over a planner's horizon, so the influence h steps later is reported too. After many
steps it includes chaotic amplification (contacts, falls) of small differences. A target that is an angle wraps after
half a turn, which a pendulum may make in ten steps.
"""

import math
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor

from pyro_dynamics.datasets.logged_family import FILE, NO_SIMULATOR
from pyro_dynamics.environments import Family, find_family
from pyro_dynamics.environments.checked_env import limit_steps
from pyro_dynamics.environments.state_copy import check_copies, put_where
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.rollouts.rollout import rollout, uniform_policy
from pyro_dynamics.rollouts.training import record
from pyro_dynamics.seeding import derive_generator, derive_seed
from pyro_dynamics.transitions import Transitions

HORIZONS = (1, 10)
"""One step, and some way to the end of a plan."""
FEWEST = 10
"""With fewer states a variance is meaningless."""
MOST_ROUNDS = 50
"""Of random episodes, where they end early."""


def influence_of(
    family: Family | str,
    states: int = 200,
    steps: int = 200,
    horizons: Sequence[int] = HORIZONS,
    seed: int = 0,
    step_limit: float | None = None,
) -> dict[str, Any]:
    """The influence of a family's context on the next steps, in states visited by random actions.

    Args:
        family: or its name.
        states: number n of visited states to use, drawn at random; fewer where fewer were visited.
        steps: of the random episodes in every training context that visit them: one each, or more where they end early.
        horizons: numbers h of steps.
        seed: names the random streams.
        step_limit: seconds that a step of an environment may take.

    Returns:
        Plain data, see :func:`summary`.

    Raises:
        UserError: if too few episodes are as long as the longest horizon, or a state cannot be copied in mid-episode.

    Example:
        >>> found = influence_of("pendulum-gravity", states=50)
        >>> found["horizons"][0]["largest"]["target"]
        'change of angular velocity (rad/s)'
    """
    family = find_family(family) if isinstance(family, str) else family
    data, seeds = random_play(family, states, steps, max(horizons), seed, step_limit)
    return {"actions": "random", **_measured(family, data, seeds, states, steps, horizons, seed, step_limit)}


def influence_in_run(
    folder: RunFolder, m: int | None = None, states: int = 200, horizons: Sequence[int] = HORIZONS, seed: int = 0
) -> dict[str, Any]:
    """The same in states visited by the planner of a run in round ``m``, the last one by default.

    Its episodes are replayed, from the seeds of their resets and the stored actions.

    Raises:
        UserError: also if the run has no such round or no simulator, or if its episodes are not reproduced here.
    """
    if (folder.path / FILE).is_file():
        raise UserError(NO_SIMULATOR)
    rounds, config = folder.transitions(), folder.config
    m = len(rounds) - 1 if m is None else m
    if not 0 <= m < len(rounds):
        raise UserError(f"{folder.path} has no round {m}: it has {len(rounds)} rounds, from 0 on")
    family = find_family(config["family"])
    seeds = [derive_seed(config["seed"], "round", m, "reset", i) for i in range(len(rounds[m].episodes()))]
    found = _measured(family, rounds[m], seeds, states, config["steps"], horizons, seed)
    return {"actions": f"round {m} of {folder.path}", **found}


def random_play(
    family: Family, states: int, steps: int, horizon: int, seed: int, step_limit: float | None = None
) -> tuple[Transitions, list[int]]:
    """Random episodes in every training context, and the seed of each one's reset.

    As many as needed to visit ``states`` states with ``horizon`` steps after them, up to a maximum.
    """
    envs = family.make_vector(family.train, steps)
    limit_steps(envs, step_limit)
    space: Any = envs.single_action_space
    draws = derive_generator(seed, "influence", "actions")
    policy = uniform_policy(space, envs.num_envs, draws)
    parts: list[Transitions] = []
    seeds: list[int] = []
    for m in range(MOST_ROUNDS):
        resets = [derive_seed(seed, "influence", m, "reset", k) for k in range(envs.num_envs)]
        parts.append(record(list(rollout(envs, policy, resets)), torch.arange(envs.num_envs)))
        seeds += resets
        if sum(len(_rows_with_future(part, horizon)) for part in parts) >= states:
            break
    envs.close()
    return Transitions.concatenate(parts), seeds


def _rows_with_future(data: Transitions, horizon: int) -> Tensor:
    """Rows of the states after which their episode has ``horizon`` steps."""
    return torch.cat([episode[: max(0, len(episode) - horizon + 1)] for episode in data.episodes()])


def _measured(
    family: Family,
    data: Transitions,
    seeds: Sequence[int],
    states: int,
    steps: int,
    horizons: Sequence[int],
    seed: int,
    step_limit: float | None = None,
) -> dict[str, Any]:
    rows = _rows_with_future(data, max(horizons))
    if len(rows) < FEWEST:
        raise UserError(
            f"{len(rows)} states of {family.name} were visited {max(horizons)} steps before the end of an episode, and "
            f"{FEWEST} is the least: choose shorter horizons"
        )
    chosen = torch.randperm(len(rows), generator=derive_generator(seed, "influence", "states"))[:states]
    wanted = rows[chosen].sort().values.tolist()
    targets = crossed_targets(family, data, seeds, wanted, steps, horizons, step_limit)
    return {
        "family": family.name,
        "contexts": list(family.train),
        "states": len(targets),
        "horizons": [
            {"steps": h, **summary(targets[:, i], family.make_task().target_names)} for i, h in enumerate(horizons)
        ],
    }


def summary(targets: Tensor, names: Sequence[str] = ()) -> dict[str, Any]:
    """The influence of contexts on targets.

    Args:
        targets: of n states under K contexts, ``[n, K, T]``.
        names: of the T targets.

    Returns:
        ``targets``: for each its ``influence`` (None if it never changes) and ``spread``, the standard deviation over
        contexts in the target's unit (root mean square over states); ``influence``: the mean over those that change;
        ``root``: its square root; ``largest``: the target with the largest.
    """
    between = targets.var(1, correction=0).mean(0)
    total = targets.flatten(0, 1).var(0, correction=0)
    changes = total > 1e-20 * (1 + targets.square().mean((0, 1)))  # more than rounding
    rows = [
        {
            "target": names[j] if names else str(j),
            "influence": float(between[j] / total[j]) if changes[j] else None,
            "spread": math.sqrt(between[j]),
        }
        for j in range(len(total))
    ]
    moving = [row for row in rows if row["influence"] is not None]
    mean = sum(row["influence"] for row in moving) / max(1, len(moving))  # type: ignore[misc]
    largest = max(moving, key=lambda row: row["influence"], default=None)  # type: ignore[arg-type, return-value]
    return {"influence": mean, "root": math.sqrt(mean), "largest": largest, "targets": rows}


def crossed_targets(
    family: Family,
    data: Transitions,
    seeds: Sequence[int],
    rows: Sequence[int],
    steps: int,
    horizons: Sequence[int],
    step_limit: float | None = None,
) -> Tensor:
    """Targets from the states of some rows under every training context, with the actions that were taken there.

    Args:
        family: of the episodes.
        data: whole episodes in the family's training contexts, in the order of ``seeds``.
        seeds: of the reset of each episode.
        rows: of the states, each with as many steps of its episode left as the longest horizon, its own included.
        steps: limit of an episode.
        horizons: numbers h of steps, each at least 1.
        step_limit: seconds that a step of an environment may take.

    Returns:
        ``[n, H, K, T]`` for n rows in the order of their episodes.

    Raises:
        UserError: if the episodes are not reproduced as stored, or a state cannot be copied in mid-episode.
    """
    if min(horizons) < 1:
        raise UserError(f"a horizon has 1 step or more, not {min(horizons)}")
    originals, clones = ([family.make(context, steps) for context in family.train] for _ in range(2))
    limit_steps([*originals, *clones], step_limit)
    for k, clone in enumerate(clones):
        check_copies(clone, originals[k - 1], originals[k])
        clone.reset(seed=0)
    wanted, task, found = set(rows), family.make_task(), []
    for episode, reset_seed in zip(data.episodes(), seeds, strict=True):
        own = int(data.environment[episode[0]])
        original, actions = originals[own], data.action[episode]
        observation, _ = original.reset(seed=reset_seed)
        for t, row in enumerate(episode.tolist()):
            _require_same(family, observation, data.state[row], row)
            paths = None
            if row in wanted:
                paths = torch.stack([_path(clone, original, actions[t : t + max(horizons)]) for clone in clones], 1)
                later = paths[torch.tensor(horizons) - 1]  # [H, K, S]
                found.append(task.targets(torch.as_tensor(observation, dtype=torch.float64).expand_as(later), later))
            observation, *_ = original.step(_of_its_space(original, actions[t]))
            _require_same(family, observation, data.next_state[row], row)
            if paths is not None and not np.array_equal(paths[0, own].numpy(), observation):
                raise UserError(
                    f"an environment of {family.name} cannot be copied in mid-episode: a copy with the same context "
                    "diverges. Its state must be numbers, arrays or a simulator of MuJoCo"
                )
    for env in (*originals, *clones):
        env.close()
    return torch.stack(found)


def _path(clone: gymnasium.Env, original: gymnasium.Env, actions: Tensor) -> Tensor:
    """The states of ``clone`` starting from the state of ``original``, ``[H, S]``."""
    put_where(clone, original)
    observations = [clone.step(_of_its_space(clone, action))[0] for action in actions]
    return torch.as_tensor(np.array(observations), dtype=torch.float64)


def _of_its_space(env: gymnasium.Env, action: Tensor) -> np.ndarray:
    """An action ``[A]`` as the environments got it in training."""
    space: Any = env.action_space
    return np.clip(action.numpy().astype(space.dtype), space.low, space.high)


def _require_same(family: Family, observation: np.ndarray, stored: Tensor, row: int) -> None:
    if not torch.equal(torch.as_tensor(observation, dtype=torch.float32), stored):
        raise UserError(
            f"replayed, an episode of {family.name} differs from the stored one at row {row}: it was "
            "recorded with another version of the family or of its simulator"
        )
