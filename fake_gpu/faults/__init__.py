"""Everything that can go wrong with a source, by name, and proof that it did.

Put here: the catalogue of faults, and the counters of those that fired.
Not here: the faults' effects; each view applies its own.
"""
