"""Model, guide and controller as one object that learns, acts and adapts."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Normal

from pyro_dynamics.control import MPC, MPCConfig, TrajectorySampler
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference import OfflineConfig, OfflineInference, StreamingConfig, StreamingInference
from pyro_dynamics.randomness import drawing_from
from pyro_dynamics.tasks import Task
from pyro_dynamics.transitions import Transitions


class Agent:
    """One dynamics model over K environments, the belief about each, and the planner that uses both.

    Args:
        model: a Pyro model over K environments with a module ``likelihood`` (see :mod:`pyro_dynamics.models`).
        guide: its guide (see :mod:`pyro_dynamics.guides.contract`).
        task: features, targets, reward and termination.
        action_bounds: lower and upper bounds, each ``[A]``.
        offline: how to train (Eq. 4).
        streaming: how to update beliefs (Eq. 5).
        controller: how to plan.
    """

    def __init__(
        self,
        model: Any,
        guide: Any,
        task: Task,
        action_bounds: tuple[Tensor, Tensor],
        offline: OfflineConfig,
        streaming: StreamingConfig,
        controller: MPCConfig,
    ) -> None:
        self.model, self.guide, self.task = model, guide, task
        self.action_bounds = action_bounds
        self.offline = OfflineInference(model, guide, offline)
        self.streaming = StreamingInference(model, guide, streaming)
        sampler = TrajectorySampler(model.likelihood, task, model.likelihood.members, controller.particles)
        self.controller = MPC(sampler, *action_bounds, controller)

    @property
    def environments(self) -> int:
        """The number K of environments."""
        return self.guide.environments

    @property
    def latent_dim(self) -> int:
        """The size d of each latent; 0 for a generalist or specialist."""
        return self.guide.latent_dim

    def posterior(self) -> Distribution:
        """The belief q(e) as a constant: batch shape ``[K]``, event shape ``[d]``."""
        return self.guide.frozen()

    def train(
        self, data: Transitions, generator: torch.Generator, on_epoch: Callable[[int, float], None] | None = None
    ) -> float:
        """Fit model and guide to all data (Eq. 4); returns the last epoch's ELBO in nats for each transition."""
        inputs = self.task.inputs(data.state, data.action)
        targets = self.task.targets(data.state, data.next_state)
        return self.offline.train(inputs, targets, data.environment, generator, on_epoch)

    def act(self, state: Tensor, environment: Tensor, generator: torch.Generator) -> Tensor:
        """Planned actions ``[B, A]`` for robots in states ``[B, S]`` of environments ``[B]``."""
        return self.controller.act(state, self.posterior(), environment, generator)

    def observe(
        self, state: Tensor, action: Tensor, next_state: Tensor, environment: Tensor, generator: torch.Generator
    ) -> None:
        """Update the belief by transitions ``[B, ...]`` (Eq. 5)."""
        inputs, targets = self.task.inputs(state, action), self.task.targets(state, next_state)
        self.streaming.update(inputs, targets, environment, generator)

    @torch.no_grad()
    def log_predictive(
        self,
        state: Tensor,
        action: Tensor,
        next_state: Tensor,
        environment: Tensor,
        generator: torch.Generator,
        samples: int = 64,
    ) -> Tensor:
        """log p(s' | s, a) under the belief as it is now, in nats, ``[B]``: a mean over draws of e and members."""
        with drawing_from(generator):
            latents = self.posterior().sample((samples,))[:, environment]
        log_likelihood = self.log_likelihood(state, action, next_state, latents)
        return log_likelihood.logsumexp(dim=(0, 1)) - math.log(samples * self.model.likelihood.members)

    def log_likelihood(self, state: Tensor, action: Tensor, next_state: Tensor, latents: Tensor) -> Tensor:
        """log p(s' | s, a, e) of every member, in nats.

        Args:
            state: ``[B, S]``.
            action: ``[B, A]``.
            next_state: ``[B, S]``.
            latents: ``[n, B, d]``.

        Returns:
            ``[n, M, B]``.
        """
        members = self.model.likelihood.members
        rows = (len(latents), members, len(state))
        inputs = self.task.inputs(state, action).expand(*rows, -1)
        location, scale = self.model.likelihood(inputs, latents.unsqueeze(1).expand(*rows, -1))
        return Normal(location, scale).log_prob(self.task.targets(state, next_state)).sum(-1)

    def for_environments(self, environments: int) -> "Agent":
        """An agent with the same dynamics model (shared), and fresh beliefs about other environments."""
        model, guide = self.model.for_environments(environments), self.guide.for_environments(environments)
        return Agent(
            model,
            guide,
            self.task,
            self.action_bounds,
            self.offline.config,
            self.streaming.config,
            self.controller.config,
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything that training changes: weights, beliefs and the optimiser's state."""
        return {
            "model": self.model.state_dict(),
            "guide": self.guide.state_dict(),
            "optimiser": self.offline.optimiser.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state_dict` gave.

        Raises:
            UserError: if it is from another architecture.
        """
        try:
            self.model.load_state_dict(state["model"])
            self.guide.load_state_dict(state["guide"])
            self.offline.optimiser.load_state_dict(state["optimiser"])
        except (KeyError, RuntimeError, ValueError, TypeError, AttributeError) as fault:
            reason = str(fault).strip().splitlines()[-1].strip()
            raise UserError(f"the checkpoint is from another architecture than the configuration: {reason}") from None
