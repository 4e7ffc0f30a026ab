"""Rows of a made-up reproduction with a known effect, for the tests of its figures and claims."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

TRAINED, NEW = (-12.0, -6.0, 0.0, 6.0, 12.0), (-15.0, -9.0, -3.0, 3.0, 9.0, 15.0)
CHECKPOINTS = (2, 5, 8)
SCHEDULE = "0:-6,100:6"


def score_rows(
    speeds: Mapping[str, float],
    seeds: int = 5,
    noise: float = 5.0,
    gain_at_extremes: float = 0.0,
    family: str = "tilt",
) -> list[dict[str, Any]]:
    """Every agent's return rises from the random policy's to the same level, by its speed of learning.

    Args:
        speeds: of each agent, per round.
        seeds: number of seeds, whose noise is their own.
        noise: standard deviation of a return; a share of it is common to the agents of a seed.
        gain_at_extremes: what the latent agent has more at the outermost tests, whatever it has learned.
        family: name; the ablation's is the same with -6.
    """
    rng = np.random.default_rng(0)
    rows = [
        row(family, "random", 0, split, None, context, episode, base(context) + rng.normal(0, 10))
        for split, contexts in (("train", TRAINED), ("test", NEW), ("dynamic", (SCHEDULE,)))
        for context in contexts
        for episode in range(50)
    ]
    for seed in range(seeds):
        for split, checkpoint, context, episode, learned in plan():
            common = rng.normal(0, 2 * noise)
            for agent, speed in speeds.items():
                extreme = gain_at_extremes * (agent == "latent" and context in (-15.0, 15.0))
                flat = split == "test" and context in (-15.0, 15.0)
                level = 500 * (1 - np.exp(-(1.0 if flat else speed) * learned)) + extreme
                value = base(context) + level + common + rng.normal(0, noise)
                name = f"{family}-6" if split == "ablation" else family
                rows.append(row(name, agent, seed, split, checkpoint, context, episode, value))
    return rows


def plan() -> Iterator[tuple[str, int | None, Any, int, int]]:
    """Split, checkpoint, context, episode, and the rounds learned before it."""
    yield from (("train", None, context, episode, episode) for context in TRAINED for episode in range(9))
    for at in CHECKPOINTS:
        yield from (("test", at, context, episode, at + episode) for context in NEW for episode in range(3))
        yield from (("dynamic", at, SCHEDULE, episode, at + episode) for episode in range(5))
    yield from (("ablation", 8, context, episode, 8) for context in TRAINED + NEW for episode in range(2))


def base(context: Any) -> float:
    """The random policy's return."""
    return -60.0 if isinstance(context, str) else 10 * context - 60


def row(
    family: str, agent: str, seed: int, split: str, checkpoint: int | None, context: Any, episode: int, value: float
) -> dict[str, Any]:
    """A line of ``scores.jsonl``."""
    keys = ("family", "preset", "agent", "seed", "split", "checkpoint", "context", "episode", "return")
    return dict(zip(keys, (family, "cpu", agent, seed, split, checkpoint, context, episode, value), strict=True))


def latent_rows(
    place: Mapping[float, float] | None = None, seeds: int = 5, noise: float = 0.02, dimensions: int = 2
) -> list[dict[str, Any]]:
    """Latents on a line through the origin that each seed turns as it likes.

    Args:
        place: where each context lies on the line; at a tenth of it by default.
        seeds: number of seeds.
        noise: standard deviation across and along the line.
        dimensions: d.
    """
    rng = np.random.default_rng(1)
    where = place or {context: context / 10 for context in TRAINED + NEW}
    rows = []
    for seed in range(seeds):
        line = rng.normal(size=dimensions)
        line /= np.linalg.norm(line)
        for split, contexts, rounds in (("train", TRAINED, range(1, 9)), ("test", NEW, CHECKPOINTS)):
            for at in rounds:
                for context in contexts:
                    mean = where[context] * line * (1 - np.exp(-at)) + rng.normal(0, noise, dimensions)
                    rows.append(
                        {
                            **{"family": "tilt", "preset": "cpu", "agent": "latent", "seed": seed, "split": split},
                            **{"checkpoint": at, "context": context, "mean": mean.tolist(), "sd": [noise] * dimensions},
                        }
                    )
    return rows


def of_seeds(rows: Sequence[Mapping[str, Any]], *seeds: int) -> list[Mapping[str, Any]]:
    """The rows of some seeds, and the random policy's."""
    return [one for one in rows if one["seed"] in seeds or one["agent"] == "random"]
