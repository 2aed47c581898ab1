"""Prices that jump: a change by more than a quarter needs a second name.

Put here: what a change of price is, and which changes one person may not sign alone.
Not here: whether the missing name blocks a close (`quality` makes a finding of it).

A factor of ten or a hundred is the commonest way to get a whole month wrong. A price changes when
the row that applies to a key changes: because a row begins, because a more specific row begins,
or because one ends and the more general row applies again. A profile's own price that takes over
from the price of the whole card is not compared with it: that takes the card's geometry.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from domain.decisions.rows import Rate
from domain.errors import BadInput
from domain.interval import Interval, format_instant

LARGEST_CHANGE_PERCENT = 25
"""Exactly a quarter is still one person's to decide."""


@dataclass(frozen=True, slots=True)
class PriceChange:
    """From `at` on, a class and profile costs what `now` says, and cost `before` until then."""

    before: Rate
    now: Rate
    at: datetime

    @property
    def brought_by(self) -> Rate:
        """The row that must carry the second name: the one that begins then, or else ends."""
        return self.now if self.now.valid_from == self.at else self.before

    @property
    def is_large(self) -> bool:
        if self.before.currency != self.now.currency:
            return True  # how much it changed cannot be said, so two people look at it
        difference = abs(self.now.rate_nanos_per_hour - self.before.rate_nanos_per_hour)
        return difference * 100 > self.before.rate_nanos_per_hour * LARGEST_CHANGE_PERCENT

    def applies_in(self, window: Interval) -> bool:
        """Whether anything in the window is billed at the new price."""
        piece = self.now.validity.clipped_to(window)
        return piece is not None and self.at < piece.ended_at

    @property
    def percent(self) -> str:
        old, new = self.before.rate_nanos_per_hour, self.now.rate_nanos_per_hour
        if self.before.currency != self.now.currency or old == 0:
            return ""
        tenths = abs(new - old) * 1000 // old
        return f", {'+' if new > old else '-'}{tenths // 10}.{tenths % 10} %"


class PriceChangeNeedsSecondName(BadInput):
    """A price that changes by more than a quarter, signed by one person."""

    code = "DEC-006"

    def __init__(self, change: PriceChange) -> None:
        now, before, row = change.now, change.before, change.brought_by
        super().__init__(
            where=f"rates.csv line {row.line}, column second_name",
            seen=f"from {format_instant(change.at)} {now.gpu_class} / {now.mig_profile} costs "
            f"{now.money_per_hour} per hour, after {before.money_per_hour} (line {before.line})"
            f"{change.percent}; {row.decided_by} signed alone",
            why=f"a change above {LARGEST_CHANGE_PERCENT} % is more often a slip than a decision",
            remedy="have a second person agree, and write that name into second_name",
        )
        self.change = change


def unsigned_price_changes(rates: Iterable[Rate]) -> list[PriceChangeNeedsSecondName]:
    """The large changes without a second name, in order of class, profile, cluster and time."""
    same_thing: defaultdict[tuple[str, str], list[Rate]] = defaultdict(list)
    for rate in rates:
        same_thing[rate.gpu_class, rate.mig_profile].append(rate)
    unsigned: dict[PriceChange, None] = {}  # each once, even when several clusters see it
    for _, rows in sorted(same_thing.items()):
        for cluster_id in sorted({rate.cluster_id for rate in rows}):
            for change in _changes([r for r in rows if r.cluster_id in ("", cluster_id)]):
                if change.is_large and not change.brought_by.second_name:
                    unsigned[change] = None
    return [PriceChangeNeedsSecondName(change) for change in unsigned]


def unsigned_since(
    sealed: Iterable[Rate], present: Iterable[Rate], at: datetime
) -> list[PriceChangeNeedsSecondName]:
    """The large changes at `at` from the prices that were billed until then to the present ones.

    A price that was edited in place changes in no row of the present table; it does change from
    what the last close sealed.
    """
    until = [replace(rate, valid_until=at) for rate in sealed if rate.validity.contains(_last(at))]
    since = [
        replace(rate, valid_from=max(rate.valid_from, at))
        for rate in present
        if rate.valid_until is None or rate.valid_until > at
    ]
    changes = unsigned_price_changes([*until, *since])
    return [problem for problem in changes if problem.change.at == at]


def _last(at: datetime) -> datetime:
    return at - timedelta(seconds=1)


def _changes(rows: list[Rate]) -> Iterator[PriceChange]:
    """The price before and after every edge; over a gap, the last one before it counts."""
    before: Rate | None = None
    for edge in sorted({edge for rate in rows for edge in rate.validity.edges()}):
        now = _applying_at(rows, edge)
        if before is not None and now is not None and now is not before:
            yield PriceChange(before, now, edge)
        before = now or before


def _applying_at(rows: list[Rate], instant: datetime) -> Rate | None:
    valid = [rate for rate in rows if rate.validity.contains(instant)]
    return max(valid, key=lambda r: (r.specificity, r.valid_from, r.line), default=None)
