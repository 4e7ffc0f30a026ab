from itertools import count

import pytest
import torch
from scipy.stats import kstest, norm
from torch import Tensor
from torch.distributions import Independent, Normal

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.diagnostics.prediction.predictive import coverage, pit_histogram
from pyro_dynamics.environments import find_family
from pyro_dynamics.models import EnsembleConfig
from pyro_dynamics.observation import marginal_cdf
from pyro_dynamics.rollouts.adaptation import adapt
from pyro_dynamics.runners.common.configuration import RunConfig
from pyro_dynamics.runners.common.factory import build_group, group_for

FAMILY = find_family("pendulum-gravity")


def make_group(agent: str) -> AgentGroup:
    ensemble = EnsembleConfig(members=2, hidden=(8,), weight_decay=(0.0, 0.0))
    config = RunConfig(agent=agent, ensemble=ensemble)  # type: ignore[arg-type]
    return build_group(config, FAMILY, FAMILY.make_vector(FAMILY.train[:1], 5).single_action_space)


def mixture_pit(location: Tensor, scale: Tensor, targets: Tensor) -> Tensor:
    """Of an equal mixture of Gaussians ``[n, M, B, T]`` at targets ``[B, T]``."""
    return marginal_cdf(Independent(Normal(location, scale, validate_args=False), 1), targets).mean(dim=(0, 1))


def test_the_pit_of_one_gaussian_is_its_cdf() -> None:
    location, scale = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 3.0])
    targets = torch.tensor([[1.0, -2.0], [1.5, 1.0], [0.0, -8.0]])
    pit = mixture_pit(location.expand(1, 1, 3, 2), scale.expand(1, 1, 3, 2), targets)
    assert pit[0].tolist() == pytest.approx([0.5, 0.5])
    assert torch.allclose(pit, torch.as_tensor(norm.cdf(targets, location, scale), dtype=torch.float32), atol=1e-6)


def test_the_pit_of_a_mixture_is_the_mean_of_its_cdfs() -> None:
    location = torch.tensor([[-1.0, 1.0], [0.0, 4.0], [2.0, 2.0]])[..., None, None]  # 3 draws, 2 members
    pit = mixture_pit(location, torch.full((3, 2, 1, 1), 0.5), torch.tensor([[0.7]]))
    assert float(pit) == pytest.approx(norm.cdf(0.7, location.flatten(), 0.5).mean(), abs=1e-6)


def test_the_pit_is_uniform_where_the_prediction_is_right(generator: torch.Generator) -> None:
    location = torch.randn(4, 3, 5000, 2, generator=generator)
    scale = 0.1 + torch.rand(4, 3, 5000, 2, generator=generator)
    draw, member = (torch.randint(high, (5000,), generator=generator) for high in (4, 3))
    rows = draw, member, torch.arange(5000)
    targets = location[rows] + scale[rows] * torch.randn(5000, 2, generator=generator)
    pit = mixture_pit(location, scale, targets)
    assert kstest(pit.flatten().numpy(), "uniform").pvalue > 0.01
    assert float(coverage(pit).mean()) == pytest.approx(0.9, abs=0.01)
    assert float(coverage(pit, level=0.5).mean()) == pytest.approx(0.5, abs=0.02)

    narrow = mixture_pit(location[:1, :1], scale[:1, :1] / 3, location[0, 0] + scale[0, 0])
    assert float(coverage(narrow).mean()) == 0  # three standard deviations off
    counts = pit_histogram(pit)
    assert len(counts) == 10
    assert sum(counts) == 10_000
    assert all(800 < number < 1200 for number in counts)


def test_coverage_is_a_share_of_the_dimensions() -> None:
    pit = torch.tensor([[0.01, 0.5, 0.93, 0.97], [0.2, 0.3, 0.4, 0.5]])
    assert coverage(pit).tolist() == [0.5, 1.0]
    assert pit_histogram(torch.tensor([0.0, 0.05, 0.55, 1.0])) == [2, 0, 0, 0, 0, 1, 0, 0, 0, 1]


@pytest.mark.parametrize("agent", ["latent", "generalist", "specialist"])
def test_every_agent_predicts_a_distribution(agent: str, generator: torch.Generator) -> None:
    group = make_group(agent)
    state, next_state = torch.randn(3, 3, generator=generator), torch.randn(3, 3, generator=generator)
    action, environment = torch.randn(3, 1, generator=generator), torch.tensor([3, 0, 4])
    pit = group.predictive_pit(state, action, next_state, environment, generator, torch.ones(3, 2))
    assert pit.shape == (3, 2)
    assert ((pit > 0) & (pit < 1)).all()
    if agent != "latent":  # nothing is drawn, and each row is its own agent's mixture of two members
        for row, k in enumerate(environment.tolist()):
            likelihood = group.agents[k if agent == "specialist" else 0].model.likelihood
            inputs = FAMILY.task().inputs(state[row], action[row]).expand(2, 1, -1)
            with torch.no_grad():
                location, scale = likelihood(inputs, torch.zeros(2, 1, 0))
            target = FAMILY.task().targets(state[row], next_state[row])
            expected = mixture_pit(location[None], scale[None], target[None])
            assert torch.allclose(pit[row], expected[0], atol=1e-5)


def test_adapting_gives_the_pit_of_each_step_before_it_is_seen() -> None:
    group = group_for(make_group("latent"), FAMILY, [3.0, 9.0])
    asked: list[int] = []
    numbers = count()
    for step in adapt(group, FAMILY.make_vector([3.0, 9.0], 4), seed=0, before_step=asked.append):
        assert step.pit.shape == (2, 2)
        assert ((step.pit >= 0) & (step.pit <= 1)).all()
        assert asked == list(range(next(numbers) + 1))  # reported for this step, and not yet for the next
    assert asked == [0, 1, 2, 3]
