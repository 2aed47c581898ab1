"""Simulated GPU clusters with the APIs of Thanos and Kubernetes.

Put here: scenarios, the fleet, its views, its faults, and (apart, in `truth/`) what really was.
Not here: anything of the pipeline under test. This package imports `domain` only, and
`fake_gpu.truth` imports nothing of ours at all.
"""
