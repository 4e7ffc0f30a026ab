"""Trackers of a training's metrics, one a file, behind one small interface."""
