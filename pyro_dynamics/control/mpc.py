"""Model predictive control: plan, apply the first action, plan again (Algorithm 1)."""

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.control.cem import CEMConfig, Objective, plan_cem
from pyro_dynamics.control.trajectory_sampling import TrajectorySampler
from pyro_dynamics.errors import require_positive
from pyro_dynamics.randomness import drawing_from


@dataclass(frozen=True)
class MPCConfig:
    """Settings of the controller; the defaults are the paper's and PETS's.

    Attributes:
        horizon: number H of planned steps.
        particles: number P of particles for each candidate.
        cem: settings of the optimiser.
    """

    horizon: int = 30
    particles: int = 20
    cem: CEMConfig = field(default_factory=CEMConfig)

    def __post_init__(self) -> None:
        require_positive(self, "horizon", "particles")


class MPC:
    """Plans for many robots in one call, and starts from the last plan shifted by one step.

    Args:
        sampler: expected returns under the model.
        action_low: lower bounds ``[A]``.
        action_high: upper bounds ``[A]``.
        config: settings.
    """

    def __init__(self, sampler: TrajectorySampler, action_low: Tensor, action_high: Tensor, config: MPCConfig) -> None:
        self.sampler, self.config = sampler, config
        self.action_low, self.action_high = action_low, action_high
        self.plan: Tensor | None = None

    def reset(self) -> None:
        """Forget the last plan, at the start of an episode."""
        self.plan = None

    @torch.inference_mode()
    def act(self, state: Tensor, posterior: Distribution, environment: Tensor, generator: torch.Generator) -> Tensor:
        """The first actions of new plans for B robots.

        Args:
            state: ``[B, S]``.
            posterior: q(e) with batch shape ``[K]``; each particle draws its latent from it in each CEM iteration.
            environment: which of the K environments each robot is in, ``[B]``.
            generator: source of all draws.

        Returns:
            ``[B, A]`` in the environment's units.
        """

        def objective() -> Objective:
            with drawing_from(generator):
                latents = posterior.sample((self.config.particles,))[:, environment].transpose(0, 1)
            return lambda candidates: self.sampler.returns(state, self.to_units(candidates), latents, generator)

        if self.plan is None or len(self.plan) != len(state):
            self.plan = state.new_zeros(len(state), self.config.horizon, len(self.action_low))
        plan = plan_cem(objective, self.plan, self.config.cem, generator)
        self.plan = torch.cat([plan[:, 1:], torch.zeros_like(plan[:, :1])], dim=1)
        return self.to_units(plan[:, 0])

    def to_units(self, actions: Tensor) -> Tensor:
        """Map actions from [-1, 1] to the environment's bounds."""
        return self.action_low + (actions + 1) / 2 * (self.action_high - self.action_low)
