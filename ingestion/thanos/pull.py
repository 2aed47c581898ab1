"""Asking one cluster's sample store for 1 to 24 whole hours: the whole of one attempt.

Put here: the order of an attempt: ask, land, append the manifest, write the derived files.
Not here: single questions (`ingestion.thanos.query_runner`), what they say about an hour
(`ingestion.thanos.outcomes`), or which hours are due (`ingestion.evidence.hour_ledger`).
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
    Ask,
    Entry,
    asked_entries,
    asks_of,
)
from ingestion.settings import ClusterSource
from ingestion.thanos.decode import Runs
from ingestion.thanos.hour_facts import HourFacts, hourly_facts, look_facts
from ingestion.thanos.outcomes import counts_before, counts_earlier, rows_of_hours, store_gone
from ingestion.thanos.query_runner import Asker, Part, PullMemory
from ingestion.thanos.runs import write_runs
from ingestion.thanos.sample_columns import MalformedSeries
from ingestion.thanos.splitting import Evaluated, Question
from ingestion.thanos.telemetry import (
    UNION_LIMIT,
    DeviceHours,
    DeviceReading,
    device_hours,
    function_answer,
)
from ingestion.thanos.thanos_client import ThanosClient, connected_to
from warehouse.manifest import (
    Answer,
    Attempt,
    AttemptDraft,
    Hour,
    Outcome,
    code_version_of_manifests,
    whole_hours,
)

NOT_UNDERSTOOD = (400, 422)
"""How servers answer a query that they cannot read."""


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
    memory: PullMemory | None = None,
) -> Attempt:
    """Ask for a window, land what comes, append the attempt, write its runs."""
    hours = _askable_hours(cluster, window, clock)
    asked_at = clock.now()
    with connected_to(cluster.thanos.connection, client) as connected:
        connected.refill_budget()
        asker = Asker(cluster, connected, memory)
        found = _ask(asker, window, hours, asked_at)
    named = {answer.sha256 for answer in found.answers}
    repaired = landing.land(body for body in asker.bodies if body.landed.sha256 in named)
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


def _askable_hours(cluster: ClusterSource, window: Interval, clock: Clock) -> list[datetime]:
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
    """Everything that came of asking, before it becomes hours."""

    telemetry: DeviceHours
    hour_facts: HourFacts = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)  # allocation
    facts: dict[str, int] = field(default_factory=dict)
    early_seconds: int = 0  # by the source's own clock, the window is not over for so long
    failing_stores: str = ""

    def count(self, hours: Sequence[datetime], interval_seconds: int) -> None:
        """What follows from the allocation alone, while the telemetry is still on its way."""
        self.hour_facts = hourly_facts(self.runs, hours, interval_seconds)
        self.facts.update(look_facts(self.runs))

    @property
    def runs(self) -> list[Runs]:
        return [part.runs for part in self.parts if part.runs is not None]


def _ask(asker: Asker, window: Interval, hours: Sequence[datetime], now: datetime) -> _Found:
    found = _Found(device_hours([], (), window))
    source_seconds = asker.source_time()
    if source_seconds is not None:
        found.facts["source_clock_offset_seconds"] = round(source_seconds - now.timestamp())
        ready_at = _ready_at(asker.source, window).timestamp()
        found.early_seconds = max(math.ceil(ready_at - source_seconds), 0)
    if found.early_seconds:
        return found
    asks = asks_of(asked_entries(asker.source.pod_labels), asker.source.thanos.pins)
    telemetry = _Telemetry(asker, window)
    for part in asker.answered(_wanted(asker, asks, window)):
        if ":" not in part.ask.name:
            found.parts.append(part)
        else:
            if not telemetry.parts:
                found.count(hours, asker.source.sampling.sample_interval_seconds)
            telemetry.take(part)
            asker.memory.refuses_unions = telemetry.is_not_understood
    if not telemetry.parts:
        found.count(hours, asker.source.sampling.sample_interval_seconds)
    found.answers = [part.answer for part in found.parts]
    if asker.memory.refuses_unions:
        telemetry = _asked_one_by_one(asker, window, found)
    found.telemetry = telemetry.rows()
    found.answers += [part.answer for part in telemetry.parts]
    found.facts["telemetry_asks_failed"] = telemetry.failed_count
    if stores := asker.stores(window):
        answer, seen = stores
        found.answers.append(answer)
        found.facts |= {"stores": seen.count, "failing_stores": len(seen.failing)}
        found.failing_stores = seen.reason
    return found


def _wanted(asker: Asker, asks: Sequence[Ask], window: Interval) -> Iterator[Question | Evaluated]:
    """All questions of an attempt; unions only for as long as the server understands them."""
    yield from asker.questions(asks, window)
    yield from telemetry_questions(asker, window)


def telemetry_questions(
    asker: Asker, window: Interval, functions: Sequence[str] = ()
) -> Iterator[Evaluated]:
    """Unions of device metrics by function, for as long as the server understands them."""
    for group in _groups(TELEMETRY_ENTRIES):
        if not asker.memory.refuses_unions:
            yield from _functions(asker, [group], window, functions)


class _Telemetry:
    """The functions of device metrics, read as they come. Never changes an outcome."""

    def __init__(self, asker: Asker, window: Interval) -> None:
        self.parts: list[Part] = []
        labels = asker.source.thanos.replica_labels
        self._reading = DeviceReading(labels, window, asker.memory.device_series)
        self._nothing = device_hours([], (), window)
        self._is_malformed = False

    def take(self, part: Part) -> None:
        self.parts.append(replace(part, series=()))  # what it says is read, its bytes can go
        try:
            self._reading.add(function_answer(part.answer.ask, part.series))
        except MalformedSeries:
            self._is_malformed = True

    @property
    def is_not_understood(self) -> bool:
        """Whether the first question was refused, and not because it was too large."""
        first = self.parts[0]
        return first.answer.status in NOT_UNDERSTOOD and not first.limit_hit

    @property
    def failed_count(self) -> int:
        return sum(part.outcome is not Outcome.OK for part in self.parts) + self._is_malformed

    def rows(self) -> DeviceHours:
        """None of them when one answer is not the protocol."""
        return self._nothing if self._is_malformed else self._reading.rows()


def _asked_one_by_one(asker: Asker, window: Interval, found: _Found) -> _Telemetry:
    """For servers without unions: each metric that there is; or all, when that is not told."""
    names, answer = asker.metric_names(TELEMETRY_NAMES, window)
    found.answers += [answer] if answer else []
    entries = [e for e in TELEMETRY_ENTRIES if names is None or e.metric in names]
    telemetry = _Telemetry(asker, window)
    for part in asker.answered(_functions(asker, [[entry] for entry in entries], window)):
        telemetry.take(part)
    return telemetry


def _groups(entries: Sequence[Entry]) -> list[Sequence[Entry]]:
    return [entries[at : at + UNION_LIMIT] for at in range(0, len(entries), UNION_LIMIT)]


def _functions(
    asker: Asker,
    groups: Sequence[Sequence[Entry]],
    window: Interval,
    functions: Sequence[str] = (),  # () are all
) -> Iterator[Evaluated]:
    for group in groups:
        named = [(entry.metric, asker.selector_of(entry)) for entry in group]
        for function in functions or group[0].functions:
            yield Evaluated(function, tuple(named), window)


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
    gone = store_gone(landing, cluster.cluster_id, asked_at, found.facts)
    return tuple(rows_of_hours(hours, found.parts, facts, before, failing, earlier, gone))
