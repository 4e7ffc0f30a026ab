"""Fewer transitions, evenly spread, and whole episodes."""

import torch

from pyro_dynamics.diagnostics.thinning import thinned, thinned_episodes, thinning_note
from pyro_dynamics.transitions import Transitions


def log(lengths: list[tuple[int, int]]) -> Transitions:
    """Episodes: the environment and the number of steps of each; states count through."""
    parts = []
    for number, (k, steps) in enumerate(lengths):
        states = torch.arange(steps + 1.0)[:, None] + 1000 * number
        whole = torch.zeros(steps, dtype=torch.long)
        action, reward = torch.zeros(steps, 1), torch.zeros(steps)
        parts.append(Transitions(states[:-1], action, states[1:], reward, whole + k, torch.arange(steps)))
    return Transitions.concatenate(parts)


DATA = log([(0, 10)] * 20 + [(1, 10)] * 20)


def test_each_environment_has_an_equal_part_from_first_to_last() -> None:
    few = thinned(DATA, 2, 40)
    assert few.environment.bincount().tolist() == [20, 20]
    assert float(few.state[0]) == 0.0
    assert float(few.state[-1]) == 39009.0
    assert thinned(DATA, 2, 0) is DATA
    assert thinned(DATA, 2, 400) is DATA


def test_episodes_stay_whole() -> None:
    few = thinned_episodes(DATA, 2, 60)
    assert [len(rows) for rows in few.episodes()] == [10] * 6
    assert few.environment.bincount().tolist() == [30, 30]
    assert float(few.state[-10]) == 39000.0
    assert thinned_episodes(DATA, 2, 400) is DATA


def test_an_episode_that_is_longer_than_all_that_is_taken_is_cut() -> None:
    few = thinned_episodes(log([(0, 500), (1, 5), (1, 5)]), 2, 100)
    assert few.environment.bincount().tolist() == [50, 10]
    assert few.step[:50].tolist() == list(range(50))


def test_the_note_says_what_was_left_out() -> None:
    assert thinning_note((DATA, DATA), (DATA, DATA)) == ""
    note = thinning_note((DATA, DATA), (thinned(DATA, 2, 40), thinned_episodes(DATA, 2, 60)))
    assert "of 400 transitions that were trained on 40 are taken" in note
    assert "of 400 held-out transitions 60 are predicted" in note
