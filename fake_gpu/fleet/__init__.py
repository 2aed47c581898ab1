"""The deterministic history of one scenario: the devices that each pod held, on which node, when.

Put here: turning a scenario into that history, and the history itself.
Not here: how it is shown (`exporters`, `prometheus`, `kubernetes`), or the true use
(`truth`, which is computed separately from plain rows).
"""
