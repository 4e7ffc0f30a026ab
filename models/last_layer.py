"""An ensemble whose last layer may differ between environments: features are learned once, the layer is inferred."""

from collections.abc import Callable

import torch
from torch import Tensor

from pyro_dynamics.models.ensemble import Ensemble, EnsembleConfig


class LastLayerEnsemble(Ensemble):
    """M networks ``[features, 1] @ W``, with a matrix W ``[F, T]`` for each member that takes the place of the latent.

    Without a latent it is the generalist's ensemble, and is trained as that. With one, the flattened matrices of all
    members, ``[M F T]``, the mean of the targets is linear in it, and their noise is the same in every state, so that
    a Gaussian posterior over the matrices is exact (:mod:`pyro_dynamics.inference.last_layer`). Its prior is fitted
    after the networks and stays with them, as buffers: W_t ~ N(prior_mean_t, noise_t^2 prior_covariance).

    Args:
        input_dim: size of features and action together.
        output_dim: size T of the targets.
        config: members, widths and regularisation.
        directions: how many numbers r are reported of a matrix.

    Attributes:
        prior_mean: ``[M, F, T]``, where F is the width of the last hidden layer and 1 for the bias.
        prior_covariance: of the rows of W, in units of the noise, ``[M, F, F]``.
        noise: standard deviations of the targets, ``[M, T]``.
        directions: ``[r, M, F, T]``: the numbers that are reported of W are their products with W - prior_mean.
    """

    prior_mean: Tensor
    prior_covariance: Tensor
    noise: Tensor
    directions: Tensor

    def __init__(self, input_dim: int, output_dim: int, config: EnsembleConfig, directions: int) -> None:
        super().__init__(input_dim, 0, output_dim, config)
        members, width = config.members, self.weights[-1].shape[1] + 1
        wide = torch.float64  # thousands of recursive updates begin here
        self.register_buffer("prior_mean", torch.zeros(members, width, output_dim, dtype=wide))
        self.register_buffer("prior_covariance", torch.eye(width, dtype=wide).repeat(members, 1, 1))
        self.register_buffer("noise", torch.ones(members, output_dim, dtype=wide))
        # Before a training any directions do, as long as a belief has a width along them.
        any_way = torch.eye(width * output_dim, dtype=wide)[:directions].view(directions, 1, width, output_dim)
        self.register_buffer("directions", any_way.repeat(1, members, 1, 1))

    @property
    def layer_shape(self) -> tuple[int, int, int]:
        """Members M, features F and targets T of the matrices that are inferred."""
        members, width, targets = self.prior_mean.shape
        return members, width, targets

    def features(self, inputs: Tensor) -> Tensor:
        """What the last layer is given, ``[..., M, B, F + A] -> [..., M, B, F]``; the last feature is 1."""
        x = self._hidden(self._normalised(inputs).reshape(-1, *inputs.shape[-3:]).transpose(0, 1).flatten(1, 2))
        x = torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)
        rows: Tensor = x.unflatten(1, (-1, inputs.shape[-2])).transpose(0, 1)
        return rows.reshape(*inputs.shape[:-1], -1)

    def trained_layer(self) -> Tensor:
        """The last layer for the mean as it was trained, ``[M, F, T]``."""
        weight, bias = self.weights[-1], self.biases[-1]
        return torch.cat([weight, bias], dim=1)[..., : self.prior_mean.shape[-1]].detach()

    def forward(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the targets, by the trained layer or by one for each row.

        Args:
            inputs: ``[..., M, B, F + A]``.
            latent: ``[..., M, B, 0]``, or matrices of all members, of which each member takes its own:
                ``[..., M, B, M F T]``.

        Returns:
            Location and scale, each ``[..., M, B, T]``.
        """
        if not latent.shape[-1]:
            return super().forward(inputs, latent)
        layers = latent.unflatten(-1, self.layer_shape).diagonal(dim1=-5, dim2=-3)  # [..., B, F, T, M]
        location = torch.einsum("...mbf,...bftm->...mbt", self.features(inputs), layers)
        return location, self.noise.to(location).unsqueeze(-2).expand_as(location)

    def for_particles(self, latents: Tensor, candidates: int) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """The dynamics of a planner's particles, each with matrices of its own that it keeps: one product for each.

        Args:
            latents: of K environments and the P / M particles of each member, ``[M, K, P / M, M F T]``.
            candidates: how many action sequences C each particle follows.

        Returns:
            A function of inputs ``[M, K C P / M, F + A]`` that ignores its second argument.
        """
        shape = (latents.shape[1], candidates, latents.shape[2])
        noise = self.noise.to(latents).unsqueeze(1)
        own = latents.unflatten(-1, self.layer_shape).diagonal(dim1=0, dim2=3).movedim(-1, 0).contiguous()

        def dynamics(inputs: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
            features = self.features(inputs).unflatten(1, shape).transpose(2, 3)  # [M, K, P / M, C, F]
            location = (features @ own).transpose(2, 3).flatten(1, 3)
            return location, noise.expand_as(location)

        return dynamics
