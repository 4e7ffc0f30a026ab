"""A copied environment continues where its original is."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import EzPickle

from pyro_dynamics import FAMILIES, Family
from pyro_dynamics.environments.mujoco.mujoco_family import mujoco_family
from pyro_dynamics.environments.mujoco.mujoco_parameters import Force
from pyro_dynamics.environments.state_copy import check_copies, put_where
from pyro_dynamics.errors import UserError
from pyro_dynamics.tasks import HopperTask, PendulumTask


def pushed_hopper() -> Family:
    return mujoco_family(
        "pushed-hopper", "Hopper-v5", {"force": Force("torso")}, (0.0, 5.0), (2.0,), HopperTask, last_velocity=True
    )


class NoisyPendulum(gymnasium.Env, EzPickle):
    """Its random stream decides each step; copied, it would begin anew."""

    def __init__(self, drift: float) -> None:
        EzPickle.__init__(self, drift=drift)
        self.drift = drift
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = np.zeros(3)
        return self.place.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.place += self.drift + self.np_random.normal(size=3)
        return self.place.copy(), 0.0, False, False, {}


NOISY = Family("noisy", NoisyPendulum, "drift", "m", (0.0, 1.0), (2.0,), PendulumTask)
ALL = [*FAMILIES.values(), pushed_hopper(), NOISY]


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
def test_a_copy_continues_as_its_original_would_and_keeps_its_own_context(family: Family) -> None:
    original, duplicate, other = (family.make(family.train[k], 100) for k in (0, 0, -1))
    for seed, env in enumerate((original, duplicate, other)):
        env.reset(seed=seed)
    space = original.action_space
    space.seed(0)
    for _ in range(4):
        original.step(space.sample())
    for env in (duplicate, other):
        env.step(space.sample())
        put_where(env, original)
    assert other.context == family.train[-1]  # type: ignore[attr-defined]
    differs = False
    for _ in range(3):
        action = space.sample()
        expected, found, elsewhere = (env.step(action) for env in (original, duplicate, other))
        assert np.array_equal(expected[0], found[0])
        assert expected[1:3] == found[1:3]
        differs = differs or not np.array_equal(expected[0], elsewhere[0])
    assert differs
    assert found[4]["context"] == family.train[0]
    assert elsewhere[4]["context"] == family.train[-1]


class StiffPendulum(NoisyPendulum):
    """Its constructor computes a number from the context, which changing the context does not."""

    def __init__(self, drift: float) -> None:
        super().__init__(drift)
        self.stiffness = 3 * drift


def test_what_only_the_constructor_computes_from_the_context_is_refused() -> None:
    def three(environment: type[gymnasium.Env]) -> list[gymnasium.Env]:
        family = Family("stiff", environment, "drift", "m", (0.0, 1.0), (2.0,), PendulumTask)
        envs = [family.make(context, 10) for context in (0.0, 1.0, 0.0)]
        for env in envs:
            env.reset(seed=0)
        return envs

    check_copies(*three(NoisyPendulum))
    with pytest.raises(UserError, match=r"StiffPendulum\.stiffness is computed from the context when the environment"):
        check_copies(*three(StiffPendulum))
