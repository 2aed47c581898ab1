"""Simulated GPU clusters with the APIs of Thanos and Kubernetes.

Put here: scenarios, the fleet, its views, its faults, and, separately in `truth/`, the ledger of
the true use.
Not here: anything of the pipeline under test. This package imports `domain` only, and
`fake_gpu.truth` imports nothing of ours at all.
"""
