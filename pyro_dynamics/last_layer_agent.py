"""An agent that infers its networks' last layer in each environment, by Bayesian linear regression: no latent.

A baseline that many would take first: features of one network for all environments, and an exact posterior over a
linear layer on top of them, as in ARCADE (arXiv:2512.14331) and in Levy (arXiv:2504.16923), or ALPaCA before
(arXiv:1807.08912).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Normal

from pyro_dynamics.agent import Agent
from pyro_dynamics.errors import UserError
from pyro_dynamics.given_numbers import Numbers, as_indices
from pyro_dynamics.inference.last_layer import LastLayerBelief, Layers, Moments, fit_prior, leading_directions
from pyro_dynamics.transitions import Transitions

ROWS = 4096
"""Rows whose features are held at once."""
BEGINNING = 50
"""First steps of an episode, by which the prior of an environment never seen is judged."""
EPISODES = 8
"""Of each environment, whose first steps are taken."""


class LastLayerAgent(Agent):
    """A generalist, trained as one, with a belief about the last layer of each of its networks.

    After each training the prior of that layer is fitted to the trained environments (empirical Bayes), and what is
    believed of those is their posterior given all data. The posterior that planning and diagnoses draw from is over all
    entries of the layers; what is reported is its value along a few directions in which trained environments differ.
    """

    belief: LastLayerBelief

    @property
    def latent_dim(self) -> int:
        """Entries of all members' last layers."""
        return int(self._networks.prior_mean.numel())

    @property
    def belief_dim(self) -> int:
        """How many numbers are reported of a belief."""
        return len(self._networks.directions)

    @property
    def _networks(self) -> Any:
        return self.belief.networks

    def reported_posterior(self) -> Distribution:
        """The belief along the directions in which trained environments differ, ``[K]`` and ``[belief_dim]``."""
        return self.belief.reported()

    def train(
        self, data: Transitions, generator: torch.Generator, on_epoch: Callable[[int, float], None] | None = None
    ) -> float:
        """Fit the networks as a generalist's, and then the prior of their last layer."""
        elbo = super().train(data, generator, on_epoch)
        self._fit_prior(data)
        return elbo

    def refit(self, *_: Any, **__: Any) -> Agent:
        """Refused: there is no guide.

        Raises:
            UserError: always.
        """
        raise UserError("the last layer's posterior is known in closed form: there is no guide to fit again")

    def calibrate(self, *_: Any) -> bool:
        """Not done: the noise is the regression's own, fitted with the prior."""
        return False

    @torch.no_grad()
    def _moments(self, data: Transitions, parts: Sequence[Tensor]) -> Moments:
        """All that the regression takes from parts of the data, each given by its rows."""
        inputs, targets = self.task.inputs(data.state, data.action), self.task.targets(data.state, data.next_state)
        members, width, size = self._networks.prior_mean.shape
        wide: Any = {"dtype": torch.float64}
        squares = torch.zeros(len(parts), members, width, width, **wide)
        products = torch.zeros(len(parts), members, width, size, **wide)
        of_targets = torch.zeros(len(parts), size, **wide)
        for k, part in enumerate(parts):
            for rows in part.split(ROWS):
                features = self._networks.features(inputs[rows].expand(members, -1, -1)).double()
                own = targets[rows].double()
                squares[k] += features.mT @ features
                products[k] += features.mT @ own
                of_targets[k] += own.square().sum(0)
        return Moments(squares, products, of_targets, torch.tensor([len(part) for part in parts], **wide))

    @torch.no_grad()
    def _fit_prior(self, data: Transitions) -> None:
        """Keep the prior with the networks, and begin where the trained environments are."""
        networks = self._networks
        moments = self._moments(data, [(data.environment == k).nonzero()[:, 0] for k in range(self.environments)])
        episodes = _some_episodes(data, self.environments)
        environment = data.environment[torch.stack([rows[0] for rows in episodes])]
        beginnings = self._moments(data, [rows[:BEGINNING] for rows in episodes])
        found = fit_prior(moments, beginnings, environment, networks.trained_layer())
        networks.prior_mean.copy_(found.prior.mean)
        networks.prior_covariance.copy_(found.prior.covariance)
        networks.noise.copy_(found.noise)
        networks.directions.copy_(leading_directions(moments, found, self.belief_dim))
        self.belief.start_at(found.trained)

    def log_predictive(
        self,
        state: Numbers,
        action: Numbers,
        next_state: Numbers,
        environment: Numbers,
        generator: torch.Generator,
        samples: int = 64,
    ) -> Tensor:
        """log p(s' | s, a) under the belief as it is now, in nats, ``[B]``: exact, so that nothing is drawn."""
        state, action, next_state = self._rows(state, action, next_state)
        environment = as_indices(environment, len(state), self.environments)
        log_weight, location, scale = self.belief.predictive(self.task.inputs(state, action), environment)
        targets = self.task.targets(state, next_state).double()[:, None, None]
        log_likelihood = Normal(location, scale, validate_args=False).log_prob(targets).sum(-1)
        return (log_weight + log_likelihood).logsumexp(dim=(1, 2)).float()

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
        """The CDF of the exact prediction at what was observed, ``[B, T]``."""
        state, action, next_state = self._rows(state, action, next_state)
        environment = as_indices(environment, len(state), self.environments)
        log_weight, location, scale = self.belief.predictive(self.task.inputs(state, action), environment)
        targets = self.task.targets(state, next_state).double()[:, None, None]
        if factor is not None:
            scale = factor[:, None, None] * scale
        cdf = Normal(location, scale, validate_args=False).cdf(targets)
        return (log_weight.exp()[..., None] * cdf).sum(dim=(1, 2)).clamp(0, 1).float()

    def state_dict(self) -> dict[str, Any]:
        """Also what is believed of the environments that were trained on."""
        return super().state_dict() | {
            "layers": {"mean": self.belief.start.mean, "covariance": self.belief.start.covariance}
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state_dict` gave.

        Raises:
            UserError: if it is from another architecture.
        """
        super().load_state_dict(state)
        layers, own = state.get("layers"), self.belief.start
        if not isinstance(layers, Mapping) or any(
            getattr(layers.get(name), "shape", None) != getattr(own, name).shape for name in ("mean", "covariance")
        ):
            raise UserError("the checkpoint is from another architecture than the configuration: its layers are others")
        self.belief.start_at(Layers(layers["mean"], layers["covariance"]))


def _some_episodes(data: Transitions, environments: int) -> list[Tensor]:
    """Rows of some episodes of each of K environments, evenly spread over all rounds."""
    every, found = data.episodes(), []
    for k in range(environments):
        own = [rows for rows in every if int(data.environment[rows[0]]) == k]
        found += [own[i] for i in torch.linspace(0, len(own) - 1, min(EPISODES, len(own))).long().tolist()]
    return found
