"""Every action that is sent is finite and inside the bounds, whatever the model and the belief say."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch.distributions import Independent, Normal

from pyro_dynamics.control import CEM, ICEM, MPC, MPPI, CEMConfig, ICEMConfig, MPCConfig, MPPIConfig, TrajectorySampler
from pyro_dynamics.models import Ensemble, EnsembleConfig
from pyro_dynamics.tasks import PendulumTask

PLANNERS = {
    "cem": lambda: CEM(CEMConfig(candidates=12, elites=3, iterations=2)),
    "icem": lambda: ICEM(ICEMConfig(candidates=12, elites=3, iterations=2)),
    "icem-best": lambda: ICEM(ICEMConfig(candidates=12, elites=3, iterations=2, execute="best")),
    "mppi": lambda: MPPI(MPPIConfig(candidates=12, iterations=2)),
}
ENSEMBLE = Ensemble(PendulumTask().input_dim, 2, PendulumTask().target_dim, EnsembleConfig(2, (8,), (0.0, 0.0)))

odd = st.sampled_from([0.0, 1.0, -1.0, 1e30, -1e30, 3e38, float("nan"), float("inf"), -float("inf")])
numbers = st.one_of(odd, st.floats(-10, 10, width=32, allow_subnormal=False))  # a command sets them to 0


@st.composite
def bounds(draw: st.DrawFn) -> tuple[float, float]:
    """A lower and a higher bound that need not be symmetric, nor lie around 0."""
    low = draw(st.floats(-1e6, 1e6, width=32, allow_subnormal=False))
    room = draw(st.floats(2**-20, 1e6, width=32, allow_subnormal=False))
    return low, float(torch.tensor(low) + torch.tensor(room) + abs(low) * 1e-6)


def weights(seed: int, scale: float, spoilt: float, share: float) -> None:
    """Random weights of a size, a share of them one odd number."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in ENSEMBLE.parameters():
            parameter.normal_(generator=generator).mul_(scale)
            parameter[torch.rand(parameter.shape, generator=generator) < share] = spoilt


@pytest.mark.parametrize("name", PLANNERS)
@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(
    seed=st.integers(0, 2**31),
    scale=st.sampled_from([0.1, 1.0, 1e3, 1e15, 1e30]),
    spoilt=odd,
    share=st.sampled_from([0.0, 0.01, 0.5, 1.0]),
    means=st.lists(numbers, min_size=4, max_size=4),
    deviations=st.lists(numbers, min_size=4, max_size=4),
    state=st.lists(numbers, min_size=6, max_size=6),
    action=bounds(),
)
def test_every_action_is_finite_and_inside_the_bounds(
    name: str,
    seed: int,
    scale: float,
    spoilt: float,
    share: float,
    means: list[float],
    deviations: list[float],
    state: list[float],
    action: tuple[float, float],
) -> None:
    weights(seed, scale, spoilt, share)
    sampler = TrajectorySampler(ENSEMBLE, PendulumTask(), members=2, particles=2)
    low, high = (torch.tensor([bound]) for bound in action)
    assert low < high
    mpc = MPC(sampler, low, high, MPCConfig(horizon=3, particles=2), PLANNERS[name]())
    deviation = torch.tensor(deviations).view(2, 2)
    belief = Independent(Normal(torch.tensor(means).view(2, 2), deviation.abs(), validate_args=False), 1)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(3):  # the last plan is where the next search starts
        sent = mpc.act(torch.tensor(state).view(2, 3), belief, torch.tensor([1, 0]), generator)
        assert sent.shape == (2, 1)
        assert sent.isfinite().all()
        assert ((sent >= low) & (sent <= high)).all()


@pytest.mark.parametrize("name", PLANNERS)
def test_where_nothing_is_finite_the_last_plan_continues(name: str) -> None:
    weights(0, 1.0, 0.0, 0.0)
    planner = PLANNERS[name]()
    sampler = TrajectorySampler(ENSEMBLE, PendulumTask(), members=2, particles=2)
    mpc = MPC(sampler, torch.tensor([1.0]), torch.tensor([4.0]), MPCConfig(horizon=3, particles=2), planner)
    good, state = torch.zeros(1, 2), torch.tensor([[1.0, 0.0, 0.0]])
    generator, first = torch.Generator().manual_seed(0), torch.tensor([0])
    lost = Independent(Normal(good * torch.nan, 1.0, validate_args=False), 1)
    assert mpc.act(state, lost, first, generator).item() == 2.5  # there is no plan yet: the middle of the bounds
    mpc.act(state, Independent(Normal(good, 1.0), 1), first, generator)
    assert planner.mean is not None
    planned = mpc.to_units(planner.mean[:, :2, 0]).squeeze(0)
    assert mpc.act(state, lost, first, generator).item() == pytest.approx(planned[0].item())
    assert mpc.act(state, lost, first, generator).item() == pytest.approx(planned[1].item())


def test_a_fault_that_is_no_nan_is_not_hidden() -> None:
    class Broken(Normal):
        def sample(self, *_: object) -> torch.Tensor:
            raise RuntimeError("ours")

    sampler = TrajectorySampler(ENSEMBLE, PendulumTask(), members=2, particles=2)
    mpc = MPC(sampler, torch.tensor([0.0]), torch.tensor([1.0]), MPCConfig(horizon=3, particles=2), CEM())
    with pytest.raises(RuntimeError, match="ours"):
        mpc.act(torch.zeros(1, 3), Broken(torch.zeros(1, 2), 1.0), torch.tensor([0]), torch.Generator())
