"""Corrections on documents: what was recorded for closed periods becomes lines of an open one.

Put here: reading recorded corrections as lines.
Not here: how a difference is found (`corrections`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from billing.invoice import read_line
from billing.lines import Line
from billing.record import Record


def pending_lines(record: Record, seals: Iterable[str]) -> dict[str, list[Line]]:
    """Tenant → the lines of these corrections, in the order in which they were recorded."""
    lines: defaultdict[str, list[Line]] = defaultdict(list)
    for seal in seals:
        corrections: dict[str, Any] = record.sealed(seal)
        for entry in corrections["lines"]:
            lines[entry["tenant"]].append(read_line(entry["tenant"], entry))
    return dict(lines)
