"""The tasks of the registered environments."""
