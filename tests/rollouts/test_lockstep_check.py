"""Environments that share something in one process are found; those that stand apart are not accused."""

import functools
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest

from pyro_dynamics import Family
from pyro_dynamics.errors import UserError
from pyro_dynamics.rollouts.environment_record import EnvironmentRecord
from pyro_dynamics.rollouts.task_check import check_task
from pyro_dynamics.tasks import BoxTask

WORLD: dict[str, Any] = {}
"""One physics client of the process."""
SHARED_DRAWS = np.random.default_rng(0)


class Sledge(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gymnasium.spaces.Box(-2.0, 2.0, (1,))

    def __init__(self, friction: float = 1.0) -> None:
        self.friction = friction

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = np.array([self.np_random.uniform(-1, 1), 0.0])
        return self.state.astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        place, speed = self.state
        speed += 0.1 * (action[0] - self.friction * speed)
        self.state = np.array([place + 0.1 * speed, speed])
        return self.observe(), 0.0, False, False, {}

    def observe(self) -> np.ndarray:
        return self.state.astype(np.float32)


class Client(Sledge):
    """Every object asks the one world for its state."""

    state = property(lambda self: WORLD["state"], lambda self, value: WORLD.update(state=value))


class Clock(Sledge):
    """The time of the world advances with every step of any of them, and the track bends with it."""

    def reset(self, **how: Any) -> Any:
        WORLD["time"] = 0
        return super().reset(**how)

    def step(self, action: Any) -> Any:
        WORLD["time"] += 1
        return super().step(action + 0.1 * np.sin(0.1 * WORLD["time"]))


class OneContext(Sledge):
    """The friction is the world's: it is set before each step, so that nothing mixes."""

    friction = property(lambda self: WORLD["friction"], lambda self, value: WORLD.update(friction=value))


class OneGenerator(Sledge):
    """Each reset seeds the generator from which all draw."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        global SHARED_DRAWS
        SHARED_DRAWS = np.random.default_rng(seed)
        return super().reset(seed=seed)

    def observe(self) -> np.ndarray:
        return super().observe() + SHARED_DRAWS.normal(0, 0.01, 2).astype(np.float32)


class Apart(Sledge):
    """Draws from its own."""

    def observe(self) -> np.ndarray:
        return super().observe() + self.np_random.normal(0, 0.01, 2).astype(np.float32)


def family(environment: Any, task: Any = None) -> Family:
    return Family(
        "sledge",
        environment,
        "friction",
        "1/s",
        train=(0.5, 1.0, 4.0),
        test=(2.0,),
        task=task or (lambda: BoxTask(Sledge())),
    )


def warnings_of(made: Family) -> list[str]:
    envs = made.make_vector(made.train, 50)
    return check_task(made.make_task(), envs, seed=0, length=50)


@pytest.mark.parametrize("kind", [Client, Clock, OneGenerator])
def test_what_environments_share_is_found(kind: type[Sledge]) -> None:
    (line,) = warnings_of(family(kind))
    assert line.startswith("an environment goes elsewhere when the others stand still: environment ")
    assert "let each environment that is made have its own" in line


@pytest.mark.parametrize("kind", [Sledge, Apart, OneContext])
def test_environments_that_stand_apart_are_not_accused(kind: type[Sledge]) -> None:
    assert warnings_of(family(kind)) == []


def test_a_shared_world_of_one_environment_is_nobodys_fault() -> None:
    assert warnings_of(replace(family(Client), train=(1.0,))) == []


ONE = Sledge()


def connect(friction: float) -> Sledge:
    ONE.friction = friction
    return ONE


@pytest.mark.parametrize(
    "maker",
    [
        connect,
        lambda friction: gymnasium.wrappers.TimeLimit(connect(friction), 30),
        lambda friction: connect(friction) if friction > 0.7 else Sledge(friction),
    ],
)
def test_one_object_for_several_contexts_is_refused(maker: Any) -> None:
    made = family(maker)
    with pytest.raises(UserError, match=r"gives an object that it gave before, .* let it make a new one at each call"):
        made.make_vector(made.train, 50)


def test_one_object_twice_under_one_context_is_refused_too() -> None:
    with pytest.raises(UserError, match="gives an object that it gave before"):
        family(connect).make_vector([1.0, 1.0], 50)


def test_one_task_for_several_agents_is_refused() -> None:
    kept, cached = BoxTask(Sledge()), functools.cache(lambda: BoxTask(Sledge()))
    for maker in (lambda: kept, cached):
        made = family(Sledge, maker)
        with pytest.raises(UserError, match=r"as in task=lambda: BoxTask\(\.\.\.\)$"):
            made.make_vector(made.train, 50)
    alone = replace(family(Sledge, functools.cache(lambda: BoxTask(Sledge()))), train=(1.0,))
    alone.make_task()
    with pytest.raises(UserError, match="its task gives an object that it gave before"):
        alone.make_task()


class Trembling(Sledge):
    """A sensor's noise from the global generator."""

    noise = 1.0

    def observe(self) -> np.ndarray:
        return (self.state + self.noise * np.random.normal(size=2)).astype(np.float32)  # noqa: NPY002  # the mistake


@pytest.mark.parametrize("noise", [1e-2, 1e-3, 5e-5, 1e-5])
def test_small_noise_that_no_seed_decides_is_found_and_accuses_nobody(noise: float) -> None:
    made = family(type("Trembling", (Trembling,), {"noise": noise}))
    (line,) = warnings_of(made)
    assert "lead to another observation or reward" in line or "two resets with one seed" in line
    for _ in range(5):
        kept = EnvironmentRecord.of(made, 50)
        assert kept is not None
        assert not kept.repeats
        by_luck = replace(kept, repeats=True)  # as an older version wrote it
        assert by_luck.differences(made, 50) == []


class Curriculum(Sledge):
    """Pushes less after some episodes."""

    episodes, last = 0, 4

    def reset(self, **how: Any) -> Any:
        self.episodes += 1
        return super().reset(**how)

    def step(self, action: Any) -> Any:
        return super().step(action * (1.0 if self.episodes <= self.last else 0.3))


@pytest.mark.parametrize("last", [1, 2, 3, 4])
def test_an_environment_that_changes_with_its_episodes_is_found(last: int) -> None:
    (line,) = warnings_of(family(type("Curriculum", (Curriculum,), {"last": last})))
    assert "a curriculum that counts episodes" in line
