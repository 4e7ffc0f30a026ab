"""A belief that sees nothing stays, bit for bit: every guide with every update in every belief."""

from typing import Any

import pytest
import torch

from pyro_dynamics.guides import GUIDES, Guide, LowRankConfig, LowRankGuide
from pyro_dynamics.inference import BELIEFS, UPDATES, Belief
from pyro_dynamics.inference.gaussians import moments
from pyro_dynamics.models import HierarchicalModel, LinearGaussian

K, D, INPUTS, TARGETS = 3, 3, 2, 3
SHORT: dict[str, Any] = {"svi": {"steps": 2, "samples": 2}}


def belief_of(guide: str, update: str, belief: str) -> Belief:
    family: Any = GUIDES[guide]
    kind: Any = UPDATES[update]
    likelihood = LinearGaussian(INPUTS, D, TARGETS, 0.8, 2, torch.Generator().manual_seed(1))
    extra: dict[str, Any] = {"transition_dim": INPUTS + TARGETS} if family.reads_transitions else {}
    made = family(K, D, family.Config(), **extra).for_environments(K)
    rule = kind(kind.Config(**SHORT.get(update, {})))
    return BELIEFS[belief](HierarchicalModel(likelihood, K, D), made, rule)


def state_of(belief: Belief) -> dict[str, torch.Tensor]:
    """What is held of each environment, ``[K, ...]``."""
    if belief.__class__ is BELIEFS["changepoint"]:
        many = belief.many.own_tensors()  # type: ignore[attr-defined]
        weights = {"weight": belief.log_weight, "length": belief.run_length}  # type: ignore[attr-defined]
        return {name: value.clone().unflatten(0, (K, -1)) for name, value in many.items()} | weights
    return {name: value.clone() for name, value in belief.guide.own_tensors().items()}


@pytest.mark.parametrize("belief", BELIEFS)
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("guide", [name for name, family in GUIDES.items() if family.has_density])
def test_environments_that_see_nothing_stay_bit_for_bit(guide: str, update: str, belief: str) -> None:
    family = GUIDES[guide]
    if family.reads_transitions and belief != "recursive":
        pytest.skip("it remembers transitions itself")
    if update != "svi" and family.match is Guide.match:
        pytest.skip("no Gaussian, which this update refuses")
    held, generator = belief_of(guide, update, belief), torch.Generator().manual_seed(2)
    for _ in range(2):  # all have seen something
        inputs, targets = torch.randn(K, INPUTS, generator=generator), torch.randn(K, TARGETS, generator=generator)
        held.update(inputs, targets, torch.arange(K), generator)
    before = state_of(held)
    for _ in range(3):
        inputs, targets = torch.randn(1, INPUTS, generator=generator), torch.randn(1, TARGETS, generator=generator)
        held.update(inputs, targets, torch.tensor([1]), generator)
    after = state_of(held)
    assert all(torch.equal(after[name][[0, 2]], before[name][[0, 2]]) for name in before)
    assert any(not torch.equal(after[name][1], before[name][1]) for name in before)


def test_a_low_rank_guide_that_takes_over_its_own_moments_stays() -> None:
    """A covariance of -0.5 became another by each turn, when variances alone were kept."""
    guide = LowRankGuide(1, 3)
    with torch.no_grad():
        guide.factor.copy_(torch.tensor([[[1.0], [-1.0], [0.0]]]))
        guide.log_scale.copy_(torch.tensor([[0.5**0.5, 0.5**0.5, 1.0]]).log())
    before = moments(guide.frozen())
    for _ in range(20):
        guide.match(*moments(guide.frozen()))
    for one, other in zip(before, moments(guide.frozen()), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("d", "rank"), [(2, 1), (3, 2), (4, 3)])
def test_from_rank_d_less_1_on_a_low_rank_guide_holds_any_covariance(d: int, rank: int) -> None:
    root = torch.randn(5, d, d, generator=torch.Generator().manual_seed(3))
    covariance, mean = root @ root.mT + 0.1 * torch.eye(d), torch.randn(5, d)
    guide = LowRankGuide(5, d, LowRankConfig(rank=rank))
    guide.match(mean, covariance)
    torch.testing.assert_close(moments(guide.frozen())[1], covariance, rtol=1e-3, atol=2e-3)


def test_a_low_rank_guide_has_the_precisions_of_what_it_cannot_hold() -> None:
    """At the optimum of KL(q || N) the diagonals of both precisions are the same, as with a diagonal q."""
    root = torch.randn(8, 5, 5, generator=torch.Generator().manual_seed(4))
    covariance = root @ root.mT + torch.eye(5)
    guide = LowRankGuide(8, 5, LowRankConfig(rank=2))
    guide.match(torch.zeros(8, 5), covariance)
    ours, theirs = (torch.linalg.inv(c).diagonal(dim1=1, dim2=2) for c in (moments(guide.frozen())[1], covariance))
    apart = (ours / theirs).log().abs()
    assert apart.median() < 5e-3
    assert apart.max() < 0.3  # where a diagonal entry of the optimum is 0, which no guide has
