"""The fake estate as a Kubernetes API: objects with their history, and the server that shows them.

Put here: documents in the form of the Kubernetes API, and the wire.
Not here: what exists from when until when (`fake_gpu.estate`), or the client (`ingestion`), which
never shares code with this side.
"""
