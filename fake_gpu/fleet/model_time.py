"""Times of the model: whole seconds since 1970-01-01T00:00:00Z.

Put here: going to and from `datetime`.
Not here: events at a time.
"""

from __future__ import annotations

from datetime import UTC, datetime


def instant(second_: int) -> datetime:
    """The UTC time of a second of the model."""
    return datetime.fromtimestamp(second_, UTC)


def second(instant_: datetime) -> int:
    """The second of the model that holds a time."""
    return int(instant_.timestamp())


def holds(from_at: int, until_at: int | None, at: int) -> bool:
    return from_at <= at and (until_at is None or at < until_at)
