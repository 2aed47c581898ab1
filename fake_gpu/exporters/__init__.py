"""What each exporter of a cluster says about its state, line by line, as the real ones say it.

Put here: one module or package per exporter, from state to lines.
Not here: when it is scraped, and what a Prometheus makes of it (`fake_gpu.prometheus`).
"""
