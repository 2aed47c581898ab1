"""The simulated fleet as a Kubernetes API: objects, their history, and the server.

Put here: documents in the form of the Kubernetes API, and the wire.
Not here: what exists from when until when (`fake_gpu.fleet`), or the client (`ingestion`), which
never shares code with this side.
"""
