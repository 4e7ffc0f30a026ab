"""The remedies against collapse, each on a case that collapses without.

Twelve environments have a hidden scalar c from -1 to 1. A row's target is sin(2 x1) + 0.6 c x2 + 0.7 noise: c is worth
some nats to each environment, but acts only through a product, which the network finds late.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Normal

from pyro_dynamics.benchmarks.recording import Row
from pyro_dynamics.diagnostics.latents.collapse import collapse_gap
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.inference import OfflineConfig, OfflineInference
from pyro_dynamics.io.tables import markdown_table
from pyro_dynamics.transitions import Transitions

ENVIRONMENTS, LATENT, ROWS, HELD_OUT, STEPS = 12, 2, 60, 200, 600
SLOPE, NOISE = 0.6, 0.7
CONTEXTS = torch.linspace(-1, 1, ENVIRONMENTS)

Settings = dict[str, Any]
CASES: dict[str, Settings] = {
    # There are two kinds of collapse, depending on how fast the guide learns.
    "quick guide": {"learning_rate": 1e-3, "guide_learning_rate": 0.1},
    "slow guide": {"learning_rate": 5e-3, "guide_learning_rate": 3e-3},
}
REMEDIES: dict[str, Settings] = {
    "none": {},
    "KL warm-up": {"kl_warm_up": 1.0},
    "free bits": {"free_nats": 2.0},
    "random means": {"init_mean_std": 1.0},
    "all three": {"kl_warm_up": 1.0, "free_nats": 2.0, "init_mean_std": 1.0},
    "narrow start": {"initial_scale": 0.1},
}


Build = Callable[[int, float], tuple[Any, Any]]
"""From a seed and the guide's initial scale, a model with two inputs and one target, and a guide."""


@dataclass(frozen=True)
class Result:
    """One training.

    Attributes:
        gate: log-likelihood of held-out rows with the right latents minus that with the others', nats per row.
        activity: variance of the means over environments / mean posterior variance, the larger dimension first.
        rank_correlation: of the best direction of the means with c.
        log_likelihood: of held-out rows with the right latents, nats per row.
        elbo: the last epoch's, nats per row.
    """

    gate: float
    activity: tuple[float, ...]
    rank_correlation: float
    log_likelihood: float
    elbo: float


@dataclass(frozen=True)
class Fitted:
    """The interface of an agent that :func:`collapse_gap` uses."""

    likelihood: Any
    belief: Distribution
    environments: int = field(default=ENVIRONMENTS)
    latent_dim: int = field(default=LATENT)

    def posterior(self) -> Distribution:
        """q(e): batch shape ``[K]``."""
        return self.belief

    def log_likelihood(self, state: Tensor, action: Tensor, next_state: Tensor, latents: Tensor) -> Tensor:
        """Of targets ``next_state`` ``[B, 1]``, with latents ``[n, B, d]``: ``[n, M, B]``."""
        rows = (len(latents), self.likelihood.members, len(state))
        location, scale = self.likelihood(state.expand(*rows, -1), latents.unsqueeze(1).expand(*rows, -1))
        return Normal(location, scale).log_prob(next_state).sum(-1)


def draw(seed: int, rows: int) -> Transitions:
    """``rows`` rows of each environment; inputs are the states, targets the next states."""
    generator = torch.Generator().manual_seed(seed)
    environment = torch.arange(ENVIRONMENTS).repeat_interleave(rows)
    inputs = torch.randn(len(environment), 2, generator=generator)
    noise = torch.randn(len(environment), generator=generator)
    targets = torch.sin(2 * inputs[:, 0]) + SLOPE * CONTEXTS[environment] * inputs[:, 1] + NOISE * noise
    unused = torch.zeros(len(environment))
    return Transitions(inputs, unused[:, None], targets[:, None], unused, environment, unused)


def measure(build: Build, case: str, remedy: str, seed: int, steps: int = STEPS) -> Result:
    """Train once, and evaluate on held-out rows."""
    # The guide starts at the prior, scale 1: with the default, 0.1, the latent becomes active sooner.
    settings = {"initial_scale": 1.0, **CASES[case], **REMEDIES[remedy]}
    model, guide = build(seed, settings.pop("initial_scale"))
    config = OfflineConfig(epochs=1, min_steps=steps, lr_decay=True, **settings)
    data = draw(seed, ROWS)
    generator = torch.Generator().manual_seed(seed)
    elbo = OfflineInference(model, guide, config).train(data.state, data.next_state, data.environment, generator)

    belief = guide.frozen()
    agent: Any = Fitted(model.likelihood, belief)  # what is used of an agent
    right, wrong = collapse_gap(agent, draw(1000 + seed, HELD_OUT), samples=16)
    assert wrong is not None
    activity = (belief.mean.var(0) / belief.variance.mean(0)).sort(descending=True).values
    probe = ContextProbe(belief.mean.numpy(), CONTEXTS.tolist())
    gate = float((right - wrong).mean())
    return Result(gate, tuple(activity.tolist()), probe.rank_correlation, float(right.mean()), elbo)


HEAD = ("case", "remedy", "gate, mean", "gate of each seed", "active dimensions", "rank corr.", "held-out LL", "ELBO")


def table(rows: Sequence[Row]) -> str:
    """Means over seeds, and each seed's gate, as Markdown; a row is a :class:`Result` with case, remedy and seed."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["case"], row["remedy"]), []).append(row)
    return markdown_table(HEAD, [_line(case, remedy, found) for (case, remedy), found in groups.items()])


def _line(case: str, remedy: str, results: Sequence[Row]) -> list[str]:
    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    active = mean([sum(ratio > 1 for ratio in result["activity"]) for result in results])
    ratios = " / ".join(f"{mean(ratio):.2f}" for ratio in zip(*(one["activity"] for one in results), strict=True))
    return [
        case,
        remedy,
        f"{mean([result['gate'] for result in results]):.3f}",
        " ".join(f"{result['gate']:.3f}" for result in results),
        f"{active:.1f} ({ratios})",
        f"{mean([result['rank_correlation'] for result in results]):.2f}",
        f"{mean([result['log_likelihood'] for result in results]):.3f}",
        f"{mean([result['elbo'] for result in results]):.3f}",
    ]
