"""A point mass whose family its user changes after a training: each function makes it in one other way."""

from dataclasses import replace
from typing import Any

import numpy as np
import point_mass
from gymnasium.spaces import Box
from gymnasium.wrappers import RescaleAction
from point_mass import STEP, PointMass, family, reward

from pyro_dynamics import Family
from pyro_dynamics.tasks import BoxTask

NAMES = ("x", "y", "speed along x", "speed along y", "gravity")


def trained() -> Family:
    return family(PointMass, reward, names=NAMES)


def again() -> Family:
    """The same, written anew, with other contexts to test on."""
    made = family(PointMass, lambda state, action, next_state: reward(state, action, next_state), names=NAMES)
    return Family(made.name, made.environment, "drag", "1/s", made.train, (1.5,), made.task)


class Heavy(PointMass):
    """Is pushed by half as much."""

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return super().step(2.5 + (action - 2.5) / 2)


class Swapped(PointMass):
    """Observes speed before place."""

    def observe(self) -> np.ndarray:
        place, velocity, gravity = np.split(super().observe(), [2, 4])
        return np.concatenate([velocity, place, gravity])


class InFeet(PointMass):
    def observe(self) -> np.ndarray:
        return super().observe() * np.array([3.28, 3.28, 1.0, 1.0, 1.0])


class OnMars(PointMass):
    """Differs in the entry that never moves."""

    def observe(self) -> np.ndarray:
        return np.array([*super().observe()[:4], 3.71])


class StartsElsewhere(PointMass):
    def reset(self, **how: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**how)
        self.place = self.place + 3.0
        return self.observe(), {}


class Longer(PointMass):
    """Observes the time, too."""

    observation_space = Box(-np.inf, np.inf, (6,), np.float64)

    def observe(self) -> np.ndarray:
        return np.array([*super().observe(), STEP])


class Weaker(PointMass):
    """Takes half of the actions alone."""

    action_space = Box(1.0, 4.0, (2,), np.float64)


class Alone(PointMass):
    """Is pushed along one axis."""

    action_space = Box(0.0, 5.0, (1,), np.float64)

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.velocity = self.velocity + STEP * (1.6 * (action[0] - 2.5) - self.drag * self.velocity)
        return self.observe(), 0.0, False, False, {}


def rescaled(drag: float = 1.0) -> Any:
    return RescaleAction(PointMass(drag), np.float64(-1.0), np.float64(1.0))


def made_of(environment: Any, **settings: Any) -> Family:
    return family(environment, reward, **{"names": NAMES, **settings})


def is_heavy() -> Family:
    return made_of(Heavy)


def is_swapped() -> Family:
    return made_of(Swapped)


def is_in_feet() -> Family:
    return made_of(InFeet)


def is_on_mars() -> Family:
    return made_of(OnMars)


def starts_elsewhere() -> Family:
    return made_of(StartsElsewhere)


def is_longer() -> Family:
    return made_of(Longer, names=(*NAMES, "time"))


def is_weaker() -> Family:
    return made_of(Weaker)


def is_alone() -> Family:
    return made_of(Alone)


def is_rescaled() -> Family:
    return made_of(rescaled)


def has_swapped_names() -> Family:
    return made_of(PointMass, names=(NAMES[2], NAMES[3], NAMES[0], NAMES[1], NAMES[4]))


def has_other_names() -> Family:
    return made_of(PointMass, names=("a", "b", "c", "d", "e"))


def has_an_angle() -> Family:
    return made_of(PointMass, angles=(0,))


def has_another_parameter() -> Family:
    made = trained()

    class Renamed(PointMass):
        def __init__(self, friction: float = 1.0) -> None:
            super().__init__(friction)

        friction = property(lambda self: self.drag, lambda self, value: setattr(self, "drag", value))

    return Family(made.name, Renamed, "friction", "1/s", made.train, made.test, made.task)


def has_another_unit() -> Family:
    made = trained()
    return Family(made.name, made.environment, "drag", "1/min", made.train, made.test, made.task)


class Doubled(BoxTask):
    """A task of the user's own, which gives the network other units."""

    def features(self, state: Any) -> Any:
        return 2 * super().features(state)


def has_other_features() -> Family:
    made = trained()
    return Family(
        made.name, PointMass, "drag", "1/s", made.train, made.test, lambda: Doubled(PointMass(), reward, names=NAMES)
    )


def has_another_reward() -> Family:
    made = trained()
    return replace(made, task=lambda: BoxTask(PointMass(), lambda *step: -reward(*step), names=NAMES))


def has_costly_actions() -> Family:
    made = trained()

    def costly(state: Any, action: Any, next_state: Any) -> Any:
        return reward(state, action, next_state) - 1e-3 * action.square().sum(-1)

    return replace(made, task=lambda: BoxTask(PointMass(), costly, names=NAMES))


def ends_far_away() -> Family:
    """Ends where the first steps do not come."""
    made = trained()

    def ends(state: Any, action: Any, next_state: Any) -> Any:
        return next_state[..., :2].norm(dim=-1) > 3.0

    return replace(made, task=lambda: BoxTask(PointMass(), reward, ends, names=NAMES))


def has_fewer() -> Family:
    return replace(trained(), train=(0.5, 1.0, 2.0))


def has_one() -> Family:
    return replace(trained(), train=(4.0,))


def has_more() -> Family:
    return replace(trained(), train=(*trained().train, 6.0))


def is_reordered() -> Family:
    return replace(trained(), train=trained().train[::-1])


class Shaken(PointMass):
    """Is shaken by noise that no seed decides."""

    def observe(self) -> np.ndarray:
        return super().observe() + 0.01 * np.random.default_rng().normal(size=5)


def is_shaken() -> Family:
    return made_of(Shaken)


class Noisy(PointMass):
    """Is shaken by noise of its own generator."""

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.velocity = self.velocity + 0.1 * self.np_random.normal(size=2)
        return super().step(action)


def is_noisy() -> Family:
    return made_of(Noisy)


def rounds_otherwise() -> Family:
    """As another processor would have it: the last digits of all numbers are others."""

    class Rounding(PointMass):
        def observe(self) -> np.ndarray:
            return super().observe() * (1 + 1e-9 * np.random.default_rng().uniform(-1, 1, 5))

    return made_of(Rounding)


WRONG = point_mass.learned
"""A family of the same name with a learned reward, which is appended to the observation."""
