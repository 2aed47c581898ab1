"""The samples: asking a Prometheus-compatible server and decoding its answers into runs."""
