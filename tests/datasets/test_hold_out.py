"""What a fit holds out: whole episodes, in whatever order the rows come."""

from typing import Any

import numpy as np
import pytest
import torch
from logged_pendulums import pendulum_log

from pyro_dynamics.datasets.fitting import hold_out
from pyro_dynamics.datasets.logged_data import LoggedData
from pyro_dynamics.datasets.sources import read_data
from pyro_dynamics.errors import UserError

LOG = pendulum_log((2.0, 10.0), episodes=10, steps=30)
ROWS = len(LOG["step"])
RNG = np.random.default_rng(0)
SHUFFLED = RNG.permutation(ROWS)


def select(rows: Any, arrays: dict[str, np.ndarray] = LOG, without: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    return {name: array[rows] for name, array in arrays.items() if name not in without}


def noisy() -> dict[str, np.ndarray]:
    """Next states as another sensor measures them."""
    return {**LOG, "next_state": LOG["next_state"] + 1e-3 * RNG.normal(size=LOG["next_state"].shape).astype(np.float32)}


def held_out(arrays: dict[str, Any], share: float = 0.2) -> tuple[LoggedData, torch.Tensor]:
    data = read_data(arrays, "gravity")
    return data, hold_out(data, share, 0)


@pytest.mark.parametrize(
    "arrays",
    [
        LOG,
        select(SHUFFLED),
        select(SHUFFLED, without=("step",)),
        select(SHUFFLED[: ROWS * 7 // 10]),
        select(np.sort(SHUFFLED[: ROWS * 7 // 10]), without=("step",)),
        noisy(),
        select(SHUFFLED, noisy()),
    ],
    ids=["as logged", "shuffled", "no steps", "rows missing", "rows missing, no steps", "noisy", "noisy and shuffled"],
)
def test_a_fifth_is_held_out_in_whole_episodes(arrays: dict[str, np.ndarray]) -> None:
    data, kept = held_out(arrays)
    for k in (0, 1):
        own = data.transitions.environment == k
        assert 0.15 < float(kept[own].float().mean()) < 0.25
        episodes = data.episode[own]
        assert len(episodes.unique()) == 10
        assert set(episodes[kept[own]].tolist()).isdisjoint(episodes[~kept[own]].tolist())


def test_shuffled_rows_are_put_in_the_order_of_their_steps() -> None:
    wanted = read_data(LOG, "gravity").transitions
    found = read_data(select(SHUFFLED), "gravity").transitions
    assert sorted(map(tuple, found.state.tolist())) == sorted(map(tuple, wanted.state.tolist()))
    assert [len(rows) for rows in found.episodes()] == [30] * 20


def test_steps_alone_tell_episodes_of_measured_next_states() -> None:
    arrays = {name: array for name, array in noisy().items() if name != "episode"}
    data, kept = held_out(arrays)
    assert len(data.episode.unique()) == 20
    assert int(kept.sum()) == 4 * 30


def test_a_long_episode_among_short_ones_is_not_held_out_whole() -> None:
    lengths = [200, *[1] * 100]
    episode, step = np.repeat(np.arange(101), lengths), np.concatenate([np.arange(n) for n in lengths])
    parts = {
        "state": RNG.normal(size=(300, 2)),
        "action": RNG.normal(size=(300, 1)),
        "next_state": RNG.normal(size=(300, 2)),
    }
    one = {**parts, "episode": episode, "step": step}
    both = {name: np.concatenate([array, array]) for name, array in one.items()}
    data, kept = held_out({**both, "gravity": np.repeat([1.0, 2.0], 300)})
    assert float(kept.float().mean()) == pytest.approx(0.2, abs=0.01)
    long = torch.bincount(data.episode)[data.episode] == 200
    assert int(kept[long].sum()) == 80  # the last fifth of each


@pytest.mark.parametrize("seed", range(6))
def test_of_a_long_and_a_short_episode_most_is_trained_on(seed: int) -> None:
    long = (LOG["episode"] == 0) | ((LOG["episode"] == 1) & (LOG["step"] < 22))
    arrays = select(long & (LOG["gravity"] < 5))
    many = {name: np.concatenate([array[:30]] * 10 + [array[30:]]) for name, array in arrays.items()}
    many |= {"episode": np.repeat([0, 1], [300, 22]), "step": np.concatenate([np.arange(300), np.arange(22)])}
    data = read_data(many, "gravity")
    assert hold_out(data, 0.2, seed).float().mean() < 0.3


def test_episodes_of_one_row_that_the_log_names_are_taken() -> None:
    arrays = {**LOG, "episode": np.arange(ROWS), "step": np.zeros(ROWS, dtype=int)}
    data, kept = held_out(arrays)
    assert len(data.transitions) == ROWS  # and none was taken for one that leads into the next
    assert int(kept.sum()) == ROWS // 5
    with pytest.raises(UserError, match="every episode has length 1"):
        held_out(select(np.arange(ROWS)[::-1], without=("step", "episode")))


def test_an_environment_with_far_fewer_rows_has_its_own_share() -> None:
    few = (LOG["gravity"] < 5) | (LOG["episode"] < 1)
    data, kept = held_out(select(few))
    own = data.transitions.environment == 1
    assert (int(own.sum()), int(kept[own].sum())) == (30, 6)
    with pytest.raises(UserError, match="gravity 10 has 6 transitions: each environment needs 10 or more"):
        held_out(select((LOG["gravity"] < 5) | ((LOG["episode"] < 1) & (LOG["step"] < 6))))
