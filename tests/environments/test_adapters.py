"""CARL's context dictionaries and NS-Gym's update functions; against those libraries where they are installed."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from pyro_dynamics import find_family
from pyro_dynamics.environments.adapters import from_carl, from_ns_gym
from pyro_dynamics.errors import UserError

DEFAULTS = {"g": 10.0, "m": 1.0, "l": 1.0, "dt": 0.05}


def test_carls_contexts_become_the_familys() -> None:
    contexts = {0: {"m": 0.8, "l": 1.2}, "long": {**DEFAULTS, "l": 1.5}}
    found = from_carl(contexts, ("m", "l"), DEFAULTS)
    assert found == ((0.8, 1.2), (1.0, 1.5))
    assert found == tuple(find_family("cadm-pendulum").parse_context(context) for context in found)
    assert from_carl({0: {"g": 3}}, ("g",)) == (3.0,)


@pytest.mark.parametrize(
    ("contexts", "words"),
    [
        ({0: {"m": 1.0, "l": 1.0, "g": 3.0}}, "g = 3.0.*would not be applied"),
        ({0: {"m": 1.0, "l": 1.0, "colour": "red"}}, "colour"),
        ({0: {"m": "heavy", "l": 1.0}}, "m must be a number"),
    ],
)
def test_what_would_silently_not_be_applied_is_refused(contexts: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        from_carl(contexts, ("m", "l"), DEFAULTS)
    with pytest.raises(UserError, match="has no l"):
        from_carl({0: {"m": 1.0}}, ("m", "l"))


@pytest.mark.filterwarnings("ignore")  # CARL warns of missing simulators
def test_contexts_of_the_real_carl() -> None:
    carl = pytest.importorskip("carl.envs", reason="carl-bench is not installed", exc_type=ImportError)
    sampler = pytest.importorskip("carl.context.sampler", exc_type=ImportError)
    space = pytest.importorskip("carl.context.context_space", exc_type=ImportError)
    ranges = [
        space.UniformFloatContextFeature("length", 0.3, 0.7, default_value=0.5),
        space.UniformFloatContextFeature("force_mag", 5.0, 15.0, default_value=10.0),
    ]
    contexts = sampler.ContextSampler(ranges, carl.CARLCartPole.get_context_space(), seed=0).sample_contexts(4)
    env = carl.CARLCartPole(contexts=contexts)
    found = from_carl(env.contexts, ("force_mag", "length"), carl.CARLCartPole.get_default_context())
    assert found == tuple((context["force_mag"], context["length"]) for context in contexts.values())
    assert len(set(found)) == 4
    family = find_family("cartpole-force-length")
    held = [family.make(context, 5).context for context in found]  # type: ignore[attr-defined]
    assert held == list(found)


class Drift:
    """NS-Gym's documented interface of an update function: (parameter, step) to (new one, whether, how much)."""

    def __call__(self, param: float, t: int) -> tuple[float, int, float]:
        return (param + 0.5, 1, 0.5) if t and t % 2 == 0 else (param, 0, 0.0)


def test_an_update_function_drives_a_parameter() -> None:
    assert [from_ns_gym([Drift()], 1.0, 6).at(t) for t in range(7)] == [1, 1, 1.5, 1.5, 2, 2, 2]
    two = from_ns_gym([None, Drift()], (10.0, 0.5), 3)
    assert two.changes == ((0, (10.0, 0.5)), (2, (10.0, 1.0)))
    with pytest.raises(UserError, match="as many NS-Gym update functions"):
        from_ns_gym([Drift()], (10.0, 0.5), 3)


def test_the_real_ns_gym_and_our_family_have_the_same_parameter_at_every_step() -> None:
    ns_gym = pytest.importorskip("ns_gym", reason="ns-gym is not installed", exc_type=ImportError)

    def update() -> Any:
        return ns_gym.update_functions.RandomWalk(ns_gym.schedulers.PeriodicScheduler(3), sigma=0.2, seed=4)

    theirs = ns_gym.wrappers.NSClassicControlWrapper(gymnasium.make("Pendulum-v1"), {"g": update()})
    family = find_family("pendulum-gravity")
    ours = family.make(from_ns_gym([update()], 10.0, 20), 20)
    theirs.reset()  # a seed here would seed the update functions anew
    ours.reset(seed=0)
    for _ in range(20):
        action = np.zeros(1, dtype=np.float32)
        theirs.step(action)
        context = ours.step(action)[4]["context"]
        assert context == pytest.approx(theirs.unwrapped.g)
    assert context != 10.0
