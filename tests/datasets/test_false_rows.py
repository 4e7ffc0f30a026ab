"""Rows that are no transitions, of vector environments' resets and of padding, are left out; true ones stay."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from pyro_dynamics.datasets.log import Log
from pyro_dynamics.datasets.log_arrays import ColumnNames, log_of_arrays
from pyro_dynamics.errors import UserError

FRICTIONS = (0.5, 1.0, 2.0, 4.0)
LIMIT, STEPS = 15, 100

Arrays = dict[str, np.ndarray]


class Sledge(gymnasium.Env[np.ndarray, np.ndarray]):
    """Position and speed under a force and friction; an episode may end at the edge too."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gymnasium.spaces.Box(-2.0, 2.0, (1,))

    def __init__(self, friction: float = 1.0, edge: float = np.inf) -> None:
        self.friction, self.edge = friction, edge

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = np.array([self.np_random.uniform(-1, 1), 0.0], np.float32)
        return self.state, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.state = moved(self.state, action, self.friction).astype(np.float32)
        return self.state, -abs(float(self.state[0])), bool(abs(self.state[0]) > self.edge), False, {}


def limited(friction: float, edge: float) -> gymnasium.Env[np.ndarray, np.ndarray]:
    return TimeLimit(Sledge(friction, edge), LIMIT)


def moved(state: np.ndarray, action: np.ndarray, friction: Any) -> np.ndarray:
    speed = state[..., 1] + 0.1 * (action[..., 0] - friction * state[..., 1])
    return np.stack([state[..., 0] + 0.1 * speed, speed], axis=-1)


def logged(mode: AutoresetMode, edge: float = np.inf) -> Arrays:
    """What a loop over a vector environment keeps, each ``[steps, K, ...]``."""
    envs = SyncVectorEnv([partial(limited, friction, edge) for friction in FRICTIONS], autoreset_mode=mode)
    rng = np.random.default_rng(2)
    names = ("state", "action", "next_state", "terminated", "truncated", "friction")
    rows: dict[str, list[np.ndarray]] = {name: [] for name in names}
    state, _ = envs.reset(seed=3)
    for _ in range(STEPS):
        action = rng.uniform(-2, 2, (len(FRICTIONS), 1)).astype(np.float32)
        next_state, _, terminated, truncated, _ = envs.step(action)
        values = (state, action, next_state, terminated, truncated, np.array(FRICTIONS))
        for name, value in zip(names, values, strict=True):
            rows[name].append(np.array(value))
        state = next_state
    envs.close()
    return {name: np.stack(values) for name, values in rows.items()}


def in_turn(log: Arrays) -> Arrays:
    return {name: array.reshape(-1, *array.shape[2:]) for name, array in log.items()}


def one_after_the_other(log: Arrays) -> Arrays:
    return in_turn({name: array.swapaxes(0, 1) for name, array in log.items()})


def with_episodes(log: Arrays) -> Arrays:
    """In turn, with a number for each episode in the place of its ends."""
    ended = log.pop("terminated") | log.pop("truncated")
    before = np.cumsum(np.concatenate([np.zeros_like(ended[:1]), ended[:-1]]), axis=0)
    return in_turn({**log, "episode": before * len(FRICTIONS) + np.arange(len(FRICTIONS))})


def read(arrays: Arrays, group: str = "friction") -> Log:
    return log_of_arrays("a.npz", arrays, group, ColumnNames())


def assert_transitions(log: Log) -> None:
    expected = moved(log.state, log.action, log.columns["friction"])
    np.testing.assert_allclose(log.next_state, expected, atol=1e-5)


@pytest.mark.parametrize("rows", [in_turn, one_after_the_other, with_episodes])
@pytest.mark.parametrize("edge", [np.inf, 1.2], ids=["time limit", "and terminations"])
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_resets_of_vector_environments_are_no_transitions(
    mode: AutoresetMode, edge: float, rows: Callable[[Arrays], Arrays]
) -> None:
    log = logged(mode, edge)
    whole = rows({name: array.copy() for name, array in log.items()})
    wrong = ~np.isclose(whole["next_state"], moved(whole["state"], whole["action"], whole["friction"]), atol=1e-5).all(
        1
    )
    assert wrong.sum() >= 20
    found = read(whole)
    assert_transitions(found)
    assert len(found) == len(whole["state"]) - wrong.sum()
    assert any(f"these {wrong.sum()} rows are left out" in note for note in found.notes)


@pytest.mark.parametrize("rows", [in_turn, one_after_the_other, with_episodes])
def test_resets_in_the_next_step_are_found_without_next_states(rows: Callable[[Arrays], Arrays]) -> None:
    whole = rows(logged(AutoresetMode.NEXT_STEP))
    del whole["next_state"]
    found = read(whole)
    assert_transitions(found)
    assert len(found) > 0.8 * len(whole["state"])


def test_two_vector_environments_of_one_context_are_kept_apart() -> None:
    log = logged(AutoresetMode.SAME_STEP)
    log["friction"] = log["friction"].copy()
    log["robot"] = log["friction"] > 1  # two robots in each group, whose rows alternate
    whole = with_episodes(log)
    found = read(whole, group="robot")
    assert_transitions(found)
    assert len(found) == len(whole["state"]) - 4 * (STEPS // LIMIT)


@pytest.mark.parametrize("resets", [False, True], ids=["continuing", "resetting"])
def test_a_log_without_such_rows_stays_as_it_is(resets: bool) -> None:
    """Time limits that do not reset, and an ordinary loop, whose last next state is the last one of its episode."""
    rng, rows = np.random.default_rng(0), []
    for friction in FRICTIONS:
        env = Sledge(friction)
        state, _ = env.reset(seed=1)
        for t in range(90):
            action = rng.uniform(-2, 2, 1).astype(np.float32)
            next_state = env.step(action)[0]
            rows.append((state, action, next_state, t % LIMIT == LIMIT - 1, friction))
            state = env.reset()[0] if resets and t % LIMIT == LIMIT - 1 else next_state
    names = ("state", "action", "next_state", "truncated", "friction")
    found = read(dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True)))
    assert_transitions(found)
    assert not any("vector" in note or "padding" in note for note in found.notes)
    assert len(found) >= len(rows) - len(rows) // LIMIT


def padded(next_states: str) -> tuple[Arrays, int]:
    """Episodes of different lengths, filled up to 40 rows by zeros; and how many rows are real."""
    rng = np.random.default_rng(0)
    names = ("state", "action", "next_state", "reward", "episode", "step", "friction")
    rows: dict[str, list[Any]] = {name: [] for name in names}
    real = 0
    for episode in range(16):
        env = Sledge(FRICTIONS[episode % 4])
        state, _ = env.reset(seed=episode)
        length = int(rng.integers(20, 41))
        real += length
        for t in range(40):
            action, next_state, reward = np.zeros(1, np.float32), np.zeros(2, np.float32), 0.0
            if t < length:
                action = rng.uniform(-2, 2, 1).astype(np.float32)
                next_state, reward = env.step(action)[:2]
            values = (state, action, next_state, reward, episode, t, FRICTIONS[episode % 4])
            for name, value in zip(names, values, strict=True):
                rows[name].append(value)
            state = next_state if t < length - 1 else np.zeros(2, np.float32)
    arrays = {name: np.array(values) for name, values in rows.items()}
    if next_states == "none":
        del arrays["next_state"]
    elif next_states == "shifted":  # as one derives them from the padded states
        arrays["next_state"] = np.concatenate([arrays["state"][1:], arrays["state"][-1:]])
    return arrays, real


@pytest.mark.parametrize("without", [(), ("step",), ("reward", "step")])
@pytest.mark.parametrize("next_states", ["given", "none", "shifted"])
def test_padding_is_no_transition(next_states: str, without: tuple[str, ...]) -> None:
    arrays, real = padded(next_states)
    found = read({name: array for name, array in arrays.items() if name not in without})
    assert_transitions(found)
    assert real - 17 <= len(found) <= real
    assert any("padding, all zeros" in note for note in found.notes)


@pytest.mark.parametrize("derived", [False, True])
def test_a_robot_that_comes_to_rest_at_zero_is_not_padding(derived: bool) -> None:
    state = np.zeros((6, 60, 2))
    state[:, 0] = np.random.default_rng(0).uniform(-1, 1, (6, 2))
    for t in range(59):
        state[:, t + 1] = np.where(np.abs(state[:, t]) > 1e-3, 0.6 * state[:, t], 0.0)
    arrays = {
        "state": state[:, :-1].reshape(-1, 2),
        "action": -0.4 * state[:, :-1].reshape(-1, 2)[:, :1],
        "next_state": state[:, 1:].reshape(-1, 2),
        "episode": np.repeat(np.arange(6), 59),
        "friction": np.repeat(np.arange(6) % 2, 59),
    }
    if derived:
        del arrays["next_state"]
    found = read(arrays)
    assert len(found) == 6 * 59 - (6 if derived else 0)
    assert not any("padding" in note for note in found.notes)


def motions(gains: tuple[float, ...] = FRICTIONS) -> Arrays:
    """A stage without resets: each motion begins where the last one ended, and is fastest in its first step."""
    rng, rows, place = np.random.default_rng(0), [], np.zeros(2)
    for gain in gains:
        for episode in range(20):
            goal = rng.uniform(-1, 1, 2)
            for step in range(20):
                following = place + 0.3 * gain**0.5 * (goal - place)
                rows.append((place, goal, following, episode, step, gain))
                place = following
    names = ("state", "action", "next_state", "episode", "step", "friction")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


def braked() -> Arrays:
    """A motor that is driven, and then left alone until dry friction has stopped it: true rows of zeros."""
    rng, rows = np.random.default_rng(0), []
    for friction in FRICTIONS:
        for episode in range(10):
            speed, voltage = 0.0, rng.uniform(2, 6) * rng.choice([-1, 1])
            for step in range(60):
                action = voltage if step < 40 else 0.0
                following = speed + 0.2 * (3 * action - friction * speed)
                if not action:
                    following = np.sign(following) * max(0.0, abs(following) - 0.3)
                rows.append(([speed], [action], [following], episode, step, friction))
                speed = following
    names = ("state", "action", "next_state", "episode", "step", "friction")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


@pytest.mark.parametrize("without", [(), ("step",), ("next_state",)])
@pytest.mark.parametrize("make", [motions, braked])
def test_rows_that_are_transitions_stay(make: Callable[[], Arrays], without: tuple[str, ...]) -> None:
    arrays = make()
    episodes = len(FRICTIONS) * (arrays["episode"].max() + 1)
    found = read({name: array for name, array in arrays.items() if name not in without})
    assert len(found) == len(arrays["state"]) - (episodes if "next_state" in without else 0)
    assert not any("vector" in note or "padding" in note or "moved up" in note for note in found.notes)


def test_next_states_that_are_the_states_are_refused() -> None:
    """An environment that writes over its observations leaves them so, where both are kept without a copy."""
    arrays = motions()
    with pytest.raises(UserError, match="next_state is the state itself in all 1600 rows"):
        read({**arrays, "next_state": arrays["state"]})
    resting = {name: array.copy() for name, array in arrays.items()}
    resting["next_state"][:1500] = resting["state"][:1500]
    read({name: array for name, array in resting.items() if name not in ("episode", "step")})


@pytest.mark.parametrize("rows", [in_turn, one_after_the_other])
@pytest.mark.parametrize("derived", [False, True])
@pytest.mark.parametrize("begins", [False, True])
def test_marks_of_rows_that_begin_an_episode_are_known(
    begins: bool, derived: bool, rows: Callable[[Arrays], Arrays]
) -> None:
    """In some libraries done[t] says that state[t] is the first of an episode."""
    log = logged(AutoresetMode.SAME_STEP)
    done = log.pop("terminated") | log.pop("truncated")
    if begins:
        done = np.concatenate([np.ones_like(done[:1]), done[:-1]])
    if derived:
        del log["next_state"]
    found = read(rows({**log, "done": done}))
    assert_transitions(found)
    assert len(found) >= 4 * (STEPS - STEPS // LIMIT - 1)
    assert any("done is true where an episode begins" in note for note in found.notes) == begins
