"""The deterministic history of one scenario: who held which device when, on which node.

Put here: turning a scenario into that history, and the history itself.
Not here: how it is shown (`exporters`, `prometheus`, `kubernetes`), or what is true about it
(`truth`, which computes apart, from plain rows).
"""
