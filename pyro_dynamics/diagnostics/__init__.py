"""Measures of posteriors, predictions, latents and streams, as numbers; the figures are in plots/."""
