"""Documents out of figures and verdicts."""
