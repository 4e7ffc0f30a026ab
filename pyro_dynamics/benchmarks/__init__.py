"""Timings of planning, updating and training, and of the peer's."""
