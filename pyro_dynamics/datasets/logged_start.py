"""Logged transitions in the place of a training's first round, which would act at random."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyro_dynamics.datasets.family_sizes import require_sizes_of
from pyro_dynamics.datasets.logged_family import DataDescription
from pyro_dynamics.environments import Context, Family
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.environments.contexts import numbers, same_context, sizes_of
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.transitions import Transitions


def logged_start(folder: RunFolder, logged: Family, family: Family) -> Transitions:
    """All transitions of a run, their environments numbered as a family numbers its training contexts.

    Args:
        folder: of a fit, or of a training.
        logged: its own environments.
        family: that is to be trained on.

    Returns:
        The transitions; where no rewards were logged these are the task's.

    Raises:
        UserError: if states, actions or contexts are not those of the family.
    """
    rounds = folder.transitions()
    if not rounds:
        raise UserError(f"{folder.path} holds no transitions to start from")
    rows, task, where = Transitions.concatenate(rounds), family.make_task(), f"{folder.path} for {family.name}"
    require_sizes_of(task, rows, len(logged.train), where)
    rows.require_finite(where)
    found = np.array([_number(family, context) for context in logged.train])
    if sorted(found) != list(range(len(family.train))):
        there, wanted = (" ".join(map(label, contexts)) for contexts in (logged.train, family.train))
        raise UserError(
            f"{folder.path} has transitions of {logged.axis} {there}, and {family.name} trains on {family.axis} "
            f"{wanted}: fit to data of these and no others, or train a family with the contexts of the data"
        )
    described = DataDescription.load(folder.path)
    reward = rows.reward
    if described is not None and not described.rewarded:
        reward = task.reward(rows.state, rows.action, rows.next_state)
    numbered = rows.environment.new_tensor(found)[rows.environment]
    return Transitions(rows.state, rows.action, rows.next_state, reward, numbered, rows.step)


def _number(family: Family, context: Context) -> int:
    """Which training context of a family this is, to seven digits (logs are often float32); -1 if it is none.

    They may be near one another, beside their size, or near 0: the nearest one is it.
    """
    try:
        context = family.parse_context(context)
    except UserError:
        return -1
    if context in family.train:
        return family.train.index(context)
    if isinstance(context, str):
        return -1
    sizes = sizes_of(family.train)
    near = [k for k, own in enumerate(family.train) if same_context(context, own, sizes)]
    return min(near, key=lambda k: _apart(context, family.train[k]), default=-1)


def _apart(first: Context, second: Context) -> float:
    return float(np.abs(np.subtract(numbers(first), numbers(second))).sum())


def outside(data: Transitions, low: np.ndarray, high: np.ndarray) -> str | None:
    """A warning where logged actions lie outside of the bounds ``[A]`` of the environment, which no plan ever does."""
    actions = data.action.numpy()
    slack = 1e-3 * (high - low)
    out = ((actions < low - slack) | (actions > high + slack)).any(1)
    if not out.any():
        return None
    return (
        f"{int(out.sum())} of {len(data)} logged actions lie outside of the bounds {low.tolist()} to {high.tolist()} "
        "of the environment: are they in its unit?"
    )


def start_metrics(data: Transitions, contexts: Sequence[Context]) -> list[dict[str, Any]]:
    """Round 0 of ``metrics.jsonl``: a row for each environment, with the mean return of its logged episodes."""
    owners = [int(data.environment[rows[0]]) for rows in data.episodes()]
    return [
        {
            "round": 0,
            "environment": k,
            "context": context,
            "policy": "logged",
            "return": float(data.reward[data.environment == k].double().sum()) / owners.count(k),
            "episodes": owners.count(k),
            "steps": int((data.environment == k).sum()),
            "latent_mean": None,
            "latent_sd": None,
            "log_likelihood": None,
            "log_likelihood_wrong_latent": None,
        }
        for k, context in enumerate(contexts)
    ]
