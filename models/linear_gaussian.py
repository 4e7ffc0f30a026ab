"""A likelihood whose posterior is known in closed form: the reference for every inference method."""

import torch
from torch import Tensor, nn


class LinearGaussian(nn.Module):
    """delta ~ N(A(x) e, noise^2 I) with A(x) = W + sum_i x_i V_i, the same for every member.

    It has the interface of :class:`~pyro_dynamics.models.Ensemble`, so that the same Pyro model and the same
    inference run on it.

    Args:
        input_dim: size of x.
        latent_dim: size d of e.
        output_dim: size T of delta.
        noise: standard deviation of the observation noise.
        members: number M of (identical) members.
        generator: source of the fixed weights.
    """

    base: Tensor
    slope: Tensor

    def __init__(
        self, input_dim: int, latent_dim: int, output_dim: int, noise: float, members: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.members = members
        self.noise = noise
        self.register_buffer("base", torch.randn(output_dim, latent_dim, generator=generator))
        self.register_buffer("slope", torch.randn(input_dim, output_dim, latent_dim, generator=generator))

    def design(self, inputs: Tensor) -> Tensor:
        """A(x): ``[..., I] -> [..., T, d]``."""
        return self.base + torch.einsum("...i,itd->...td", inputs, self.slope)

    def forward(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Location and scale ``[..., T]`` for inputs ``[..., I]`` and latents ``[..., d]``."""
        location = torch.einsum("...td,...d->...t", self.design(inputs), latent)
        return location, torch.full_like(location, self.noise)

    def fit_normaliser(self, inputs: Tensor) -> None:
        """Inputs are used as they are."""

    def penalty(self) -> Tensor:
        """There are no weights to regularise: 0."""
        return self.base.new_zeros(())

    def weight_decays(self) -> dict[nn.Parameter, float]:
        """None."""
        return {}
