"""Exact posteriors, for tests."""

import torch
from torch import Tensor


def linear_gaussian_posterior(
    mean: Tensor, covariance: Tensor, design: Tensor, observed: Tensor, noise: float
) -> tuple[Tensor, Tensor]:
    """The Kalman update of e ~ N(mean, covariance) by y = A e + N(0, noise^2 I).

    Args:
        mean: ``[..., d]``.
        covariance: ``[..., d, d]``.
        design: A, ``[..., T, d]``.
        observed: y, ``[..., T]``.
        noise: standard deviation of each observed dimension.

    Returns:
        Mean ``[..., d]`` and covariance ``[..., d, d]`` of the posterior.
    """
    precision = torch.linalg.inv(covariance)
    new_covariance = torch.linalg.inv(precision + design.mT @ design / noise**2)
    information = precision @ mean.unsqueeze(-1) + design.mT @ observed.unsqueeze(-1) / noise**2
    return (new_covariance @ information).squeeze(-1), new_covariance
