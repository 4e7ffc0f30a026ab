"""What a person runs: each module is a command of ``pyro-dynamics`` and runs by itself with ``python -m``."""
