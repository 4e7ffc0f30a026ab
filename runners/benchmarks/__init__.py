"""The benchmarks of ``pyro-dynamics benchmark NAME``: their flags, what they build, and the rows that they record."""
