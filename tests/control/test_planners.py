"""The contract that every planner keeps, down to the TRUE dynamics: if that fails, no learned model can save it."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Independent, Normal

from pyro_dynamics.control import (
    ICEM,
    MPC,
    MPPI,
    PLANNERS,
    CEMConfig,
    ICEMConfig,
    MPCConfig,
    MPPIConfig,
    Objective,
    TrajectorySampler,
)
from pyro_dynamics.control.mppi import softmax_weights
from pyro_dynamics.control.noise import coloured_noise
from pyro_dynamics.errors import UserError
from pyro_dynamics.tasks import PendulumTask

GRAVITY = torch.tensor([4.0, 10.0])
LONG: dict[str, Any] = {  # enough iterations to converge on a bowl
    "cem": CEMConfig(iterations=30),
    "icem": ICEMConfig(candidates=200, elites=20, iterations=20, beta=0),
    "mppi": MPPIConfig(iterations=30, temperature=0.2, sigma=0.2),
}
ACTING: dict[str, Any] = {  # evaluations of 30 actions in a step: 800, 106, 800
    "cem": CEMConfig(candidates=200, elites=20, iterations=4),
    "icem": ICEMConfig(beta=2.0),
    "mppi": MPPIConfig(candidates=200, iterations=4),
}

every_planner = pytest.mark.parametrize("name", PLANNERS)


def bowl(target: Tensor) -> Callable[[], Objective]:
    """Best where every action of problem k equals ``target[k]``."""
    return lambda: lambda candidates: -(candidates - target[:, None, None, None]).square().sum((-1, -2))


class Seen:
    """An objective that remembers its candidates."""

    def __init__(self, inner: Callable[[], Objective]) -> None:
        self.inner, self.candidates, self.fresh = inner, list[Tensor](), 0

    def __call__(self) -> Objective:
        self.fresh += 1
        objective = self.inner()

        def returns(candidates: Tensor) -> Tensor:
            self.candidates.append(candidates.clone())
            return objective(candidates)

        return returns

    @property
    def evaluations(self) -> int:
        return sum(candidates.shape[1] for candidates in self.candidates)


@every_planner
def test_each_problem_finds_its_own_optimum_also_at_a_bound(name: str, generator: torch.Generator) -> None:
    target = torch.tensor([-0.5, 0.0, 0.7, 1.0, -1.0])
    plan = PLANNERS[name](LONG[name]).plan(bowl(target), (5, 4, 2), generator)
    assert plan.shape == (5, 4, 2)
    error = (plan - target[:, None, None]).abs().amax((1, 2))
    assert (error[:3] < 0.1).all()
    assert (error[3:] < 0.3).all()  # CEM's sd shrinks near a bound


@every_planner
def test_every_action_is_within_bounds_and_each_iteration_has_a_fresh_objective(
    name: str, generator: torch.Generator
) -> None:
    seen, planner = Seen(bowl(torch.tensor([1.0, -3.0, 0.0]))), PLANNERS[name]()
    config: Any = planner.config
    for _ in range(3):
        plan = planner.plan(seen, (3, 5, 2), generator)
        assert plan.abs().max() <= 1
    assert all(candidates.abs().max() <= 1 for candidates in seen.candidates)
    assert seen.fresh == len(seen.candidates) == 3 * config.iterations


@every_planner
def test_a_problem_does_not_hear_of_the_others(name: str) -> None:
    shape = (3, 4, 2)
    alone, beside = (
        PLANNERS[name](LONG[name]).plan(bowl(target), shape, torch.Generator().manual_seed(1))
        for target in (torch.tensor([0.3, 0.0, 0.0]), torch.tensor([0.3, -0.9, 1.0]))
    )
    assert torch.equal(alone[0], beside[0])
    assert not torch.equal(alone[1], beside[1])


@every_planner
def test_many_problems_at_once_are_planned_as_each_alone(name: str, generator: torch.Generator) -> None:
    config = replace(ACTING[name], candidates=40, iterations=2, **({} if name == "mppi" else {"elites": 8}))
    target, count = torch.tensor([0.6]), 400
    together = PLANNERS[name](config).plan(bowl(target.expand(count)), (count, 3, 1), generator)
    alone = torch.cat([PLANNERS[name](config).plan(bowl(target), (1, 3, 1), generator) for _ in range(count)])
    for statistic in (torch.mean, torch.std):
        assert statistic(together) == pytest.approx(float(statistic(alone)), abs=0.02)


@every_planner
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_region_of_returns_that_are_no_numbers_is_avoided(name: str, bad: float, generator: torch.Generator) -> None:
    def objective(candidates: Tensor) -> Tensor:
        returns = candidates.sum((-1, -2))  # the more the better, but beyond 0.2 on average the model breaks
        return torch.where(candidates.mean((-1, -2)) > 0.2, torch.full_like(returns, bad), returns - 1000.0)

    plan = PLANNERS[name](LONG[name]).plan(lambda: objective, (3, 4, 2), generator)
    assert (plan.mean((1, 2)) < 0.25).all()
    assert (plan.mean((1, 2)) > 0.05).all()


@every_planner
def test_nothing_but_nan_still_gives_a_finite_plan(name: str, generator: torch.Generator) -> None:
    planner = PLANNERS[name]()
    for _ in range(2):
        plan = planner.plan(lambda: lambda c: torch.full(c.shape[:2], torch.nan), (2, 4, 2), generator)
        assert plan.isfinite().all()


@every_planner
def test_the_same_seed_gives_the_same_plans(name: str) -> None:
    plans = []
    for seed in (0, 0, 1):
        planner, generator = PLANNERS[name](), torch.Generator().manual_seed(seed)
        plans.append([planner.plan(bowl(torch.tensor([0.4])), (1, 6, 2), generator) for _ in range(2)])
    assert all(torch.equal(first, second) for first, second in zip(plans[0], plans[1], strict=True))
    assert not torch.equal(plans[0][0], plans[2][0])


@every_planner
def test_a_search_starts_from_the_last_plan_until_it_is_reset(name: str, generator: torch.Generator) -> None:
    planner = PLANNERS[name](ACTING[name])
    seen = Seen(bowl(torch.tensor([0.8, -0.8])))

    def first_mean() -> Tensor:
        """Mean of the first candidates that the next call proposes."""
        seen.candidates.clear()
        planner.plan(seen, (2, 5, 1), generator)
        return seen.candidates[0][:, :, :-1].mean((1, 2, 3))  # the last action is new

    assert first_mean().abs().max() < 0.2
    warm = first_mean()
    assert warm[0] > 0.3
    assert warm[1] < -0.3
    planner.reset()
    assert first_mean().abs().max() < 0.2
    planner.reset_plans(torch.tensor([True, False]))
    widened = first_mean()
    assert widened[0].abs() < 0.2  # iCEM's kept elites still compete
    assert widened[1] < -0.3


@every_planner
def test_another_number_of_problems_starts_anew(name: str, generator: torch.Generator) -> None:
    planner = PLANNERS[name]()
    planner.reset_plans(torch.tensor([True]))  # before anything was planned
    for problems in (2, 3, 1):
        assert planner.plan(bowl(torch.zeros(problems)), (problems, 4, 2), generator).shape == (problems, 4, 2)


def true_pendulum(inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
    """Gymnasium's equations, with gravity as the latent and no noise."""
    _, sin, velocity, torque = inputs.unbind(-1)
    faster = (velocity + (1.5 * latent[..., 0] * sin + 3 * torque.clamp(-2, 2)) * 0.05).clamp(-8, 8)
    step = torch.stack([faster * 0.05, faster - velocity], -1)
    return step, torch.zeros_like(step)


@every_planner
def test_swings_two_pendulums_up_under_different_gravities(name: str, generator: torch.Generator) -> None:
    task, belief = PendulumTask(), Independent(Normal(GRAVITY[:, None], 1e-6), 1)
    low, high = torch.tensor([-2.0]), torch.tensor([2.0])
    planner = PLANNERS[name](ACTING[name])
    mpc = MPC(TrajectorySampler(true_pendulum, task, 2, 2), low, high, MPCConfig(horizon=30, particles=2), planner)
    state = torch.tensor([[-1.0, 0.0, 0.0]]).repeat(2, 1)  # hanging down at rest
    upright = []
    for _ in range(150):
        action = mpc.act(state, belief, torch.arange(2), generator)
        assert (action.abs() <= 2).all()
        step, _ = true_pendulum(task.inputs(state, action), GRAVITY[:, None])
        state = task.next_state(state, step)
        upright.append(state[:, 0] > math.cos(0.2))
    assert torch.stack(upright)[-40:].all()


def test_icem_evaluates_as_often_as_its_settings_say(generator: torch.Generator) -> None:
    config = ICEMConfig()
    assert config.populations == [40, 32, 25]
    assert (config.kept, config.evaluations) == (3, 40 + 32 + 25 + 3 * 3)
    assert ICEMConfig(candidates=40, elites=20, decay=2.0).populations == [40, 40, 40]  # never below twice the elites
    planner, seen = ICEM(config), Seen(bowl(torch.zeros(2)))
    for expected in (config.evaluations - config.kept, config.evaluations, config.evaluations):
        seen.candidates.clear()
        planner.plan(seen, (2, 5, 1), generator)
        assert seen.evaluations == expected


def test_icem_keeps_its_elites_shifts_them_and_tries_its_mean_at_the_end(generator: torch.Generator) -> None:
    config = ICEMConfig(smoothing=0.0)
    planner, seen = ICEM(config), Seen(bowl(torch.tensor([0.5])))

    def elites_of(candidates: Tensor) -> Tensor:
        returns = bowl(torch.tensor([0.5]))()(candidates)
        return candidates[0, returns[0].topk(config.elites).indices]

    planner.plan(seen, (1, 5, 1), generator)
    planner.plan(seen, (1, 5, 1), generator)
    first, second, third, later = seen.candidates[:4]
    assert torch.equal(second[0, -3:], elites_of(first)[:3])
    assert torch.allclose(third[0, 0], elites_of(second).mean(0))
    assert torch.equal(later[0, -3:, :-1], elites_of(third)[:3, 1:])


def test_icem_carries_its_deviation_to_the_next_step_until_it_is_widened(generator: torch.Generator) -> None:
    planner = ICEM(ICEMConfig(candidates=4000, beta=0.0, std_carry=0.8))

    def first_deviation() -> Tensor:
        seen = Seen(bowl(torch.zeros(1)))
        planner.plan(seen, (2, 5, 1), generator)
        return seen.candidates[0][:, :4000].std(1)

    fresh = first_deviation()
    last = planner.deviation
    assert last is not None
    assert torch.allclose(fresh, torch.full_like(fresh, 0.5), atol=0.04)  # some are clipped
    assert last[:, :-1].max() < 0.1
    assert torch.equal(last[:, -1], torch.full((2, 1), 0.5))  # nothing is known of the new last action
    carried = first_deviation()
    assert torch.allclose(carried, 0.2 * 0.5 + 0.8 * last, atol=0.04)
    planner.reset_plans(torch.tensor([True, False]))
    widened = first_deviation()
    assert widened[0].min() > 0.45
    assert widened[1, :-1].max() < 0.2


def test_icem_executes_the_mean_or_the_best(generator: torch.Generator) -> None:
    target = torch.tensor([0.5])
    seen = Seen(bowl(target))
    plan = ICEM(ICEMConfig(execute="best")).plan(seen, (1, 5, 2), generator)
    last = seen.candidates[-1]
    assert torch.equal(plan[0], last[0, bowl(target)()(last).argmax()])
    again = Seen(bowl(target))
    mean = ICEM(ICEMConfig(smoothing=0)).plan(again, (1, 5, 2), generator)
    best = bowl(target)()(again.candidates[-1]).topk(10).indices
    assert torch.allclose(mean[0], again.candidates[-1][0, best[0]].mean(0), atol=1e-6)


@pytest.mark.parametrize("beta", [0.0, 0.5, 2.0])
def test_coloured_noise_has_its_spectrum_and_unit_variance(beta: float, generator: torch.Generator) -> None:
    horizon = 64
    noise = coloured_noise((2, 2000, horizon, 2), beta, generator)
    assert noise.shape == (2, 2000, horizon, 2)
    assert torch.allclose(noise.var(dim=(0, 1, 3)), torch.ones(horizon), atol=0.1)  # at every step
    power = torch.fft.rfft(noise, dim=2).abs().square().mean((0, 1, 3))[1:]
    frequency = torch.fft.rfftfreq(horizon)[1:].log()
    centred = frequency - frequency.mean()
    assert float((centred * power.log()).sum() / centred.square().sum()) == pytest.approx(-beta, abs=0.05)


@pytest.mark.parametrize("horizon", [1, 2, 3, 30])
def test_coloured_noise_of_any_length_has_unit_variance(horizon: int, generator: torch.Generator) -> None:
    noise = coloured_noise((5000, 2, horizon, 2), 3.0, generator)
    assert float(noise.var()) == pytest.approx(1.0, abs=0.05)
    assert abs(float((noise[..., 0] * noise[..., 1]).mean())) < 0.05  # actions are independent of each other
    assert abs(float((noise[:, 0] * noise[:, 1]).mean())) < 0.05  # and so are candidates


@pytest.mark.parametrize("sigma", [0.05, 0.3])
def test_mppi_searches_as_far_as_its_sigma(sigma: float, generator: torch.Generator) -> None:
    seen = Seen(bowl(torch.tensor([0.0])))
    MPPI(MPPIConfig(sigma=sigma, iterations=1)).plan(seen, (1, 10, 2), generator)
    assert float(seen.candidates[0].std()) == pytest.approx(sigma, rel=0.05)


def test_mppi_at_temperature_0_takes_the_best_and_at_a_high_one_the_mean(generator: torch.Generator) -> None:
    target = torch.tensor([0.5, -0.2])
    for temperature in (1e-5, 1e5):
        seen = Seen(bowl(target))
        plan = MPPI(MPPIConfig(iterations=1, temperature=temperature)).plan(seen, (2, 3, 1), generator)
        best = bowl(target)()(seen.candidates[0]).argmax(1)
        expected = seen.candidates[0][[0, 1], best] if temperature < 1 else seen.candidates[0].mean(1)
        assert torch.allclose(plan, expected, atol=1e-4)


def test_mppi_weighs_alike_whatever_the_scale_and_gives_no_weight_to_nan() -> None:
    returns = torch.tensor([[1.0, 2.0, 4.0], [3.0, torch.nan, 5.0], [torch.nan] * 3, [7.0] * 3])
    weights = softmax_weights(returns, 0.5)
    assert torch.allclose(softmax_weights(1000 * returns - 5e4, 0.5), weights, atol=1e-3)
    scale = returns[0].std(correction=0)
    assert torch.allclose(weights[0], ((returns[0] - 4) / (0.5 * scale)).softmax(0))
    assert weights[1, 1] == 0
    assert weights.sum(1).tolist() == pytest.approx([1, 1, 0, 1])
    assert weights[3].tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize(
    ("config", "settings", "words"),
    [
        (CEMConfig, {"candidates": 10, "elites": 11}, "elites"),
        (CEMConfig, {"smoothing": 1.5}, "smoothing"),
        (ICEMConfig, {"candidates": 10, "elites": 6}, "elites"),
        (ICEMConfig, {"elites": 0}, "elites"),
        (ICEMConfig, {"beta": -0.1}, "beta"),
        (ICEMConfig, {"keep": 1.1}, "keep"),
        (ICEMConfig, {"smoothing": -0.1}, "smoothing"),
        (ICEMConfig, {"decay": 0.5}, "decay"),
        (ICEMConfig, {"sigma": 0.0}, "sigma"),
        (ICEMConfig, {"execute": "worst"}, "execute"),
        (MPPIConfig, {"temperature": 0.0}, "temperature"),
        (MPPIConfig, {"temperature": math.nan}, "temperature"),
        (MPPIConfig, {"sigma": -1.0}, "sigma"),
        (MPPIConfig, {"beta": math.nan}, "beta"),
        (MPPIConfig, {"candidates": 0}, "candidates"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_words(config: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words) as error:
        config(**settings)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("config", [ICEMConfig(keep=0.0), ICEMConfig(elites=1), ICEMConfig(candidates=2, elites=1)])
def test_icem_may_keep_no_elite(config: ICEMConfig) -> None:
    """Noise is then made for no sequence."""
    assert config.kept == 0
    planner, generator = ICEM(config), torch.Generator().manual_seed(0)
    for _ in range(2):
        plan = planner.plan(bowl(torch.zeros(3)), (3, 5, 2), generator)
        assert plan.shape == (3, 5, 2)
        assert plan.isfinite().all()
