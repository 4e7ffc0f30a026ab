"""Guides, beliefs, updates and planners of one's own that are wrong: each refused when the agent is made, by name."""

from collections import deque
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import pyro
import pytest
import torch
from pyro import distributions
from torch import Tensor, nn

from pyro_dynamics.agent import Agent
from pyro_dynamics.control import MPCConfig, Planner
from pyro_dynamics.environments import find_family
from pyro_dynamics.errors import PartFault, UserError
from pyro_dynamics.guides import GUIDES, DiagonalGuide, Guide
from pyro_dynamics.inference import Belief, OfflineConfig, SVIUpdate, SVIUpdateConfig
from pyro_dynamics.inference.beliefs.contract import clone_state
from pyro_dynamics.inference.own_guide_check import check_own_guide
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel

K, D = 3, 2
NORMAL = distributions.Normal


@dataclass(frozen=True)
class Nothing:
    """No settings."""


class Own(Guide):
    """A guide of one's own that is right; ``scale`` is where a training starts."""

    Config = Nothing

    def __init__(self, environments: int, latent_dim: int, scale: float = 0.1) -> None:
        super().__init__(environments, latent_dim)
        self.location = nn.Parameter(torch.zeros(environments, latent_dim))
        self.log_scale = nn.Parameter(torch.full((environments, latent_dim), scale).log())

    def posterior(self) -> Any:
        return NORMAL(self.location, self.log_scale.exp()).to_event(1)

    def for_environments(self, environments: int) -> Any:
        return type(self)(environments, self.latent_dim, 1.0)


class OwnBelief(Belief):
    Config = Nothing

    def prior(self, posterior: Any, seen: Tensor) -> Any:
        return posterior


class OwnUpdate:
    def fit(self, model: Any, guide: Any, prior: Any, batch: Any, generator: torch.Generator) -> None:
        """Nothing."""


class OwnPlanner(Planner):
    Config = Nothing

    def plan(self, objective: Any, shape: tuple[int, int, int], generator: torch.Generator) -> Any:
        self.mean = torch.zeros(shape)
        return self.mean


def like(kind: type, **written: Any) -> type:
    """A class of the user's own that writes other methods."""
    return type("Wrong", (kind,), {"__module__": __name__, **written})


def agent(guide: Any = Own, belief: Any = OwnBelief, update: Any = None, planner: Any = OwnPlanner) -> Agent:
    """Made out of parts of one's own."""
    task = find_family("pendulum-gravity").make_task()
    config = EnsembleConfig(2, (8,), (0.0, 0.0))
    model = HierarchicalModel(Ensemble(task.input_dim, D, task.target_dim, config), K, D)
    rule = update or SVIUpdate(SVIUpdateConfig(steps=2))
    bounds = (torch.tensor([-2.0]), torch.tensor([2.0]))
    offline, controller = OfflineConfig(), MPCConfig(horizon=3, particles=2)
    return Agent(model, guide(K, D), task, bounds, offline, controller, lambda m, g: belief(m, g, rule), planner)


def distribution(of: Callable[[Any], Any]) -> type:
    return like(Own, posterior=of)


def site(name: str, plate: bool = True) -> type:
    def forward(self: Own, batch: Any, prior: Any = None) -> Any:
        if not plate:
            return pyro.sample(name, self.posterior())
        with pyro.plate("environment", self.environments, dim=-1):
            return pyro.sample(name, self.posterior())

    return like(Own, forward=forward)


def with_density(log_prob: Callable[[Tensor], Tensor]) -> type:
    def posterior(self: Own) -> Any:
        found = Own.posterior(self)
        found.log_prob = log_prob
        return found

    return distribution(posterior)


def match_by(power: float) -> Callable[..., None]:
    def match(self: Own, mean: Tensor, covariance: Tensor) -> None:
        with torch.no_grad():
            self.location.copy_(mean)
            self.log_scale.copy_(power * covariance.diagonal(dim1=-2, dim2=-1).log())

    return match


class FullOwn(Own):
    """A Gaussian with correlations, by a factor whose diagonal may have any sign."""

    def __init__(self, environments: int, latent_dim: int, scale: float = 0.1) -> None:
        super().__init__(environments, latent_dim, scale)
        self.factor = nn.Parameter((scale * torch.eye(latent_dim)).repeat(environments, 1, 1))
        del self.log_scale

    def posterior(self) -> Any:
        positive = torch.diag_embed(self.factor.diagonal(dim1=-2, dim2=-1).abs() + 1e-6)
        return distributions.MultivariateNormal(self.location, scale_tril=self.factor.tril(-1) + positive)

    @torch.no_grad()
    def match(self, mean: Tensor, covariance: Tensor) -> None:
        self.location.copy_(mean)
        self.factor.copy_(torch.linalg.cholesky(covariance))


def match_of(mean_to: Callable[[Tensor], Tensor], covariance_to: Callable[[Tensor], Tensor]) -> Callable[..., None]:
    def match(self: FullOwn, mean: Tensor, covariance: Tensor) -> None:
        FullOwn.match(self, mean_to(mean), covariance_to(covariance))

    return match


def as_it_is(given: Tensor) -> Tensor:
    return given


class Doubles(Own):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.double()


class StartsAtNaN(Own):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.location.data.fill_(torch.nan)


class WithoutSuper(Own):
    def __init__(self, environments: int, latent_dim: int) -> None:
        self.environments, self.latent_dim = environments, latent_dim


def kept_in_the_guide(self: Own) -> Any:
    if "_posterior" not in vars(self):
        self._posterior = Own.posterior(self)
    return self._posterior


def kept_in_a_dictionary(self: Own) -> Any:
    return vars(self).setdefault("_kept", {}).setdefault("posterior", Own.posterior(self))


class ScaledOnce(Own):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.scale = self.log_scale.exp()

    def posterior(self) -> Any:
        return NORMAL(self.location, self.scale).to_event(1)


class ScaledAtFirst(Own):
    @cached_property
    def scale(self) -> Tensor:
        return self.log_scale.exp()

    def posterior(self) -> Any:
        return NORMAL(self.location, self.scale).to_event(1)


class RemembersScales(Own):
    @cache  # noqa: B019
    def scale(self) -> Tensor:
        return self.log_scale.exp()

    def posterior(self) -> Any:
        return NORMAL(self.location, self.scale()).to_event(1)


GUIDES_THAT_ARE_WRONG = {
    "keeps its posterior": (distribution(kept_in_the_guide), "Wrong keeps _posterior that it computed"),
    "keeps it in a dictionary": (distribution(kept_in_a_dictionary), "Wrong keeps something that it computed"),
    "scaled once": (ScaledOnce, "ScaledOnce keeps scale that it computed from its parameters"),
    "scaled at first": (ScaledAtFirst, "ScaledAtFirst keeps scale that it computed"),
    "cached posterior": (distribution(cache(Own.posterior)), "keeps a posterior, or a part of it, that it computed"),
    "cached scales": (RemembersScales, "RemembersScales keeps a posterior, or a part of it, that it computed"),
    "pooled": (
        distribution(lambda self: NORMAL(self.location.mean(0).expand(K, D), self.log_scale.exp()).to_event(1)),
        "another env",
    ),
    "of the first row": (
        distribution(lambda self: NORMAL(self.location[:1].expand(K, D), self.log_scale.exp()).to_event(1)),
        "the posterior of environment 1 moves with location[0]",
    ),
    "centred": (
        distribution(lambda self: NORMAL(self.location - self.location.mean(0), self.log_scale.exp()).to_event(1)),
        "an update of one would move all",
    ),
    "detached": (
        distribution(lambda self: NORMAL(self.location.detach(), self.log_scale.exp()).to_event(1)),
        "its distribution does not move with location",
    ),
    "NaN density": (with_density(lambda value: torch.full((K,), torch.nan)), "log_prob() is not finite"),
    "one density": (with_density(lambda value: value.sum()), "log_prob() gives [], not [3]"),
    "bounded": (
        distribution(lambda self: distributions.Uniform(self.location - 1, self.log_scale.exp() + 1).to_event(1)),
        "has no density at -5",
    ),
    "without moments": (
        distribution(lambda self: distributions.Cauchy(self.location, self.log_scale.exp()).to_event(1)),
        "Wrong.posterior().mean is not finite",
    ),
    "of torch": (
        distribution(lambda self: torch.distributions.Independent(torch.distributions.Normal(self.location, 1.0), 1)),
        "take it from pyro.distributions",
    ),
    "masked point": (
        distribution(lambda self: distributions.Delta(self.location, event_dim=1).mask(True)),
        "is a Delta, which has no density",
    ),
    "random": (
        distribution(lambda self: NORMAL(self.location + torch.randn(D), self.log_scale.exp()).to_event(1)),
        "gives another distribution each time",
    ),
    "raises": (distribution(lambda self: self.nothing), "Wrong.posterior() raised AttributeError"),
    "negative scale": (
        distribution(lambda self: NORMAL(self.location, self.log_scale).to_event(1)),
        "raised ValueError",
    ),
    "starts at NaN": (StartsAtNaN, "StartsAtNaN.posterior() raised ValueError"),
    "doubles": (Doubles, "location is torch.float64, and must be torch.float32"),
    "without super": (WithoutSuper, "WithoutSuper.__init__ must begin with super().__init__"),
    "another site": (site("z"), "samples z in none"),
    "no plate": (site("e", plate=False), "must sample one site, e, in the plate environment"),
    "no site": (like(Own, forward=lambda self, batch, prior=None: None), "samples none in none"),
    "one argument": (like(Own, forward=lambda self, batch: None), "Wrong.forward(batch, prior) raised TypeError"),
    "no copy": (like(Own, for_environments=lambda self, environments: self), "not one of 3 environments"),
    "nothing copied": (like(Own, for_environments=lambda self, environments: None), "not None"),
    "no prior": (
        like(Own, for_environments=lambda self, environments: type(self)(environments, D)),
        "must begin at the prior N(0, I), and half of its draws lie within 0.06",
    ),
    "a live constant": (like(Own, frozen=lambda self: self.posterior()), "frozen() must give a constant"),
    "match by variance": (like(Own, match=match_by(1.0)), "standard deviations are 0.25 to 0.25"),
    "match without correlations": (
        like(FullOwn, match=match_of(as_it_is, lambda given: torch.diag_embed(given.diagonal(dim1=-2, dim2=-1)))),
        "must become that Gaussian where the family has it",
    ),
    "match in another order": (
        like(FullOwn, match=match_of(lambda mean: mean.flip(-1), as_it_is)),
        "check the order of the entries",
    ),
    "match with other correlations": (
        like(FullOwn, match=match_of(as_it_is, lambda given: given.flip(-1).flip(-2))),
        "must become that Gaussian where the family has it",
    ),
    "match nothing": (like(Own, match=lambda self, mean, covariance: None), "means up to 0.5 away"),
    "density in words": (like(Own, has_density="no"), "has_density must be True or False, not 'no'"),
    "shared in words": (like(Own, shared="weights"), "shared must be a tuple of names, not 'weights'"),
}


@pytest.mark.parametrize(("guide", "words"), GUIDES_THAT_ARE_WRONG.values(), ids=GUIDES_THAT_ARE_WRONG)
def test_a_wrong_guide_is_refused_when_made(guide: type, words: str) -> None:
    with pytest.raises(UserError) as refused:
        agent(guide)
    assert words in str(refused.value)
    assert guide.__name__ in str(refused.value)


BELIEFS_THAT_ARE_WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "prior raises": (
        {"prior": lambda self, posterior, seen: 1 / 0},
        "in an update by 3 transitions, raised ZeroDivision",
    ),
    "prior of one argument": ({"prior": lambda self, posterior: posterior}, "raised TypeError"),
    "prior is NaN": (
        {"prior": lambda self, q, seen: NORMAL(q.mean * torch.nan, 1.0, validate_args=False).to_event(1)},
        "leads to no finite posterior",
    ),
    "prior is a point": (
        {"prior": lambda self, posterior, seen: distributions.Delta(posterior.mean, event_dim=1)},
        "Wrong.prior() is a Delta",
    ),
    "joint is nothing": ({"joint": lambda self: None}, "Wrong.posterior() gives a NoneType"),
    "joint still moves": ({"joint": lambda self: self.guide.posterior()}, "posterior() must be a constant"),
    "ahead is nothing": ({"ahead": lambda self: None}, "Wrong.ahead() gives a NoneType"),
    "snapshot is nothing": ({"snapshot": lambda self: None}, "raised TypeError"),
}


@pytest.mark.parametrize(("written", "words"), BELIEFS_THAT_ARE_WRONG.values(), ids=BELIEFS_THAT_ARE_WRONG)
def test_a_wrong_belief_is_refused_when_made(written: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match="Wrong") as refused:
        agent(belief=like(OwnBelief, **written))
    assert words in str(refused.value)


def remembering(kind: type, **written: Any) -> type:
    """A belief that adds what it sees to ``self.seen`` of this kind, in place."""

    def set_prior(self: Any) -> None:
        Belief.set_prior(self)
        if not hasattr(self, "seen"):
            self.seen = kind()

    def absorb(self: Any, inputs: Tensor, targets: Tensor, environment: Tensor, seen: Tensor, generator: Any) -> None:
        if isinstance(self.seen, dict):
            self.seen[len(self.seen)] = inputs
        elif isinstance(self.seen, int):
            self.seen += 1
        elif isinstance(self.seen, Tensor):
            self.seen = torch.cat([self.seen, inputs.mean()[None]])
        else:
            self.seen.append((inputs, targets))
        Belief.absorb(self, inputs, targets, environment, seen, generator)

    return like(OwnBelief, set_prior=set_prior, absorb=absorb, **written)


def in_snapshots(copied: Any) -> dict[str, Any]:
    def snapshot(self: Any) -> dict[str, Any]:
        return {**Belief.snapshot(self), "seen": copied(self.seen)}

    def restore(self: Any, state: dict[str, Any]) -> None:
        Belief.restore(self, state)
        self.seen = copied(state["seen"])

    return {"snapshot": snapshot, "restore": restore}


@pytest.mark.parametrize("kind", [list, deque, dict, int, Tensor])
def test_a_memory_that_does_not_go_back_with_the_belief_is_refused(kind: type) -> None:
    with pytest.raises(UserError, match=r"Wrong keeps seen where an update is taken back.*snapshot\(\)"):
        agent(belief=remembering(kind))
    if kind in (list, deque, dict):  # the same object, which the next update changes
        with pytest.raises(UserError, match="Wrong keeps seen where an update is taken back"):
            agent(belief=remembering(kind, **in_snapshots(lambda seen: seen)))
    with pytest.raises(UserError, match=r"Wrong keeps seen where the belief returns.*set_prior\(\)"):
        agent(belief=remembering(kind, **in_snapshots(copy)))


@pytest.mark.parametrize("kind", [list, deque, dict, int, Tensor])
def test_a_memory_that_goes_back_is_taken(kind: type) -> None:
    def set_prior(self: Any) -> None:
        Belief.set_prior(self)
        self.seen = kind()

    made = agent(belief=type("Right", (remembering(kind, **in_snapshots(copy)),), {"set_prior": set_prior}))
    assert type(made.belief).__name__ == "Right"


def fill(of: str, value: float) -> Callable[..., None]:
    """An update that writes over the parameters of ``model`` or ``guide``."""

    def fit(self: Any, model: Any, guide: Any, prior: Any, batch: Any, generator: Any) -> None:
        with torch.no_grad():
            for parameter in {"model": model, "guide": guide}[of].parameters():
                parameter.fill_(value)

    return fit


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (fill("model", 0.5), "changes the model's weights"),
        (fill("guide", torch.nan), "leads to no finite posterior"),
        (lambda self, model, guide: None, "raised TypeError"),
        (lambda self, *arguments: arguments[5], "raised IndexError"),
    ],
)
def test_a_wrong_update_is_refused_when_made(fit: Any, words: str) -> None:
    with pytest.raises(UserError, match="Wrong") as refused:
        agent(update=like(OwnUpdate, fit=fit)())
    assert words in str(refused.value)


class Momentum(OwnUpdate):
    """Each fit goes as far as the last one again."""

    moved = 0.0

    def fit(self, model: Any, guide: Any, prior: Any, batch: Any, generator: torch.Generator) -> None:
        self.moved = 0.5 * self.moved + 0.1
        with torch.no_grad():
            next(guide.parameters()).add_(self.moved)


def test_an_update_that_remembers_the_last_one_is_refused() -> None:
    with pytest.raises(UserError, match="Momentum remembers something of an earlier update"):
        agent(update=Momentum())


class Widths(OwnPlanner):
    """Its search narrows from step to step."""

    forgets, named = True, True

    def reset(self) -> None:
        super().reset()
        if self.forgets or not hasattr(self, "width"):
            self.width: Any = None

    def plans(self) -> dict[str, Any]:
        return {**super().plans(), **({"width": self.width} if self.named else {})}

    def plan(self, objective: Any, shape: tuple[int, int, int], generator: torch.Generator) -> Any:
        mean = self.start(shape, generator)
        self.width = 0.5 * (torch.ones(shape) if self.width is None else self.width)
        self.mean = (mean + self.width * torch.randn(shape, generator=generator)).clamp(-1, 1)
        return self.mean


def test_a_planner_whose_memory_is_not_named_or_not_forgotten_is_refused() -> None:
    agent(planner=Widths)
    with pytest.raises(UserError, match=r"Wrong remembers more than its plans\(\) gives"):
        agent(planner=like(Widths, named=False))
    with pytest.raises(UserError, match=r"Wrong.reset\(\) does not forget all"):
        agent(planner=like(Widths, forgets=False))


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (lambda self, objective, shape, generator: None, "gives a NoneType, not a tensor"),
        (lambda self, objective, shape, generator: torch.zeros(shape).numpy(), "gives a float32, not a tensor"),
        (lambda self, objective, shape, generator: torch.zeros(shape).double(), "gives a torch.float64"),
        (lambda self, objective, shape, generator: torch.full(shape, 2.0), "not all in [-1, 1]"),
        (lambda self, objective, shape, generator: torch.full(shape, torch.nan), "not all in [-1, 1]"),
        (lambda self, objective, shape, generator: objective()(torch.zeros(shape)), "not [K, C, H, A]"),
        (lambda self, objective: None, "raised TypeError"),
    ],
)
def test_a_wrong_planner_is_refused_when_made(plan: Any, words: str) -> None:
    with pytest.raises(UserError, match=r"Wrong.plan\(\)") as refused:
        agent(planner=like(OwnPlanner, plan=plan))
    assert words in str(refused.value)


def test_what_a_part_raises_is_the_cause_of_the_line() -> None:
    with pytest.raises(PartFault) as refused:
        agent(belief=like(OwnBelief, prior=lambda self, posterior, seen: 1 / 0))
    assert isinstance(refused.value.__cause__, ZeroDivisionError)


class Mixture(Own):
    """Its logits move the density, and not the draws of one component."""

    def __init__(self, environments: int, latent_dim: int, scale: float = 0.1) -> None:
        super().__init__(environments, latent_dim, scale)
        self.shift = nn.Parameter(torch.zeros(environments, latent_dim))

    def posterior(self) -> Any:
        return distributions.StudentT(5.0, self.location + self.shift, self.log_scale.exp()).to_event(1)


@pytest.mark.parametrize(
    "guide",
    [
        Own,
        Mixture,
        like(Own, match=match_by(0.5)),
        FullOwn,
        like(DiagonalGuide),
        *(like(GUIDES[name]) for name in ("full-rank", "low-rank", "laplace", "mixture", "flow", "auto")),
    ],
)
def test_what_is_right_is_taken_and_left_as_it_is(guide: type) -> None:
    made = guide(K, D)
    before, draws = clone_state(made), torch.get_rng_state()
    check_own_guide(made, 2, 4, 3)
    assert torch.equal(torch.get_rng_state(), draws)
    assert all(torch.equal(value, before[name]) for name, value in made.state_dict().items())
    assert agent(guide).belief.posterior().mean.shape == (K, D)
