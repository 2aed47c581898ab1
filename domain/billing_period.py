"""The billing period: a calendar month in UTC, as a value.

Put here: what a period is and which hours it has.
Not here: whether it is open or closed (that is a fact in the record).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from domain.errors import BadInput
from domain.interval import Interval

_FORM = re.compile(r"(\d{4})-(0[1-9]|1[0-2])", re.ASCII)


class NotABillingPeriod(BadInput):
    """Text that does not name a month."""

    code = "TIME-003"


@dataclass(frozen=True, order=True, slots=True)
class BillingPeriod:
    """`BillingPeriod("2026-10")` is `[2026-10-01T00:00:00Z, 2026-11-01T00:00:00Z)`."""

    name: str

    def __post_init__(self) -> None:
        match = _FORM.fullmatch(self.name)
        if not match or not 2000 <= int(match[1]) <= 2999:
            raise NotABillingPeriod(
                where="a billing period",
                seen=f"{self.name!r} is not a month",
                why="an invoice covers exactly one calendar month in UTC",
                remedy="write it as 2026-10",
            )

    @classmethod
    def containing(cls, instant: datetime) -> BillingPeriod:
        return cls(instant.astimezone(UTC).strftime("%Y-%m"))

    @property
    def interval(self) -> Interval:
        started_at = datetime(int(self.name[:4]), int(self.name[5:]), 1, tzinfo=UTC)
        return Interval(started_at, self.next().started_at)

    @property
    def started_at(self) -> datetime:
        return datetime(int(self.name[:4]), int(self.name[5:]), 1, tzinfo=UTC)

    @property
    def ended_at(self) -> datetime:
        return self.next().started_at

    def next(self) -> BillingPeriod:
        year, month = int(self.name[:4]), int(self.name[5:])
        return BillingPeriod(f"{year + month // 12:04}-{month % 12 + 1:02}")

    def hours(self) -> Iterator[datetime]:
        return self.interval.hours()

    def __str__(self) -> str:
        return self.name
