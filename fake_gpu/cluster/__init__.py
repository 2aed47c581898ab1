"""Simulated GPUs in a real Kubernetes cluster: device plugin, status updater, exporter, discovery.

Put here: what talks to a kubelet or to an API server, and the state that it shows there.
Not here: hardware, labels and series themselves (`fake_gpu.fleet`, `fake_gpu.exporters`).
"""
