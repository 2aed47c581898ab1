"""The lines of a document, and their rounding: the exact sum once, then each line.

Put here: a line, the order of lines, and the cents of each.
Not here: the rounding rule itself (`domain.money`), or the document around the lines (`invoice`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from billing.usage import Charge, ChargeKey
from domain.billing_period import BillingPeriod
from domain.money import round_lines_to_minor_units


class LineKind(StrEnum):
    USAGE = "usage"
    CREDIT = "credit"  # for an outage
    CORRECTION = "correction"  # of an earlier, closed period
    VOID = "void"  # negates a line of a voided invoice


@dataclass(frozen=True, slots=True)
class Line:
    """One line; `cost_nanos` is exact, `billed_nanos` is whole cents."""

    number: int
    kind: LineKind
    charge_period: str  # the month of the use; for a correction an earlier month
    key: ChargeKey
    ended_at: datetime
    rate_nanos_per_hour: int
    device_seconds: int
    cost_nanos: int
    billed_nanos: int = 0
    reason: str = ""
    seconds_before: int = 0  # for a correction: the billed sum so far
    nanos_before: int = 0
    refers_to: str = ""  # the number of the document that it corrects or voids

    @property
    def rounding_key(self) -> str:
        """Of equal remainders, that of the first line is rounded up."""
        return f"{self.number:09}"


@dataclass(frozen=True, slots=True)
class Total:
    """The sums of the lines, before and after rounding to cents."""

    lines: tuple[Line, ...]
    exact_nanos: int
    billed_nanos: int


def usage_lines(charges: Iterable[Charge], period: BillingPeriod) -> list[Line]:
    """One line per charge or credit, in the order of their keys."""
    return [
        Line(
            number=number,
            kind=LineKind.CREDIT if charge.key.credited else LineKind.USAGE,
            charge_period=period.name,
            key=charge.key,
            ended_at=charge.ended_at,
            rate_nanos_per_hour=charge.rate_nanos_per_hour,
            device_seconds=charge.device_seconds,
            cost_nanos=charge.cost_nanos,
        )
        for number, charge in enumerate(sorted(charges), start=1)
    ]


def round_lines(lines: Sequence[Line], currency: str) -> Total:
    """Round the lines to cents; lines without a currency (consumption) stay without amounts."""
    if not currency:
        return Total(tuple(lines), 0, 0)
    result = round_lines_to_minor_units(
        {line.rounding_key: line.cost_nanos for line in lines}, currency
    )
    billed = tuple(replace(line, billed_nanos=result.lines[line.rounding_key]) for line in lines)
    return Total(billed, result.exact_nanos, result.total_nanos)
