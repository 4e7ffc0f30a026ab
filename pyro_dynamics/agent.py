"""Model, guide and controller as one object that learns, acts and adapts."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.contracts import DynamicsModel, VariationalGuide
from pyro_dynamics.control import CEM, MPC, MPCConfig, Planner, TrajectorySampler
from pyro_dynamics.control.own_planner_check import check_own_planner
from pyro_dynamics.errors import UserError, last_line
from pyro_dynamics.given_numbers import Numbers, as_floats, as_indices, as_rows, as_transition, require_generator
from pyro_dynamics.inference import (
    Belief,
    OfflineConfig,
    OfflineInference,
    RecursiveBelief,
    SVIUpdate,
    SVIUpdateConfig,
)
from pyro_dynamics.inference.beliefs.member_mixture import weighted_sample
from pyro_dynamics.inference.guide_check import check_guide, check_posterior, require_float32
from pyro_dynamics.inference.learned_prior import learn_population
from pyro_dynamics.inference.new_environments import infer_new
from pyro_dynamics.inference.noise_calibration import calibrate_noise
from pyro_dynamics.inference.own_belief_check import check_own_belief
from pyro_dynamics.inference.own_guide_check import check_own_guide
from pyro_dynamics.inference.user_model import begin_at_prior, check_model, over_environments
from pyro_dynamics.observation import dynamics_of, location_and_scale, marginal_cdf, observation
from pyro_dynamics.registry import is_own
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.tasks import BoxTask, Task
from pyro_dynamics.tasks.spaces import decide
from pyro_dynamics.transitions import Transitions
from pyro_dynamics.unusual_numbers import far_actions, far_outside

BeliefFactory = Callable[[DynamicsModel, VariationalGuide], Belief]
"""Makes the belief out of a model and its guide."""


def paper_belief(model: DynamicsModel, guide: VariationalGuide) -> Belief:
    """The paper's: the last posterior is the prior, and 60 gradient steps fit the next (Eq. 5)."""
    return RecursiveBelief(model, guide, SVIUpdate(SVIUpdateConfig()))


class Agent:
    """One dynamics model over K environments, the belief about each, and the planner that uses both.

    Args:
        model: a Pyro model over K environments with a module ``likelihood``, whose hook ``observation`` says the
            distribution of the targets (see :mod:`pyro_dynamics.models`).
        guide: its guide (see :mod:`pyro_dynamics.guides.contract`).
        task: features, targets, reward and termination.
        action_bounds: lower and upper bounds, each ``[A]``.
        offline: how to train (Eq. 4).
        controller: how far to plan, and with how many particles.
        belief: what is remembered online, and how the guide is fitted (Eq. 5).
        planner: makes the planner.

    Attributes:
        trained_range: least and largest of each entry of the states that were trained on, ``[2, S]``; None before a
            training, and in runs of older versions.

    Raises:
        UserError: if the guide does not fit the model, or is no guide of one posterior for each environment; or if a
            model of one's own observes the targets from another distribution than its hook gives.
    """

    def __init__(
        self,
        model: DynamicsModel,
        guide: VariationalGuide,
        task: Task,
        action_bounds: tuple[Tensor, Tensor],
        offline: OfflineConfig,
        controller: MPCConfig,
        belief: BeliefFactory = paper_belief,
        planner: Callable[[], Planner] = CEM,
    ) -> None:
        require_float32(model)
        check_guide(model, guide)
        check_model(model, task.input_dim, task.target_dim)
        check_own_guide(guide, model.likelihood.members, task.input_dim, task.target_dim)
        self.model, self.guide, self.task = model, guide, task
        self.action_bounds = action_bounds
        self.offline = OfflineInference(model, guide, offline)
        self.make_belief = belief
        self.belief = belief(model, guide)
        self.trained_range: Tensor | None = None
        check_own_planner(planner, controller.horizon, len(action_bounds[0]))
        if guide.infers:
            if is_own(type(self.belief)) or is_own(type(getattr(self.belief, "update_rule", None))):
                check_own_belief(belief, model, guide, task.input_dim, task.target_dim)
            check_posterior(self.belief, self.belief.posterior(), guide.environments, guide.latent_dim)
        members, particles, common_noise = model.likelihood.members, controller.particles, controller.common_noise
        sampler = TrajectorySampler(dynamics_of(model), task, members, particles, common_noise)
        self.make_planner = planner
        device = getattr(model.likelihood, "accelerator", None)
        self.controller = MPC(sampler, *action_bounds, controller, planner(), device)

    @property
    def environments(self) -> int:
        """The number K of environments."""
        return self.guide.environments

    @property
    def latent_dim(self) -> int:
        """The size d of each latent, or of an oracle's encoded contexts; 0 for a generalist or specialist."""
        return self.guide.latent_dim

    @property
    def belief_dim(self) -> int:
        """The size of a latent that is inferred; 0 for a generalist or specialist, and for an oracle."""
        return self.latent_dim if self.guide.infers else 0

    def posterior(self) -> Distribution:
        """The belief q(e) as a constant: batch shape ``[K]``, event shape ``[d]``."""
        return self.belief.posterior()

    def reported_posterior(self) -> Distribution:
        """The belief as it is shown to people and measured, ``[K]`` and ``[belief_dim]``: the same, by default."""
        return self.posterior()

    def train(
        self, data: Transitions, generator: torch.Generator, on_epoch: Callable[[int, float], None] | None = None
    ) -> float:
        """Fit model and guide to all data (Eq. 4); returns the last epoch's ELBO in nats for each transition."""
        data = self._checked(data)
        states = torch.cat([data.state, data.next_state])
        self.trained_range = torch.stack([states.amin(0), states.amax(0)])
        units = self.task.fit(data.state, data.next_state)
        if units is not None and hasattr(self.model.likelihood, "rescale_targets"):
            self.offline.forget_moments(self.model.likelihood.rescale_targets(*units))
        inputs = self.task.inputs(data.state, data.action)
        targets = self.task.targets(data.state, data.next_state)
        elbo = self.offline.train(inputs, targets, data.environment, generator, on_epoch)
        learn_population(self.model, self.guide)
        self.belief.set_prior()
        return elbo

    def calibrate(self, trained: Transitions, new: Transitions, generator: torch.Generator) -> bool:
        """Make the predicted noise right on new episodes, and the guide and the learned prior with it.

        Args:
            trained: the transitions that model and guide were fitted to.
            new: transitions of the same environments that they were not.
            generator: source of the latents.

        Returns:
            Whether it was done: not for a likelihood of the user's own.
        """
        inputs, targets = self.task.inputs(new.state, new.action), self.task.targets(new.state, new.next_state)
        if not calibrate_noise(self.model, self.guide.frozen(), inputs, targets, new.environment, generator):
            return False
        inputs = self.task.inputs(trained.state, trained.action)
        self.offline.polish(inputs, self.task.targets(trained.state, trained.next_state), trained.environment)
        learn_population(self.model, self.guide)
        self.belief.set_prior()
        return True

    def far_outside(self, data: Transitions) -> tuple[np.ndarray, str]:
        """Which transitions ``[N]`` lead far outside of the states that were trained on, and the entries in words.

        Or come from an action far outside of its bounds. What the networks predict there means nothing, nor does what
        is inferred by it. Agents that were trained by an older version know no range of states, and say none of them.
        """
        far, words = self.far_actions(data.action)
        beyond, entries = self.far_states(data.next_state)
        return far | beyond, ", ".join(filter(None, (words, entries)))

    def far_states(self, state: Tensor) -> tuple[np.ndarray, str]:
        """Which states ``[N, S]`` lie far outside of those trained on, ``[N]``, and which entries in words.

        Of an angle the networks see cosine and sine, so that whole turns more are nothing.
        """
        if self.trained_range is None:
            return np.zeros(len(state), bool), ""
        low, high = self.trained_range.double().numpy()
        given = state.double().numpy().copy()
        for entry in self.task.angles.entries if isinstance(self.task, BoxTask) else ():
            given[:, entry] = low[entry]
        return far_outside(low, high, given, self.task.state_names)

    def far_actions(self, action: Tensor) -> tuple[np.ndarray, str]:
        """Which actions ``[N, A]`` lie far outside of their bounds, ``[N]``, and which entries in words."""
        low, high = (bound.double().numpy() for bound in self.action_bounds)
        return far_actions(low, high, action.double().numpy())

    def set_context(self, contexts: Sequence[Any]) -> None:
        """The true contexts of the K environments, which an oracle takes over; other agents ignore them."""
        if self.guide.context_given:
            self.guide.set_context(contexts)
            self.belief.set_prior()

    def act(self, state: Numbers, environment: Numbers, generator: torch.Generator) -> Tensor:
        """Planned actions ``[B, A]`` for states ``[B, S]`` of environments ``[B]``.

        Here and below states and actions may be of numpy or torch and of any type of number, one vector is one row, and
        one environment is that of all rows.

        Raises:
            UserError: if sizes do not fit, or a number is not finite.
        """
        state = as_rows(state, self.task.state_dim, "state")
        environment = as_indices(environment, len(state), self.environments)
        return self.controller.act(state, self.belief.ahead(), environment, generator)

    def observe(
        self, state: Numbers, action: Numbers, next_state: Numbers, environment: Numbers, generator: torch.Generator
    ) -> None:
        """Update the belief by transitions ``[B, ...]`` (Eq. 5)."""
        state, action, next_state = self._rows(state, action, next_state)
        environment = as_indices(environment, len(state), self.environments)
        require_generator(generator)
        inputs, targets = self.task.inputs(state, action), self.task.targets(state, next_state)
        self.belief.update(inputs, targets, environment, generator)
        if self.controller.config.reset_on_change:
            self.controller.reset_plans(self.belief.changed.nonzero().squeeze(1))

    @torch.no_grad()
    def log_predictive(
        self,
        state: Numbers,
        action: Numbers,
        next_state: Numbers,
        environment: Numbers,
        generator: torch.Generator,
        samples: int = 64,
    ) -> Tensor:
        """log p(s' | s, a) under the belief as it is now, in nats, ``[B]``: a mean over draws of e and members."""
        state, action, next_state = self._rows(state, action, next_state)
        environment = as_indices(environment, len(state), self.environments)
        latents, log_weight = self.latents_ahead(samples, environment, generator)
        log_likelihood = self.log_likelihood(state, action, next_state, latents)
        mixed: Tensor = (log_likelihood + log_weight).logsumexp(dim=(0, 1))
        return mixed - math.log(log_likelihood.shape[1])

    @torch.no_grad()
    def predictive_pit(
        self,
        state: Numbers,
        action: Numbers,
        next_state: Numbers,
        environment: Numbers,
        generator: torch.Generator,
        samples: int = 64,
        factor: Tensor | None = None,
    ) -> Tensor:
        """The CDF of the prediction at what was observed, ``[B, T]``, under the belief as it is now.

        Uniform on [0, 1] where the belief and the network are calibrated. The arguments are those of
        :meth:`log_predictive`, and a factor on the predicted standard deviations, ``[B, T]``.

        Raises:
            UserError: if the likelihood has no CDF.
        """
        state, action, next_state = self._rows(state, action, next_state)
        environment = as_indices(environment, len(state), self.environments)
        latents, log_weight = self.latents_ahead(samples, environment, generator)
        predicted = self.observation(state, action, latents)
        cdf = marginal_cdf(predicted, self.task.targets(state, next_state), factor)
        return (cdf * log_weight.exp()[..., None]).sum(0).mean(0)

    def latents_ahead(self, samples: int, environment: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draws of the belief about the coming step for each member, of its own belief where it has one.

        Args:
            samples: about how many.
            environment: of each row, ``[B]``.
            generator: source of the draws.

        Returns:
            Latents ``[n, M, B, d]`` and their log-weights ``[n, M, B]``; M is 1 where all members share them.
        """
        require_generator(generator)
        with drawing_from(generator):
            latents, log_weight = weighted_sample(self.belief.ahead(), samples)
        if self.belief.members == 1:
            latents, log_weight = latents.unsqueeze(1), log_weight.unsqueeze(1)
        return latents[:, :, environment], log_weight[:, :, environment]

    def log_likelihood(self, state: Numbers, action: Numbers, next_state: Numbers, latents: Tensor) -> Tensor:
        """log p(s' | s, a, e) of every member, in nats.

        Args:
            state: ``[B, S]``.
            action: ``[B, A]``.
            next_state: ``[B, S]``.
            latents: ``[n, B, d]``, or ``[n, M, B, d]`` where each member has its own.

        Returns:
            ``[n, M, B]``.
        """
        state, action, next_state = self._rows(state, action, next_state)
        return self.observation(state, action, latents).log_prob(self.task.targets(state, next_state))

    def predict(self, state: Numbers, action: Numbers, latents: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation ``[n, M, B, T]`` of the targets by every member, for latents ``[n, B, d]``."""
        return location_and_scale(self.observation(state, action, latents))

    def observation(self, state: Numbers, action: Numbers, latents: Tensor) -> Distribution:
        """p(delta | s, a, e) by every member, for latents ``[n, B, d]``: batch shape ``[n, M, B]``, event ``[T]``.

        The latents may be ``[n, M, B, d]`` too, those of each member.
        """
        state, action, _ = self._rows(state, action, state)
        latents = as_floats(latents, "latents")
        rows = (len(latents), self.model.likelihood.members, len(state))
        if latents.dim() not in (3, 4) or latents.shape[-2:] != (len(state), self.latent_dim):
            raise UserError(f"latents must be [n, {len(state)}, {self.latent_dim}], not of shape {list(latents.shape)}")
        inputs = self.task.inputs(state, action).expand(*rows, -1)
        latents = latents.unsqueeze(1) if latents.dim() == 3 else latents
        return observation(self.model, inputs, latents.expand(*rows, -1))

    def _checked(self, data: Transitions) -> Transitions:
        return data.checked(self.environments, self.task.state_dim, self.task.action_dim)

    def _rows(self, state: Any, action: Any, next_state: Any) -> tuple[Tensor, Tensor, Tensor]:
        state, action, after = as_transition(state, action, next_state, self.task.state_dim, self.task.action_dim)
        return state, decide(action, self.task.choices), after  # what the environment takes an action for

    def for_environments(self, environments: int) -> "Agent":
        """An agent with the same dynamics model (shared), and fresh beliefs about other environments.

        Raises:
            UserError: if the beliefs cannot begin at a prior of the model's own.
        """
        model, guide = over_environments(self.model, environments), self.guide.for_environments(environments)
        begin_at_prior(model, guide)
        return self._with(model, guide, self.offline.config)

    def refit(
        self,
        data: Transitions,
        guide: VariationalGuide,
        config: OfflineConfig,
        generator: torch.Generator,
        on_epoch: Callable[[int, float], None] | None = None,
    ) -> "Agent":
        """An agent with the same dynamics model (shared, as it is) and another guide, fitted to the data.

        So guides are compared on one model, and one guide with itself from other seeds.

        Args:
            data: transitions of the K environments.
            guide: a guide over as many environments.
            config: how to fit it.
            generator: source of the shuffles and of the guide's samples.
            on_epoch: called with the epoch and its mean ELBO for each transition.
        """
        agent, data = self._with(self.model, guide, config), self._checked(data)
        inputs, targets = self.task.inputs(data.state, data.action), self.task.targets(data.state, data.next_state)
        agent.offline.refit(inputs, targets, data.environment, generator, on_epoch)
        agent.belief.set_prior()
        return agent

    def take_over(self, fewer: "Agent") -> None:
        """Continue as an agent over the first of these environments: all that it learned, and its optimiser's state.

        The further environments are as they were, at the guide's start.

        Args:
            fewer: with the same configuration, over as many environments or fewer.
        """
        self.model.load_state_dict(fewer.model.state_dict())
        known = torch.arange(fewer.environments)
        own, state = fewer.guide.own_tensors(), fewer.guide.state_dict()
        shared = {name: value for name, value in state.items() if name not in own}
        self.guide.load_state_dict(self.guide.state_dict() | shared)
        self.guide.assign(known, fewer.guide, known)
        self.offline.continue_from(fewer.offline)
        self.task.load_state_dict(fewer.task.state_dict())
        self.trained_range = fewer.trained_range
        self.belief.set_prior()

    def infer_new(self, data: Transitions, first: int) -> None:
        """Let the beliefs about the environments from number ``first`` on be those of their own data, theta fixed."""
        inputs, targets = self.task.inputs(data.state, data.action), self.task.targets(data.state, data.next_state)
        infer_new(self.model, self.guide, inputs, targets, data.environment, first)
        self.belief.set_prior()

    def _with(self, model: DynamicsModel, guide: VariationalGuide, offline: OfflineConfig) -> "Agent":
        """An agent that has other parts, and plans and believes in the same way."""
        other = type(self)(
            model,
            guide,
            self.task,
            self.action_bounds,
            offline,
            self.controller.config,
            self.make_belief,
            self.make_planner,
        )
        other.trained_range = self.trained_range
        return other

    def stream_state(self) -> dict[str, Any]:
        """Copies of all that acting and observing change: the belief and the last plans."""
        return {"belief": self.belief.snapshot(), "plans": self.controller.plans()}

    def load_stream_state(self, kept: Mapping[str, Any]) -> None:
        """Return to what :meth:`stream_state` gave."""
        self.belief.restore(kept["belief"])
        self.controller.load_plans(kept["plans"])

    def state_dict(self) -> dict[str, Any]:
        """Everything that training changes: weights, beliefs, the optimiser's state, and what the task has fitted."""
        return {
            "model": self.model.state_dict(),
            "guide": self.guide.state_dict(),
            "optimiser": self.offline.optimiser.state_dict(),
            "task": self.task.state_dict(),
            **({} if self.trained_range is None else {"trained_range": self.trained_range}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state_dict` gave.

        Raises:
            UserError: if it is from another architecture.
        """
        try:
            self.model.load_state_dict(state["model"])
            self.guide.load_state_dict(state["guide"])
            self.offline.load_optimiser(state["optimiser"])
            self.task.load_state_dict(state.get("task", {}))  # older checkpoints have none
            self.trained_range = state.get("trained_range")
            if self.trained_range is not None and self.trained_range.shape != (2, self.task.state_dim):
                raise ValueError(f"the range of states has the shape {list(self.trained_range.shape)}")
            self.belief.set_prior()
        except (KeyError, RuntimeError, ValueError, TypeError, AttributeError) as fault:
            raise UserError(
                f"the checkpoint is from another architecture than the configuration: {last_line(fault)}"
            ) from None
