"""Prices that jump: a change by more than a quarter needs a second name.

Put here: what a change of price is, and which changes one person may not sign alone.
Not here: whether the missing name blocks a close (`quality` makes a finding of it).

A factor of ten or a hundred is the commonest way to get a whole month wrong. A price changes when
the row that applies to a key changes: because a row begins, because a more specific row begins,
or because one ends and the more general row applies again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime

from domain.decisions.errors import PriceChangeNeedsSecondName
from domain.decisions.rows import Rate
from domain.interval import format_instant

LARGEST_CHANGE_PERCENT = 25
"""Exactly a quarter is still one person's to decide."""


def unsigned_price_changes(rates: Iterable[Rate]) -> list[PriceChangeNeedsSecondName]:
    """The changes that lack a second name, in order of class, profile, cluster and time."""
    same_thing: defaultdict[tuple[str, str], list[Rate]] = defaultdict(list)
    for rate in rates:
        same_thing[rate.gpu_class, rate.mig_profile].append(rate)
    found: dict[tuple[Rate, Rate, datetime], PriceChangeNeedsSecondName] = {}
    for _, rows in sorted(same_thing.items()):
        for cluster_id in sorted({rate.cluster_id for rate in rows}):
            applying = [rate for rate in rows if rate.cluster_id in ("", cluster_id)]
            for before, now, edge in _changes(applying):
                if _is_large(before, now) and not _bringing(before, now, edge).second_name:
                    change = (before, now, edge)  # one change, even when several clusters see it
                    found.setdefault(change, _needs_second_name(*change))
    return list(found.values())


def _changes(rows: list[Rate]) -> Iterator[tuple[Rate, Rate, datetime]]:
    """The price before and after every edge; over a gap, the last one before it counts."""
    before: Rate | None = None
    for edge in sorted({edge for rate in rows for edge in rate.validity.edges()}):
        now = _applying_at(rows, edge)
        if before is not None and now is not None and now is not before:
            yield before, now, edge
        before = now or before


def _applying_at(rows: list[Rate], instant: datetime) -> Rate | None:
    valid = [rate for rate in rows if rate.validity.contains(instant)]
    return max(valid, key=lambda r: (r.specificity, r.valid_from, r.line), default=None)


def _bringing(before: Rate, now: Rate, edge: datetime) -> Rate:
    """The row that brings the change, and carries the name: the one that begins, or else ends."""
    return now if now.valid_from == edge else before


def _is_large(before: Rate, now: Rate) -> bool:
    if before.currency != now.currency:
        return True  # how much it changed cannot be said, so two people look at it
    difference = abs(now.rate_nanos_per_hour - before.rate_nanos_per_hour)
    return difference * 100 > before.rate_nanos_per_hour * LARGEST_CHANGE_PERCENT


def _needs_second_name(before: Rate, now: Rate, edge: datetime) -> PriceChangeNeedsSecondName:
    bringing = _bringing(before, now, edge)
    return PriceChangeNeedsSecondName(
        where=f"rates.csv line {bringing.line}, column second_name",
        seen=f"from {format_instant(edge)} {now.gpu_class} / {now.mig_profile} costs "
        f"{now.money_per_hour} per hour, after {before.money_per_hour} (line {before.line})"
        f"{_percent(before, now)}, decided by {bringing.decided_by} alone",
        why=f"a change above {LARGEST_CHANGE_PERCENT} % is more often a slip than a decision",
        remedy="have a second person agree, and write that name into second_name",
    )


def _percent(before: Rate, now: Rate) -> str:
    old, new = before.rate_nanos_per_hour, now.rate_nanos_per_hour
    if before.currency != now.currency or old == 0:
        return ""
    tenths = (new - old) * 1000 // old
    return f": {'+' if new > old else '-'}{abs(tenths) // 10}.{abs(tenths) % 10} %"
