"""How agents and environments run: rollouts, training (Algorithm 1), adaptation, evaluation, tracking."""
