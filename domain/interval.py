"""Half-open intervals of whole seconds in UTC, and the few operations on them.

Put here: overlap, union, subtraction, clipping, splitting at hours.
Not here: calendar months (`domain.billing_period`), or the meaning of an interval.

Every interval is `[started_at, ended_at)`. A time without a zone is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from domain.errors import InvalidValue

HOUR = timedelta(hours=1)
_SECOND = timedelta(seconds=1)

_LONGEST_TEXT_SHOWN = 60

# One form: the others that `fromisoformat` accepts (week dates, long fractions) depend on the
# version of Python.
_FORM = re.compile(
    r"\d{4}-\d{2}-\d{2}"
    r"(?P<time>[T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(?P<fraction>\.\d{1,9})?)?"
    r"(Z|[+-]\d{2}:\d{2})?)?",
    re.ASCII,
)


def require_aware(instant: datetime, where: str = "a time") -> datetime:
    """Return `instant` in UTC with its fraction; refuse a time without a zone."""
    if instant.utcoffset() is None:
        raise InvalidValue(
            where=where,
            seen=f"{instant.isoformat()} has no time zone",
            why="without a zone the hour is not known",
            remedy="write it in UTC, as 2026-10-01T00:00:00Z",
        )
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise _not_a_time(instant.isoformat(), where) from None


def require_instant(instant: datetime, where: str = "a time") -> datetime:
    """Return `instant` in UTC; refuse a time without a zone or with a fraction of a second."""
    in_utc = require_aware(instant, where)
    if in_utc.microsecond:
        raise _has_a_fraction(instant.isoformat(), where)
    return in_utc


def parse_instant(text: str, where: str = "a time") -> datetime:
    """Read `2026-10-01T00:00:00Z` (or with an offset, or a bare date: midnight UTC)."""
    cleaned = text.strip()
    match = _FORM.fullmatch(cleaned)
    if not match:
        raise _not_a_time(text, where)
    if (match["fraction"] or "").strip(".0"):
        raise _has_a_fraction(cleaned, where)
    try:
        instant = datetime.fromisoformat(cleaned if match["time"] else f"{cleaned}T00:00:00Z")
    except ValueError:
        raise _not_a_time(text, where) from None
    return require_instant(instant, where)


def format_instant(instant: datetime) -> str:
    """Write a time as `2026-10-01T00:00:00Z`."""
    return f"{require_instant(instant).replace(tzinfo=None).isoformat()}Z"


def hour_of(instant: datetime) -> datetime:
    """The start of the hour that holds `instant`, which may have a fraction of a second."""
    return require_aware(instant).replace(minute=0, second=0, microsecond=0)


def _not_a_time(text: str, where: str) -> InvalidValue:
    return InvalidValue(
        where=where,
        seen=f"{text[:_LONGEST_TEXT_SHOWN]!r} is not a time",
        why="gpu-ledger needs the exact instant",
        remedy="write it in UTC, as 2026-10-01T00:00:00Z",
    )


def _has_a_fraction(text: str, where: str) -> InvalidValue:
    return InvalidValue(
        where=where,
        seen=f"{text[:_LONGEST_TEXT_SHOWN]} has a fraction of a second",
        why="gpu-ledger counts whole seconds",
        remedy="write it with whole seconds, as 2026-10-01T00:00:00Z",
    )


@dataclass(frozen=True, order=True, slots=True)
class Interval:
    """`[started_at, ended_at)` in whole UTC seconds; empty intervals are allowed."""

    started_at: datetime
    ended_at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "started_at", require_instant(self.started_at, "started_at"))
        object.__setattr__(self, "ended_at", require_instant(self.ended_at, "ended_at"))
        if self.ended_at < self.started_at:
            raise InvalidValue(
                where="an interval",
                seen=f"it ends at {format_instant(self.ended_at)}, "
                f"before it starts at {format_instant(self.started_at)}",
                why="a negative duration would lower a bill",
                remedy="swap the two times, or correct the wrong one",
            )

    @property
    def seconds(self) -> int:
        return (self.ended_at - self.started_at) // _SECOND

    def __bool__(self) -> bool:
        return self.started_at < self.ended_at

    def contains(self, instant: datetime) -> bool:
        return self.started_at <= instant < self.ended_at

    def overlaps(self, other: Interval) -> bool:
        """Whether some instant lies in both; an empty interval has no instant to share."""
        starts_last = max(self.started_at, other.started_at)
        return starts_last < min(self.ended_at, other.ended_at)

    def clipped_to(self, window: Interval) -> Interval | None:
        """The part inside `window`, or None when there is none."""
        started_at = max(self.started_at, window.started_at)
        ended_at = min(self.ended_at, window.ended_at)
        return Interval(started_at, ended_at) if started_at < ended_at else None

    def split_at(self, instants: Iterable[datetime]) -> list[Interval]:
        """Cut at each instant that lies strictly inside; the pieces add up to the whole."""
        inside = sorted({i for i in instants if self.started_at < i < self.ended_at})
        edges = [self.started_at, *inside, self.ended_at]
        return [Interval(a, b) for a, b in pairwise(edges) if a < b]

    def hours(self) -> Iterator[datetime]:
        """The start of every hour that the interval touches."""
        hour = hour_of(self.started_at)
        while self and hour < self.ended_at:
            yield hour
            hour += HOUR

    def split_at_hours(self) -> list[Interval]:
        return self.split_at(self.hours())


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Disjoint, ordered intervals with the same instants; touching ones are joined."""
    merged: list[Interval] = []
    for interval in sorted(i for i in intervals if i):
        if merged and interval.started_at <= merged[-1].ended_at:
            last = merged.pop()
            interval = Interval(last.started_at, max(last.ended_at, interval.ended_at))
        merged.append(interval)
    return merged


def intersection(left: Iterable[Interval], right: Iterable[Interval]) -> list[Interval]:
    """The instants that both sides cover, disjoint and ordered."""
    ours, others = union(left), union(right)
    parts: list[Interval] = []
    i = j = 0
    while i < len(ours) and j < len(others):
        part = ours[i].clipped_to(others[j])
        if part:
            parts.append(part)
        if ours[i].ended_at <= others[j].ended_at:
            i += 1
        else:
            j += 1
    return parts


def subtract(left: Iterable[Interval], right: Iterable[Interval]) -> list[Interval]:
    """The instants of `left` that `right` does not cover, disjoint and ordered."""
    holes = union(right)
    pieces: list[Interval] = []
    first = 0
    for whole in union(left):
        while first < len(holes) and holes[first].ended_at <= whole.started_at:
            first += 1
        pieces += _without(whole, holes, first)
    return pieces


def _without(whole: Interval, holes: list[Interval], first: int) -> Iterator[Interval]:
    """The parts of `whole` between the holes, beginning with hole number `first`."""
    at = whole.started_at
    for index in range(first, len(holes)):
        if holes[index].started_at >= whole.ended_at:
            break
        if at < holes[index].started_at:
            yield Interval(at, holes[index].started_at)
        at = holes[index].ended_at
    if at < whole.ended_at:
        yield Interval(at, whole.ended_at)


def total_seconds(intervals: Iterable[Interval]) -> int:
    """Seconds covered, each instant counted once."""
    return sum(i.seconds for i in union(intervals))
