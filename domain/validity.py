"""The validity of a decision: half-open, and without an end until a row gives one.

Put here: a validity and its comparison with instants and windows.
Not here: the decisions (`domain.decisions`), or intervals with two ends (`domain.interval`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from domain.errors import InvalidValue
from domain.interval import Interval, format_instant, require_instant


@dataclass(frozen=True, slots=True)
class Validity:
    """`[valid_from, valid_until)`; without an end it holds until a later row ends it."""

    valid_from: datetime
    valid_until: datetime | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "valid_from", require_instant(self.valid_from, "valid_from"))
        if self.valid_until is None:
            return
        object.__setattr__(self, "valid_until", require_instant(self.valid_until, "valid_until"))
        if self.valid_until <= self.valid_from:
            raise InvalidValue(
                where="a validity",
                seen=f"it ends at {format_instant(self.valid_until)}, and starts at "
                f"{format_instant(self.valid_from)}",
                why="a decision that holds at no instant has no effect",
                remedy="swap the two, or delete the row",
            )

    def contains(self, instant: datetime) -> bool:
        return self.valid_from <= instant and (
            self.valid_until is None or instant < self.valid_until
        )

    def overlaps(self, other: Validity) -> bool:
        return _starts_before_end(self, other) and _starts_before_end(other, self)

    def clipped_to(self, window: Interval) -> Interval | None:
        """The part inside `window`, or None when there is none."""
        started_at = max(self.valid_from, window.started_at)
        ended_at = min(self.valid_until or window.ended_at, window.ended_at)
        return Interval(started_at, ended_at) if started_at < ended_at else None

    def edges(self) -> tuple[datetime, ...]:
        """The instants at which the decision begins and ceases to hold."""
        return (
            (self.valid_from,) if self.valid_until is None else (self.valid_from, self.valid_until)
        )

    def __str__(self) -> str:
        end = "open" if self.valid_until is None else format_instant(self.valid_until)
        return f"{format_instant(self.valid_from)} to {end}"


def _starts_before_end(one: Validity, other: Validity) -> bool:
    return other.valid_until is None or one.valid_from < other.valid_until
