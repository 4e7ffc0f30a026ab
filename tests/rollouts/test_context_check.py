"""A hidden parameter that does not act, or not in mid-episode, is warned of before the training."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from pyro_dynamics import Family, find_family
from pyro_dynamics.rollouts.context_check import check_context
from pyro_dynamics.tasks import BoxTask


class Sledge(gymnasium.Env):
    """Friction acts in every step."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, friction: float = 1.0) -> None:
        self.friction = self.made_with = friction

    def now(self) -> float:
        return self.friction

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.begun_with = self.friction
        self.speed = self.np_random.uniform(-1.0, 1.0, 1)
        return self.speed.astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.speed = self.speed + 0.1 * (action - self.now() * self.speed)
        return self.speed.astype(np.float32), 0.0, False, False, {}


class AsMade(Sledge):
    def now(self) -> float:
        return self.made_with


class AsBegun(Sledge):
    def now(self) -> float:
        return self.begun_with


class Doubled(Sledge):
    """A number that is computed once, as gains and matrices are."""

    def __init__(self, friction: float = 1.0) -> None:
        super().__init__(friction)
        self.doubled = np.array([2.0 * friction])

    def now(self) -> float:
        return float(self.doubled[0])


class Unused(Sledge):
    def now(self) -> float:
        return 1.0


class Rewarded(Unused):
    """The parameter decides the reward alone."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, *_ = super().step(action)
        return observation, -self.friction, False, False, {}


class HalfMade(Sledge):
    """A part of the physics is computed in the constructor, and another one in step()."""

    def now(self) -> float:
        return 0.5 * (self.friction + self.made_with)


class HalfBegun(Sledge):
    def now(self) -> float:
        return self.friction + 0.2 * self.begun_with


class BegunElsewhere(Sledge):
    """Where an episode begins is the parameter's doing too."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.speed = self.speed / self.friction
        return self.speed.astype(np.float32), {}


class HalfMadeElsewhere(BegunElsewhere, HalfMade):
    pass


def checked(environment: Any, train: tuple[float, ...] = (0.5, 1.0, 4.0), length: int = 50) -> str:
    return check_context(
        Family("sledge", environment, "friction", "", train, (3.0,), lambda: BoxTask(Sledge())), 0, length
    )


@pytest.mark.parametrize("environment", [AsMade, AsBegun, Doubled])
def test_a_parameter_that_does_nothing_in_mid_episode_is_named(environment: Any) -> None:
    warning = checked(environment)
    assert "friction changes nothing in mid-episode: environments made with 0.5 and 4 differ" in warning
    assert "let step() use friction" in warning


@pytest.mark.parametrize("environment", [HalfMade, HalfBegun, HalfMadeElsewhere])
def test_a_parameter_that_changes_in_part_is_named(environment: Any) -> None:
    warning = checked(environment)
    assert "friction changes only in part in mid-episode: an environment made with 0.5 that gets 4" in warning
    assert "not __init__() or reset()" in warning


@pytest.mark.parametrize("length", [1, 5, 50])
def test_a_parameter_that_does_nothing_is_named(length: int) -> None:
    words = f"friction changes nothing: 0.5 and 4 give the same observations and rewards in {length} random steps"
    assert words in checked(Unused, length=length)


@pytest.mark.parametrize("environment", [Sledge, Rewarded, BegunElsewhere])
def test_one_that_acts_is_left_alone(environment: Any) -> None:
    assert checked(environment) == ""
    assert checked(environment, length=1) == ""
    assert checked(Unused, train=(1.0,)) == ""


@pytest.mark.parametrize("name", ["pendulum-gravity", "halfcheetah-crippled", "hopper-mass", "cadm-cartpole"])
def test_families_of_this_project_act(name: str) -> None:
    assert check_context(find_family(name), 0, 50) == ""
