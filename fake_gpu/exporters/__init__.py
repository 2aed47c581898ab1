"""The lines that each exporter of a cluster writes about its state, equal to those of the real
ones.

Put here: one module or package per exporter, from state to lines.
Not here: scraping and the labels that Prometheus adds (`fake_gpu.prometheus`).
"""
