"""Noise that is correlated over the horizon (Timmer and Koenig 1995, as iCEM uses it)."""

import torch
from torch import Tensor


def coloured_noise(shape: tuple[int, int, int, int], beta: float, generator: torch.Generator) -> Tensor:
    """Gaussian noise with the power spectrum f^-beta along the horizon, and with unit variance at every step.

    White noise is filtered: its Fourier transform is multiplied by f^(-beta / 2), where the frequency 0 counts as the
    lowest other one, 1 / H. A beta of 0 leaves it white; the higher it is, the longer an action is kept up. The filter
    is circular, so that the last step is correlated with the first.

    Args:
        shape: problems K, candidates C, horizon H and action size A.
        beta: exponent of the spectrum, not negative.
        generator: source of the draws.

    Returns:
        ``[K, C, H, A]``.
    """
    horizon = shape[2]
    white = torch.randn(shape, generator=generator, device=generator.device)
    if beta == 0 or not white.numel():  # of no candidates there is no transform
        return white
    gain = torch.fft.fftfreq(horizon, device=white.device).abs().clamp(min=1 / horizon) ** (-beta / 2)
    gain = gain / gain.square().mean().sqrt()  # by Parseval's theorem the variance is the mean square of the gains
    spectrum = torch.fft.rfft(white, dim=2) * gain[: horizon // 2 + 1, None]
    noise: Tensor = torch.fft.irfft(spectrum, n=horizon, dim=2)
    return noise
