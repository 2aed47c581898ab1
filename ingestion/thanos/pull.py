"""Asking one cluster's sample store for 1 to 24 whole hours: the whole of one attempt.

Put here: the order of an attempt (ask, land, append the manifest, write the derived files), and
what all its answers together say about each hour.
Not here: single questions (`ingestion.thanos.asking`), or which hours are due (`ingestion.hours`).

An outcome is what the protocol said, with counts. Whether an hour is complete is not decided here.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from domain.clock import Clock
from domain.decisions.rows import Source
from domain.errors import WrongUse
from domain.interval import Interval, format_instant
from ingestion.catalogue import (
    TELEMETRY_ENTRIES,
    TELEMETRY_NAMES,
    Ask,
    allocation_asks,
    pod_label_ask,
    sentinels,
)
from ingestion.landing import Landing
from ingestion.manifest import (
    Answer,
    Attempt,
    AttemptDraft,
    Hour,
    Outcome,
    whole_hours,
    worst,
)
from ingestion.settings import ClusterSource
from ingestion.thanos.asking import Asker, Part
from ingestion.thanos.client import ThanosClient
from ingestion.thanos.decode import HOUR_MS, MalformedSeries, Runs, SeriesDictionary
from ingestion.thanos.runs import write_runs
from ingestion.thanos.telemetry import (
    DeviceHour,
    FunctionAnswer,
    device_hours,
    function_query,
    range_form,
)

PRESENCE_ASK = "telemetry_names"


class NotWholeHours(WrongUse):
    """A window that is not 1 to 24 whole hours."""

    code = "PULL-001"

    def __init__(self, cluster_id: str, cause: str) -> None:
        super().__init__(
            where=f"pull of {cluster_id}",
            seen=cause,
            why="an hour is asked whole, or its edges would be counted twice or never",
            remedy="give hours as 2026-10-01T00..2026-10-01T23, at most a day at once",
        )


class HourNotOver(WrongUse):
    """An hour was asked for before it and its overlap have passed."""

    code = "PULL-002"

    def __init__(
        self, cluster_id: str, window: Interval, ready_at: datetime, now: datetime
    ) -> None:
        super().__init__(
            where=f"pull of {cluster_id}, hours until {format_instant(window.ended_at)}",
            seen=f"it is {format_instant(now.replace(microsecond=0))}, "
            f"the last sample is due at {format_instant(ready_at)}",
            why="an hour that is asked too early looks as if its pods had ended",
            remedy="ask again after that time, or check the clock of this machine",
        )


def pull_hours(
    cluster: ClusterSource,
    window: Interval,
    landing: Landing,
    home_runs: Path,
    clock: Clock,
    client: ThanosClient | None = None,
    dictionary: SeriesDictionary | None = None,
) -> Attempt:
    """Ask for a window, land what comes, append the attempt, write its runs."""
    hours = _askable_hours(cluster, window, clock)
    asked_at = clock.now().replace(microsecond=0)
    with client or ThanosClient(cluster.thanos.connection) as connected:
        asker = Asker(cluster, connected, landing, dictionary)
        allocation = _ask_allocation(asker, window)
        telemetry = _ask_telemetry(asker, window)
    draft = AttemptDraft(
        cluster_id=cluster.cluster_id,
        source=Source.THANOS,
        asked_at=asked_at,
        answered_at=clock.now().replace(microsecond=0),
        window=window,
        code_version=importlib.metadata.version("gpu-ledger"),
        sampling=cluster.sampling,
        answers=(*(part.answer for part in allocation), *telemetry.answers),
        hours=tuple(_hour(hour, allocation) for hour in hours),
        facts=telemetry.facts,
        settings={
            "replica_labels": cluster.thanos.replica_labels,
            "pod_labels": cluster.pod_labels,
        },
    )
    attempt = landing.append_attempt(draft)
    runs = [part.runs for part in allocation if part.runs is not None]
    write_runs(home_runs, attempt, runs, telemetry.rows, cluster.pod_labels)
    return attempt


def _askable_hours(cluster: ClusterSource, window: Interval, clock: Clock) -> list[datetime]:
    try:
        hours = whole_hours(window)
    except ValueError as cause:
        raise NotWholeHours(cluster.cluster_id, str(cause)) from None
    ready_at = window.ended_at + timedelta(seconds=cluster.sampling.sample_interval_seconds)
    if clock.now() < ready_at:
        raise HourNotOver(cluster.cluster_id, window, ready_at, clock.now())
    return hours


def _ask_allocation(asker: Asker, window: Interval) -> list[Part]:
    labels = pod_label_ask(asker.source.pod_labels)
    asks = (*allocation_asks(), *([labels] if labels else []))
    return [part for ask in asks for part in asker.allocation(ask, window)]


@dataclass(slots=True)
class _Telemetry:
    answers: list[Answer] = field(default_factory=list)
    rows: list[DeviceHour] = field(default_factory=list)
    facts: dict[str, int] = field(default_factory=dict)


def _ask_telemetry(asker: Asker, window: Interval) -> _Telemetry:
    """Ask which device metrics there are, then for each its functions. Never changes an outcome."""
    found = _Telemetry()
    answered: list[FunctionAnswer] = []
    failed_count = 0
    present = _present_metrics(asker, window, found)
    for entry in TELEMETRY_ENTRIES:
        if entry.metric not in present:
            continue
        selector = asker.selector(Ask(entry.ask, (entry.metric,), entry.matchers))
        for function in entry.functions:
            form = range_form(function_query(function, selector), window)
            part = asker.function(f"{entry.metric}:{function}", form, window)
            found.answers.append(part.answer)
            failed_count += part.outcome is not Outcome.OK
            answered.append(FunctionAnswer(entry.metric, function, part.series))
    try:
        found.rows = device_hours(answered, asker.source.thanos.replica_labels, window)
    except MalformedSeries:
        failed_count += 1
    found.facts = {"telemetry_metrics": len(present), "telemetry_asks_failed": failed_count}
    return found


def _present_metrics(asker: Asker, window: Interval, found: _Telemetry) -> frozenset[str]:
    """The names of device metrics in the window; all of the catalogue when that is not known."""
    names = Ask(PRESENCE_ASK, (TELEMETRY_NAMES, TELEMETRY_NAMES), "")
    query = f"count by (__name__) (last_over_time({asker.selector(names)}[1h] offset 1ms))"
    part = asker.function(PRESENCE_ASK, range_form(query, window), window)
    found.answers.append(part.answer)
    known = frozenset(entry.metric for entry in TELEMETRY_ENTRIES)
    if part.outcome is not Outcome.OK:
        return known
    return frozenset(
        name for name in known if any(_is_named(raw.metric, name) for raw in part.series)
    )


def _is_named(raw_labels: bytes | memoryview, name: str) -> bool:
    return f'"__name__":"{name}"'.encode() in bytes(raw_labels).replace(b" ", b"")


def _hour(hour: datetime, parts: Sequence[Part]) -> Hour:
    """What all answers together say about one hour."""
    covering = [part for part in parts if part.window.contains(hour)]
    by_metric: dict[str, tuple[int, int]] = {}
    for part in covering:
        if part.runs is not None:
            _count(part.runs, int(hour.timestamp()) * 1000, by_metric)
    outcome, reason = _outcome(covering, by_metric)
    return Hour(
        hour=hour,
        outcome=outcome,
        reason=reason,
        series_count=sum(series for series, _ in by_metric.values()),
        sample_count=sum(samples for _, samples in by_metric.values()),
        by_metric=dict(sorted(by_metric.items())),
    )


def _outcome(
    covering: Sequence[Part], by_metric: dict[str, tuple[int, int]]
) -> tuple[Outcome, str]:
    bad = [part for part in covering if part.outcome is not Outcome.OK]
    reasons = "; ".join(f"{part.ask}: {part.answer.reason}" for part in bad)
    if len(bad) == len(covering):
        return worst([part.outcome for part in bad]), reasons
    if any(part.runs is None for part in bad):
        return Outcome.DEGRADED, reasons
    absent = [metric for metric in sentinels() if metric not in by_metric]
    if absent:
        empty = f"no sample of {', '.join(absent)}"
        return Outcome.EMPTY, "; ".join(filter(None, [empty, reasons]))
    return worst([part.outcome for part in bad]), reasons


def _count(runs: Runs, hour_ms: int, by_metric: dict[str, tuple[int, int]]) -> None:
    """Series and samples of one hour, by metric."""
    assert hour_ms % HOUR_MS == 0
    rows = runs.hour_ms == hour_ms
    samples = np.bincount(
        runs.series_index[rows], runs.sample_count[rows], minlength=len(runs.series)
    )
    for place in np.flatnonzero(samples):
        metric = runs.series[place].metric
        series_count, sample_count = by_metric.get(metric, (0, 0))
        by_metric[metric] = (series_count + 1, sample_count + int(samples[place]))
