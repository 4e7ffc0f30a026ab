"""What a change-point belief makes of a coming change, of a return, and of an outlier."""

import math

import pytest
import torch
from torch.distributions import MultivariateNormal

from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import FullRankGuide
from pyro_dynamics.inference import KalmanUpdate, KalmanUpdateConfig, linear_gaussian_posterior
from pyro_dynamics.inference.beliefs import ChangepointBelief, ChangepointConfig
from pyro_dynamics.inference.beliefs.member_mixture import weighted_sample
from pyro_dynamics.models import HierarchicalModel, LinearGaussian

NOISE, HAZARD = 0.3, 0.01
HERE = torch.zeros(1, dtype=torch.long)


def make(likelihood: LinearGaussian, environments: int = 1, **settings: object) -> ChangepointBelief:
    d = likelihood.base.shape[1]
    guide = FullRankGuide(environments, d).for_environments(environments)
    config = ChangepointConfig(hazard=HAZARD, **settings)  # type: ignore[arg-type]
    return ChangepointBelief(
        HierarchicalModel(likelihood, environments, d), guide, KalmanUpdate(KalmanUpdateConfig(iterations=1)), config
    )


def test_the_prediction_at_a_change_is_that_of_adams_and_mackay(generator: torch.Generator) -> None:
    """log p(y | past) with all runs kept and the hazard of the coming step, in closed form."""
    likelihood, steps = LinearGaussian(2, 1, 3, NOISE, 1, generator), 12
    settings = {"hypotheses": steps + 2, "spacing": 1, "patience": steps, "recalled": 0, "most_nats": 0}
    belief = make(likelihood, **settings)
    runs: list[tuple[float, torch.Tensor, torch.Tensor]] = []
    for t in range(steps):
        inputs = torch.randn(1, 2, generator=generator)
        design = likelihood.design(inputs)
        latent = torch.full((1, 1, 1), 1.5 if t < 8 else -1.5)
        targets = (design @ latent).squeeze(-1) + NOISE * torch.randn(1, 3, generator=generator)
        begins = 0.0 if not runs else math.log(HAZARD)
        runs = [(w + math.log1p(-HAZARD), m, c) for w, m, c in runs]
        runs.append((begins, torch.zeros(1, 1), torch.eye(1)[None]))
        evidence = [
            float(
                MultivariateNormal(
                    (design @ m[..., None]).squeeze(-1), design @ c @ design.mT + NOISE**2 * torch.eye(3)
                ).log_prob(targets)
            )
            for _, m, c in runs
        ]
        exact = torch.tensor([w + e for (w, _, _), e in zip(runs, evidence, strict=True)]).logsumexp(0).item()
        with torch.no_grad():
            torch.manual_seed(t)
            latents, log_weight = weighted_sample(belief.ahead(), 20_000)
            location, scale = likelihood(inputs.expand(len(latents), -1, -1), latents)
            log_p = torch.distributions.Normal(location, scale).log_prob(targets).sum(-1)
            found = float((log_p + log_weight).logsumexp(0))
        if t > 0:  # before the first step there is no run that could end
            assert found == pytest.approx(exact, abs=0.15), t
        belief.update(inputs, targets, HERE, generator)
        runs = [
            (w + e - exact, *linear_gaussian_posterior(m, c, design, targets, NOISE))
            for (w, m, c), e in zip(runs, evidence, strict=True)
        ]


def follow(belief: ChangepointBelief, likelihood: LinearGaussian, values: list[float]) -> torch.Tensor:
    """The mean of each belief's entries after each step, ``[T, K]``, where all of a latent's have these values."""
    generator = torch.Generator().manual_seed(5)
    environments, d, means = belief.model.environments, likelihood.base.shape[1], []
    for value in values:
        inputs = torch.randn(environments, 2, generator=generator)
        targets = (likelihood.design(inputs) @ torch.full((environments, d, 1), value)).squeeze(-1)
        targets = targets + likelihood.noise * torch.randn(environments, 3, generator=generator)
        belief.update(inputs, targets, torch.arange(environments), torch.Generator().manual_seed(0))
        means.append(belief.posterior().mean.mean(-1))
    return torch.stack(means)


def test_a_return_is_recognised_sooner_than_a_first_visit() -> None:
    """A step says little: a run that begins at the prior takes many to know six numbers, and to be believed."""
    likelihood, streams = LinearGaussian(2, 6, 3, 4.0, 1, torch.Generator().manual_seed(0)), 8
    latents = [1.0] * 150 + [-1.0] * 150 + [1.0] * 150 + [-1.0] * 60
    means, without = (follow(make(likelihood, streams, recalled=n), likelihood, latents) for n in (2, 0))
    # The first visit, the second one, and that without recall: the error over 60 steps.
    first, second, forgotten = (float((part + 1).abs().mean()) for part in (means[150:210], means[450:], without[450:]))
    assert second < 0.7 * first
    assert second < 0.85 * forgotten


def test_what_is_remembered_was_believed_before_the_change() -> None:
    likelihood = LinearGaussian(2, 1, 3, NOISE, 1, torch.Generator().manual_seed(1))
    belief = make(likelihood)
    follow(belief, likelihood, [1.0] * 60 + [-1.0] * 60)
    assert belief.recall is not None
    assert belief.recall.known.tolist() == [[True, False]]
    assert float(belief.recall.memory.frozen().mean[0]) == pytest.approx(1.0, abs=0.15)


def test_a_context_that_is_visited_again_keeps_its_place() -> None:
    likelihood = LinearGaussian(2, 1, 3, NOISE, 1, torch.Generator().manual_seed(1))
    belief = make(likelihood)
    follow(belief, likelihood, ([1.0] * 60 + [-1.0] * 60) * 3)
    assert belief.recall is not None
    means = sorted(belief.recall.memory.frozen().mean[:, 0].tolist())
    assert means == pytest.approx([-1.0, 1.0], abs=0.15)


@pytest.mark.parametrize(("most_nats", "is_change"), [(0.0, True), (2.0, False)])
def test_one_outlier_is_no_change(most_nats: float, is_change: bool, generator: torch.Generator) -> None:
    likelihood = LinearGaussian(2, 1, 3, NOISE, 1, generator)
    belief = make(likelihood, most_nats=most_nats)
    follow(belief, likelihood, [1.0] * 80 + [6.0])
    assert bool(belief.changed[0]) == is_change
    follow(belief, likelihood, [6.0] * 8)  # the second and third of them are
    assert float(belief.posterior().mean) == pytest.approx(6.0, abs=0.3)


def test_wrong_settings_are_refused_in_words() -> None:
    with pytest.raises(UserError, match="recalled must be 0"):
        ChangepointConfig(recalled=-1)
    with pytest.raises(UserError, match="most"):
        ChangepointConfig(most_nats=-1.0)
