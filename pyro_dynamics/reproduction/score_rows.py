"""The rows of ``scores.jsonl`` by seed, context and episode, and the paper's scale for them.

A score is (r - B_k) / (R_k - B_k) in environment k: 0 for a random policy, 1 for the reference.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from xarray import DataArray, concat

from pyro_dynamics.environments.context_text import label
from pyro_dynamics.errors import UserError
from pyro_dynamics.reproduction.results import RANDOM, TRUE_DYNAMICS

Row = Mapping[str, Any]

PAPER_AGENTS = ("latent", "generalist", "specialist")
AGENTS = (*PAPER_AGENTS, "oracle", "oracle-reset", "prior-only", "shuffled", "encoder", TRUE_DYNAMICS)
"""In the order of tables and figures; others come after."""
LAST = 5
"""Rounds at the end of training whose mean is the final return."""
KEYS = ("family", "preset", "agent", "seed", "split", "checkpoint", "context", "episode", "return")


class Scores:
    """The returns of one family.

    Arrays have the dimensions ``seed``, ``context`` and ``episode``, with contexts as text (``-6``), and NaN where
    there is no row. Of rows that agree in all but the return the last one is used.

    Args:
        rows: the lines of ``scores.jsonl``, of this and of other families.
        family: its name.
        reference: another family with the same environments, whose random episodes are used too.

    Raises:
        UserError: a row lacks a key, or the family's rows are from several presets.
    """

    def __init__(self, rows: Iterable[Row], family: str, reference: str | None = None) -> None:
        self.family = family
        self._groups: dict[tuple[str, str, int | None], list[Row]] = defaultdict(list)
        self._order: dict[str, dict[str, Any]] = defaultdict(dict)
        self._best: dict[str, DataArray] = {}
        random: dict[str, list[float]] = defaultdict(list)
        presets = set()
        for row in rows:
            missing = [key for key in KEYS if key not in row]
            if missing:
                raise UserError(f"a row of the scores has no {missing[0]}: {dict(row)}; evaluate that run again")
            if row["agent"] == RANDOM and row["family"] in (family, reference):
                random[label(row["context"])].append(row["return"])
            elif row["family"] == family:
                presets.add(row["preset"])
                self._groups[row["agent"], row["split"], row["checkpoint"]].append(row)
                self._order[row["split"]].setdefault(label(row["context"]), row["context"])
        if len(presets) > 1:
            raise UserError(f"the scores of {family} are of several presets: {', '.join(sorted(presets))}; keep one")
        self.random = {context: float(np.mean(returns)) for context, returns in random.items()}
        """Mean return B_k of the random policy in each context."""

    def agents(self, split: str) -> list[str]:
        """Who has rows of the split, in the order of :data:`AGENTS`; the random policy is not among them."""
        present = {agent for agent, there, _ in self._groups if there == split}
        return [agent for agent in AGENTS if agent in present] + sorted(present - set(AGENTS))

    def checkpoints(self, split: str) -> list[int]:
        """The checkpoints evaluated on the split, in order."""
        return sorted({at for _, there, at in self._groups if there == split and at is not None})

    @property
    def new(self) -> str:
        """The split of contexts that were not trained on, also of a family that trains on two contexts only."""
        return "test" if self.agents("test") else "ablation"

    def contexts(self, split: str) -> dict[str, Any]:
        """The split's contexts by their text: numbers in order, names in the order of the rows."""
        return in_order(self._order[split])

    def returns(self, agent: str, split: str, checkpoint: int | None = None) -> DataArray:
        """Return of each episode, ``[S, K, E]`` over all of the split's contexts."""
        rows = self._groups.get((agent, split, None if agent == TRUE_DYNAMICS else checkpoint), [])
        seeds, contexts = sorted({row["seed"] for row in rows}), list(self.contexts(split))
        episodes = max((row["episode"] for row in rows), default=-1) + 1
        values = np.full((len(seeds), len(contexts), episodes), np.nan)
        for row in rows:
            values[seeds.index(row["seed"]), contexts.index(label(row["context"])), row["episode"]] = row["return"]
        names = {"seed": np.array(seeds, dtype=int), "context": np.array(contexts, dtype=str)}
        return DataArray(values, names, ("seed", "context", "episode"))

    def final(self, agent: str, split: str, checkpoint: int | None = None) -> DataArray:
        """The final return of a run in each context, ``[S, K]``.

        Of training the mean of the last 5 rounds, in the changing environment that of all episodes, in a static test
        the last episode. An unfinished run has NaN.
        """
        returns = self.returns(agent, split, checkpoint)
        if split == "dynamic":
            return returns.mean("episode", skipna=False)
        return returns[..., -LAST if split == "train" else -1 :].mean("episode", skipna=False)

    def best(self, split: str) -> DataArray:
        """R_k of the paper's Fig. 2a, ``[K]``: the best mean over seeds of the paper's agents.

        In training it is the best over rounds, else over checkpoints, of :meth:`final`. Agents that the paper does not
        have (the oracle, say) count only where there is none of the paper's.
        """
        if split not in self._best:
            self._best[split] = self._find_best(split)
        return self._best[split]

    def specialist(self) -> DataArray:
        """R_k of the paper's Fig. 2b, ``[K]``: the specialist's mean over seeds and its last 5 rounds of training."""
        return self.final("specialist", "train").mean("seed")

    def normalised(self, returns: DataArray, reference: DataArray) -> DataArray:
        """Scores (r - B_k) / (R_k - B_k) of returns ``[..., K, ...]``.

        Contexts without a scale are left out: those without a random policy's mean B_k, and those whose reference
        R_k is not above it.
        """
        names = [str(name) for name in reference["context"].values]
        base = _by_context({name: self.random.get(name, np.nan) for name in names})
        reach = (reference - base).where(reference > base).dropna("context")
        return (returns - base.sel(context=reach["context"])) / reach

    def scores(self, agent: str, split: str, checkpoint: int | None = None) -> DataArray:
        """:meth:`final` on the scale of :meth:`best`, ``[S, K]``."""
        return self.normalised(self.final(agent, split, checkpoint), self.best(split))

    def shares(self, agent: str, split: str, checkpoint: int | None = None) -> DataArray:
        """:meth:`final` on the scale where 1 is the mean of the same planner on the true dynamics, ``[S, K]``."""
        ceiling = self.final(TRUE_DYNAMICS, split).mean("seed")
        return self.normalised(self.final(agent, split, checkpoint), ceiling)

    def unscaled(self, split: str) -> list[str]:
        """The split's contexts for which there is no scale."""
        reference = self.best(split)
        scaled = self.normalised(reference, reference)["context"].values
        return [context for context in self.contexts(split) if context not in scaled]

    def _find_best(self, split: str) -> DataArray:
        present = self.agents(split)
        chosen = [agent for agent in PAPER_AGENTS if agent in present] or present
        checkpoints: list[int | None] = [*self.checkpoints(split)] or [None]
        means = [
            self.returns(agent, split).mean("seed").max("episode")
            if split == "train"
            else self.final(agent, split, at).mean("seed")
            for agent in chosen
            for at in checkpoints
        ]
        return concat(means, "model").max("model") if means else _by_context({})


def by_seed(scores: DataArray) -> DataArray:
    """Mean over contexts of each seed, ``[S', ...]``; seeds that lack a context are left out."""
    if not scores.sizes["context"]:
        return scores[:0].sum("context")
    return scores.mean("context", skipna=False).dropna("seed", how="all")


def seed_gains(
    scores: Scores, split: str, checkpoint: int | None = None, agent: str = "latent", other: str = "generalist"
) -> DataArray:
    """Difference in score of two agents, mean over contexts, for each seed that both have, ``[S']``."""
    ours, theirs = (by_seed(scores.scores(one, split, checkpoint)) for one in (agent, other))
    return ours - theirs


def strata(scores: DataArray) -> list[np.ndarray]:
    """The scores ``[S, K]`` as a list of K samples."""
    return list(scores.transpose("context", "seed").values)


def _by_context(numbers: Mapping[str, float]) -> DataArray:
    names = np.array(list(numbers), dtype=str)
    return DataArray(np.array(list(numbers.values()), dtype=float), {"context": names}, ("context",))


def in_order(contexts: Mapping[str, Any]) -> dict[str, Any]:
    """Contexts by their text: in the order of their numbers, names as they come."""
    if any(isinstance(context, str) for context in contexts.values()):
        return dict(contexts)
    return dict(sorted(contexts.items(), key=lambda item: tuple(np.atleast_1d(item[1]))))


def all_checkpoints(scores: Scores, splits: Sequence[str] = ("test", "dynamic")) -> list[int]:
    """The checkpoints of several splits together."""
    return sorted({at for split in splits for at in scores.checkpoints(split)})
