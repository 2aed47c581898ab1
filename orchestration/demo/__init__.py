"""Months of a simulated fleet, lived through in seconds: one to close, one that is closed.

Put here: the two demos, the simulated fleet in a process of its own, and the driven clock.
Not here: the steps that they call (`orchestration.steps`), or the simulator (`fake_gpu`).
"""
