"""The tasks of the environments that are ready to train on."""
