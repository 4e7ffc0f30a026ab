"""Model predictive control: plan, apply the first action, plan again (Algorithm 1)."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.control.contract import Objective, Planner, in_units
from pyro_dynamics.control.gpu_planning import GPUPlanning
from pyro_dynamics.control.trajectory_sampling import TrajectorySampler
from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.given_numbers import as_indices, as_rows, require_generator
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.tasks.spaces import decide


@dataclass(frozen=True)
class MPCConfig:
    """Settings of the controller; the defaults are the paper's and PETS's.

    Attributes:
        horizon: number H of planned steps.
        particles: number P of particles for each candidate.
        common_noise: compare all candidates under the same transition noise, which few candidates need more than
            many; PETS draws it anew for each.
        reset_on_change: search anew, without the last plan, where the belief finds that the environment has changed.
    """

    horizon: int = 30
    particles: int = 20
    common_noise: bool = False
    reset_on_change: bool = False

    def __post_init__(self) -> None:
        require_positive(self, "horizon", "particles")


class MPC:
    """Plans for many environments in one call.

    Args:
        sampler: expected returns under the model.
        action_low: lower bounds ``[A]``.
        action_high: upper bounds ``[A]``.
        config: settings.
        planner: searches for the actions; it remembers its last plans.
        device: where the search runs, if not on the processor; all else stays there.
    """

    def __init__(
        self,
        sampler: TrajectorySampler,
        action_low: Tensor,
        action_high: Tensor,
        config: MPCConfig,
        planner: Planner,
        device: torch.device | None = None,
    ) -> None:
        self.sampler, self.config, self.planner = sampler, config, planner
        planner.choices = sampler.task.choices
        self.action_low, self.action_high = action_low, action_high
        self.environment: Tensor | None = None
        self.elsewhere = GPUPlanning(sampler, (action_low, action_high), device) if device is not None else None

    def reset(self) -> None:
        """Forget the last plans, at the start of an episode."""
        self.planner.reset()
        self.environment = None

    def plans(self) -> dict[str, Tensor | None]:
        """Copies of the last plans, and of which environments they are."""
        kept = {"environment": self.environment, **self.planner.plans()}
        return {name: value if value is None else value.clone() for name, value in kept.items()}

    def load_plans(self, kept: Mapping[str, Tensor | None]) -> None:
        """Continue from what :meth:`plans` gave."""
        self.environment = kept["environment"]
        for name in self.planner.plans():
            setattr(self.planner, name, kept[name])

    def reset_plans(self, environments: Tensor) -> None:
        """Search anew in these environments ``[n]``, where a change was found (see :meth:`Planner.reset_plans`)."""
        if self.environment is not None:
            self.planner.reset_plans(torch.isin(self.environment, environments))

    @torch.inference_mode()
    def act(self, state: Tensor, posterior: Distribution, environment: Tensor, generator: torch.Generator) -> Tensor:
        """The first actions of B new plans.

        They are finite and within the bounds, whatever the model and the posterior say. Where no candidate has a finite
        return, the last plan continues, or the middle of the bounds is sent where there is none.

        Args:
            state: ``[B, S]``.
            posterior: q(e) with batch shape ``[K]``; each particle draws its latent from it in each iteration.
            environment: which of the K environments each robot is in, ``[B]``.
            generator: source of all draws.

        Returns:
            ``[B, A]`` in the environment's units.
        """

        def latents() -> Tensor:
            with drawing_from(generator):
                return _draw(posterior, self.config.particles)[:, environment].transpose(0, 1)

        def objective() -> Objective:
            e = latents()
            return lambda candidates: sampler.returns(state, self.to_units(candidates), e, generator)

        state = as_rows(state, getattr(self.sampler.task, "state_dim", None), "state", finite=False)
        environment = as_indices(environment, len(state), posterior.batch_shape[0])
        require_generator(generator)
        self.environment = environment
        shape = (len(state), self.config.horizon, len(self.action_low))
        if self.elsewhere is None:
            sampler = self.sampler.for_planning()
            plan = self.planner.plan(objective, shape, generator)
            if tuple(plan.shape) != shape:
                raise UserError(f"{type(self.planner).__name__}.plan() gives {list(plan.shape)}, not {list(shape)}")
        else:
            of_each = torch.stack([latents() for _ in range(getattr(self.planner.config, "iterations", 1))])
            seed = int(torch.randint(2**62, (), generator=generator))
            plan = self.elsewhere.plan(self.planner, state, of_each, shape, seed)
        action = decide(self.to_units(plan[:, 0].nan_to_num(0.0)), self.sampler.task.choices)
        return action.clamp(self.action_low, self.action_high)  # not past them by a rounding error

    def to_units(self, actions: Tensor) -> Tensor:
        """Map actions from [-1, 1] to the environment's bounds."""
        return in_units(actions, self.action_low, self.action_high)


def _draw(posterior: Distribution, particles: int) -> Tensor:
    """Latents ``[P, K, d]``; all NaN, so that no plan of theirs is followed, where torch refuses to draw from a NaN."""
    try:
        return posterior.sample((particles,))
    except (RuntimeError, ValueError):
        mean = posterior.mean
        if (mean.isfinite() & posterior.stddev.isfinite()).all():
            raise
        return mean.new_full((particles, *mean.shape), torch.nan)
