"""Simulated GPUs in a real Kubernetes cluster: device plugin, status updater, exporter, discovery.

Put here: clients of a kubelet and of an API server, and the state that they show there.
Not here: hardware, labels and series themselves (`fake_gpu.fleet`, `fake_gpu.exporters`).
"""
