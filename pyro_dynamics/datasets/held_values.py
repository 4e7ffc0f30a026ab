"""Sensors that are slower than a log: their values stay for several rows, and then change."""

from collections import Counter

import numpy as np

from pyro_dynamics.unusual_numbers import listed

FEWEST = 20
"""So many changes say how often an entry changes."""
REGULAR = 0.9
"""If so large a share of them come after the same number of rows."""


def held_values(state: np.ndarray, next_state: np.ndarray, episode: np.ndarray) -> str:
    """A warning where entries of the state change in every second, third, ... row alone; else nothing.

    Then most rows hold two states that are the same, whatever was done. What stands still, or is rounded, changes after
    any number of rows.

    Args:
        state: ``[N, S]``, the rows of each episode in the order of time.
        next_state: ``[N, S]``.
        episode: of each row, ``[N]``.
    """
    order = episode.argsort(kind="stable")
    changed, numbers = (next_state != state)[order], episode[order]
    found: dict[int, list[int]] = {}
    for entry in range(state.shape[1]):
        rows = np.flatnonzero(changed[:, entry])
        apart = np.diff(rows)[numbers[rows[1:]] == numbers[rows[:-1]]]
        if len(apart) < FEWEST:
            continue
        every, often = Counter(apart.tolist()).most_common(1)[0]
        if every > 1 and often >= REGULAR * len(apart):
            found.setdefault(every, []).append(entry)
    parts = [f"{listed([f'state {one}' for one in entries])} in one row of {every}" for every, entries in found.items()]
    if not parts:
        return ""
    every = max(found)
    return (
        f"entries change in some rows alone, again and again: {'; '.join(parts)}: a sensor that is slower than the log "
        f"holds its value in between, and a network learns that nothing happens there: keep one row of {every}, if the "
        "action stays the same for as long, or log what is measured in every step"
    )
