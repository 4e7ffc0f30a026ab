import torch
from scipy import stats
from torch import Tensor

from pyro_dynamics.control import CEMConfig, Objective, plan_cem

START = torch.zeros(3, 4, 2)


def peak_at(target: Tensor) -> Objective:
    """Best where every action of problem k equals ``target[k]``."""
    return lambda candidates: -(candidates - target[:, None, None, None]).square().sum((-1, -2))


def test_each_problem_finds_its_own_optimum(generator: torch.Generator) -> None:
    target = torch.tensor([-0.5, 0.0, 0.7])
    plan = plan_cem(lambda: peak_at(target), START, CEMConfig(iterations=30), generator)
    assert torch.allclose(plan, target[:, None, None].expand_as(plan), atol=0.15)  # the sd shrinks near a bound


def test_candidates_stay_in_bounds_and_within_two_standard_deviations(generator: torch.Generator) -> None:
    seen = []

    def objective(candidates: Tensor) -> Tensor:
        seen.append(candidates)
        return peak_at(torch.tensor([1.0, 1.0, -1.0]))(candidates)

    plan_cem(lambda: objective, START, CEMConfig(iterations=20), generator)
    assert seen[0].shape == (3, 500, 4, 2)
    assert seen[0].abs().max() <= 1.0  # sd (1 - -1) / 4 = 0.5, cut at two
    assert 0.42 < seen[0].std() < 0.46  # a normal cut at two sigma has 0.88 of the sd
    assert all(candidates.abs().max() <= 1 for candidates in seen)
    assert abs(seen[-1].mean((1, 2, 3)) - torch.tensor([1.0, 1.0, -1.0])).max() < 0.2


def test_candidates_are_normals_cut_at_two_standard_deviations(generator: torch.Generator) -> None:
    seen: list[Tensor] = []
    plan_cem(lambda: lambda c: seen.append(c) or c[..., 0, 0], START, CEMConfig(5000, iterations=1), generator)  # type: ignore[func-returns-value]
    assert stats.kstest(seen[0].flatten().numpy() / 0.5, stats.truncnorm(-2, 2).cdf).pvalue > 1e-3


def test_a_region_of_nan_or_infinite_returns_is_avoided(generator: torch.Generator) -> None:
    for bad in (torch.nan, torch.inf, -torch.inf):

        def objective(candidates: Tensor, bad: float = bad) -> Tensor:
            returns = candidates.sum((-1, -2))  # the more the better, but beyond 0.2 on average the model breaks
            return torch.where(candidates.mean((-1, -2)) > 0.2, torch.full_like(returns, bad), returns - 1000.0)

        plan = plan_cem(lambda objective=objective: objective, START, CEMConfig(iterations=10), generator)  # type: ignore[misc]
        assert torch.isfinite(plan).all()
        assert (plan.mean((1, 2)) < 0.25).all()
        assert (plan.mean((1, 2)) > 0.05).all()


def test_nothing_but_nan_still_gives_a_finite_plan(generator: torch.Generator) -> None:
    plan = plan_cem(lambda: lambda c: torch.full(c.shape[:2], torch.nan), START, CEMConfig(), generator)
    assert torch.isfinite(plan).all()


def test_one_iteration_is_the_smoothed_elite_mean(generator: torch.Generator) -> None:
    seen: list[Tensor] = []

    def objective(candidates: Tensor) -> Tensor:
        seen.append(candidates)
        return candidates[..., 0, 0]

    start = torch.full((1, 2, 1), 0.2)
    config = CEMConfig(candidates=50, elites=5, iterations=1, smoothing=0.1)
    plan = plan_cem(lambda: objective, start, config, generator)
    elites = seen[0][0, seen[0][0, :, 0, 0].topk(5).indices]
    assert torch.allclose(plan[0], 0.1 * start[0] + 0.9 * elites.mean(0), atol=1e-6)


def test_a_finished_problem_is_left_alone_while_others_continue(generator: torch.Generator) -> None:
    rounds = 0

    def objective() -> Objective:
        nonlocal rounds
        rounds += 1
        return peak_at(torch.tensor([0.3]))

    config = CEMConfig(iterations=100, min_variance=0.01)
    plan_cem(objective, START[:1], config, generator)
    assert 2 <= rounds < 20
