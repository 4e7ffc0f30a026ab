"""A stranger's environment, written from the README's text alone, and families with one mistake each."""

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, Space, Tuple
from gymnasium.spaces import Dict as DictSpace

from pyro_dynamics import Family
from pyro_dynamics.tasks import BoxTask, on_numpy

STEP = 0.05
"""Seconds."""


class PointMass(gymnasium.Env):
    """A mass in a plane, pushed along each axis by 2.5 units too few to 2.5 too many, against a drag.

    It observes place (2), velocity (2) and gravity, which never changes. The reward is how much nearer it came.
    """

    observation_space: Space = Box(-np.inf, np.inf, (5,), np.float64)
    action_space: Space = Box(0.0, 5.0, (2,), np.float64)

    def __init__(self, drag: float = 1.0) -> None:
        self.drag = drag

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.velocity = self.np_random.uniform(-1.0, 1.0, 2), np.zeros(2)
        return self.observe(), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is none of its actions"
        before = self.observe()
        self.velocity = self.velocity + STEP * (1.6 * (action - 2.5) - self.drag * self.velocity)
        self.place = self.place + STEP * self.velocity
        after = self.observe()
        return after, float(self.nearer(before[None], action[None], after[None])[0]), self.ends(), False, {}

    def observe(self) -> np.ndarray:
        return np.array([*self.place, *self.velocity, 9.81])

    def ends(self) -> bool:
        return False

    @staticmethod
    def nearer(before: np.ndarray, action: np.ndarray, after: np.ndarray) -> np.ndarray:
        return (before[:, :2] ** 2).sum(-1) ** 0.5 - (after[:, :2] ** 2).sum(-1) ** 0.5


class Fenced(PointMass):
    """Ends 1.5 from the middle."""

    def ends(self) -> bool:
        return bool(np.hypot(*self.place) > 1.5)


class Wooden(PointMass):
    """Its drag cannot be seen."""

    def __init__(self, drag: float = 1.0) -> None:
        self.__dict__["_drag"] = drag

    drag = property(lambda self: 1.0, lambda self, value: None)


class Drawn(PointMass):
    """Can be filmed, in a frame of odd size."""

    def __init__(self, drag: float = 1.0, render_mode: str | None = None) -> None:
        super().__init__(drag)
        self.render_mode = render_mode

    def render(self) -> Any:
        image = np.full((121, 161, 3), 255, np.uint8)
        row, column = np.clip(60 + 30 * self.place, 2, 118).astype(int)
        image[row - 2 : row + 3, column - 2 : column + 3] = 0
        return image


class Undrawn(PointMass):
    """Takes a render_mode, and does not draw."""

    def __init__(self, drag: float = 1.0, render_mode: str | None = None) -> None:
        super().__init__(drag)


class Buttons(PointMass):
    """Has a button for each of four pushes, the first of which is number 1."""

    action_space = Discrete(4, start=1)
    PUSHES = 2.5 + 2.5 * np.array([[1, 0], [0, -1], [-1, 0], [0, 1]])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is none of its buttons"
        before = self.observe()
        for _ in range(4):
            self.velocity = self.velocity + STEP * (1.6 * (self.PUSHES[action - 1] - 2.5) - self.drag * self.velocity)
            self.place = self.place + STEP * self.velocity
        nearer = self.nearer(before[None], np.zeros((1, 2)), self.observe()[None])
        return self.observe(), float(nearer[0]), False, False, {}


class Parts(PointMass):
    """Observes parts of parts, and takes a column."""

    observation_space = DictSpace(
        {
            "place": Box(-np.inf, np.inf, (2, 1)),
            "rest": DictSpace({"speed": Tuple((Box(-np.inf, np.inf, (1,)),) * 2), "fast": Discrete(2)}),
        }
    )
    action_space = Box(0.0, 5.0, (2, 1))

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**kwargs)
        return self.parts(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is none of its actions"
        self.velocity = self.velocity + STEP * (1.6 * (action[:, 0] - 2.5) - self.drag * self.velocity)
        self.place = self.place + STEP * self.velocity
        return self.parts(), -float(np.hypot(*self.place)), False, False, {}

    def parts(self) -> dict[str, Any]:
        speed = tuple(self.velocity[:, None].astype(np.float32))
        fast = int(np.hypot(*self.velocity) > 0.3)
        return {"place": self.place[:, None].astype(np.float32), "rest": {"speed": speed, "fast": fast}}


class Camera(PointMass):
    """Observes an image, with other things."""

    observation_space = DictSpace({"eye": Box(0, 255, (64, 64, 3), np.uint8), "place": Box(-1.0, 1.0, (2,))})


class Counted(PointMass):
    """Takes whole numbers."""

    action_space = Box(0, 5, (2,), np.int64)


class Unbounded(PointMass):
    """Takes pushes of any size."""

    action_space = Box(0.0, np.inf, (2,))


def reward(state: torch.Tensor, action: torch.Tensor, next_state: torch.Tensor) -> torch.Tensor:
    return state[..., :2].norm(dim=-1) - next_state[..., :2].norm(dim=-1)


def family(environment: Any = PointMass, *about: Any, **settings: Any) -> Family:
    return Family(
        "point-mass",
        environment,
        parameter="drag",
        unit="1/s",
        train=(0.25, 0.5, 1.0, 2.0, 4.0),
        test=(0.7, 3.0),
        task=lambda: BoxTask(environment(), *about, **settings),
    )


def given() -> Family:
    return family(PointMass, reward)


def own() -> Family:
    return family(PointMass, on_numpy(PointMass.nearer))


def learned() -> Family:
    return family(PointMass)


def of_context() -> Family:
    def costly(state: torch.Tensor, action: torch.Tensor, next_state: torch.Tensor, drag: Any) -> torch.Tensor:
        return reward(state, action, next_state) - drag * 0.01

    return family(PointMass, costly)


def fenced() -> Family:
    return family(Fenced, reward, "learned")


def drawn() -> Family:
    return family(Drawn, reward)


def undrawn() -> Family:
    return family(Undrawn, reward)


def buttons() -> Family:
    return family(Buttons, reward)


def parts() -> Family:
    return family(Parts, lambda state, action, next_state: -next_state[..., :2].norm(dim=-1))


# Each of these has one mistake.


def sums_all() -> Family:
    return family(PointMass, lambda state, action, next_state: -next_state.square().sum())


def indexes_rows() -> Family:
    return family(PointMass, lambda state, action, next_state: -next_state[:, 0])


def is_boolean() -> Family:
    return family(PointMass, lambda state, action, next_state: next_state[..., 0] > 0)


def is_numpy() -> Family:
    return family(PointMass, PointMass.nearer)


def is_not_finite() -> Family:
    return family(PointMass, lambda state, action, next_state: (next_state[..., 0] - 10).log())


def takes_two() -> Family:
    return family(PointMass, lambda state, action: -state[..., 0])


def is_another_reward() -> Family:
    return family(PointMass, lambda state, action, next_state: -next_state[..., :2].norm(dim=-1))


class Careless(PointMass):
    """Draws from numpy's global generator, which no seed of reset decides."""

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**kwargs)
        self.place = np.random.uniform(-1.0, 1.0, 2)  # noqa: NPY002  # the mistake
        return self.observe(), {}


class Shaken(PointMass):
    """The same in its steps alone."""

    def observe(self) -> np.ndarray:
        return super().observe() + 0.01 * np.random.normal() * self.velocity.any()  # noqa: NPY002  # the mistake


class Worn(PointMass):
    """Wears out with every step that it ever made: state that a reset does not bring back."""

    wear = 0.0

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.wear += 0.01
        observation, *rest = super().step(action)
        self.velocity = self.velocity * (1 - self.wear / (1 + self.wear))
        return (observation, *rest)


class Impatient(PointMass):
    """Says after 25 steps that time is up, without a wrapper."""

    most = 25

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        self.count = 0
        return super().reset(**kwargs)

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        observation, value, terminated, _, info = super().step(action)
        return observation, value, terminated, self.count >= self.most, info


class Patient(Impatient):
    """Says it after 104, which are more than a task check looks at."""

    most = 104


class Surveyed(PointMass):
    """Observes how far north of the equator it is, in metres."""

    def observe(self) -> np.ndarray:
        return super().observe() + np.array([4.5e6, 0.0, 0.0, 0.0, 0.0])


class Winding(PointMass):
    """Its place is an angle, which wraps."""

    def observe(self) -> np.ndarray:
        place, *rest = super().observe()
        return np.array([(np.pi * place + np.pi) % (2 * np.pi) - np.pi, *rest])


def is_far_north() -> Family:
    return family(Surveyed, "learned")


def winds() -> Family:
    return family(Winding, "learned")


def winds_as_is_known() -> Family:
    return family(Winding, "learned", angles=(0,))


def is_cut() -> Family:
    return family(lambda drag=1.0: gymnasium.wrappers.TimeLimit(PointMass(drag), 30), reward)


def cuts_itself() -> Family:
    return family(Impatient, reward)


def cuts_itself_late() -> Family:
    return family(Patient, reward)


def does_not_hear_the_seed() -> Family:
    return family(Careless, reward)


def is_shaken() -> Family:
    return family(Shaken, "learned")


def wears_out() -> Family:
    return family(Worn, reward)


def has_running_statistics() -> Family:
    return family(lambda drag=1.0: gymnasium.wrappers.NormalizeObservation(PointMass(drag)), "learned")


def has_running_rewards() -> Family:
    return family(lambda drag=1.0: gymnasium.wrappers.NormalizeReward(PointMass(drag)), "learned")


def does_not_end() -> Family:
    return family(Fenced, reward)


def ends_elsewhere() -> Family:
    return family(Fenced, reward, lambda state, action, next_state: next_state[..., 0] > 1.5)


def context_does_not_take() -> Family:
    return family(Wooden, reward)


def counted() -> Family:
    return family(Counted, reward)


def image() -> Family:
    return family(Camera, reward)


def unbounded() -> Family:
    return family(Unbounded, reward)


class Late(gymnasium.Wrapper):
    """A wrapper of one's own that sends each action some steps later, and does not observe those under way."""

    def __init__(self, env: gymnasium.Env, steps: int) -> None:
        super().__init__(env)
        self.steps = steps

    def reset(self, **how: Any) -> Any:
        self.under_way = [np.full(2, 2.5)] * self.steps
        return super().reset(**how)

    def step(self, action: Any) -> Any:
        self.under_way = [*self.under_way, action]
        return super().step(self.under_way.pop(0))


class Outdated(PointMass):
    """Observes what was so one step ago."""

    def reset(self, **how: Any) -> Any:
        self.last = np.zeros(5)
        return super().reset(**how)

    def observe(self) -> np.ndarray:
        return self.last

    def step(self, action: Any) -> Any:
        self.last = super().observe()
        return super().step(action)


class Restarting(PointMass):
    """Begins anew by itself where an episode ends."""

    def step(self, action: np.ndarray) -> Any:
        after, reward, _, truncated, info = super().step(action)
        ends = self.is_over()
        if ends:
            after, _ = self.reset()
        return after, reward, ends, truncated, info

    def is_over(self) -> bool:
        return bool(np.hypot(*self.place) > 1.4)


class RestartingEarly(Restarting):
    def is_over(self) -> bool:
        return bool(np.abs(self.place).max() > 1.1)


class RestartingWhenFast(Restarting):
    def is_over(self) -> bool:
        return bool(np.abs(self.velocity).max() > 0.9)


def late(steps: int) -> Family:
    return family(lambda drag=1.0: Late(PointMass(drag), steps))


def outdated() -> Family:
    return family(Outdated)


def restarting(kind: type[Restarting]) -> Family:
    return family(kind, "learned", "learned")
