"""What the planner reaches with the true dynamics: the ceiling of a family, and how much a known context is worth.

An agent whose model is the simulator itself is given the true context, the nominal one, or a wrong one, or fits it by
least squares (system identification). With the true one its return is the ceiling of what the planner could do; what it
loses with the nominal one is all that an agent could gain by inferring the context, before anything is trained.
"""

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Literal, get_args

from pyro_dynamics.benchmarks.recording import Row
from pyro_dynamics.benchmarks.returns import with_interval
from pyro_dynamics.environments import Context, Family
from pyro_dynamics.environments.nominal import farthest, nominal_context
from pyro_dynamics.io.tables import markdown_table
from pyro_dynamics.rollouts.simulator_episode import Search, episode, episode_returns

Given = Literal["true", "nominal", "wrong", "identified"]
"""Which context the planner takes for true: a wrong one is the trained one that is farthest from the true one, and one
that is identified is fitted to the last transitions."""
CONTEXTS: tuple[Given, ...] = ("true", "nominal", "wrong")
"""Those that cost nothing but the plans."""


def given_contexts(family: Family, contexts: Sequence[Context], given: Given) -> list[Context] | None:
    """What the planner takes for true in environments of these contexts; None where it fits them."""
    if given == "identified":
        return None
    if given == "nominal":
        return [nominal_context(family)] * len(contexts)
    return [context if given == "true" else farthest(context, family.train) for context in contexts]


def returns(
    family: Family, contexts: Sequence[Context], given: Given, seed: int, search: Search, on_step: Callable[[], object]
) -> list[float]:
    """The return in each context, ``[K]``."""
    steps = episode(family, contexts, given_contexts(family, contexts, given), search, seed)
    return [float(value) for value in episode_returns(steps, on_step)]


def table(rows: Sequence[Row]) -> str:
    """A line for each family and set of contexts, as Markdown; the interval after +- is Student's 95 % over seeds.

    Args:
        rows: one for each family, set, seed and kind of context given, with ``returns`` by context.
    """
    kinds = [given for given in get_args(Given) if any(row["given"] == given for row in rows)]
    lines = []
    for family, name in dict.fromkeys((row["family"], row["set"]) for row in rows):
        here = [row for row in rows if (row["family"], row["set"]) == (family, name)]
        by_seed = {kind: {row["seed"]: mean(row["returns"]) for row in here if row["given"] == kind} for kind in kinds}
        seeds = [seed for seed in by_seed[kinds[0]] if all(seed in part for part in by_seed.values())]
        cells = [with_interval([by_seed[kind][seed] for seed in seeds]) for kind in kinds]
        if {"true", "nominal"} <= set(kinds):
            cells.append(with_interval([by_seed["true"][seed] - by_seed["nominal"][seed] for seed in seeds], "+.1f"))
        lines.append([family, name, str(len(seeds)), *cells])
    worth = ["worth: true less nominal"] * ({"true", "nominal"} <= set(kinds))
    return markdown_table(["family", "contexts", "seeds", *kinds, *worth], lines)
