"""The samples of the simulated fleet and the HTTP API that serves them.

Put here: scrapes, series, the query language, its evaluation, the API, their faults.
Not here: the lines of an exporter at an instant (`fake_gpu.exporters`).

numpy, starlette and uvicorn are imported inside functions, here and in `fake_gpu.serve`: the
image of simulated GPUs in a cluster (`deploy/fake-gpu`) loads these modules without the three.
"""
