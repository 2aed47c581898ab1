"""Numbers of documents: gapless, one running series per kind.

Put here: how a number is written, and which one is next.
Not here: how two writers are kept from taking the same one (`record`, the lease).

A number is given only in the event that issues its document, so a crash can neither lose one nor
use one twice: before that event nothing is issued, after it everything is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

INVOICE = "INV"
"""Invoices and the voids that negate them: everything that moves money, in one series."""

STATEMENT = "CON"
"""Consumption statements, which carry no money and so take no invoice number."""

_DIGITS = 6
"""Enough for 1,000 tenants over 80 years of months; more digits follow when they are needed."""

_FORM = re.compile(r"([A-Z]{3})-(\d{6,})", re.ASCII)


def number_text(series: str, position: int) -> str:
    """`INV-000001` is the first."""
    if position < 1:
        raise ValueError(f"the first number is 1, not {position}")
    return f"{series}-{position:0{_DIGITS}}"


def position_of(number: str) -> tuple[str, int]:
    """The series and the position of a number."""
    match = _FORM.fullmatch(number)
    if not match:
        raise ValueError(f"{number!r} is not a document number")
    return match[1], int(match[2])


def next_position(series: str, issued: Iterable[str]) -> int:
    """The position after the last one issued."""
    return 1 + max((n for s, n in map(position_of, issued) if s == series), default=0)


def gaps_in(series: str, issued: Iterable[str]) -> list[str]:
    """Numbers that are missing or used twice; empty when the series is gapless."""
    positions = sorted(n for s, n in map(position_of, issued) if s == series)
    wrong = {n for n, following in pairwise(positions) if n == following}
    missing = set(range(1, (positions or [0])[-1] + 1)) - set(positions)
    return [number_text(series, n) for n in sorted(wrong | missing)]
