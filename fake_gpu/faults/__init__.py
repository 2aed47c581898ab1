"""The faults of sources by name, and the count of the responses that each changed.

Put here: the catalogue of faults, and the counters of those that fired.
Not here: the faults' effects; each view applies its own.
"""
