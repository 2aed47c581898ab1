"""The hours of open periods: expected by the calendar, landed, and due.

Put here: the periods that are open, and reading their attempts often and cheaply.
Not here: the rule by which an hour is due (`ingestion.evidence.hour_ledger`), or pulling.

All hours of an open period are pulled until they are complete. The hours of a closed period are
not pulled: evidence that is added to it later becomes corrections.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from domain.billing_period import BillingPeriod
from domain.decisions import Source
from domain.interval import HOUR, Interval, hour_of
from ingestion.evidence import hour_ledger as hour_rules
from ingestion.evidence.hour_ledger import DueWindow, HourEntry, hour_ledger, neighbours
from ingestion.evidence.landing import Landing
from ingestion.settings import DEFAULT_RAW_RETENTION_DAYS
from orchestration.open_home import OpenHome
from warehouse.manifest import Attempt, Outcome

ALL_ATTEMPTS = 1 << 40
"""More than a chain can have: reading stops by time, not by number."""

CLOCK_DOUBT = timedelta(days=1)
"""Attempts are read in the order of their sequence; a clock may have been wrong by this much."""

_kept: dict[tuple[str, str, Source], tuple[datetime, dict[int, Attempt]]] = {}
_kept_lock = threading.Lock()


def open_window(opened: OpenHome) -> Interval | None:
    """From the first period that is not closed until now; None before anything is measured."""
    clusters = opened.decisions.clusters
    now = opened.clock.now().replace(microsecond=0)
    if not clusters or (first := min(row.valid_from for row in clusters)) >= now:
        return None
    closed = opened.record.closed_periods()
    period = BillingPeriod.containing(first)
    while period.name in closed:
        period = period.next()
    return Interval(period.started_at, now) if period.started_at < now else None


def open_periods(opened: OpenHome) -> list[BillingPeriod]:
    """The periods that are measured, have begun and are not closed; the oldest first."""
    window = open_window(opened)
    if window is None:
        return []
    closed = opened.record.closed_periods()
    periods = [BillingPeriod.containing(window.started_at)]
    while periods[-1].ended_at < window.ended_at:
        periods.append(periods[-1].next())
    measured = {
        period
        for period in periods
        if any(
            interval.overlaps(period.interval) for interval, _ in opened.decisions.measured(window)
        )
    }
    return [period for period in periods if period in measured and period.name not in closed]


def open_entries(opened: OpenHome) -> list[HourEntry]:
    """Every expected hour of the open periods, with its attempts."""
    window = open_window(opened)
    return hour_entries(opened, window) if window else []


def hour_entries(opened: OpenHome, window: Interval) -> list[HourEntry]:
    """Every expected hour of the window that is not in a closed period, with its attempts."""
    closed = opened.record.closed_periods()
    expected = [
        key
        for key in opened.decisions.expected_hours(window)
        if BillingPeriod.containing(key[2]).name not in closed
    ]
    chains = sorted({(cluster_id, source) for cluster_id, source, _ in expected})
    return hour_ledger(expected, _attempts_of(opened, chains, window.started_at))


def is_complete(entry: HourEntry) -> bool:
    """Whether an attempt about this hour succeeded."""
    return entry.best is not None and entry.best.outcome is Outcome.OK


def due_windows(opened: OpenHome, entries: Sequence[HourEntry]) -> list[DueWindow]:
    """Windows to query now: the newest hour of every source first, then the oldest."""
    now = opened.clock.now()
    by_retention: dict[int, list[HourEntry]] = {}
    for entry in entries:
        by_retention.setdefault(retention_days(opened, entry.cluster_id), []).append(entry)
    edges = sampling_edges(opened)
    found = [
        due
        for days, rows in by_retention.items()
        for due in hour_rules.due_windows(rows, now, days, edges=edges)
    ]
    return sorted(found, key=lambda d: (not d.is_live, d.window, d.cluster_id, d.source))


def windows_to_pull(
    opened: OpenHome,
    hours: Interval,
    clusters: Sequence[str] = (),
    sources: Sequence[Source] = (),
    all_hours: bool = False,
) -> list[tuple[str, Source, Interval]]:
    """The windows to query in an interval that a user or a Dagster run names.

    Hours that are over, incomplete, and can still be backfilled; with `all_hours`
    all hours that are over.
    Unlike `due_windows`, this has no waiting times.
    """
    now = opened.clock.now()
    expected = [
        (cluster_id, source, hour)
        for cluster_id, source, hour in opened.decisions.expected_hours(hours)
        if (not clusters or cluster_id in clusters)
        and (not sources or source in sources)
        and _is_over(opened, cluster_id, source, hour, now)
    ]
    chains = sorted({(cluster_id, source) for cluster_id, source, _ in expected})
    attempts = _attempts_of(opened, chains, hours.started_at)
    entries = [
        entry
        for entry in hour_ledger(expected, attempts)
        if all_hours or _can_be_backfilled(opened, entry, now)
    ]
    return [
        (
            group[0].cluster_id,
            group[0].source,
            Interval(group[0].hour_started_at, group[-1].ended_at),
        )
        for group in neighbours(entries, sampling_edges(opened))
    ]


def _is_over(
    opened: OpenHome, cluster_id: str, source: Source, hour: datetime, now: datetime
) -> bool:
    """Whether an hour, and the sample after it, have passed."""
    decided = opened.decisions.cluster_in_hour(cluster_id, hour)
    overlap = decided.sample_interval_seconds if decided and source is Source.THANOS else 0
    return hour + HOUR + timedelta(seconds=overlap) <= now


def _can_be_backfilled(opened: OpenHome, entry: HourEntry, now: datetime) -> bool:
    complete = any(response.outcome is Outcome.OK for response in entry.responses)
    return not complete and entry.backfillable(now, retention_days(opened, entry.cluster_id))


def retention_days(opened: OpenHome, cluster_id: str) -> int:
    """The days for which the store of a cluster keeps raw samples."""
    cluster = opened.settings.clusters.get(cluster_id)
    if cluster is None or cluster.thanos is None:
        return DEFAULT_RAW_RETENTION_DAYS
    return cluster.thanos.raw_retention_days


def sampling_edges(opened: OpenHome) -> list[tuple[str, datetime]]:
    """The hours at which another decision about sampling begins; no window crosses one.

    An hour within which a decision begins has a window of its own.
    """
    return [
        (row.cluster_id, edge)
        for row in opened.decisions.clusters
        for edge in {hour_of(row.valid_from), hour_of(row.valid_from - timedelta(seconds=1)) + HOUR}
    ]


def attempts_since(
    landing: Landing, cluster_id: str, source: Source, since: datetime
) -> list[Attempt]:
    """The attempts of a chain that may concern hours since an instant, in their order.

    A long-running process reads each manifest once. The attempts are kept without their responses,
    and are used as long as the present chain leads to them.
    """
    key = (landing.store.location, cluster_id, source)
    earliest = since - CLOCK_DOUBT
    with _kept_lock:
        kept_since, kept = _kept.get(key, (earliest, {}))
        if kept_since > earliest:
            kept = {}
        found = list(_read_newest_first(landing, cluster_id, source, earliest, kept))[::-1]
        _kept[key] = (earliest, {attempt.sequence: attempt for attempt in found})
    return found


def _attempts_of(
    opened: OpenHome, chains: Sequence[tuple[str, Source]], since: datetime
) -> list[Attempt]:
    return [
        attempt
        for cluster_id, source in chains
        for attempt in attempts_since(opened.landing, cluster_id, source, since)
    ]


def _read_newest_first(
    landing: Landing, cluster_id: str, source: Source, since: datetime, kept: dict[int, Attempt]
) -> Iterator[Attempt]:
    """Read manifests until the chain reaches an attempt that is kept; then yield the kept ones."""
    for attempt in landing.latest_attempts(cluster_id, source, limit=ALL_ATTEMPTS):
        known = kept.get(attempt.sequence)
        if known is not None and known.attempt_id == attempt.attempt_id:
            older = (kept[n] for n in sorted(kept, reverse=True) if n <= attempt.sequence)
            yield from (one for one in older if one.draft.asked_at >= since)
            return
        if attempt.draft.asked_at < since:
            return
        yield replace(attempt, draft=replace(attempt.draft, answers=()))
