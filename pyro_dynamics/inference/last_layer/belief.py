"""The belief about last layers: exact in a linear-Gaussian model, with change points."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.contracts import Settings, VariationalGuide
from pyro_dynamics.inference.beliefs import Belief, ChangepointConfig
from pyro_dynamics.inference.last_layer.contract import LastLayerModel
from pyro_dynamics.inference.last_layer.posterior import LayerMixture, along
from pyro_dynamics.inference.last_layer.regression import Layers
from pyro_dynamics.inference.last_layer.run_lengths import RunLengths


class NoUpdate:
    """In the place of an update rule: nothing is fitted."""

    def fit(self, *_: Any) -> None:
        raise AssertionError("the last layer's posterior is known in closed form")


class LastLayerBelief(Belief):
    """Recursive least squares on each member's last layer, for each hypothesis about when the present run began.

    A hypothesis is weighed by the exact evidence of each transition, the mean over members of the logarithm, as the
    expectation over members stands outside the logarithm in all of the project's models. Predictions and plans are made
    with the hazard of the coming step: new runs begin at what was believed at :meth:`set_prior`.

    Args:
        model: its ``likelihood`` is a :class:`~pyro_dynamics.models.LastLayerEnsemble`, or one like it.
        guide: of size 0: it says how many environments there are.
        config: what changes are expected; None for none.
        temperature: power of the likelihood in (0, 1].
    """

    Config = ChangepointConfig

    def __init__(
        self, model: LastLayerModel, guide: VariationalGuide, config: Settings | None, temperature: float = 1.0
    ) -> None:
        self.networks, self.changes = model.likelihood, config
        self.start = self._prior(guide.environments)
        super().__init__(model, guide, NoUpdate(), config or ChangepointConfig(), temperature)

    @property
    def infers(self) -> bool:
        return True

    def _prior(self, environments: int) -> Layers:
        """The learned prior of each environment."""
        return Layers(self.networks.prior_mean, self.networks.prior_covariance).repeated(environments)

    def start_at(self, layers: Layers) -> None:
        """Believe this of the K environments before anything is seen online."""
        self.start = layers
        self.set_prior()

    def set_prior(self) -> None:
        super().set_prior()
        self.runs = RunLengths.fresh(self.changes, self.guide.environments)  # type: ignore[arg-type]  # or None
        places = self.runs.log_weight.shape[1] + 1  # the last one stays: a run that begins with the coming step
        every = (part[:, None].expand(-1, places, -1, -1, -1) for part in (self.start.mean, self.start.covariance))
        self.layers = Layers(*every)

    @property
    def changed(self) -> Tensor:
        return self.runs.changed

    def posterior(self) -> Distribution:
        return LayerMixture(self.runs.with_coming(), self.layers, self.networks.noise)

    def reported(self) -> Distribution:
        """The belief along the few directions in which the trained environments differ most: event shape ``[r]``."""
        networks = self.networks
        return along(networks.directions, networks.prior_mean, self.runs.with_coming(), self.layers, networks.noise)

    def predictive(self, inputs: Tensor, environment: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The exact prediction of each row: a mixture of Gaussians over C = H + 1 runs and M members.

        Args:
            inputs: ``[B, F + A]``.
            environment: ``[B]``.

        Returns:
            Log weights ``[B, C, 1]``, and location and scale of the targets, each ``[B, C, M, T]``.
        """
        features, count = self._features(inputs), self.layers.mean.shape[1]
        location = features.new_empty(len(inputs), count, *self.networks.noise.shape)
        scale = torch.empty_like(location)
        for k in environment.unique():  # without a copy of its matrices for each row
            rows = environment == k
            location[rows], scale[rows] = self.layers[k].predict(features[rows][:, None], self.networks.noise)
        return self.runs.with_coming()[environment][..., None] - math.log(self.networks.members), location, scale

    def _features(self, inputs: Tensor) -> Tensor:
        """``[B, M, F]``, in float64."""
        features = self.networks.features(inputs.expand(self.networks.members, -1, -1))
        return features.detach().transpose(0, 1).double()

    @torch.no_grad()
    def absorb(
        self, inputs: Tensor, targets: Tensor, environment: Tensor, seen: Tensor, generator: torch.Generator
    ) -> None:
        features, targets = self._features(inputs), targets.double()
        left = torch.arange(len(environment))
        while len(left):  # several transitions of one environment come one after the other
            first = torch.ones(len(left), dtype=torch.bool)
            first[1:] = ~(environment[left][1:, None] == environment[left][None, :-1]).tril().any(1)
            rows = left[first]
            self._absorb_one(features[rows], targets[rows], environment[rows])
            left = left[~first]

    def _absorb_one(self, features: Tensor, targets: Tensor, environment: Tensor) -> None:
        """One transition of each of some environments."""
        runs, index, place = self.runs.begun(environment)
        layers = self.layers
        if len(index):
            layers = layers.replaced((index, place), self.start[index])
        count = runs.log_weight.shape[1]
        after, evidence = layers[environment, :count].absorb(
            features[:, None], targets[:, None, None], self.networks.noise, self.temperature
        )
        self.layers = layers.replaced((environment, slice(count)), after)
        self.runs = runs.absorbed(environment, evidence.mean(-1))

    def is_sound(self) -> bool:
        parts = (self.layers.mean, self.layers.covariance)
        return all(bool(part.isfinite().all()) for part in parts) and not bool(self.runs.log_weight.isnan().any())

    def snapshot(self) -> dict[str, Any]:
        # Nothing of these is changed in place.
        tensors = {name: getattr(self.runs, name) for name in ("log_weight", "length", "steps", "changed")}
        return {"mean": self.layers.mean, "covariance": self.layers.covariance, **tensors}

    def restore(self, state: dict[str, Any]) -> None:
        tensors = dict(state)
        self.layers = Layers(tensors.pop("mean"), tensors.pop("covariance"))
        self.runs = RunLengths(self.runs.config, **tensors)
