"""Scenarios: simulated clusters, from samples to sealed documents."""
