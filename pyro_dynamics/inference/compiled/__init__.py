"""Eqs. 4 and 5 in compiled graphs, equal to Pyro's to float32 accuracy."""
