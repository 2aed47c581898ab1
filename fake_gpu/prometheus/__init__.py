"""The samples of the simulated fleet and the HTTP API that answers for them.

Put here: scrapes, series, the query language, its evaluation, the API, what goes wrong with them.
Not here: what an exporter says at an instant (`fake_gpu.exporters`).
"""
