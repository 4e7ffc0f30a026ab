"""Families out of any Gymnasium environment on MuJoCo, and the parameters of its model that they hide."""
