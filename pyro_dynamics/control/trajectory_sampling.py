"""Trajectory sampling with fixed members and latents (TS-inf): expected returns of action sequences."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.errors import UserError
from pyro_dynamics.observation import draw, gaussian_parameters, kind
from pyro_dynamics.tasks import Task
from pyro_dynamics.tasks.spaces import decide

Dynamics = Callable[[Tensor, Tensor], tuple[Tensor, Tensor] | Distribution]
"""The ensemble: inputs ``[M, B, F + A]`` and latents ``[M, B, d]`` to location and scale ``[M, B, T]``, or to the
distribution of the targets that a model's hook gives, batch shape ``[M, B]``, event shape ``[T]``."""

Draws = Callable[[Tensor, Tensor, torch.Generator], Tensor]
"""Targets ``[M, B, T]`` that the ensemble draws itself."""


class TrajectorySampler:
    """Rolls P particles of every candidate through the ensemble.

    Particles are split evenly: P / M of them follow each member, for EVERY candidate, and keep member and latent over
    the whole horizon. Particle p carries the same latent in every candidate, so that candidates are compared under
    the same hypotheses about the environment.

    Args:
        dynamics: the ensemble, or a model's hook (:func:`pyro_dynamics.observation.dynamics_of`); it may have
            another form for the many rows of a plan (see :meth:`for_planning`), and for particles whose latents are
            too large to repeat for every row: ``for_particles(latents, candidates)``, of latents
            ``[M, K, P / M, d]``, gives dynamics of inputs alone. If it draws targets itself, by a method
            ``sample_targets(inputs, latent, generator)``, it does so unless the noise is common.
        task: features, targets, reward and termination.
        members: number M of members.
        particles: number P of particles, a multiple of M.
        common_noise: particle p carries the same transition noise in every candidate too: candidates then
            differ by their actions and not by their luck, while each return keeps its expectation.
    """

    def __init__(
        self, dynamics: Dynamics, task: Task, members: int, particles: int, common_noise: bool = False
    ) -> None:
        if particles < members or particles % members:
            raise UserError(f"{particles} particles cannot be split evenly over {members} members")
        self.dynamics, self.task = dynamics, task
        self.members, self.particles, self.common_noise = members, particles, common_noise

    def for_planning(self) -> "TrajectorySampler":
        """A copy whose dynamics have their form for plans, ``dynamics.for_planning()``, without gradients.

        They are as they are now: a copy serves all iterations of a plan, and not the plan after a training.
        """
        sampler = copy.copy(self)
        sampler.dynamics = getattr(self.dynamics, "for_planning", lambda: self.dynamics)()
        return sampler

    def returns(self, state: Tensor, actions: Tensor, latents: Tensor, generator: torch.Generator) -> Tensor:
        """Mean over particles of the summed rewards.

        Args:
            state: where K environments stand, ``[K, S]``.
            actions: candidates in the environment's units, ``[K, C, H, A]``; the largest entry of a one-hot code
                counts.
            latents: one draw for each particle, ``[K, P, d]``.
            generator: source of the transition noise.

        Returns:
            ``[K, C]``.
        """
        actions = decide(actions, self.task.choices)
        environments, candidates = actions.shape[:2]
        shape = (self.members, environments, candidates, self.particles // self.members)
        # Particle p follows member p // (P / M): [K, P, d] -> [M, K, C, P / M, d], and rows are all but the members.
        of_particle = latents.unflatten(1, (self.members, -1)).transpose(0, 1)
        if hasattr(self.dynamics, "for_particles"):
            sampler = copy.copy(self)
            sampler.dynamics = self.dynamics.for_particles(of_particle, candidates)
            return sampler.returns(state, actions, latents[..., :0], generator)
        e = of_particle.unsqueeze(2).expand(*shape, -1).flatten(1, 3)
        s = state[None, :, None, None].expand(*shape, -1).flatten(1, 3)
        total = s.new_zeros(s.shape[:-1])
        alive = torch.ones_like(total)
        # First the rows of one member, then the same again: twice as fast as row by row.
        of_member = actions.movedim(2, 0).repeat_interleave(shape[-1], dim=2).flatten(1, 2)  # [H, K C P / M, A]
        for a_t in of_member:
            a = a_t.expand(self.members, -1, -1).contiguous()
            s_next = self.task.next_state(s, self._sampled(self.task.inputs(s, a), e, shape, generator))
            total += alive * self.task.reward(s, a, s_next)
            if self.task.can_terminate:
                alive = alive * ~self.task.terminated(s, a, s_next)
            s = s_next
        returns: Tensor = total.unflatten(1, shape[1:]).mean(dim=(0, 3))
        return returns

    def _sampled(
        self, inputs: Tensor, latent: Tensor, shape: tuple[int, int, int, int], generator: torch.Generator
    ) -> Tensor:
        """Targets of one step, ``[M, K C P / M, T]``.

        Raises:
            UserError: if the noise is common and the dynamics no Gaussian.
        """
        sample: Draws | None = getattr(self.dynamics, "sample_targets", None)
        if sample and not self.common_noise:
            return sample(inputs, latent, generator)
        predicted = self.dynamics(inputs, latent)
        if isinstance(predicted, Distribution):
            gaussian = gaussian_parameters(predicted)
            if gaussian is None:
                return self._drawn(predicted, generator)
            predicted = gaussian
        location, scale = (x.unflatten(1, shape[1:]) for x in predicted)
        members, environments, candidates, of_member = shape
        drawn = (members, environments, 1 if self.common_noise else candidates, of_member, location.shape[-1])
        noise = location.new_empty(drawn).normal_(generator=generator)
        return torch.addcmul(location, scale, noise).flatten(1, 3)

    def _drawn(self, predicted: Distribution, generator: torch.Generator) -> Tensor:
        """Targets drawn from a distribution that is no Gaussian."""
        if self.common_noise:
            raise UserError(
                f"common random numbers need a Gaussian likelihood, and this one is a {kind(predicted)}: "
                "leave --controller.common-noise out"
            )
        return draw(predicted, generator)
