"""Figures out of what diagnostics and rollouts return."""
