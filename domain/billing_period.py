"""The billing period: a calendar month in UTC, as a value.

Put here: the form of a period and its hours.
Not here: whether it is open or closed (a fact of the record).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from domain.errors import InvalidValue
from domain.interval import Interval, require_aware

# Years from 2000 to 2999; any other year is a typing error.
_FORM = re.compile(r"2\d{3}-(0[1-9]|1[0-2])", re.ASCII)
_LONGEST_TEXT_SHOWN = 40


@dataclass(frozen=True, order=True, slots=True)
class BillingPeriod:
    """`BillingPeriod("2026-10")` is `[2026-10-01T00:00:00Z, 2026-11-01T00:00:00Z)`."""

    name: str

    def __post_init__(self) -> None:
        if not _FORM.fullmatch(self.name):
            raise InvalidValue(
                where="a billing period",
                seen=f"{self.name[:_LONGEST_TEXT_SHOWN]!r} is not a month",
                why="an invoice covers exactly one calendar month in UTC",
                remedy="write it as 2026-10",
            )

    @classmethod
    def containing(cls, instant: datetime) -> BillingPeriod:
        return cls(require_aware(instant).date().isoformat()[:7])

    @property
    def interval(self) -> Interval:
        return Interval(self.started_at, self.ended_at)

    @property
    def started_at(self) -> datetime:
        return _first_of_month(*self._year_and_month)

    @property
    def ended_at(self) -> datetime:
        year, month = self._year_and_month
        return _first_of_month(year + month // 12, month % 12 + 1)

    def next(self) -> BillingPeriod:
        return BillingPeriod.containing(self.ended_at)

    def previous(self) -> BillingPeriod:
        return BillingPeriod.containing(self.started_at - timedelta(seconds=1))

    def hours(self) -> Iterator[datetime]:
        return self.interval.hours()

    @property
    def _year_and_month(self) -> tuple[int, int]:
        return int(self.name[:4]), int(self.name[5:])

    def __str__(self) -> str:
        return self.name


def _first_of_month(year: int, month: int) -> datetime:
    return datetime(year, month, 1, tzinfo=UTC)
