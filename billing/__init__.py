"""Documents that never change: closes, invoices and their numbers, corrections, and their proof.

Put here: the record and its sealed documents, closing, corrections, voids, rendering, verifying.
Not here: whether a period may be billed (`quality`), or a count or price (`dbt/`, `domain.money`).
"""
