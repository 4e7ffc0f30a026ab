"""A user's own model by every path: the answer of Pyro, or of brute force, or a refusal in words. No path ignores it.

The references are written here anew, by formulas; the latent has one dimension, so that integrals are sums on a grid.
"""

import math
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyro
import pytest
import torch
from pyro import distributions, poutine
from scipy.stats import kstest, norm, t
from torch import Tensor, nn
from torch.distributions import Distribution

from pyro_dynamics.agent import Agent
from pyro_dynamics.control import CEM, CEMConfig, MPCConfig
from pyro_dynamics.diagnostics.diagnosis import posterior_quality
from pyro_dynamics.diagnostics.posterior.accuracy import log_density
from pyro_dynamics.diagnostics.posterior.datatree import to_datatree
from pyro_dynamics.diagnostics.posterior.simulation_calibration import sbc_ranks
from pyro_dynamics.diagnostics.prediction.forecast import forecast
from pyro_dynamics.diagnostics.stream.reference import Reference
from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import DiagonalGuide, LaplaceGuide, MixtureGuide
from pyro_dynamics.inference import (
    BELIEFS,
    ChangepointConfig,
    KalmanUpdate,
    KalmanUpdateConfig,
    NaturalUpdate,
    NaturalUpdateConfig,
    OfflineConfig,
    OfflineInference,
    SVIUpdate,
    SVIUpdateConfig,
)
from pyro_dynamics.inference.beliefs import changepoint
from pyro_dynamics.inference.compiled import compiled_update, fx_graph
from pyro_dynamics.inference.log_joint import log_joint
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel, LinearGaussian
from pyro_dynamics.observation import draw
from pyro_dynamics.tasks import Task
from pyro_dynamics.transitions import Minibatch, Transitions

DF, ENVIRONMENTS, NOISE = 3.0, 3, 0.8


class Student(HierarchicalModel):
    """Heavier tails, by the hook."""

    def observation(self, inputs: Tensor, latent: Tensor) -> Distribution:
        location, scale = self.likelihood(inputs, latent)
        return distributions.StudentT(DF, location, scale).to_event(1)


class Noisy(HierarchicalModel):
    """Twice the noise, by the hook."""

    def observation(self, inputs: Tensor, latent: Tensor) -> Distribution:
        location, scale = self.likelihood(inputs, latent)
        return distributions.Normal(location, 2 * scale).to_event(1)


class Counted(HierarchicalModel):
    """Every transition counts three times, by a forward of its own."""

    def forward(self, batch: Minibatch, prior: Distribution | None = None) -> None:
        super().forward(replace(batch, total=3 * batch.total), prior)


class Scaled(HierarchicalModel):
    """Every site counts three times, as poutine.scale has it."""

    def forward(self, batch: Minibatch, prior: Distribution | None = None) -> None:
        with poutine.scale(scale=3.0):
            super().forward(batch, prior)


class Elsewhere(HierarchicalModel):
    """Another prior."""

    def prior(self) -> Distribution:
        return distributions.Normal(self.origin + 0.7, 0.5).to_event(1)


MODELS = [HierarchicalModel, Student, Noisy, Counted, Scaled, Elsewhere]
every_model = pytest.mark.parametrize("kind", MODELS)
COUNTS = {Counted: 3.0, Scaled: 3.0}


def log_likelihood(kind: Any, location: Tensor, scale: Tensor, targets: Tensor) -> Tensor:
    """log p(delta | e), summed over targets, as often as it counts."""
    if kind is Noisy:
        scale = 2 * scale
    z = (targets - location) / scale
    if kind is Student:
        constant = math.lgamma((DF + 1) / 2) - math.lgamma(DF / 2) - 0.5 * math.log(DF * math.pi)
        each = constant - scale.log() - (DF + 1) / 2 * (z**2 / DF).log1p()
    else:
        each = -0.5 * z**2 - scale.log() - 0.5 * math.log(2 * math.pi)
    return COUNTS.get(kind, 1.0) * each.sum(-1)


def log_prior(kind: Any, e: Tensor) -> Tensor:
    mean, sd = (0.7, 0.5) if kind is Elsewhere else (0.0, 1.0)
    return -0.5 * ((e - mean) / sd) ** 2 - math.log(sd) - 0.5 * math.log(2 * math.pi)


class Walk(Task):
    """A state of two dimensions and an action of one; the reward is where it goes."""

    state_dim = feature_dim = target_dim = 2
    action_dim = 1

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return next_state[..., 0]


def linear(members: int = 1) -> LinearGaussian:
    return LinearGaussian(3, 1, 2, NOISE, members, torch.Generator().manual_seed(3))


def make_agent(
    kind: Any, update: Any = None, belief: str = "recursive", guide: Any = DiagonalGuide, **config: Any
) -> Agent:
    """An agent over the linear network, its beliefs at the model's prior."""
    rule = update or SVIUpdate(SVIUpdateConfig(10))
    settings = ChangepointConfig(hypotheses=3, spacing=1, patience=1, recalled=0) if belief == "changepoint" else None
    return Agent(
        kind(linear(), 1, 1),
        guide(1, 1),
        Walk(),
        (-torch.ones(1), torch.ones(1)),
        OfflineConfig(batch_size=8, epochs=1),
        MPCConfig(horizon=3, particles=2, **config),
        lambda m, g: BELIEFS[belief](m, g, rule, settings),
        lambda: CEM(CEMConfig(10, 2, iterations=2)),
    ).for_environments(ENVIRONMENTS)


def make_data(steps: int = 8) -> Transitions:
    """An episode of each environment."""
    generator = torch.Generator().manual_seed(2)
    state = torch.randn(ENVIRONMENTS, steps + 1, 2, generator=generator)
    environment = torch.arange(ENVIRONMENTS).repeat_interleave(steps)
    action = torch.randn(len(environment), 1, generator=generator)
    start, end = state[:, :-1].flatten(0, 1), state[:, 1:].flatten(0, 1)
    return Transitions(
        start, action, end, torch.zeros(len(start)), environment, torch.arange(steps).repeat(ENVIRONMENTS)
    )


def one_each() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A transition of each environment: state, action, next state and environment."""
    data = make_data()
    rows = torch.arange(ENVIRONMENTS) * 8 + 3
    return data.state[rows], data.action[rows], data.next_state[rows], torch.arange(ENVIRONMENTS)


def by_rows(kind: Any, data: Any, latent: Tensor) -> Tensor:
    """The likelihood of rows under latents ``[..., B, 1]``, by the formula: ``[..., B]``."""
    state, action, next_state = data[:3]
    location, scale = linear()(torch.cat([state, action], -1), latent)
    return log_likelihood(kind, location, scale, next_state - state)


def posterior_on_a_grid(kind: Any) -> tuple[Tensor, Tensor]:
    """Points ``[G]`` and log p(e, delta) ``[G, K]`` after one transition of each environment."""
    grid = torch.linspace(-6, 6, 4001).double()
    latent = grid.float()[:, None, None].expand(-1, ENVIRONMENTS, 1)
    return grid, (by_rows(kind, one_each(), latent) + log_prior(kind, latent[..., 0])).double()


def best_gaussian(kind: Any) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation ``[K]`` of the Gaussian of the highest ELBO, by sums on a grid."""
    grid, joint = posterior_on_a_grid(kind)
    mean, log_sd = (torch.zeros(ENVIRONMENTS, dtype=torch.float64, requires_grad=True) for _ in range(2))
    optimiser = torch.optim.LBFGS([mean, log_sd], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Any:
        optimiser.zero_grad()
        log_q = -0.5 * ((grid[:, None] - mean) / log_sd.exp()) ** 2 - log_sd
        q = log_q.softmax(0)
        negative = (q * (log_q - joint)).sum()
        negative.backward()
        return negative

    optimiser.step(loss)
    return mean.detach().float(), log_sd.exp().detach().float()


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    """Nothing was warned of or compiled before; a warning that no test expects is an error."""
    fx_graph.warn_once.cache_clear()
    compiled_update._compiled.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The traced steps, as they are."""
    monkeypatch.setattr(compiled_update, "compile_loop", compiled_update.plain_loop)
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)


def own_program(kind: Any) -> str | None:
    """What the warning of a compiled path says."""
    return {Counted: "its own forward", Scaled: "its own forward", Elsewhere: "its own prior"}.get(kind)


# ---- Offline (Eq. 4)


def network() -> Ensemble:
    torch.manual_seed(0)
    return Ensemble(3, 1, 2, EnsembleConfig(members=2, hidden=(8,), weight_decay=(1e-4, 1e-4)))


def minibatch() -> Minibatch:
    generator = torch.Generator().manual_seed(1)
    environment = torch.randint(ENVIRONMENTS, (2, 8), generator=generator)
    return Minibatch(
        torch.randn(2, 8, 3, generator=generator), torch.randn(2, 8, 2, generator=generator), environment, 20
    )


def offline(
    model: HierarchicalModel, compiled: bool, guide: Any = DiagonalGuide
) -> tuple[list[float], dict[str, Tensor]]:
    """The ELBOs of three steps, and what they made of model and guide."""
    guide = guide(ENVIRONMENTS, 1)
    inference = OfflineInference(model, guide, OfflineConfig(1e-2, 1e-2, batch_size=8, compiled=compiled))
    torch.manual_seed(5)
    with pyro.settings.context(module_local_params=True), pyro.validation_enabled(False):
        elbos = [inference.step(minibatch()) for _ in range(3)]
    return elbos, {**model.state_dict(), **guide.state_dict()}


@every_model
def test_the_offline_elbo_is_the_models(kind: Any) -> None:
    """Of Pyro: with the same draw, as the formula has it, with one divergence in closed form."""
    guide, batch = DiagonalGuide(ENVIRONMENTS, 1), minibatch()
    torch.manual_seed(5)
    q: Any = guide.posterior()
    e = q.rsample()
    divergence = torch.distributions.kl_divergence(q, kind(linear(), ENVIRONMENTS, 1).prior()).sum()
    location, scale = network()(batch.inputs, e[batch.environment])
    rows = log_likelihood(kind, location, scale, batch.targets)
    expected = (20 / 16 * rows.sum() - divergence) / 20
    assert offline(kind(network(), ENVIRONMENTS, 1), compiled=False)[0][0] == pytest.approx(
        float(expected.detach()), rel=1e-5
    )


@every_model
@pytest.mark.usefixtures("uncompiled")
def test_compiled_training_is_pyros_or_left_to_pyro(kind: Any) -> None:
    expected = offline(kind(network(), ENVIRONMENTS, 1), compiled=False)
    if own := own_program(kind):
        with pytest.warns(UserWarning, match=own) as warned:
            found = offline(kind(network(), ENVIRONMENTS, 1), compiled=True)
        assert len(warned) == 1
        assert found[0] == expected[0]
    else:
        found = offline(kind(network(), ENVIRONMENTS, 1), compiled=True)
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    for name, value in expected[1].items():
        torch.testing.assert_close(found[1][name], value, rtol=1e-3, atol=1e-4, msg=name)


class LearnedTails(HierarchicalModel):
    """A likelihood with a parameter and a setting of its own."""

    def __init__(self, likelihood: Any, environments: int, latent_dim: int, least: float = 2.0) -> None:
        super().__init__(likelihood, environments, latent_dim)
        self.log_df = nn.Parameter(torch.tensor(0.0))
        self.least = least

    def observation(self, inputs: Tensor, latent: Tensor) -> Distribution:
        location, scale = self.likelihood(inputs, latent)
        return distributions.StudentT(self.least + self.log_df.exp(), location, scale).to_event(1)


@pytest.mark.usefixtures("uncompiled")
def test_parameters_of_the_hook_are_learned_on_both_paths() -> None:
    expected, found = (offline(LearnedTails(network(), ENVIRONMENTS, 1), compiled) for compiled in (False, True))
    assert expected[1]["log_df"] != 0
    for name, value in expected[1].items():
        torch.testing.assert_close(found[1][name], value, rtol=1e-3, atol=1e-4, msg=name)


@every_model
def test_laplace_takes_the_curvature_of_the_models_density(kind: Any) -> None:
    rule = SVIUpdate(SVIUpdateConfig(steps=100, learning_rate=3e-2, samples=1))
    agent = make_agent(kind, rule, guide=LaplaceGuide)
    agent.observe(*one_each(), torch.Generator().manual_seed(0))
    posterior: Any = agent.posterior()
    mode = posterior.mean.double()
    h = 1e-2
    values = []
    for step in (-h, 0.0, h):
        e = (mode + step).float()
        prior = log_prior(kind, e[:, 0]) * (3 if kind is Scaled else 1)
        values.append((by_rows(kind, one_each(), e) + prior).double())
    curvature = -(values[0] - 2 * values[1] + values[2]) / h**2
    assert torch.allclose(posterior.variance[:, 0], (1 / curvature).float(), rtol=0.05)


# ---- Online (Eq. 5)


@every_model
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.usefixtures("uncompiled")
def test_online_svi_finds_the_best_gaussian(kind: Any, compiled: bool) -> None:
    rule = SVIUpdate(SVIUpdateConfig(steps=300, learning_rate=4e-2, samples=32, compiled=compiled))
    agent = make_agent(kind, rule)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if compiled and own_program(kind) else "error", UserWarning)
        agent.observe(*one_each(), torch.Generator().manual_seed(0))
    mean, sd = best_gaussian(kind)
    posterior = agent.posterior()
    assert ((posterior.mean[:, 0] - mean).abs() / sd).max() < 0.2  # what the noise of Adam's steps leaves
    assert torch.allclose(posterior.stddev[:, 0], sd, rtol=0.12)


@every_model
@pytest.mark.parametrize("samples", [1, 8])  # one: where the default model is linearised
@pytest.mark.usefixtures("uncompiled")
def test_the_compiled_update_is_pyros_or_left_to_pyro(kind: Any, samples: int) -> None:
    def after(compiled: bool) -> tuple[dict[str, Tensor], Tensor]:
        model, guide = kind(network(), 2, 1), DiagonalGuide(2, 1)
        rule = SVIUpdate(SVIUpdateConfig(20, 1e-2, samples, compiled))
        held, generator = BELIEFS["recursive"](model, guide, rule), torch.Generator().manual_seed(4)
        for _ in range(2):
            held.update(torch.ones(2, 3), torch.ones(2, 2), torch.arange(2), generator)
        return guide.state_dict(), torch.rand(1, generator=generator)

    expected = after(compiled=False)
    if own := own_program(kind):
        with pytest.warns(UserWarning, match=own) as warned:
            found = after(compiled=True)
        assert len(warned) == 1
    else:
        found = after(compiled=True)
    assert torch.equal(found[1], expected[1])
    for name, value in expected[0].items():
        assert torch.allclose(found[0][name], value, atol=0 if own else 2e-5), name


@pytest.mark.usefixtures("uncompiled")
def test_settings_of_the_hook_are_not_mixed_up_between_models_of_one_network() -> None:
    shared = network()

    def mean(least: float, compiled: bool) -> Tensor:
        rule = SVIUpdate(SVIUpdateConfig(20, 1e-2, 4, compiled))
        belief = BELIEFS["recursive"](LearnedTails(shared, 1, 1, least), DiagonalGuide(1, 1), rule)
        belief.update(torch.ones(1, 3), 3 * torch.ones(1, 2), torch.arange(1), torch.Generator().manual_seed(0))
        return belief.posterior().mean

    for least in (0.5, 50.0):
        assert torch.allclose(mean(least, True), mean(least, False), atol=2e-5)
    assert not torch.allclose(mean(0.5, True), mean(50.0, True), atol=1e-4)


class Kept(HierarchicalModel):
    """A Gaussian hook whose noise is a plain attribute, kept where ``KEPT`` says."""

    of_class = 1.0

    def __init__(self, likelihood: Any, environments: int, latent_dim: int) -> None:
        super().__init__(likelihood, environments, latent_dim)
        self.public, self._hidden, self.head = 1.0, 1.0, nn.Identity()
        setattr(self.head, "inner", 1.0)  # noqa: B010  # torch types attributes of modules as tensors

    def observation(self, inputs: Tensor, latent: Tensor) -> Distribution:
        location, scale = self.likelihood(inputs, latent)
        inner: Any = self.head.inner
        factor = self.public * self._hidden * inner * self.of_class
        return distributions.Normal(location, factor * scale).to_event(1)


def change(model: HierarchicalModel, where: str) -> None:
    owner, _, name = where.rpartition(".")
    setattr(model.get_submodule(owner), name, 5.0)


KEPT = ["public", "_hidden", "head.inner", "of_class"]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("where", KEPT)
@pytest.mark.parametrize("belief", ["recursive", "changepoint"])
def test_a_setting_that_is_changed_later_is_followed_online(where: str, belief: str) -> None:
    def mean(compiled: bool) -> Tensor:
        rule = SVIUpdate(SVIUpdateConfig(20, 1e-2, 4, compiled))
        model = Kept(network(), 1, 1)
        held = BELIEFS[belief](model, DiagonalGuide(1, 1).for_environments(1), rule)
        for later in (False, True):
            if later:
                change(model, where)
            held.update(torch.ones(1, 3), 3 * torch.ones(1, 2), torch.arange(1), torch.Generator().manual_seed(0))
        return held.posterior().mean

    assert torch.allclose(mean(compiled=True), mean(compiled=False), atol=2e-5)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("where", KEPT)
def test_a_setting_that_is_changed_later_is_followed_offline(where: str) -> None:
    def losses(compiled: bool) -> list[float]:
        model = Kept(network(), ENVIRONMENTS, 1)
        inference = OfflineInference(
            model, DiagonalGuide(ENVIRONMENTS, 1), OfflineConfig(compiled=compiled, batch_size=8)
        )
        g, found = torch.Generator().manual_seed(1), []
        environment = torch.randint(ENVIRONMENTS, (2, 8), generator=g)
        batch = Minibatch(torch.randn(2, 8, 3, generator=g), torch.randn(2, 8, 2, generator=g), environment, 8.0)
        for later in (False, True):
            if later:
                change(model, where)
            torch.manual_seed(5)
            with pyro.settings.context(module_local_params=True), pyro.validation_enabled(False):
                found.append(float(inference.step(batch)))
        return found

    expected = losses(compiled=False)
    assert abs(expected[1] - expected[0]) > 0.1
    assert losses(compiled=True) == pytest.approx(expected, abs=1e-4)


@pytest.mark.usefixtures("uncompiled")
def test_what_no_graph_can_follow_goes_the_slow_way() -> None:
    model = Kept(network(), 1, 1)
    model.settings = {"factor": 2.0}  # type: ignore[assignment]
    held = BELIEFS["recursive"](model, DiagonalGuide(1, 1), SVIUpdate(SVIUpdateConfig(5, 1e-2, 4, compiled=True)))
    with pytest.warns(UserWarning, match="Kept keeps settings, a dict, as a plain attribute"):
        held.update(torch.ones(1, 3), torch.ones(1, 2), torch.arange(1), torch.Generator())


@every_model
def test_the_kalman_update_is_exact_or_refused(kind: Any) -> None:
    agent = make_agent(kind, KalmanUpdate(KalmanUpdateConfig()))
    refused = {Student: "Gaussian likelihood alone.*StudentT", Counted: "own forward", Scaled: "own forward"}
    if kind in refused:
        before = agent.posterior().mean
        with pytest.raises(UserError, match=refused[kind]):
            agent.observe(*one_each(), torch.Generator())
        assert torch.equal(agent.posterior().mean, before)
        return
    agent.observe(*one_each(), torch.Generator())
    grid, joint = posterior_on_a_grid(kind)
    weight = joint.softmax(0)
    mean = (weight * grid[:, None]).sum(0)
    sd = (weight * (grid[:, None] - mean) ** 2).sum(0).sqrt()
    assert torch.allclose(agent.posterior().mean[:, 0], mean.float(), atol=1e-4)
    assert torch.allclose(agent.posterior().stddev[:, 0], sd.float(), rtol=1e-3)


@every_model
def test_the_natural_update_is_near_the_posterior_or_refused(kind: Any) -> None:
    """It takes heavy tails, which the Kalman update refuses; where the model is linear and Gaussian it is exact."""
    agent = make_agent(kind, NaturalUpdate(NaturalUpdateConfig()))
    if kind in (Counted, Scaled):
        with pytest.raises(UserError, match="own forward"):
            agent.observe(*one_each(), torch.Generator())
        return
    agent.observe(*one_each(), torch.Generator())
    grid, joint = posterior_on_a_grid(kind)
    weight = joint.softmax(0)
    mean = (weight * grid[:, None]).sum(0)
    sd = (weight * (grid[:, None] - mean) ** 2).sum(0).sqrt()
    near, width = (0.2, 0.25) if kind is Student else (1e-3, 1e-3)
    assert ((agent.posterior().mean[:, 0] - mean.float()) / sd.float()).abs().max() < near
    assert torch.allclose(agent.posterior().stddev[:, 0], sd.float(), rtol=width)


@every_model
def test_the_changepoint_belief_weighs_by_the_models_density(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Pyro's trace has it in all, and environment by environment as the formula has it."""
    asked: list[tuple[Any, ...]] = []

    def recorded(*arguments: Any) -> Tensor:
        value = log_joint(*arguments)
        asked.append((*arguments, value))
        return value

    monkeypatch.setattr(changepoint, "log_joint", recorded)
    agent = make_agent(kind, belief="changepoint")
    state, action, next_state, environment = one_each()
    for _ in range(2):
        agent.observe(state, action, next_state, environment, torch.Generator().manual_seed(0))
    assert asked
    for model, prior, batch, e, value in asked[-8:]:
        assert type(model) is kind
        trace = poutine.trace(poutine.condition(model, {"e": e})).get_trace(batch, prior)
        assert float(value.sum()) == pytest.approx(float(trace.log_prob_sum()), rel=1e-4)
        owner = torch.arange(ENVIRONMENTS).repeat_interleave(3)
        rows = by_rows(kind, (state[owner], action[owner], next_state[owner]), e)
        expected = prior.log_prob(e) * (3 if kind is Scaled else 1) + rows
        torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-4)
    assert agent.posterior().mean.isfinite().all()


def test_beliefs_begin_at_the_models_prior_or_say_that_they_cannot() -> None:
    posterior = make_agent(Elsewhere).posterior()
    torch.testing.assert_close(posterior.mean, torch.full((ENVIRONMENTS, 1), 0.7))
    torch.testing.assert_close(posterior.stddev, torch.full((ENVIRONMENTS, 1), 0.5))
    with pytest.raises(UserError, match="MixtureGuide cannot begin at the prior of Elsewhere"):
        make_agent(Elsewhere, guide=MixtureGuide)

    class Correlated(HierarchicalModel):
        def prior(self) -> Distribution:
            covariance = torch.tensor([[1.0, 0.5], [0.5, 1.0]])
            return distributions.MultivariateNormal(self.origin, covariance)

    agent = make_agent(HierarchicalModel)
    network = LinearGaussian(3, 2, 2, NOISE, 1, torch.Generator())
    own = Agent(
        Correlated(network, 2, 2), DiagonalGuide(2, 2), Walk(), agent.action_bounds, OfflineConfig(), MPCConfig(3, 2)
    )
    with pytest.raises(UserError, match="cannot begin at the prior"):
        own.for_environments(3)


# ---- Planning and predictions


def one_draw_each(kind: Any, common_noise: bool = False) -> Tensor:
    """Next states less the location ``[n]`` that the planner's particles drew, by one step of many candidates."""
    agent = make_agent(kind, common_noise=common_noise)
    sampler = agent.controller.sampler.for_planning()
    latent = torch.full((1, 2, 1), 0.3)
    sampler.particles = 1
    generator = torch.Generator().manual_seed(0)
    returns = sampler.returns(torch.zeros(1, 2), torch.zeros(1, 3000, 1, 1), latent[:, :1], generator)
    return (returns[0] - linear()(torch.zeros(3), torch.tensor([0.3]))[0][0]) / NOISE


@every_model
def test_planning_draws_from_the_hook(kind: Any) -> None:
    """A transition that counts three times is still one transition: what is planned with is the hook's."""
    expected = {Student: t(DF).cdf, Noisy: norm(0, 2).cdf}.get(kind, norm.cdf)
    drawn = one_draw_each(kind).numpy()
    assert kstest(drawn, expected).pvalue > 0.01
    if kind in (Student, Noisy):
        assert kstest(drawn, norm.cdf).pvalue < 1e-4
    agent, (state, _, _, environment) = make_agent(kind), one_each()
    first, again = (agent.act(state, environment, torch.Generator().manual_seed(seed)) for seed in (0, 0))
    assert first.shape == again.shape == (ENVIRONMENTS, 1)
    assert ((first >= -1) & (first <= 1)).all()


def test_common_noise_is_a_gaussians() -> None:
    assert len(one_draw_each(Noisy, common_noise=True).unique()) == 1
    with pytest.raises(UserError, match=r"common random numbers.*StudentT"):
        one_draw_each(Student, common_noise=True)


def test_a_gpu_draws_from_gaussians_alone() -> None:
    class OnGPU(torch.Generator):
        """Says that it is a GPU's."""

        device = torch.device("cuda")

    delta = Student(linear(), 1, 1).observation(torch.zeros(1, 1, 3), torch.zeros(1, 1, 1))
    with pytest.raises(UserError, match="StudentT cannot be drawn from on a GPU"):
        draw(delta, OnGPU())


def hook_of(kind: Any) -> Any:
    """The model whose likelihood a transition's prediction has: a scaled one's is not scaled."""
    return HierarchicalModel if kind in COUNTS else kind


@every_model
def test_predictions_are_the_hooks(kind: Any) -> None:
    agent, data = make_agent(kind), one_each()
    state, action, next_state, _ = data
    torch.manual_seed(0)
    latents = agent.posterior().sample(torch.Size([64]))
    expected = by_rows(hook_of(kind), data, latents).logsumexp(0) - math.log(64)
    found = agent.log_predictive(*data, torch.Generator().manual_seed(0))
    torch.testing.assert_close(found, expected)

    location, scale = (part.numpy() for part in linear()(torch.cat([state, action], -1), latents))
    factor = torch.rand(ENVIRONMENTS, 2) + 0.5
    for times in (None, factor):
        by = scale * (1 if times is None else times.numpy()) * (2 if kind is Noisy else 1)
        family = t(DF, location, by) if kind is Student else norm(location, by)
        expected = torch.from_numpy(family.cdf((next_state - state).numpy()).mean(0)).float()
        found = agent.predictive_pit(*data, torch.Generator().manual_seed(0), factor=times)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    mean, sd = agent.predict(state, action, latents)
    torch.testing.assert_close(mean[:, 0], torch.from_numpy(location))
    ratio = {Student: math.sqrt(DF / (DF - 2)), Noisy: 2.0}.get(kind, 1.0)
    torch.testing.assert_close(sd[:, 0], ratio * torch.from_numpy(scale))


def test_a_likelihood_without_a_cdf_is_refused_by_name() -> None:
    class Joint(HierarchicalModel):
        def observation(self, inputs: Tensor, latent: Tensor) -> Distribution:
            location, _ = self.likelihood(inputs, latent)
            return distributions.MultivariateStudentT(torch.tensor(4.0), location, torch.eye(2))

    agent = make_agent(Joint)
    assert agent.log_predictive(*one_each(), torch.Generator()).isfinite().all()
    with pytest.raises(UserError, match="CDF of a likelihood MultivariateStudentT is not known"):
        agent.predictive_pit(*one_each(), torch.Generator())


# ---- Diagnostics


@every_model
def test_diagnostics_judge_by_the_models_density(kind: Any) -> None:
    agent, data = make_agent(kind), make_data()
    times = 3 if kind is Scaled else 1  # its prior is scaled too
    tree: Any = to_datatree(agent, data, 40, pointwise=4, predictive_draws=30)
    e = torch.from_numpy(tree["posterior"]["e"].values[0])
    rows = by_rows(kind, (data.state, data.action, data.next_state), e[:, data.environment])
    expected = times * log_prior(kind, e[..., 0]).double().index_add(1, data.environment, rows.double() / times)
    torch.testing.assert_close(
        torch.from_numpy(tree["sample_stats"]["log_p"].values[0]), expected, rtol=1e-4, atol=1e-3
    )
    posterior_kl = posterior_quality(tree)[0].divergence
    assert abs(posterior_kl) < 1e-4  # the belief is the prior

    draws, rows_of_first = e[:, 0], data.select(torch.arange(4))
    found = torch.from_numpy(Reference(agent, data, 1.0).log_joint(draws.numpy(), 0, 3)).float()
    fields = rows_of_first.state, rows_of_first.action, rows_of_first.next_state
    each = by_rows(kind, fields, draws[:, None].expand(-1, 4, 1)).sum(1)
    expected = times * log_prior(kind, draws[:, 0]) + each
    torch.testing.assert_close(found - found[0], expected - expected[0], rtol=1e-3, atol=1e-3)

    inputs = torch.cat(fields[:2], -1)
    found = log_density(agent.model, inputs, fields[2] - fields[0])(draws)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)


@every_model
def test_simulations_and_forecasts_draw_from_the_model(kind: Any) -> None:
    agent, data = make_agent(kind), make_data()
    generator = torch.Generator().manual_seed(0)
    found = forecast(agent, data, 1, 400, generator)
    location = linear()(torch.cat([data.state, data.action], -1)[None], torch.zeros(1, len(data.state), 1))[0][0]
    assert found.draws.shape == (400, 24, 1, 2)
    assert found.draws.isfinite().all()
    if kind is not Elsewhere:
        away = found.draws[:, :, 0] - data.state - location
        above = (away > 0).float().mean(0)  # half, of a distribution around the location
        assert (above - 0.5).abs().max() < 0.1
    assert sbc_ranks(agent, data, 6, 2, 9, generator).shape == (6, 1)


def test_sbc_of_another_prior_and_hook_is_uniform() -> None:
    """Latents are drawn from the model's prior, targets from its hook: the exact belief then has uniform ranks."""

    class Both(Noisy, Elsewhere):
        """The noise of the one and the prior of the other."""

    agent = make_agent(Both, KalmanUpdate(KalmanUpdateConfig(iterations=1)))
    ranks = sbc_ranks(agent, make_data(), 300, 3, 99, torch.Generator().manual_seed(0))[:, 0]
    assert kstest((ranks.numpy() + 0.5) / 100, "uniform").pvalue > 0.01


# ---- Refusals, and what a subclass keeps


class OtherInForward(HierarchicalModel):
    """Says its likelihood in forward alone."""

    def forward(self, batch: Minibatch, prior: Distribution | None = None) -> None:
        Student.forward(Student(self.likelihood, self.environments, self.latent_dim), batch, prior)


class Flat(HierarchicalModel):
    """Forgot .to_event(1)."""

    def observation(self, inputs: Tensor, latent: Tensor) -> Distribution:
        return distributions.Normal(*self.likelihood(inputs, latent))


class Nameless(HierarchicalModel):
    """Has no site delta."""

    def forward(self, batch: Minibatch, prior: Distribution | None = None) -> None:
        with pyro.plate("environment", self.environments, dim=-1):
            pyro.sample("e", self.prior())  # type: ignore[arg-type]


class Parent(Student):
    """Gives its parent for other environments."""

    def for_environments(self, environments: int) -> Any:
        return HierarchicalModel(self.likelihood, environments, self.latent_dim)


class Fixed(HierarchicalModel):
    """Its prior is of one environment for ever."""

    def prior(self) -> Distribution:
        return distributions.Normal(torch.zeros(1, 1), 1.0).to_event(1)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (OtherInForward, "write the likelihood in observation"),
        (Nameless, "write the likelihood in observation"),
        (Flat, r"batch shape \[M, B\].*to_event"),
        (Parent, "Parent.for_environments gives a HierarchicalModel"),
        (Fixed, r"Fixed.prior is over \[1\] environments where 3"),
    ],
)
def test_models_that_contradict_themselves_are_refused_in_words(kind: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        make_agent(kind)


def test_a_density_of_no_one_environment_is_refused() -> None:
    class Global(HierarchicalModel):
        def forward(self, batch: Minibatch, prior: Distribution | None = None) -> None:
            pyro.sample("all", distributions.Normal(0.0, 1.0), obs=torch.tensor(0.0))
            super().forward(batch, prior)

    agent = make_agent(Global, belief="changepoint")
    with pytest.raises(UserError, match=r"the site .all. in Global\.forward"):
        agent.observe(*one_each(), torch.Generator())


def test_other_environments_keep_the_class_and_share_its_parameters() -> None:
    model = LearnedTails(network(), 2, 1, least=7.0)
    other = model.for_environments(5)
    assert type(other) is LearnedTails
    assert (other.environments, other.least, other.prior().batch_shape) == (5, 7.0, (5,))
    assert other.log_df is model.log_df
    assert other.likelihood is model.likelihood
    other.likelihood = linear()  # as simulation-based calibration does
    assert model.likelihood is not other.likelihood
    assert model.prior().batch_shape == (2,)


def test_a_method_replaced_in_one_object_is_seen_too() -> None:
    model = HierarchicalModel(linear(), 1, 1)
    assert model.has_default_forward
    model.forward = lambda batch, prior=None: None  # type: ignore[method-assign]
    assert not model.has_default_forward
    assert model.has_default_observation
    assert model.has_default_prior


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_a_students_likelihood_compiles() -> None:
    expected, found = (offline(Student(network(), ENVIRONMENTS, 1), compiled) for compiled in (False, True))
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    posteriors = []
    for compiled in (False, True):
        guide = DiagonalGuide(1, 1)
        rule = SVIUpdate(SVIUpdateConfig(20, compiled=compiled))
        belief = BELIEFS["recursive"](Student(network(), 1, 1), guide, rule)
        belief.update(torch.ones(1, 3), torch.ones(1, 2), torch.arange(1), torch.Generator().manual_seed(0))
        posteriors.append(belief.posterior().mean)
    torch.testing.assert_close(*posteriors, rtol=0, atol=2e-5)
