"""Fewer transitions to judge a run by, where it has more than anyone waits for."""

from collections.abc import Sequence

import torch

from pyro_dynamics.diagnostics.posterior.datatree import evenly_spread
from pyro_dynamics.transitions import Transitions


def thinned(data: Transitions, environments: int, rows: int) -> Transitions:
    """Up to ``rows`` transitions, an equal number of each environment, evenly spread from first to last.

    Args:
        data: N transitions of K environments.
        environments: K.
        rows: the most; 0 takes all.

    Raises:
        UserError: if an environment has no row.
    """
    if not 0 < rows < len(data):
        return data
    return data.select(evenly_spread(data.environment, environments, max(1, rows // environments)))


def thinned_episodes(data: Transitions, environments: int, rows: int) -> Transitions:
    """The same of whole episodes, and of one that is longer than an environment's part its first steps."""
    if not 0 < rows < len(data):
        return data
    part, found = max(1, rows // environments), []
    by_environment: list[list[torch.Tensor]] = [[] for _ in range(environments)]
    for episode in data.episodes():
        by_environment[int(data.environment[episode[0]])].append(episode)
    for episodes in by_environment:
        mean = sum(map(len, episodes)) / max(len(episodes), 1)
        count = min(len(episodes), max(1, round(part / max(mean, 1))))
        chosen = [episodes[i] for i in torch.linspace(0, len(episodes) - 1, count).long().tolist()] if count else []
        found += [torch.cat(chosen)[:part]] if chosen else []
    return data.select(torch.cat(found).sort().values)


def thinning_note(whole: Sequence[Transitions], taken: Sequence[Transitions]) -> str:
    """What is left out of the transitions trained on, and of the held-out ones, in words; empty if nothing is."""
    (trained, held_out), (few, episodes) = ([len(part) for part in parts] for parts in (whole, taken))
    notes = []
    if few < trained:
        notes.append(
            f"of {trained} transitions that were trained on {few} are taken, evenly spread: what is judged is not the "
            "run's own posterior, but what the same guide and objective make of these (--rows 0 takes all)"
        )
    if episodes < held_out:
        notes.append(f"of {held_out} held-out transitions {episodes} are predicted, in whole episodes")
    return "; ".join(notes)
