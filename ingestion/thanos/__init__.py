"""The samples: queries to a Prometheus-compatible server, and decoding responses into runs."""
