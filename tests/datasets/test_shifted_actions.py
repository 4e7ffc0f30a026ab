"""Actions that stand beside the state that they led to are warned of; those of every ordinary policy are not."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from pyro_dynamics.datasets.log_arrays import ColumnNames, log_of_arrays
from pyro_dynamics.datasets.logged_data import group_logs

STEPS, LIMIT = 600, 50
EARLIER = "the change from a row's state to the next one goes with the action of the row before"
WORDS = "the change from a row's state to the next one goes with the action of the next row"

Policy = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def random(_: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(-1, 1, 1)


def noisy(state: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.clip(-0.5 * state[-1:] + rng.normal(0, 0.7, 1), -1, 1)


def decided(state: np.ndarray, _: np.random.Generator) -> np.ndarray:
    return np.clip(-0.5 * state[-1:], -1, 1)


def switching(state: np.ndarray, _: np.random.Generator) -> np.ndarray:
    return np.sign(np.sin(5 * state[-1:]))


def logged(name: str, policy: Policy, **parameters: Any) -> dict:
    """Rows of a policy: state, action and the next state, each ``[STEPS, ...]``."""
    env, rng = gymnasium.make(name, **parameters).unwrapped, np.random.default_rng(3)
    assert isinstance(env.action_space, gymnasium.spaces.Box)
    rows: dict[str, list] = {part: [] for part in ("state", "action", "next_state", "episode")}
    for t in range(STEPS):
        if t % LIMIT == 0:
            state, _ = env.reset(seed=t)
        action = policy(np.asarray(state), rng)
        scaled = np.asarray(action * env.action_space.high, np.float32)
        next_state = np.array(env.step(scaled)[0])
        for part, value in zip(rows, (np.array(state), scaled, next_state, t // LIMIT), strict=True):
            rows[part].append(value)
        state = next_state
    return {part: np.array(values) for part, values in rows.items()}


def moved(rows: dict) -> dict:
    """As dm_env logs them: each row has the action that led to its state, and zeros where an episode begins."""
    action = np.concatenate([np.zeros((1, rows["action"].shape[1])), rows["action"][:-1]])
    action[np.append(True, np.diff(rows["episode"]) != 0)] = 0
    return {"state": rows["state"], "action": action, "episode": rows["episode"]}


def notes(rows: dict, group: str | None = None) -> str:
    return "\n".join(group_logs([log_of_arrays("log", rows, group, ColumnNames())], group, one_alone=True).notes)


@pytest.mark.parametrize("name", ["Pendulum-v1", "MountainCarContinuous-v0", "Swimmer-v5"])
def test_actions_beside_what_they_led_to_are_found(name: str) -> None:
    assert WORDS in notes(moved(logged(name, random)))


def test_they_are_found_with_next_states_too() -> None:
    rows = logged("Pendulum-v1", random)
    assert WORDS in notes(rows | {"action": moved(rows)["action"]})


def test_each_environment_has_its_own_dynamics() -> None:
    rows = [moved(logged("Pendulum-v1", random, g=g)) for g in (3.0, 20.0)]
    both = {name: np.concatenate([one[name] for one in rows]) for name in rows[0]}
    assert WORDS in notes(both | {"gravity": np.repeat([3.0, 20.0], STEPS)}, "gravity")


@pytest.mark.parametrize("policy", [random, noisy, decided, switching])
@pytest.mark.parametrize("name", ["Pendulum-v1", "MountainCarContinuous-v0", "InvertedPendulum-v5"])
def test_ordinary_logs_are_not_warned_of(name: str, policy: Policy) -> None:
    rows = logged(name, policy)
    assert WORDS not in notes(rows)
    assert EARLIER not in notes(rows)
    assert WORDS not in notes({part: rows[part] for part in ("state", "action", "episode")})


@pytest.mark.parametrize("name", ["Pendulum-v1", "MountainCarContinuous-v0", "Swimmer-v5"])
def test_actions_one_row_too_early_are_found(name: str) -> None:
    rows = logged(name, random)
    ends = np.append(np.diff(rows["episode"]) != 0, True)
    action = np.where(ends[:, None], 0.0, np.roll(rows["action"], -1, axis=0))
    assert EARLIER in notes(rows | {"action": action})


def test_the_warning_names_a_controller_that_looks_at_the_last_change() -> None:
    """Which is no mistake of the log: a speed out of differences of a noisy position."""
    rng = np.random.default_rng(0)
    rows: dict[str, list] = {"state": [], "action": [], "next_state": [], "episode": []}
    for episode in range(24):
        place, speed = rng.uniform(-1, 1), 0.0
        seen = last = place + 0.03 * rng.normal()
        for _ in range(60):
            action = -4 * seen - 20 * (seen - last)
            last, speed = seen, speed + 0.1 * (action - speed)
            place += 0.1 * speed
            after = place + 0.03 * rng.normal()
            for part, value in zip(rows, ([seen], [action], [after], episode), strict=True):
                rows[part].append(value)
            seen = after
    found = notes({part: np.array(values) for part, values in rows.items()})
    assert WORDS in found
    assert "if a controller takes a speed from the last change, the log is right" in found


def test_a_delay_of_one_step_is_named() -> None:
    """Where an action takes effect a step later, the row's own does nothing, and the next row's neither."""
    rng = np.random.default_rng(0)
    action, state = rng.uniform(-1, 1, (STEPS + 1, 1)), np.zeros((STEPS + 1, 1))
    for t in range(1, STEPS):
        state[t + 1] = 0.9 * state[t] + action[t - 1]
    rows = {"state": state[:-1], "action": action[:-1], "next_state": state[1:], "step": np.arange(STEPS)}
    assert EARLIER in notes(rows)
    assert WORDS not in notes(rows)
