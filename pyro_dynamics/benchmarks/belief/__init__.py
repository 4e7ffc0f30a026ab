"""What beliefs are worth on environments never seen: the measures of ``pyro-dynamics benchmark belief``."""
