"""The collapse gate's gain over permuted latents: none that chance explains counts."""

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Independent, Normal

from pyro_dynamics.diagnostics.latents.collapse import collapse_gap, collapse_gap_p
from pyro_dynamics.transitions import Transitions

K, STEPS = 4, 200


class Means:
    """y ~ N(strength e + noise, 1) with known latents 0 ... K - 1: the interface of an agent that the gate uses."""

    environments, latent_dim = K, 1

    def __init__(self, strength: float) -> None:
        self.strength = strength

    def posterior(self) -> Independent:
        return Independent(Normal(torch.arange(K)[:, None].float(), 1e-3), 1)

    def log_likelihood(self, state: Tensor, action: Tensor, next_state: Tensor, latents: Tensor) -> Tensor:
        return Normal(self.strength * latents, 1.0).log_prob(next_state).sum(-1)[:, None]


def observed(strength: float, seed: int) -> Transitions:
    environment = torch.arange(K).repeat_interleave(STEPS)
    noise = torch.randn(K * STEPS, 1, generator=torch.Generator().manual_seed(seed))
    zero = torch.zeros(K * STEPS, 1)
    value = strength * environment[:, None] + noise
    return Transitions(zero, zero, value, zero[:, 0], environment, torch.arange(STEPS).repeat(K))


def p_values(used: float, true: float) -> np.ndarray:
    """Of 20 sets of data, of a network that uses a latent by so much where the truth does by so much."""
    found = [collapse_gap_p(Means(used), observed(true, seed)) for seed in range(20)]  # type: ignore[arg-type]
    return np.array(found)


def test_a_network_that_uses_its_latent_gains_more_than_chance() -> None:
    right, wrong = collapse_gap(Means(0.5), observed(0.5, 0))  # type: ignore[arg-type]
    assert wrong is not None
    assert (right - wrong).min() > 0.1  # (0.5 j)^2 / 2 nats for a latent that is j away, a mean over the others
    assert (p_values(0.5, 0.5) < 0.05).mean() > 0.95


def test_a_gain_of_a_few_thousandths_of_a_nat_by_chance_counts_as_none() -> None:
    """The network uses the latent a little, the environments do not differ: gains of either sign, all by chance."""
    gaps = [collapse_gap(Means(0.02), observed(0.0, seed)) for seed in range(20)]  # type: ignore[arg-type]
    size = np.array([(right - wrong).numpy() for right, wrong in gaps if wrong is not None])
    assert 0 < size.max() < 0.01
    assert (p_values(0.02, 0.0) < 0.05).mean() < 0.12
