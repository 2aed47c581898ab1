"""Prometheus exporter for the AMD GPUs of one node: `gpu-ledger-amd-exporter`.

It imports nothing else of this project, so that its container stays small.
"""
