"""Clients of Kubernetes and Prometheus that several packages share.

Put here: connections, credentials, requests, limits, and the errors of a server that fails.
Not here: the meaning of a response; that belongs to the package that sends the query.
"""
