"""Logs of pendulums under several gravities, for the tests of what reads logs."""

from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

SMALL = [
    *("--ensemble.hidden", "32", "--ensemble.members", "2", "--ensemble.weight-decay", "1e-5", "1e-5"),
    *("--offline.min-steps", "600", "--offline.epochs", "1"),
]


def pendulum_log(
    gravities: tuple[float, ...], episodes: int = 4, steps: int = 40, masses: tuple[float, ...] = (1.0,)
) -> dict[str, np.ndarray]:
    """Arrays as somebody would log them, under random actions; with a column of masses where there are several."""
    rng = np.random.default_rng(0)
    rows: list[tuple[Any, ...]] = []
    for gravity, mass in product(gravities, masses):
        env: Any = gymnasium.make("Pendulum-v1", g=gravity)
        env.unwrapped.m = mass
        for episode in range(episodes):
            state, _ = env.reset(seed=episode)
            for step in range(steps):
                action = rng.uniform(-2, 2, 1).astype(np.float32)
                next_state, reward, *_ = env.step(action)
                rows.append((state, action, next_state, reward, step, episode, gravity, mass))
                state = next_state
    names = ("state", "action", "next_state", "reward", "step", "episode", "gravity", "mass")
    arrays = dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
    return arrays if len(masses) > 1 else {name: arrays[name] for name in names[:-1]}


def saved(file: Path, arrays: dict[str, np.ndarray]) -> Path:
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file
