"""(5) Documents that never change.

Put here: close, invoices, corrections, rendering, the append-only record.
Not here: judgement (`quality`); a close receives it as a value.
"""
