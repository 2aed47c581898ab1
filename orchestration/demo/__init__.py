"""The demos: months of a simulated fleet, one that is closed, and one that is left to close.

Put here: the two demos, the simulated fleet in a process of its own, and the driven clock.
Not here: the steps that they call (`orchestration.steps`), or the simulator (`fake_gpu`).
"""
