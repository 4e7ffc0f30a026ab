"""What the commands share: configurations, the factory of agents, and what is read from the command line."""
