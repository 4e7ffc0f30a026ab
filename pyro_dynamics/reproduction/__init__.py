"""The paper's experiments: scores, aggregates, claims."""
