from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Sequence, Space, Text, Tuple
from gymnasium.utils.env_checker import data_equivalence
from torch import Tensor

from pyro_dynamics.agent import Agent
from pyro_dynamics.control import MPCConfig
from pyro_dynamics.environments.vector_env import VectorEnv, as_vectors
from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import DiagonalConfig, DiagonalGuide
from pyro_dynamics.inference import OfflineConfig
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel
from pyro_dynamics.tasks import BoxTask, check_spaces, on_numpy
from pyro_dynamics.tasks.functions import evaluate
from pyro_dynamics.tasks.observation_wrappers import AppendOutcome, ContextReward
from pyro_dynamics.tasks.spaces import action_vector, entry_names, observation_vector
from pyro_dynamics.transitions import Transitions


class Line(gymnasium.Env):
    """One number, moved by the action."""

    observation_space: Space = Box(-np.inf, np.inf, (1,), np.float64)
    action_space: Space = Box(-1.0, 3.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.place = np.zeros(1)
        return self.place, {"context": 2.0}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place = self.place + action
        return self.place, 10.0, bool(self.place[0] > 2), False, {"context": 2.0}


class Spaces:
    """Nothing but the spaces."""

    def __init__(self, entries: int) -> None:
        self.observation_space, self.action_space = Box(-np.inf, np.inf, (entries,)), Box(0.0, 5.0, (1,))


def nearness(state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
    return -next_state[..., 0].abs()


def far(state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
    return next_state[..., 0].abs() > 1


@pytest.mark.parametrize("reward", [nearness, "learned"])
@pytest.mark.parametrize("terminated", [None, far, "learned"])
def test_shapes_are_as_declared_and_next_state_inverts_targets(
    reward: Any, terminated: Any, generator: torch.Generator
) -> None:
    task = BoxTask(Spaces(4), reward, terminated, names=("a", "b", "c", "d"))
    state = torch.randn(2, 30, task.state_dim, generator=generator)
    next_state = torch.randn(2, 30, task.state_dim, generator=generator)
    action = torch.randn(2, 30, 1, generator=generator)
    task.fit(state.flatten(0, 1), next_state.flatten(0, 1))
    target = task.targets(state, next_state)
    assert target.shape == (2, 30, task.target_dim)
    again = task.next_state(state, target)
    known = task.target_dim  # an observed termination is not predicted: the observation decides where an episode ends
    assert torch.allclose(again[..., :known], next_state[..., :known], atol=1e-5)
    assert again.shape == next_state.shape
    assert task.inputs(state, action).shape == (2, 30, task.input_dim)
    assert task.reward(state, action, next_state).shape == (2, 30)
    assert task.terminated(state, action, next_state).dtype == torch.bool
    assert (len(task.state_names), len(task.target_names)) == (task.state_dim, task.target_dim)
    if reward == "learned":
        assert torch.equal(task.reward(state, action, next_state), next_state[..., 4])


def test_targets_are_standardised_once_and_the_statistics_are_kept(generator: torch.Generator) -> None:
    task = BoxTask(Spaces(2), nearness)
    state = torch.tensor([[0.0, 1e6]]) + torch.randn(500, 2, generator=generator) * torch.tensor([1.0, 0.0])
    next_state = state + torch.tensor([5.0, 0.0]) + 1e-4 * torch.randn(500, 2, generator=generator)
    next_state[:, 1] = state[:, 1]
    task.fit(state, next_state)
    target = task.targets(state, next_state)
    assert torch.allclose(target.std(0), torch.tensor([1.0, 0.0]), atol=0.01)  # what never changes stays 0
    task.fit(5 * state, 5 * next_state)
    assert torch.equal(task.targets(state, next_state), target)
    other = BoxTask(Spaces(2), nearness)
    other.load_state_dict(task.state_dict())
    assert torch.equal(other.targets(state, next_state), target)


def test_scales_far_apart_and_a_still_dimension_are_learned_alike(generator: torch.Generator) -> None:
    """Changes of 1e-4 and 1e4, and an entry of 9.81 that never changes; the hidden parameter is the change's size."""
    task = BoxTask(Spaces(3), nearness)
    scales, count = torch.tensor([1e-4, 1e4]), 1200
    environment = torch.arange(count) % 4
    size = torch.tensor([0.5, 1.0, 1.5, 2.0])[environment, None]

    def transitions() -> Transitions:
        state = torch.cat([scales * torch.randn(count, 2, generator=generator), torch.full((count, 1), 9.81)], 1)
        action = 5 * torch.rand(count, 1, generator=generator)
        next_state = state.clone()
        next_state[:, :2] += scales * size * (action - 2.5)
        return Transitions(state, action, next_state, torch.zeros(count), environment, torch.arange(count))

    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = EnsembleConfig(2, (32, 32), (1e-5, 1e-5, 1e-5))
        model = HierarchicalModel(Ensemble(task.input_dim, 1, task.target_dim, config), 4, 1)
    guide = DiagonalGuide(4, 1, DiagonalConfig())
    offline = OfflineConfig(5e-3, 5e-3, batch_size=64, min_steps=500, lr_decay=True)
    agent = Agent(model, guide, task, (torch.zeros(1), torch.full((1,), 5.0)), offline, MPCConfig(5, 2))
    assert np.isfinite(agent.train(transitions(), generator))
    test = transitions()
    mean = agent.posterior().mean[:, 0]
    with torch.no_grad():
        location, scale = agent.predict(test.state, test.action, mean[environment, None][None])
        predicted = task.next_state(test.state, location.mean(dim=(0, 1)))
    assert scale.isfinite().all()
    error = (predicted - test.next_state).square().mean(0).sqrt()[:2] / scales
    assert (error < 0.1 * size.mul(test.action - 2.5).std()).all()
    assert (predicted[:, 2] - 9.81).abs().max() < 0.1
    assert (mean.diff().sign().sum().abs() == 3).item()  # the latents are in the order of the hidden parameter
    saved = agent.state_dict()["task"]
    assert set(saved) == {"mean", "scale"}


@pytest.mark.parametrize("first", ["rests", "trembles", "has one outlier"])
def test_scales_follow_data_that_are_of_another_size_later(first: str, generator: torch.Generator) -> None:
    """A number that rests at first, or only trembles, or jumps once, and then is learned as well as any other."""
    task = BoxTask(Spaces(2), nearness)
    environment, count = torch.arange(600) % 2, 600

    def transitions(width: float, outlier: float = 0.0, place: float = 0.0) -> Transitions:
        state = place + torch.randn(count, 2, generator=generator)
        action = 5 * torch.rand(count, 1, generator=generator)
        next_state = state + 0.1 * torch.randn(count, 2, generator=generator)
        state[:, 1] = width * (state[:, 1] - place)
        next_state[:, 1] = state[:, 1] + width * (action[:, 0] - 2.5)
        next_state[0, 1] += outlier
        return Transitions(state, action, next_state, torch.zeros(count), environment, torch.arange(count))

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = HierarchicalModel(
            Ensemble(task.input_dim, 1, task.target_dim, EnsembleConfig(2, (32, 32), (1e-5,) * 3)), 2, 1
        )
    offline = OfflineConfig(5e-3, 5e-3, batch_size=64, min_steps=500, lr_decay=True)
    guide = DiagonalGuide(2, 1, DiagonalConfig())
    agent = Agent(model, guide, task, (torch.zeros(1), torch.full((1,), 5.0)), offline, MPCConfig(5, 2))
    begin = {"rests": (0.0, 0.0), "trembles": (1e-6, 0.0), "has one outlier": (1e-3, 1e3)}[first]
    data = [transitions(*begin, place=6.0)]
    agent.train(data[0], generator)
    later = 1e-3 if first == "has one outlier" else 0.2
    old = task.state_dict()["scale"][1].item()
    if first == "has one outlier":  # it was a fault of a sensor, and its row is left out now
        data[0] = data[0].select(torch.arange(1, count))
    data.append(transitions(later))
    far, words = agent.far_outside(data[1])
    assert (far.mean() > 0.5) == ("state 1" in words) == (first != "has one outlier")
    agent.train(Transitions.concatenate(data), generator)
    assert not agent.for_environments(1).far_outside(data[1].of([0]))[0].any()  # it knows them now
    other = agent.for_environments(2)
    saved = agent.state_dict()
    saved["trained_range"] = saved["trained_range"] + 1
    other.load_state_dict(saved)
    assert torch.equal(other.state_dict()["trained_range"], saved["trained_range"])
    new = task.state_dict()["scale"][1].item()
    assert abs(new / old - 1) > 0.5
    test = transitions(later)
    mean = agent.posterior().mean[:, 0]
    with torch.no_grad():
        location, scale = agent.predict(test.state, test.action, mean[environment, None][None])
        error = task.next_state(test.state, location.mean(dim=(0, 1))) - test.next_state
    assert scale.isfinite().all()
    spread = (test.next_state - test.state)[:, 1].std()
    assert error[:, 1].square().mean().sqrt() < 0.15 * spread


def test_a_classifier_learns_where_episodes_end(generator: torch.Generator) -> None:
    task = BoxTask(Spaces(2), nearness, "learned")

    def reached(count: int) -> Tensor:
        inner = 2 * torch.rand(count, 2, generator=generator) - 1
        place = inner * torch.tensor([1.1, 3.0])
        return torch.cat([place, (place[:, :1].abs() > 1).float()], 1)

    data = reached(1000)
    nothing = data * torch.tensor([0.5, 1.0, 0.0])
    task.fit(torch.zeros_like(nothing), nothing)
    assert not task.terminated(data, data[:, :1], data).any()  # nothing has ended yet
    task.fit(torch.zeros_like(data), data)
    test = reached(2000)
    ends, truth = task.terminated(test, test[:, :1], test * torch.tensor([1.0, 1.0, 0.0])), test[:, 2] > 0.5
    assert ends[truth].float().mean() > 0.9
    assert ends[~truth].float().mean() < 0.05
    other = BoxTask(Spaces(2), nearness, "learned")
    other.load_state_dict(task.state_dict())
    assert torch.equal(other.terminated(test, test[:, :1], test), ends)


def test_what_is_learned_stands_at_the_end_of_the_observation() -> None:
    env = BoxTask(Line(), "learned", "learned").wrap(Line())
    assert isinstance(env, AppendOutcome)
    assert env.observation_space.shape == (3,)
    assert env.observation_space.dtype == np.float64
    assert env.reset(seed=0)[0].tolist() == [0, 0, 0]
    assert env.step(np.array([1.5], np.float32))[0].tolist() == [1.5, 10, 0]
    assert env.step(np.array([1.5], np.float32))[0].tolist() == [3, 10, 1]
    plain = Line()
    assert BoxTask(plain, nearness).wrap(plain) is plain


def test_a_reward_of_the_context_is_the_simulators_and_is_learned() -> None:
    def reward(state: Tensor, action: Tensor, next_state: Tensor, context: Tensor) -> Tensor:
        return context * (next_state - state)[..., 0] + action[..., 0]

    task = BoxTask(Line(), reward)
    assert task.learns_reward
    env = task.wrap(Line())
    assert isinstance(env.env, ContextReward)  # type: ignore[attr-defined]
    env.reset(seed=0)
    observation, given, *_ = env.step(np.array([1.5], np.float32))
    assert given == 4.5
    assert observation.tolist() == [1.5, 4.5]
    with pytest.raises(UserError, match="planner does not know the context"):
        BoxTask(Line(), nearness, reward)


def test_numpy_functions_see_rows_and_keep_the_leading_shape(generator: torch.Generator) -> None:
    def batched(state: np.ndarray, action: np.ndarray, next_state: np.ndarray) -> np.ndarray:
        assert state.shape == (6, 2)
        return next_state[:, 0] - state[:, 1] * action[:, 0]

    def single(state: np.ndarray, action: np.ndarray, next_state: np.ndarray) -> float:
        return float(next_state[0] - state[1] * action[0])

    state, next_state = torch.randn(2, 2, 3, 2, generator=generator)
    action = torch.randn(2, 3, 1, generator=generator)
    expected = next_state[..., 0] - state[..., 1] * action[..., 0]
    assert torch.allclose(on_numpy(batched)(state, action, next_state), expected)
    assert torch.allclose(on_numpy(single, batched=False)(state, action, next_state), expected)
    ends = on_numpy(lambda state, action, next_state: next_state[:, 0] > 0)
    assert torch.equal(ends(state, action, next_state), next_state[..., 0] > 0)
    with pytest.raises(UserError, match="batched=False"):
        on_numpy(single)(state, action, next_state)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda s, a, n: n.sum(), r"shape \[\]"),
        (lambda s, a, n: n[..., :1], r"shape \[2, 3, 1\]"),
        (lambda s, a, n: n[..., 0].double(), "torch.float64, not torch.float32"),
        (lambda s, a, n: n[..., 0] / 0, "gives -?inf"),
        (lambda s, a, n: np.zeros((2, 3)), "ndarray, not a torch tensor"),
        (lambda s, a, n: n @ torch.zeros(7), "raises RuntimeError"),
    ],
)
def test_a_wrong_function_is_reported_in_one_line(function: Any, words: str, generator: torch.Generator) -> None:
    state = torch.rand(2, 3, 4, generator=generator) + 1
    with pytest.raises(UserError, match=words) as error:
        evaluate("reward", function, state, state[..., :1], state)
    assert "\n" not in str(error.value)


BOX = Box(-1.0, 1.0, (2,))


@pytest.mark.parametrize(
    ("observations", "actions", "words"),
    [
        (BOX, Discrete(1), "a choice among one is none"),
        (BOX, MultiDiscrete([2, 1]), "a choice among one is none"),
        (BOX, Dict({"a": BOX, "b": Dict({"c": Text(3)})}), r"action space \(at b.c\) Text\(.*no vector stands for it"),
        (Text(3), BOX, "no vector stands for it, so wrap the environment so that its observation is a vector"),
        (Sequence(BOX), BOX, "no vector stands for it"),
        (Dict({}), BOX, "is empty"),
        (Tuple((BOX, Dict({}))), Dict({}), "action space Dict\\(\\), which is empty"),
        (Box(-1.0, 1.0, (0,)), BOX, "it is empty"),
        (Box(0, 255, (64, 64, 3), np.uint8), BOX, "images are not modelled"),
        (Box(0, 255, (64, 64), np.uint8), BOX, "images are not modelled"),
        (Tuple((BOX, Box(0.0, 1.0, (8, 8, 3)))), BOX, r"observation space \(at 1\) .* images are not modelled"),
        (
            BOX,
            Dict({"b": BOX, "a": Box(-np.inf, np.inf, (1,))}),
            "action 0 lies between -inf and inf.*ClipAction takes",
        ),
        (BOX, Box(-np.inf, 1.0, (2,)), "action 0 lies between -inf and 1"),
        (BOX, Box(np.array([-1.0, 2.0]), np.array([1.0, 2.0]), dtype=np.float64), "action 1 lies between 2 and 2"),
        (BOX, Box(-3e38, 3e38, (1,)), "further apart than float32 can say: give the bounds that the actuator has"),
        (BOX, Box(-1e300, 1e300, (1,), np.float64), "further apart than float32 can say"),
        (BOX, Box(4.5e6 - 1, 4.5e6 + 1, (1,), np.float64), "between 4499999 and 4500001.* another origin"),
        (BOX, Box(1e8 - 1, 1e8 + 1, (1,), np.float64), "float32 has a few numbers only between these"),
        (BOX, Box(0, 3, (1,), np.int64), "only real numbers and discrete choices are planned, not int64"),
    ],
)
def test_a_space_that_cannot_be_planned_in_is_refused(observations: Space, actions: Space, words: str) -> None:
    with pytest.raises(UserError, match=words) as error:
        check_spaces("Robot", observations, actions)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("space", "names"),
    [
        (BOX, ()),
        (Box(-1.0, 1.0, (2, 1)), ()),
        (Box(-1.0, 1.0, ()), ()),
        (Dict({"b": BOX, "a": Box(-1.0, 1.0, (1,))}), ("a", "b[0]", "b[1]")),  # in Gymnasium's order
        (Tuple((Discrete(2), Box(-1.0, 1.0, (1, 2)))), ("0 = 0", "0 = 1", "1[0]", "1[1]")),
        (Discrete(2, start=-1), ("observation = -1", "observation = 0")),
        (MultiDiscrete([2, 3]), tuple(f"observation[{i}] = {v}" for i, v in [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)])),
        (Dict({"on": MultiBinary(2)}), ("on[0]", "on[1]")),
    ],
    ids=str,
)
def test_spaces_of_every_kind_become_vectors(space: Space, names: tuple[str, ...]) -> None:
    """Observations as FlattenObservation has them; actions come back as they were."""
    check_spaces("Robot", space, space)
    assert entry_names(space) == names
    there, back = observation_vector(space), action_vector(space)
    assert len(names) in (0, len(there.low))
    space.seed(0)
    for _ in range(20):
        sample = space.sample()
        env: Any = Echo(space, space)
        flat, _ = as_vectors(env).reset(options={"say": sample})
        assert there.contains(np.asarray(flat, there.dtype))
        expected: Any = gymnasium.spaces.flatten(space, sample)
        assert np.array_equal(flat, expected)
        as_vectors(env).step(np.asarray(flat, back.dtype))
        assert data_equivalence(env.done, sample)


@pytest.mark.parametrize(
    ("space", "value", "words"),
    [
        (Dict({"a": BOX}), np.zeros(2), r"the observation must be a dictionary with a, and is array\("),
        (Dict({"a": BOX, "b": BOX}), {"a": np.zeros(2)}, "must be a dictionary with a, b, and is"),
        (Dict({"a": Tuple((BOX, BOX))}), {"a": (np.zeros(2),)}, r"the observation\['a'\] must be 2 parts, and is"),
        (Tuple((BOX, Discrete(3))), (np.zeros(2), 3), r"the observation\[1\] must be in Discrete\(3\), and is 3"),
        (Discrete(3), -1, r"the observation must be in Discrete\(3\), and is -1"),
        (
            Box(-1.0, 1.0, (2, 1)),
            np.zeros(2),
            r"the observation must be in Box\(-1.0, 1.0, \(2, 1\), float32\), and is",
        ),
        (Dict({"a": BOX}), None, "must be a dictionary with a, and is None"),
    ],
    ids=str,
)
def test_an_observation_without_the_parts_of_its_space_is_named(space: Space, value: Any, words: str) -> None:
    env: Any = Echo(space, BOX)
    with pytest.raises(ValueError, match=words) as error:
        VectorEnv(env).reset(options={"say": value})
    assert "\n" not in str(error.value)


class Echo(gymnasium.Env):
    """Observes what it is given, and takes what it observes."""

    def __init__(self, observations: Space, actions: Space) -> None:
        self.observation_space, self.action_space = observations, actions

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return options["say"], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.done = action
        return action, 0.0, False, False, {}


def test_a_name_is_no_environment() -> None:
    with pytest.raises(UserError, match="BoxTask needs an environment, with its spaces, not 'Pendulum-v1'"):
        BoxTask("Pendulum-v1")


def test_a_numpy_function_gives_a_number_a_row() -> None:
    rows = torch.zeros(5, 3)
    with pytest.raises(UserError, match=r"squares gives the shape \[5, 3\] for 5 rows, not \[5\]"):
        on_numpy(squares)(rows, rows, rows)


def squares(state: np.ndarray, action: np.ndarray, next_state: np.ndarray) -> np.ndarray:
    return state**2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"reward": "cost"}, "reward must be a function of .state, action, next_state. or \"learned\", not 'cost'"),
        ({"names": ("place", "speed")}, "Line observes 1 numbers, and 2 names were given"),
    ],
)
def test_what_is_no_function_and_names_too_many_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        BoxTask(Line(), **given)
