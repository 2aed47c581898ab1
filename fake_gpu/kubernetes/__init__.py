"""The simulated fleet as a Kubernetes API: objects, their history, and the server.

Put here: documents in the form of the Kubernetes API, and the wire.
Not here: the history of objects (`fake_gpu.fleet`), or the client (`ingestion`), which
never shares code with this side.
"""
