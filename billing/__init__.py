"""Documents that never change: closes, invoices and their numbers, corrections, and their proof.

Put here: what is sealed at a close, the append-only record that holds it, and what is rendered
from it. The pure parts take values and return values; `record`, `reader`, `close` are the edges.
Not here: whether a period may be billed (`quality`), or a count or price (`dbt/`, `domain.money`).
"""
