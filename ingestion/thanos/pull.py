"""One attempt at one cluster's sample store, for 1 to 24 whole hours.

Put here: the order of an attempt: query, land, append the manifest, write the derived files.
Not here: single queries (`ingestion.thanos.query_runner`), the outcome of an hour
(`ingestion.thanos.outcomes`), or due hours (`ingestion.evidence.hour_ledger`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from domain.clock import Clock
from domain.decisions.rows import Source
from domain.errors import WrongUse
from domain.interval import Interval, format_instant
from ingestion.evidence.landing import Landing
from ingestion.metric_catalogue import (
    TELEMETRY_ENTRIES,
    TELEMETRY_NAMES,
    Entry,
    MetricQuery,
    group_queries,
    queried_entries,
)
from ingestion.settings import ClusterSource
from ingestion.thanos.attempt_client import AttemptClient, connected_to
from ingestion.thanos.decode import Runs
from ingestion.thanos.hour_facts import HourFacts, attempt_facts, hourly_facts
from ingestion.thanos.outcomes import (
    counts_before,
    counts_earlier,
    missing_store_reason,
    rows_of_hours,
)
from ingestion.thanos.query_runner import Part, PullMemory, QueryRunner
from ingestion.thanos.runs import write_runs
from ingestion.thanos.sample_columns import MalformedSeries
from ingestion.thanos.splitting import FunctionQuery, RawQuery
from ingestion.thanos.telemetry import (
    UNION_LIMIT,
    DeviceHours,
    DeviceReading,
    device_hours,
    function_response,
)
from warehouse.manifest import (
    Attempt,
    AttemptDraft,
    Hour,
    Outcome,
    QueryResponse,
    code_version_of_manifests,
    whole_hours,
)

NOT_UNDERSTOOD = (400, 422)
"""The status of a query that the server cannot parse."""


class NotWholeHours(WrongUse):
    """A window that is not 1 to 24 whole hours."""

    code = "COMMAND-001"

    def __init__(self, cluster_id: str, cause: str) -> None:
        super().__init__(
            where=f"pull of {cluster_id}",
            seen=cause,
            why="an hour is pulled whole; parts of one would be counted twice or never",
            remedy="give hours as 2026-10-01T00..2026-10-01T23, at most a day at once",
        )


class HourNotOver(WrongUse):
    """An hour was queried before it and its overlap have passed."""

    code = "COMMAND-001"

    def __init__(
        self, cluster_id: str, window: Interval, ready_at: datetime, now: datetime
    ) -> None:
        super().__init__(
            where=f"pull of {cluster_id}, hours until {format_instant(window.ended_at)}",
            seen=f"it is {format_instant(now.replace(microsecond=0))}, "
            f"the last sample is due at {format_instant(ready_at)}",
            why="in an hour that is pulled too early, pods seem to end",
            remedy="pull again after that time, or check the clock of this machine",
        )


def pull_hours(
    cluster: ClusterSource,
    window: Interval,
    landing: Landing,
    home_runs: Path,
    clock: Clock,
    client: AttemptClient | None = None,
    memory: PullMemory | None = None,
) -> Attempt:
    """Query a window, land the responses, append the attempt, write its runs."""
    hours = _queryable_hours(cluster, window, clock)
    asked_at = clock.now()
    with connected_to(cluster.thanos.connection, client) as connected:
        connected.begin_attempt()
        runner = QueryRunner(cluster, connected, memory)
        found = _send_query(runner, window, hours, asked_at)
    named = {answer.sha256 for answer in found.answers}
    repaired = landing.land(body for body in runner.bodies if body.landed.sha256 in named)
    draft = _draft(cluster, window, hours, found, landing, asked_at, clock.now())
    attempt = landing.append_attempt(draft.noting(bodies_repaired=repaired))
    write_runs(home_runs, attempt, found.runs, found.telemetry, cluster.pod_labels)
    return attempt


def _draft(
    cluster: ClusterSource,
    window: Interval,
    hours: Sequence[datetime],
    found: _Found,
    landing: Landing,
    asked_at: datetime,
    answered_at: datetime,
) -> AttemptDraft:
    return AttemptDraft(
        cluster_id=cluster.cluster_id,
        source=Source.THANOS,
        asked_at=asked_at.replace(microsecond=0),
        answered_at=answered_at.replace(microsecond=0),
        window=window,
        code_version=code_version_of_manifests(),
        sampling=cluster.sampling,
        answers=tuple(found.answers),
        hours=_hours(hours, found, landing, cluster, asked_at.replace(microsecond=0)),
        facts=dict(sorted(found.facts.items())),
        settings={
            "replica_labels": cluster.thanos.replica_labels,
            "pod_labels": cluster.pod_labels,
            **({"pins": pins} if (pins := cluster.thanos.pins.texts) else {}),
        },
    )


def _queryable_hours(cluster: ClusterSource, window: Interval, clock: Clock) -> list[datetime]:
    try:
        hours = whole_hours(window)
    except ValueError as cause:
        raise NotWholeHours(cluster.cluster_id, str(cause)) from None
    ready_at = _ready_at(cluster, window)
    if clock.now() < ready_at:
        raise HourNotOver(cluster.cluster_id, window, ready_at, clock.now())
    return hours


@dataclass(slots=True)
class _Found:
    """All responses of an attempt, before they become hours."""

    telemetry: DeviceHours
    hour_facts: HourFacts = field(default_factory=dict)
    answers: list[QueryResponse] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)  # allocation
    facts: dict[str, int] = field(default_factory=dict)
    early_seconds: int = 0  # until the end of the window, by the clock of the server
    failing_stores: str = ""

    def count(self, hours: Sequence[datetime], interval_seconds: int) -> None:
        """Count the facts of the allocation metrics."""
        self.hour_facts = hourly_facts(self.runs, hours, interval_seconds)
        self.facts.update(attempt_facts(self.runs))

    @property
    def runs(self) -> list[Runs]:
        return [part.runs for part in self.parts if part.runs is not None]


def _send_query(
    runner: QueryRunner, window: Interval, hours: Sequence[datetime], now: datetime
) -> _Found:
    found = _Found(device_hours([], (), window))
    source_seconds = runner.source_time()
    if source_seconds is not None:
        found.facts["source_clock_offset_seconds"] = round(source_seconds - now.timestamp())
        ready_at = _ready_at(runner.source, window).timestamp()
        found.early_seconds = max(math.ceil(ready_at - source_seconds), 0)
    if found.early_seconds:
        return found
    asks = group_queries(queried_entries(runner.source.pod_labels), runner.source.thanos.pins)
    telemetry = _Telemetry(runner, window)
    for part in runner.send(_queries_of_attempt(runner, asks, window)):
        if ":" not in part.ask.name:
            found.parts.append(part)
        else:
            if not telemetry.parts:
                found.count(hours, runner.source.sampling.sample_interval_seconds)
            telemetry.take(part)
            runner.memory.refuses_unions = telemetry.is_not_understood
        del part  # its body is freed before the next response arrives
    if not telemetry.parts:
        found.count(hours, runner.source.sampling.sample_interval_seconds)
    found.answers = [part.answer for part in found.parts]
    if runner.memory.refuses_unions:
        telemetry = _queries_without_unions(runner, window, found)
    found.telemetry = telemetry.rows()
    found.answers += [part.answer for part in telemetry.parts]
    found.facts["telemetry_asks_failed"] = telemetry.failed_count
    if stores := runner.stores(window):
        answer, seen = stores
        found.answers.append(answer)
        found.facts |= {"stores": seen.count, "failing_stores": len(seen.failing)}
        found.failing_stores = seen.reason
    return found


def _queries_of_attempt(
    runner: QueryRunner, asks: Sequence[MetricQuery], window: Interval
) -> Iterator[RawQuery | FunctionQuery]:
    """All queries of an attempt; unions only as long as the server understands them."""
    yield from runner.raw_queries(asks, window)
    yield from telemetry_queries(runner, window)


def telemetry_queries(
    runner: QueryRunner, window: Interval, functions: Sequence[str] = ()
) -> Iterator[FunctionQuery]:
    """Unions of device metrics by function, for as long as the server understands them."""
    for group in _groups(TELEMETRY_ENTRIES):
        if not runner.memory.refuses_unions:
            yield from _functions(runner, [group], window, functions)


class _Telemetry:
    """The functions of device metrics, decoded one by one. Never changes an outcome."""

    def __init__(self, runner: QueryRunner, window: Interval) -> None:
        self.parts: list[Part] = []
        labels = runner.source.thanos.replica_labels
        self._reading = DeviceReading(labels, window, runner.memory.device_series)
        self._nothing = device_hours([], (), window)
        self._is_malformed = False

    def take(self, part: Part) -> None:
        self.parts.append(replace(part, series=()))  # it is decoded, so its bytes can be freed
        try:
            self._reading.add(function_response(part.answer.ask, part.series))
        except MalformedSeries:
            self._is_malformed = True

    @property
    def is_not_understood(self) -> bool:
        """Whether the first query was refused, and not because it was too large."""
        first = self.parts[0]
        return first.answer.status in NOT_UNDERSTOOD and not first.limit_hit

    @property
    def failed_count(self) -> int:
        return sum(part.outcome is not Outcome.OK for part in self.parts) + self._is_malformed

    def rows(self) -> DeviceHours:
        """No rows if one response is invalid."""
        return self._nothing if self._is_malformed else self._reading.rows()


def _queries_without_unions(runner: QueryRunner, window: Interval, found: _Found) -> _Telemetry:
    """For servers without unions: each existing metric, or all if the names are unknown."""
    names, answer = runner.metric_names(TELEMETRY_NAMES, window)
    found.answers += [answer] if answer else []
    entries = [e for e in TELEMETRY_ENTRIES if names is None or e.metric in names]
    telemetry = _Telemetry(runner, window)
    for part in runner.send(_functions(runner, [[entry] for entry in entries], window)):
        telemetry.take(part)
        del part
    return telemetry


def _groups(entries: Sequence[Entry]) -> list[Sequence[Entry]]:
    return [entries[at : at + UNION_LIMIT] for at in range(0, len(entries), UNION_LIMIT)]


def _functions(
    runner: QueryRunner,
    groups: Sequence[Sequence[Entry]],
    window: Interval,
    functions: Sequence[str] = (),  # () are all
) -> Iterator[FunctionQuery]:
    for group in groups:
        named = [(entry.metric, runner.selector_of(entry)) for entry in group]
        for function in functions or group[0].functions:
            yield FunctionQuery(function, tuple(named), window)


def _ready_at(cluster: ClusterSource, window: Interval) -> datetime:
    return window.ended_at + timedelta(seconds=cluster.sampling.sample_interval_seconds)


def _hours(
    hours: Sequence[datetime],
    found: _Found,
    landing: Landing,
    cluster: ClusterSource,
    asked_at: datetime,
) -> tuple[Hour, ...]:
    if found.early_seconds:
        seen = f"by the source's own clock the window is not over for {found.early_seconds} s"
        return tuple(Hour(hour, Outcome.REFUSED, seen) for hour in hours)
    before = counts_before(landing, cluster.cluster_id, hours[0])
    earlier = counts_earlier(landing, cluster, hours)
    facts, failing = found.hour_facts, found.failing_stores
    gone = missing_store_reason(landing, cluster.cluster_id, asked_at, found.facts)
    return tuple(rows_of_hours(hours, found.parts, facts, before, failing, earlier, gone))
