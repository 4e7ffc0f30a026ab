"""Every number of docs/reference/paper-settings.md, held against what `train --preset paper` builds."""

import math
import re
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from pyro_dynamics import find_family
from pyro_dynamics.agent import Agent
from pyro_dynamics.control import CEM, CEMConfig
from pyro_dynamics.control.contract import worst_if_not_finite
from pyro_dynamics.guides import DiagonalGuide
from pyro_dynamics.inference import RecursiveBelief
from pyro_dynamics.rollouts.rollout import uniform_policy
from pyro_dynamics.runners.common.configuration import RunConfig
from pyro_dynamics.runners.common.factory import build_group
from pyro_dynamics.runners.train import parse
from pyro_dynamics.transitions import Minibatch, Transitions, shuffled_minibatches

ROOT = Path(__file__).parents[2]
FAMILY = find_family("halfcheetah-tilt")
PAPER: RunConfig = parse(["halfcheetah-tilt", "--preset", "paper"]).run
SPACE = FAMILY.make_vector(FAMILY.train[:1], 5).single_action_space
PETS_DECAYS = (2.5e-5, 5e-5, 7.5e-5, 7.5e-5, 1e-4)


@cache
def _untouched(agent: str) -> Agent:
    (found,) = build_group(replace(PAPER, agent=agent), FAMILY, SPACE).agents  # type: ignore[arg-type]
    return found


def paper_agent(agent: str = "latent") -> Agent:
    """A new one for tests that train it or adapt."""
    (found,) = build_group(replace(PAPER, agent=agent), FAMILY, SPACE).agents  # type: ignore[arg-type]
    return found


def some_transitions(count: int, environments: int = 5) -> Transitions:
    draws = torch.Generator().manual_seed(0)
    state = torch.randn(count, 18, generator=draws)
    action = 2 * torch.rand(count, 6, generator=draws) - 1
    moved = state + 0.3 * torch.randn(count, 18, generator=draws)
    return Transitions(
        state, action, moved, torch.zeros(count), torch.arange(count) % environments, torch.arange(count)
    )


# The protocol.


def test_environments() -> None:
    assert FAMILY.train == (-12, -6, 0, 6, 12)
    assert FAMILY.test == (-15, -9, -3, 3, 9, 15)
    for name, train in (("halfcheetah-tilt-6", (-6, 6)), ("halfcheetah-tilt-12", (-12, 12))):
        assert (find_family(name).train, find_family(name).test) == (train, FAMILY.test)
        assert replace(parse([name, "--preset", "paper"]).run, family="halfcheetah-tilt") == PAPER
    for tilt in (-12.0, 6.0):
        gravity = FAMILY.make(tilt, 5).unwrapped.model.opt.gravity  # type: ignore[attr-defined]
        angle = math.radians(tilt)
        assert np.allclose(gravity, [9.81 * math.sin(angle), 0, -9.81 * math.cos(angle)], atol=1e-12)


def test_rounds_and_checkpoints() -> None:
    assert (PAPER.rounds, PAPER.steps, PAPER.episodes, PAPER.keep_checkpoints) == (80, 1000, 1, (15, 40, 80))
    assert (PAPER.agent, PAPER.update_while_training) == ("latent", True)


def test_the_first_episode_is_uniform_within_the_bounds() -> None:
    space: Any = SPACE
    actions = uniform_policy(space, 5000, torch.Generator().manual_seed(0))(torch.zeros(5000, 18))
    assert (actions.min(), actions.max()) == (pytest.approx(-1, abs=1e-3), pytest.approx(1, abs=1e-3))
    assert actions.std() == pytest.approx(2 / math.sqrt(12), rel=0.02)


# The task.


def test_robot_steps_and_never_terminates() -> None:
    env: Any = FAMILY.make(12.0, PAPER.steps)
    assert (env.unwrapped.frame_skip, env.unwrapped.dt) == (5, pytest.approx(0.05))
    env.reset(seed=0)
    env.action_space.seed(0)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(1000)]
    assert ends == [(False, False)] * 999 + [(False, True)]


def test_resets_are_gaussian_with_a_thousandth() -> None:
    env: Any = FAMILY.make(0.0, 5)
    inner, noise = env.unwrapped, []
    for seed in range(300):
        env.reset(seed=seed)
        noise.append([*(inner.data.qpos - inner.init_qpos), *(inner.data.qvel - inner.init_qvel)])
    deviations = np.array(noise)
    assert deviations.std() == pytest.approx(0.001, rel=0.03)
    assert deviations.std(0).min() > 0.0008
    assert ((deviations / 0.001) ** 4).mean() == pytest.approx(3, rel=0.15)  # 1.8 of a uniform one


def test_features_targets_and_reward() -> None:
    task = FAMILY.make_task()
    o, a, after = torch.randn(7, 18), torch.randn(7, 6), torch.randn(7, 18)
    expected = torch.cat([o[:, 1:2], o[:, 2:3].sin(), o[:, 2:3].cos(), o[:, 3:], a], 1)
    assert torch.equal(task.inputs(o, a), expected)
    assert expected.shape[1] == 24
    target = torch.cat([after[:, :1], after[:, 1:] - o[:, 1:]], 1)
    assert torch.equal(task.targets(o, after), target)
    assert torch.allclose(task.next_state(o, target), after, atol=1e-6)
    assert torch.allclose(task.reward(o, a, after), after[:, 0] - 0.1 * (a**2).sum(1))
    assert not task.can_terminate


# The networks and their training.


def test_network() -> None:
    net: Any = _untouched("latent").model.likelihood
    sizes = [24 + 2, 200, 200, 200, 200, 2 * 18]
    assert [tuple(w.shape) for w in net.weights] == [(5, m, n) for m, n in pairwise(sizes)]
    for weight, bias in zip(net.weights, net.biases, strict=True):
        std = 1 / (2 * math.sqrt(weight.shape[1]))
        assert 1.95 * std < weight.abs().max().item() <= 2 * std * (1 + 1e-6)
        assert weight.std().item() == pytest.approx(0.8796 * std, rel=0.03)  # of a normal cut at two sigma
        assert (bias == 0).all()
    assert torch.equal(net.max_log_variance.detach(), torch.full((18,), 0.5))
    assert torch.equal(net.min_log_variance.detach(), torch.full((18,), -10.0))
    assert net.max_log_variance.requires_grad
    assert net.min_log_variance.requires_grad


def pets_outputs(net: Any, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and log-variance as PETS writes them, without a latent."""
    x = (inputs - net.input_mean) / net.input_scale
    for weight, bias in zip(net.weights[:-1], net.biases[:-1], strict=True):
        x = torch.baddbmm(bias, x, weight)
        x = x * torch.sigmoid(x)
    mean, log_variance = torch.baddbmm(net.biases[-1], x, net.weights[-1]).chunk(2, -1)
    log_variance = net.max_log_variance - functional.softplus(net.max_log_variance - log_variance)
    return mean, net.min_log_variance + functional.softplus(log_variance - net.min_log_variance)


def test_the_gradient_is_that_of_petss_loss() -> None:
    """Up to the factor T / (2 M) = 1.8, which Adam does not see."""
    agent, draws = paper_agent("generalist"), torch.Generator().manual_seed(0)
    net: Any = agent.model.likelihood
    inputs, targets = torch.randn(5, 32, 24, generator=draws), torch.randn(5, 32, 18, generator=draws)
    mean, log_variance = pets_outputs(net, inputs)
    each = ((mean - targets) ** 2 * (-log_variance).exp() + log_variance).mean((1, 2))
    bounds = 0.01 * (net.max_log_variance.sum() - net.min_log_variance.sum())
    decays = sum(f * (w**2).sum() / 2 for f, w in zip(PETS_DECAYS, net.weights, strict=True))
    parameters = list(net.parameters())
    expected = torch.autograd.grad(each.sum() + bounds + decays, parameters)
    seen: list[Tensor] = []
    optimiser = agent.offline.optimiser

    def look(*_: Any) -> None:
        for parameter in parameters:
            (decay,) = [g["weight_decay"] for g in optimiser.param_groups if any(p is parameter for p in g["params"])]
            seen.append((parameter.grad + decay * parameter).detach().clone())

    optimiser.register_step_pre_hook(look)
    agent.offline.step(Minibatch(inputs, targets, torch.zeros(5, 32, dtype=torch.long), 1000))
    assert len(seen) == 12
    for found, wanted in zip(seen, expected, strict=True):
        assert torch.allclose(found, 1.8 * wanted, rtol=2e-3, atol=1e-6)


def test_training_is_ten_epochs_of_adam_in_batches_of_32() -> None:
    agent, data = paper_agent(), some_transitions(70)
    optimiser, batches = agent.offline.optimiser, []
    assert type(optimiser) is torch.optim.Adam
    assert all(g["betas"] == (0.9, 0.999) and g["eps"] == 1e-8 and not g["amsgrad"] for g in optimiser.param_groups)
    step = agent.offline.step

    def counted(batch: Minibatch, done: float) -> float:
        batches.append((batch.environment.shape, batch.total, {g["lr"] for g in optimiser.param_groups}))
        return step(batch, done)

    agent.offline.step = counted  # type: ignore[assignment, method-assign]  # the same, counted
    agent.train(data, torch.Generator().manual_seed(0))
    assert batches == [((5, rows), 70, {1e-3}) for rows in (32, 32, 6)] * 10
    before = [p.detach().clone() for p in agent.model.likelihood.parameters()]
    agent.train(data, torch.Generator().manual_seed(0))  # weights and Adam's state are carried over
    assert {int(state["step"]) for state in optimiser.state.values()} == {60}
    after = agent.model.likelihood.parameters()
    assert all((a - b).abs().max() < 0.05 for a, b in zip(after, before, strict=True))
    config = PAPER.offline
    assert (config.kl_warm_up, config.free_nats, config.init_mean_std, config.compiled) == (0, 0, 0, False)


def test_the_normaliser_is_refitted_to_features_and_actions_alone() -> None:
    agent, data = paper_agent(), some_transitions(40)
    data.state[:, 5] = 0.25  # feature 5, with the pitch as two features and o0 left out
    agent.model.likelihood.fit_normaliser(torch.randn(9, 24) * 7 + 3)  # of an earlier training
    agent.train(data, torch.Generator().manual_seed(0))
    net: Any = agent.model.likelihood
    inputs = agent.task.inputs(data.state, data.action)
    assert torch.allclose(net.input_mean, inputs.mean(0), atol=1e-6)
    expected = inputs.std(0, correction=0)
    expected[5] = 1
    assert torch.allclose(net.input_scale, expected, atol=1e-6)


def test_members_see_shuffles_of_their_own_anew_each_epoch() -> None:
    rows, draws = torch.arange(50)[:, None].float(), torch.Generator().manual_seed(0)
    epochs = []
    for _ in range(2):
        batches = shuffled_minibatches(rows, rows, torch.zeros(50, dtype=torch.long), 5, 32, draws)
        epochs.append(torch.cat([batch.inputs[..., 0] for batch in batches], 1))
    orders = torch.cat(epochs)
    assert all(torch.equal(order.sort().values, rows[:, 0]) for order in orders)  # all the data: no bootstrap
    assert len({tuple(order.tolist()) for order in orders}) == 10


# The latent.


def test_latent_and_guide() -> None:
    agent = _untouched("latent")
    assert (PAPER.guide, PAPER.latent_dim, agent.latent_dim, agent.environments) == ("diagonal", 2, 2, 5)
    assert type(agent.guide) is DiagonalGuide
    prior, fresh, met = agent.model.prior(), agent.posterior(), agent.for_environments(6).posterior()
    for distribution, scale in ((prior, 1.0), (fresh, 0.1), (met, 1.0)):
        assert (distribution.mean == 0).all()
        assert torch.allclose(distribution.stddev, torch.tensor(scale))
    assert met.batch_shape == (6,)


def test_the_update_is_sixty_steps_at_five_times_the_rate_from_the_last_transition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = paper_agent()
    belief = agent.belief
    assert type(belief) is RecursiveBelief
    assert belief.temperature == 1
    rule: Any = belief.update_rule
    config = rule.config
    assert (config.steps, config.learning_rate, config.samples, config.compiled) == (60, 5e-3, 16, False)
    assert config.learning_rate == 5 * PAPER.offline.learning_rate == 5 * PAPER.offline.guide_learning_rate
    steps: list[tuple[float, bool]] = []
    step = torch.optim.Adam.step

    def counted(self: Any, *arguments: Any) -> Any:
        steps.append((self.param_groups[0]["lr"], not self.state))
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.Adam, "step", counted)
    priors: list[Any] = []
    fit = rule.fit

    def seeing_prior(model: Any, guide: Any, prior: Any, *rest: Any) -> None:
        priors.append(prior)
        fit(model, guide, prior, *rest)

    monkeypatch.setattr(rule, "fit", seeing_prior)
    theta = {name: value.clone() for name, value in agent.model.state_dict().items()}
    one, before = some_transitions(1, 1), agent.posterior()
    for _ in range(2):
        last = agent.posterior()
        agent.observe(one.state, one.action, one.next_state, one.environment, torch.Generator().manual_seed(0))
        assert torch.equal(priors[-1].mean, last.mean)
        assert torch.equal(priors[-1].stddev, last.stddev)
    assert steps == ([(5e-3, True)] + [(5e-3, False)] * 59) * 2  # Adam's state starts anew
    assert all(torch.equal(value, theta[name]) for name, value in agent.model.state_dict().items())
    moved = (agent.posterior().mean - before.mean).abs().sum(1)
    assert moved[0] > 100 * moved[1:].max()  # nothing was seen of the other environments


# The planner.


def recorded(planner: Any, calls: int, returns: Any, problems: int = 1, horizon: int = 30) -> list[list[Tensor]]:
    """The candidates ``[K, C, H, A]`` of each iteration of each call."""
    seen: list[list[Tensor]] = []

    def objective() -> Any:
        def evaluate(candidates: Tensor) -> Tensor:
            seen[-1].append(candidates)
            return returns(candidates)

        return evaluate

    draws = torch.Generator().manual_seed(0)
    for _ in range(calls):
        seen.append([])
        seen[-1].append(planner.plan(objective, (problems, horizon, 6), draws))
    return seen


def test_cem_is_petss() -> None:
    """Its proposals are rebuilt from the candidates that it asked about, by PETS's rules in numpy."""
    planner: Any = PAPER.make_planner()
    assert type(planner) is CEM
    goal = torch.linspace(-1.3, 1.3, 30)[:, None].expand(30, 6)
    returns = lambda c: -((c - goal) ** 2).sum((-1, -2))  # noqa: E731
    start, spread = np.zeros((30, 6)), []
    for *iterations, plan in recorded(planner, 3, returns):
        mean, variance = start, np.full((30, 6), 2.0**2 / 16)  # anew at each call
        assert len(iterations) == 5
        for candidates in iterations:
            assert candidates.shape == (1, 500, 30, 6)
            c = candidates[0].double().numpy()
            room = np.minimum((mean + 1) / 2, (1 - mean) / 2)
            deviation = np.sqrt(np.minimum(room**2, variance))
            spread.append((c - mean) / deviation)
            elites = c[torch.argsort(-returns(candidates)[0])[:50]]
            mean = 0.1 * mean + 0.9 * elites.mean(0)
            variance = 0.1 * variance + 0.9 * elites.var(0)
        assert np.allclose(plan[0], mean, atol=1e-5)  # the elite mean, not the best candidate
        start = np.concatenate([plan[0, 1:].numpy(), np.zeros((1, 6))])
    z = np.concatenate(spread)
    assert 1.999 < np.abs(z).max() < 2.001
    assert z.std() == pytest.approx(0.8796, rel=0.003)  # an unbiased elite variance would give 0.8848 after the first
    planner.reset()
    assert planner.mean is None


def test_cem_stops_where_no_variance_is_above_a_thousandth() -> None:
    assert PAPER.planner_config == CEMConfig(500, 50, 5, 0.1, 0.001)
    planner = CEM(replace(PAPER.planner_config, iterations=100))
    weight = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 0.2])  # the last action is found last
    returns = lambda c: -(weight * c**2).sum((-1, -2))  # noqa: E731
    iterations = recorded(planner, 1, returns, horizon=1)[0][:-1]
    variance, largest = np.full((1, 6), 0.25), []
    for candidates in iterations:
        elites = candidates[0, returns(candidates)[0].topk(50).indices].double().numpy()
        variance = 0.1 * variance + 0.9 * elites.var(0)
        largest.append(variance.max())
    assert 3 <= len(iterations) < 100
    assert largest[-1] <= 0.001 < largest[-2]


def test_a_return_that_is_nan_is_the_worst() -> None:
    assert worst_if_not_finite(torch.tensor([torch.nan, -1e9])).argmax() == 1


def test_particles_and_horizon() -> None:
    agent = _untouched("latent")
    sampler, config = agent.controller.sampler, agent.controller.config
    assert (config.horizon, config.particles, config.reset_on_change) == (30, 20, False)
    seen: list[tuple[Tensor, Tensor]] = []
    dynamics = sampler.dynamics

    def recording(inputs: Tensor, latents: Tensor) -> tuple[Tensor, Tensor]:  # one unit a step, for speed
        seen.append((inputs, latents))
        return torch.zeros(*inputs.shape[:-1], 18), torch.ones(*inputs.shape[:-1], 18)

    sampler.dynamics = recording
    agent.controller.reset()
    try:
        with torch.inference_mode():
            action = agent.act(torch.zeros(1, 18), torch.tensor([3]), torch.Generator().manual_seed(0))
    finally:
        sampler.dynamics = dynamics
    assert action.shape == (1, 6)
    assert len(seen) == 5 * 30  # iterations and horizon
    draws = []
    for t, (_, latents) in enumerate(seen):
        assert latents.shape == (5, 500 * 4, 2)  # four particles of each member for each candidate
        of_candidates = latents.unflatten(1, (500, 4))
        assert (of_candidates == of_candidates[:, :1]).all()
        if t % 30 == 0:
            draws.append(of_candidates[:, 0].flatten(0, 1))
        assert torch.equal(of_candidates[:, 0].flatten(0, 1), draws[-1])  # fixed over the horizon
    apart = torch.stack(draws)
    assert len(apart.flatten(0, 1).unique(dim=0)) == 5 * 20  # each particle its own, anew in each iteration
    # The height after a step is N(0, 1) of its own in every particle of every candidate: no common random numbers.
    assert len(seen[1][0][..., 0].unique()) > 9_900


def test_actions_are_planned_in_the_bounds_of_the_environment() -> None:
    space: Any = SPACE
    assert np.array_equal(space.low, -np.ones(6))
    assert np.array_equal(space.high, np.ones(6))
    controller = _untouched("latent").controller
    assert torch.allclose(controller.to_units(torch.tensor([[-1.0] * 6, [0.3] * 6])), torch.tensor([[-1.0], [0.3]]))


# The page.


def test_the_page_names_files_that_are_there_and_the_differences() -> None:
    page = (ROOT / "docs/reference/paper-settings.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| ") and "---" not in line]
    tables = [row for row in rows if len(row) == 6 and row[1].strip() != "setting"]
    assert len(tables) > 40
    for row in tables:
        assert re.search(r"\b(paper|PETS|ours)\b", row[3]), row
        files = re.findall(r"`([\w/]+\.py)`", row[4])
        assert files, row
        for name in files:
            assert any((ROOT / place / name).is_file() for place in ("", "pyro_dynamics")), name
    assert PAPER.precision == "auto"  # reported as a difference
