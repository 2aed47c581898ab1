"""Scales idle GPU workloads to zero, announces it before, and restores them.

Put here: evidence of idleness, the decision, the actions and their records.
Not here: bills; the pruner reads published facts and writes only its own records.
"""
