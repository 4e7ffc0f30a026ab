"""Families of any MuJoCo environment of Gymnasium, and the model parameters that they hide."""
