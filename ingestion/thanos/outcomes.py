"""The outcome of each hour, from all responses of an attempt.

Put here: outcome, reason and counts of an hour.
Not here: coverage status. An outcome is the result of the protocol; whether an hour may be billed
is checked elsewhere, from the evidence itself (`quality`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np

from domain.decisions.rows import Source
from domain.interval import HOUR, format_instant
from ingestion.evidence.hour_ledger import DOWN_SAMPLED, MASS_ENDINGS
from ingestion.evidence.landing import Landing
from ingestion.metric_catalogue import sentinels
from ingestion.settings import ClusterSource
from ingestion.thanos.decode import HOUR_MS, SAMPLES_OUTSIDE
from ingestion.thanos.hour_facts import HourFacts, mass_absence
from ingestion.thanos.query_runner import Part
from warehouse.manifest import Attempt, Hour, Outcome, worst

RAW_SAMPLES = "raw_samples:"
"""The fact that a metric had this many samples before replicas were united."""

Counts = Mapping[str, tuple[int, int]]
"""Series and samples by metric."""

NAMED_LIMIT = 3
"""Metrics that a reason names; a store that is gone takes all of them."""

EARLIER_LIMIT = 5_000
"""Attempts that are searched for earlier responses about one hour: a month of hourly attempts, each
repeated several times. The search ends at attempts before the end of the hour."""

STORES_REMEMBERED = timedelta(days=3)
"""The absence of a store counts for a long weekend. After that the store counts as removed, and the
hours since are queried again."""


def rows_of_hours(
    hours: Sequence[datetime],
    parts: Sequence[Part],
    facts: HourFacts,
    before: Counts,
    failing_stores: str = "",
    earlier: Mapping[datetime, Counts] | None = None,
    missing_store_reason: str = "",
) -> Iterator[Hour]:
    """A row for each hour; `before` has the counts of the hour before the first.

    `earlier` has the counts of earlier ok attempts in these hours.
    """
    counted = [(part, _counted(part, hours)) for part in parts]
    raw = _raw_counts(parts, hours)
    for place, hour in enumerate(hours):
        here = [(part, counts[place]) for part, counts in counted if part.window.contains(hour)]
        covering = [part for part, _ in here]
        by_metric = _added(counts for _, counts in here)
        outcome, reason = _outcome(covering, by_metric, failing_stores)
        hour_facts = dict(facts[hour])
        if outcome is Outcome.OK and (absent := mass_absence(before, by_metric)):
            hour_facts[MASS_ENDINGS] = max(absent, hour_facts.get(MASS_ENDINGS, 0))
        doubts = [
            _averages(hour_facts),
            _samples_outside(covering),
            missing_store_reason,
            _reason_for_fewer((earlier or {}).get(hour, {}), by_metric),
        ]
        if outcome is Outcome.OK and any(doubts):
            outcome, reason = Outcome.DEGRADED, "; ".join(filter(None, doubts))
        hour_facts |= raw[hour]
        before = by_metric
        yield Hour(
            hour=hour,
            outcome=outcome,
            reason=reason,
            series_count=sum(series for series, _ in by_metric.values()),
            sample_count=sum(samples for _, samples in by_metric.values()),
            by_metric=by_metric,
            facts=dict(sorted(hour_facts.items())),
        )


def _raw_counts(parts: Sequence[Part], hours: Sequence[datetime]) -> dict[datetime, dict[str, int]]:
    """Samples by metric with every replica counted, where there are replicas: for a recheck."""
    found = {int(hour.timestamp()) * 1000: Counter[str]() for hour in hours}
    for runs in [part.runs for part in parts if part.runs is not None]:
        for (metric, hour_ms), count in runs.raw_counts.items():
            found[hour_ms][f"{RAW_SAMPLES}{metric}"] += count
    return {hour: dict(raw) for hour, raw in zip(hours, found.values(), strict=True)}


def missing_store_reason(
    landing: Landing, cluster_id: str, asked_at: datetime, facts: Mapping[str, int]
) -> str:
    """The reason for a degraded outcome if the querier lists fewer stores than some days ago, or
    "".

    It removes an unreachable store from its list, and responds without it as plain success. Only
    attempts before this one are compared: the outcome of an attempt never changes.
    """
    now = facts.get("stores")
    if now is None:
        return ""
    most, seen_at = now, asked_at
    for attempt in landing.latest_attempts(cluster_id, Source.THANOS, EARLIER_LIMIT):
        if attempt.draft.asked_at < asked_at - STORES_REMEMBERED:
            break
        if attempt.draft.facts.get("stores", 0) > most:
            most, seen_at = attempt.draft.facts["stores"], attempt.draft.asked_at
    if most == now:
        return ""
    return f"a store is gone: {now} answer, {most} did at {format_instant(seen_at)}"


def counts_before(landing: Landing, cluster_id: str, hour: datetime) -> Counts:
    """The counts of the latest ok attempt in the hour before."""
    for attempt in landing.latest_attempts(cluster_id, Source.THANOS):
        for row in attempt.hours:
            if row.hour == hour - HOUR and row.outcome is Outcome.OK:
                return row.by_metric
    return {}


def counts_earlier(
    landing: Landing, cluster: ClusterSource, hours: Sequence[datetime]
) -> dict[datetime, Counts]:
    """The most that ok attempts of the same settings have counted in these hours, by metric."""
    found: dict[datetime, dict[str, tuple[int, int]]] = {hour: {} for hour in hours}
    attempts = landing.latest_attempts(cluster.cluster_id, Source.THANOS, EARLIER_LIMIT)
    for attempt in attempts:
        if attempt.draft.asked_at < hours[0] + HOUR:
            break
        if not _counted_alike(attempt, cluster):
            continue
        for row in attempt.hours:
            if row.hour in found and row.outcome is Outcome.OK:
                _keep_the_most(found[row.hour], row.by_metric)
    return dict(found)


def _counted_alike(attempt: Attempt, cluster: ClusterSource) -> bool:
    """Whether the same series were queried, merged and sampled as now."""
    settings, asked = attempt.draft.settings, cluster.thanos
    return (
        settings.get("replica_labels") == asked.replica_labels
        and settings.get("pins", ()) == asked.pins.texts
        and attempt.draft.sampling == cluster.sampling
    )


def _averages(facts: Mapping[str, int]) -> str:
    """The reason if the response has averages instead of raw samples, or ""."""
    if not (count := facts.get(DOWN_SAMPLED)):
        return ""
    return f"down-sampled: {count} targets have averages at the ends of 5-minute windows"


def _samples_outside(covering: Sequence[Part]) -> str:
    """The reason if responses have samples outside the queried time, or "".

    No server returns them, so the times of their other samples may be wrong, too.
    """
    counts = [
        (part.ask.name, part.runs.facts.get(SAMPLES_OUTSIDE, 0))
        for part in covering
        if part.runs is not None
    ]
    names = ", ".join(dict.fromkeys(name for name, count in counts if count))
    outside = sum(count for _, count in counts)
    return f"{names}: {outside} samples are outside the queried time" if outside else ""


def _keep_the_most(found: dict[str, tuple[int, int]], counts: Counts) -> None:
    for metric, (series, samples) in counts.items():
        known = found.get(metric, (0, 0))
        found[metric] = (max(series, known[0]), max(samples, known[1]))


def _reason_for_fewer(earlier: Counts, now: Counts) -> str:
    """The reason if an earlier response had more, or "".

    Samples of the past only increase, so fewer of them show a store that failed without a warning.
    If this response counted as complete, it would replace a better one.
    """
    lost = [
        f"{metric} {now[metric][0]} series of {now[metric][1]} samples for "
        f"{earlier[metric][0]} of {earlier[metric][1]}"
        for metric in sorted(earlier.keys() & now.keys())
        if now[metric][0] < earlier[metric][0] or now[metric][1] < earlier[metric][1]
    ]
    shown = ", ".join(lost[:NAMED_LIMIT]) + (" and others" if lost[NAMED_LIMIT:] else "")
    return f"less than an earlier ok answer: {shown}" if lost else ""


def _outcome(
    covering: Sequence[Part], by_metric: Counts, failing_stores: str
) -> tuple[Outcome, str]:
    bad = [part for part in covering if part.outcome is not Outcome.OK]
    reasons = _by_reason(bad)
    outcome = worst([part.outcome for part in bad])
    absent = [metric for metric in sentinels() if not by_metric.get(metric, (0, 0))[0]]
    if len(bad) < len(covering) and any(part.runs is None for part in bad):
        outcome = Outcome.DEGRADED
    elif len(bad) < len(covering) and absent:
        outcome = Outcome.EMPTY
        reasons.insert(0, f"no sample of {', '.join(absent)}")
    elif failing_stores and outcome is Outcome.OK:
        outcome = Outcome.WARNED
        reasons.append(failing_stores)
    return outcome, "; ".join(dict.fromkeys(reasons))


def _by_reason(bad: Sequence[Part]) -> list[str]:
    """Each reason once, after the names of its queries: an absent store affects all of them."""
    asks: dict[str, list[str]] = {}
    for part in bad:
        names = asks.setdefault(part.answer.reason, [])
        if part.ask.name not in names:
            names.append(part.ask.name)
    return [f"{', '.join(names)}: {reason}" for reason, names in asks.items()]


def _counted(part: Part, hours: Sequence[datetime]) -> list[dict[str, tuple[int, int]]]:
    """By hour, series and samples by metric; 0 for a queried metric without a sample."""
    runs = part.runs
    if runs is None:
        return [{} for _ in hours]
    asked = dict.fromkeys(part.ask.metrics, (0, 0))
    started_ms = int(hours[0].timestamp()) * 1000
    hour = (runs.hour_ms - started_ms) // HOUR_MS
    cells = runs.metric_index[runs.series_index] * len(hours) + hour
    # Runs are sorted by series and time: the first run in an hour counts its series.
    is_first = np.ones(len(runs), bool)
    is_first[1:] = (np.diff(runs.series_index) != 0) | (np.diff(hour) != 0)
    shape = (len(runs.metrics), len(hours))
    series = np.bincount(cells[is_first], minlength=shape[0] * shape[1]).reshape(shape)
    samples = np.bincount(cells, runs.sample_count, minlength=shape[0] * shape[1]).reshape(shape)
    found = []
    for place in range(len(hours)):
        there = np.flatnonzero(series[:, place]).tolist()
        counts = {runs.metrics[m]: (int(series[m, place]), int(samples[m, place])) for m in there}
        found.append(asked | counts)
    return found


def _added(counted: Iterable[Counts]) -> dict[str, tuple[int, int]]:
    """Counts of several parts of one hour."""
    found: dict[str, tuple[int, int]] = {}
    for counts in counted:
        for metric, (series, samples) in counts.items():
            before = found.get(metric, (0, 0))
            found[metric] = (before[0] + series, before[1] + samples)
    return dict(sorted(found.items()))
