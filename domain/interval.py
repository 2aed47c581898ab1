"""Half-open intervals of whole seconds in UTC, and the few operations on them.

Put here: overlap, union, subtraction, clipping, splitting at hours.
Not here: calendar months (`domain.billing_period`), or what an interval means.

Every interval is `[started_at, ended_at)`. There is no `between`, no minus one microsecond, and
no naive time: constructing an interval from one raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from domain.errors import BadInput

HOUR = timedelta(hours=1)


class NotAnInstant(BadInput):
    """A time without a zone, off the whole second, or written in another form."""

    code = "TIME-001"


class NotAnInterval(BadInput):
    """An end before its start."""

    code = "TIME-002"


def require_instant(instant: datetime, where: str = "a time") -> datetime:
    """Return `instant` in UTC; refuse naive times and fractions of a second."""
    if instant.tzinfo is None:
        raise NotAnInstant(
            where=where,
            seen=f"{instant.isoformat()} has no time zone",
            why="a time without a zone is another hour in another country",
            remedy="write it in UTC, as 2026-10-01T00:00:00Z",
        )
    in_utc = instant.astimezone(UTC)
    if in_utc.microsecond:
        raise NotAnInstant(
            where=where,
            seen=f"{instant.isoformat()} has a fraction of a second",
            why="the ledger counts whole seconds",
            remedy="round it where it is observed, not where it is counted",
        )
    return in_utc


def parse_instant(text: str, where: str = "a time") -> datetime:
    """Read `2026-10-01T00:00:00Z` (or with an offset, or a bare date: midnight UTC)."""
    cleaned = text.strip()
    if len(cleaned) == 10:
        cleaned += "T00:00:00Z"
    try:
        instant = datetime.fromisoformat(cleaned)
    except ValueError:
        raise NotAnInstant(
            where=where,
            seen=f"{text!r} is not a time",
            why="the ledger must know the instant exactly",
            remedy="write it in UTC, as 2026-10-01T00:00:00Z",
        ) from None
    return require_instant(instant, where)


def format_instant(instant: datetime) -> str:
    """Write a time as `2026-10-01T00:00:00Z`."""
    return require_instant(instant).strftime("%Y-%m-%dT%H:%M:%SZ")


def hour_of(instant: datetime) -> datetime:
    """The start of the hour that holds `instant`."""
    return instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


@dataclass(frozen=True, order=True, slots=True)
class Interval:
    """`[started_at, ended_at)` in whole UTC seconds; empty intervals are allowed."""

    started_at: datetime
    ended_at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "started_at", require_instant(self.started_at, "started_at"))
        object.__setattr__(self, "ended_at", require_instant(self.ended_at, "ended_at"))
        if self.ended_at < self.started_at:
            raise NotAnInterval(
                where="an interval",
                seen=f"it ends at {format_instant(self.ended_at)}, "
                f"before it starts at {format_instant(self.started_at)}",
                why="negative time would be taken off a bill",
                remedy="swap the two, or find out which one is wrong",
            )

    @property
    def seconds(self) -> int:
        return int((self.ended_at - self.started_at).total_seconds())

    def __bool__(self) -> bool:
        return self.started_at < self.ended_at

    def contains(self, instant: datetime) -> bool:
        return self.started_at <= instant < self.ended_at

    def overlaps(self, other: Interval) -> bool:
        return self.started_at < other.ended_at and other.started_at < self.ended_at

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
        while hour < self.ended_at:
            yield hour
            hour += HOUR

    def split_at_hours(self) -> list[Interval]:
        return self.split_at(self.hours())


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Disjoint, ordered intervals that cover the same instants; touching ones are joined."""
    merged: list[Interval] = []
    for interval in sorted(i for i in intervals if i):
        if merged and interval.started_at <= merged[-1].ended_at:
            last = merged.pop()
            interval = Interval(last.started_at, max(last.ended_at, interval.ended_at))
        merged.append(interval)
    return merged


def intersection(left: Iterable[Interval], right: Iterable[Interval]) -> list[Interval]:
    """The instants that both sides cover, disjoint and ordered."""
    others = union(right)
    parts = [a.clipped_to(b) for a in union(left) for b in others]
    return [part for part in parts if part]


def subtract(left: Iterable[Interval], right: Iterable[Interval]) -> list[Interval]:
    """The instants of `left` that `right` does not cover, disjoint and ordered."""
    remaining = union(left)
    for hole in union(right):
        remaining = [piece for whole in remaining for piece in _without(whole, hole)]
    return remaining


def _without(whole: Interval, hole: Interval) -> list[Interval]:
    if not whole.overlaps(hole):
        return [whole]
    pieces = [
        (whole.started_at, min(whole.ended_at, hole.started_at)),
        (max(whole.started_at, hole.ended_at), whole.ended_at),
    ]
    return [Interval(a, b) for a, b in pieces if a < b]


def total_seconds(intervals: Iterable[Interval]) -> int:
    """Seconds covered, each instant counted once."""
    return sum(i.seconds for i in union(intervals))
