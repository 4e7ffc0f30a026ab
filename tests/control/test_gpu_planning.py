"""Plans on a device, here the processor: the same search by copies. On a GPU: tests/test_on_a_gpu.py."""

import copy
from typing import Any, cast

import pytest
import torch
from torch._dynamo.exc import TorchDynamoException
from torch.distributions import Independent, Normal

from pyro_dynamics.control import (
    CEM,
    ICEM,
    MPC,
    MPPI,
    CEMConfig,
    ICEMConfig,
    MPCConfig,
    MPPIConfig,
    Planner,
    TrajectorySampler,
    gpu_planning,
)
from pyro_dynamics.models import Ensemble, EnsembleConfig
from pyro_dynamics.tasks import HalfCheetahTask

PROCESSOR = torch.device("cpu")
LOW, HIGH = torch.full((6,), -1.0), torch.full((6,), 1.0)
ENVIRONMENT = torch.tensor([1, 0])
BELIEF = Independent(Normal(torch.tensor([[-1.0], [1.0]]), 0.1), 1)
PLANNERS = {
    "cem": lambda: CEM(CEMConfig(candidates=12, elites=3, iterations=3)),
    "icem": lambda: ICEM(ICEMConfig(candidates=12, elites=4, iterations=3)),
    "mppi": lambda: MPPI(MPPIConfig(candidates=12, iterations=2)),
}


@pytest.fixture(params=PLANNERS)
def planner(request: pytest.FixtureRequest) -> Planner:
    return PLANNERS[request.param]()


def controller(planner: Planner, device: torch.device | None, net: Ensemble | None = None) -> MPC:
    torch.manual_seed(0)
    net = net or Ensemble(24, 1, 18, EnsembleConfig(2, (16, 16), (0.0,) * 3))
    sampler = TrajectorySampler(net, HalfCheetahTask(), 2, 4)
    return MPC(sampler, LOW, HIGH, MPCConfig(horizon=5, particles=4), planner, device)


def test_two_steps_are_those_of_the_planner_itself(planner: Planner) -> None:
    """On the processor, where draws can be the same: those of the latents first, then those of a seed."""
    found, expected = controller(planner, PROCESSOR), controller(copy.copy(planner), None)
    state = torch.randn(2, 18, generator=torch.Generator().manual_seed(1))
    draws, again = torch.Generator().manual_seed(2), torch.Generator().manual_seed(2)
    for _ in range(2):
        action = found.act(state, BELIEF, ENVIRONMENT, draws)
        latents = [draw_latents(expected, again) for _ in range(cast(Any, expected.planner.config).iterations)]
        seeded = torch.Generator().manual_seed(int(torch.randint(2**62, (), generator=again)))
        each = iter(latents)

        def objective() -> Any:
            e = next(each)  # noqa: B023  # called within the turn
            return lambda c: expected.sampler.for_planning().returns(state, c, e, seeded)  # noqa: B023

        with torch.inference_mode():
            plan = expected.planner.plan(objective, (2, 5, 6), seeded)
        torch.testing.assert_close(action, plan[:, 0])
        for name, value in expected.planner.plans().items():
            torch.testing.assert_close(found.planner.plans()[name], value)


def draw_latents(mpc: MPC, generator: torch.Generator) -> torch.Tensor:
    noise = torch.empty(mpc.config.particles, 2, 1).normal_(generator=generator)
    return (BELIEF.mean + BELIEF.stddev * noise)[:, ENVIRONMENT].transpose(0, 1)


def test_a_training_changes_the_copies(planner: Planner) -> None:
    net = Ensemble(24, 1, 18, EnsembleConfig(2, (16, 16), (0.0,) * 3))
    mpc, state = controller(planner, PROCESSOR, net), torch.zeros(2, 18)

    def act() -> torch.Tensor:
        mpc.reset()
        return mpc.act(state, BELIEF, ENVIRONMENT, torch.Generator().manual_seed(2))

    before = act()
    assert torch.equal(act(), before)
    with torch.no_grad():
        net.weights[0].mul_(-3)
    assert not torch.equal(act(), before)


def test_a_task_that_cannot_be_compiled_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_nothing(_: Any) -> Any:
        def call(*_: Any) -> Any:
            raise TorchDynamoException("no compiler")

        return call

    monkeypatch.setattr(torch, "compile", compile_nothing)
    fused, state = gpu_planning._in_few_kernels(HalfCheetahTask()), torch.randn(4, 18)
    with pytest.warns(UserWarning, match="plans take longer: next_state of the task cannot be compiled: no compiler"):
        found = fused.next_state(state, state)
    assert torch.equal(found, HalfCheetahTask().next_state(state, state))
    fused.next_state(state, state)  # warned once


def test_a_network_of_nan_is_copied_once() -> None:
    net = Ensemble(24, 1, 18, EnsembleConfig(2, (16, 16), (0.0,) * 3))
    with torch.no_grad():
        net.weights[0].fill_(torch.nan)
    mpc = controller(CEM(CEMConfig(candidates=12, elites=3, iterations=1)), PROCESSOR, net)
    assert mpc.elsewhere is not None
    for _ in range(2):
        mpc.act(torch.zeros(2, 18), BELIEF, ENVIRONMENT, torch.Generator())
        copies = mpc.elsewhere._sampler
    mpc.act(torch.zeros(2, 18), BELIEF, ENVIRONMENT, torch.Generator())
    assert mpc.elsewhere._sampler is copies
