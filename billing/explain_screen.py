"""A walk, cut to a screen: of every stop what says most, and how much more there is.

Put here: what of a long stop is shown at first.
Not here: the walk itself (`billing.explain`), where nothing is left out, or how it is printed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from billing.answers import NOT_NAMED
from billing.explain import Stage, Stop
from domain.money import format_nanos

ROWS_SHOWN = 4
"""Of each stop: with its titles, rules and notes a walk then fits a screen of 50 lines."""

NARROW = {
    Stage.DOCUMENT: ("number", "status", "tenant", "total"),
    Stage.PODS: ("pod_name", "pod_uid", "method", "device_seconds", "cost"),
}
"""Columns of stops that are too wide for a terminal; the others are shown whole."""


def on_a_screen(stops: Sequence[Stop]) -> list[Stop]:
    """The same stops in the same order, each of a few rows; a note says of how many."""
    return [_cut(_summed(stop)) for stop in stops]


def _summed(stop: Stop) -> Stop:
    """Hours as days, the longest first; attempts as what came of them."""
    match stop.stage:
        case Stage.HOURS if stop.rows:
            return _as_days(stop)
        case Stage.ATTEMPTS:
            return _as_outcomes(stop)
        case Stage.ANSWERS:
            return _naming_the_pod(stop)
    return stop


def _as_days(stop: Stop) -> Stop:
    seconds: Counter[str] = Counter()
    nanos: Counter[str] = Counter()
    for hour, *_, billable_seconds, cost_nanos in stop.rows:
        day = hour[:10]
        seconds[day] += int(billable_seconds)
        nanos[day] += int(cost_nanos)
    days = sorted(seconds, key=lambda day: (-seconds[day], day))
    return replace(
        stop,
        title=stop.title.replace("Hours", "Days", 1),
        columns=("day", "billable_seconds", "cost"),
        rows=tuple((day, str(seconds[day]), format_nanos(nanos[day])) for day in days),
        note=f"{sum(seconds.values())} s in {len(stop.rows)} pieces of hours",
    )


def _as_outcomes(stop: Stop) -> Stop:
    told: defaultdict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for source, sequence, hour, outcome, *_ in stop.rows:
        told[source, outcome].append((hour, sequence))
    rows = []
    for (source, outcome), asked in sorted(told.items()):
        hours = sorted({hour for hour, _ in asked})
        attempts = {sequence for _, sequence in asked}
        rows.append((source, outcome, str(len(attempts)), str(len(hours)), hours[0], hours[-1]))
    columns = ("source", "outcome", "attempts", "hours", "first_hour", "last_hour")
    return replace(stop, columns=columns, rows=tuple(rows))


def _naming_the_pod(stop: Stop) -> Stop:
    """The walk lists these first."""
    named = sum(mentions != NOT_NAMED for _, _, mentions, _ in stop.rows)
    note = f"{named} of {len(stop.rows)} name the pod; {stop.note}"
    kept = tuple((sha256, size, sealed) for sha256, size, _, sealed in stop.rows[: named or None])
    return replace(stop, columns=("sha256", "bytes", "evidence"), rows=kept, note=note)


def _cut(stop: Stop) -> Stop:
    columns = NARROW.get(stop.stage, stop.columns)
    kept = [stop.columns.index(name) for name in columns]
    rows = tuple(tuple(row[at] for at in kept) for row in stop.rows[:ROWS_SHOWN])
    of_many = f"{len(rows)} of {len(stop.rows)} are shown" if len(rows) < len(stop.rows) else ""
    note = "; ".join(part for part in (of_many, stop.note) if part)
    return replace(stop, columns=columns, rows=rows, note=note)
