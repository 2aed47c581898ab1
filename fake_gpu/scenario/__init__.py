"""Scenarios, read strictly: YAML, traces, mig-parted files, the design's own config.

Put here: reading and checking descriptions of a fleet.
Not here: simulating it (`fake_gpu.fleet`).
"""
