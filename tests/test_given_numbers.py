"""What users give for vectors: of numpy, torch or Python, of any type, with and without the axis of a batch."""

from typing import Any

import numpy as np
import pytest
import torch

from pyro_dynamics.agent import Agent
from pyro_dynamics.control import MPCConfig
from pyro_dynamics.environments import find_family
from pyro_dynamics.errors import UserError
from pyro_dynamics.given_numbers import as_indices, as_rows, whole_number
from pyro_dynamics.guides import DiagonalGuide
from pyro_dynamics.inference import OfflineConfig
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel
from pyro_dynamics.transitions import Transitions

ROW = torch.tensor([0.5, 0.25, -1.0])
FORMS: list[Any] = [
    *(ROW.to(kind) for kind in (torch.float64, torch.float16, torch.bfloat16)),
    *(ROW.numpy().astype(kind) for kind in (np.float32, np.float64, np.float16, ">f4", object)),
    ROW.tolist(),
    list(ROW),
    tuple(ROW.tolist()),
    np.stack([ROW.numpy(), ROW.numpy()], 1)[:, 0],
    ROW[None],
    ROW.numpy()[None].astype(float),
]


@pytest.fixture
def agent() -> Agent:
    task = find_family("pendulum-gravity").make_task()
    networks = Ensemble(task.input_dim, 2, task.target_dim, EnsembleConfig(2, (8,), (0.0, 0.0)))
    model, bounds = HierarchicalModel(networks, 1, 2), (torch.tensor([-2.0]), torch.tensor([2.0]))
    controller = MPCConfig(horizon=2, particles=2)
    return Agent(model, DiagonalGuide(1, 2), task, bounds, OfflineConfig(epochs=1), controller)


@pytest.mark.parametrize("values", FORMS, ids=lambda values: f"{type(values).__name__}")
def test_every_form_is_the_same_row(values: Any) -> None:
    assert torch.equal(as_rows(values, 3, "state"), ROW[None])


def test_a_float32_tensor_is_not_copied() -> None:
    rows = torch.randn(2, 3)
    assert as_rows(rows, 3, "state") is rows


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (ROW[:2], "state must be a vector of 3 numbers, or rows of such, not of shape [2]"),
        (ROW[None, None], "not of shape [1, 1, 3]"),
        (3.0, "not of shape []"),
        (ROW * torch.nan, "state must be finite"),
        (np.array([1e300, 0.0, 0.0]), "state must be finite, not [inf, 0.0, 0.0]"),
        (np.ma.masked_array(ROW.numpy(), mask=[True, False, False]), "state must be finite, not [nan"),
        ((ROW.numpy(), {}), "env.reset() gives a pair: take its first"),
        ({"a": 1}, "must be a vector of numbers, not this dict"),
        (["1", "2", "3"], "must be a vector of numbers, not this list"),
        (ROW.numpy() + 0j, "must be a vector of numbers, not this ndarray"),
        (None, "not of shape []"),
    ],
)
def test_what_is_no_vector_gets_one_line(values: Any, words: str) -> None:
    with pytest.raises(UserError) as refused, np.errstate(all="raise"):
        as_rows(values, 3, "state")
    assert words in str(refused.value)


@pytest.mark.parametrize("values", [0, [0, 0], np.zeros(2, int), torch.zeros(2, dtype=torch.int32), np.int64(0)])
def test_indices_of_any_kind(values: Any) -> None:
    found = as_indices(values, 2, 1)
    assert found.dtype == torch.long
    assert found.tolist() == [0, 0]


@pytest.mark.parametrize("values", [0.0, [True, False], [0, 3], [-1, 0], [0], None, "0"])
def test_what_is_no_index_gets_one_line(values: Any) -> None:
    with pytest.raises(UserError, match="environment must"):
        as_indices(values, 2, 1)


def test_whole_numbers() -> None:
    assert [whole_number(one, "n", 0) for one in (3, np.int64(3), torch.tensor(3))] == [3, 3, 3]
    for one in (3.0, "3", None, True, -1):
        with pytest.raises(UserError, match="n must be"):
            whole_number(one, "n", 0)


@pytest.mark.parametrize("values", FORMS, ids=lambda values: f"{type(values).__name__}")
def test_an_agent_acts_and_learns_from_every_form_alike(agent: Agent, values: Any) -> None:
    first = agent.act(ROW[None], torch.zeros(1, dtype=torch.long), torch.Generator().manual_seed(0))
    agent.controller.reset()
    assert torch.equal(agent.act(values, 0, torch.Generator().manual_seed(0)), first)
    density = agent.log_predictive(values, [0.5], values, 0, torch.Generator().manual_seed(0))
    rows = ROW[None], torch.tensor([[0.5]]), ROW[None]
    assert torch.equal(density, agent.log_predictive(*rows, torch.tensor([0]), torch.Generator().manual_seed(0)))
    agent.observe(values, np.array([0.5]), values, np.array([0]), torch.Generator().manual_seed(0))


def test_an_agent_refuses_what_does_not_fit_in_one_line(agent: Agent) -> None:
    generator = torch.Generator()
    for state, environment, source, words in (
        (ROW[:2], 0, generator, "state must be a vector of 3 numbers"),
        (ROW * torch.nan, 0, generator, "state must be finite"),
        (ROW, 3, generator, "environment must lie in 0 to 0"),
        (ROW, 0, 7, "generator must be a torch.Generator"),
    ):
        with pytest.raises(UserError, match=words):
            agent.act(state, environment, source)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="there are 1 and 1 and 2 of them"):
        agent.observe(ROW, [0.0], torch.stack([ROW, ROW]), 0, generator)


def test_an_agent_trains_on_numpy_of_double_precision(agent: Agent) -> None:
    rng = np.random.default_rng(0)
    given: dict[str, Any] = {"state": rng.normal(size=(8, 3)), "action": rng.normal(size=(8, 1)), "reward": np.zeros(8)}
    given |= {"next_state": given["state"] + 0.1, "environment": np.zeros(8, int), "step": np.arange(8)}
    assert np.isfinite(agent.train(Transitions(**given), torch.Generator().manual_seed(0)))
    with pytest.raises(UserError, match="the next_state of environment 0 at step 0 is not finite"):
        agent.train(Transitions(**given | {"next_state": given["state"] * np.nan}), torch.Generator())
    with pytest.raises(UserError, match=r"these are no transitions: action has the shape \[8\]"):
        agent.train(Transitions(**given | {"action": np.zeros(8)}), torch.Generator())
