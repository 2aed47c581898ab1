"""The hour ledger: the hours that the calendar expects, their attempts, and the hours due.

Put here: joining expected hours with attempts, which hours are due, and in which order.
Not here: coverage status (`quality`), or the queries (`ingestion.thanos.pull`,
`ingestion.kubernetes.pull`).

The calendar decides which hours exist: an hour without any response is a row like any other. An
hour of samples can be backfilled while the store keeps raw samples. An hour of the journal that no
collector watched stays missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from domain.clock import READY_AFTER
from domain.decisions.rows import Source
from domain.interval import HOUR, Interval
from ingestion.settings import DEFAULT_RAW_RETENTION_DAYS
from warehouse.manifest import USABLE_OUTCOMES, WINDOW_HOURS_LIMIT, Attempt, Hour, Outcome

LATE_AFTER = (timedelta(hours=3), timedelta(hours=26))
"""Backlogs of senders last minutes to hours; blocks are uploaded every 2 h, and synced in a day."""

RETRY_AFTER = timedelta(minutes=10)
RETRY_AFTER_LIMIT = timedelta(hours=6)
"""A failed hour is queried again after 10 minutes, then after twice as long, up to 6 hours."""

MASS_ENDINGS = "mass_endings"  # many series ended at one scrape, or are gone since the hour before
EARLY_ENDINGS = "series_ending_before_their_pod"
INCOMPLETE_PODS = "pods_lacking_a_metric"
SUSPICIONS = (MASS_ENDINGS, EARLY_ENDINGS, INCOMPLETE_PODS)
"""Facts of an hour that suggest a dead store without a warning; accepted when seen twice."""


DOWN_SAMPLED = "down_sampled_targets"
"""The fact that so many targets of an hour have averages instead of samples."""

PARTLY_USABLE = USABLE_OUTCOMES - {Outcome.OK}
"""Outcomes of a response that is not whole, and of which something is kept."""

JOURNAL_ENDS_BEFORE = "journal_ends_before"
"""The fact that the journal has no line of an hour, and none of a later one."""

FIRST_UNWATCHED = "first_unwatched_second"
"""The fact of an hour with a gap in its watch: the seconds from its start to the first gap."""


class DueReason(StrEnum):
    """The reason why an hour is queried (again)."""

    NEVER_ASKED = "never asked"
    NOT_OK = "the last response was not complete"
    SUSPICION = "series may be missing without an error, seen once"
    LATE_DATA = "late samples may have arrived since"


@dataclass(frozen=True, slots=True)
class HourResponse:
    """The part of one attempt's response that is about one hour."""

    attempt_id: str
    sequence: int
    asked_at: datetime
    hour: Hour

    @property
    def outcome(self) -> Outcome:
        return self.hour.outcome


@dataclass(frozen=True, slots=True)
class HourEntry:
    """One expected hour of one source, with all responses about it."""

    cluster_id: str
    source: Source
    hour_started_at: datetime
    responses: tuple[HourResponse, ...] = ()

    @property
    def ended_at(self) -> datetime:
        return self.hour_started_at + HOUR

    @property
    def best(self) -> HourResponse | None:
        """The attempt that represents the hour: an ok one before others, then the latest."""
        ranked = sorted(
            self.responses, key=lambda r: (r.outcome is Outcome.OK, r.asked_at, r.sequence)
        )
        return ranked[-1] if ranked else None

    @property
    def used(self) -> tuple[HourResponse, ...]:
        """The responses that are counted: the latest ok one, or all that are usable in part.

        The models choose by the same rule (`int_attempts_used`); a test compares the two.
        """
        whole = [response for response in self.responses if response.outcome is Outcome.OK]
        return tuple(whole[-1:]) or tuple(
            response for response in self.responses if response.outcome in PARTLY_USABLE
        )

    @property
    def is_whole(self) -> bool:
        return any(response.outcome is Outcome.OK for response in self.responses)

    @property
    def doubts(self) -> dict[str, int]:
        """Facts of the best response that suggest lost series."""
        facts = self.best.hour.facts if self.best else {}
        return {name: facts[name] for name in SUSPICIONS if facts.get(name)}

    @property
    def changes(self) -> dict[str, tuple[int, int]]:
        """Metrics whose number of samples differs between the last two ok attempts: late data."""
        whole = [response for response in self.responses if response.outcome is Outcome.OK]
        return self.changes_by(whole[-1]) if whole else {}

    def changes_by(self, response: HourResponse) -> dict[str, tuple[int, int]]:
        """Metrics of which an ok attempt has another number of samples than the ok one before."""
        earlier = [
            one.hour.by_metric
            for one in self.responses
            if one.outcome is Outcome.OK and one.sequence < response.sequence
        ]
        if response.outcome is not Outcome.OK or not earlier:
            return {}
        before, after = earlier[-1], response.hour.by_metric
        return {
            metric: (was, now)
            for metric in sorted({*before, *after})
            if (was := before.get(metric, (0, 0))[1]) != (now := after.get(metric, (0, 0))[1])
        }

    def backfillable(
        self, now: datetime, raw_retention_days: int = DEFAULT_RAW_RETENTION_DAYS
    ) -> bool:
        """Whether another query can complete the hour."""
        if self.source is Source.KUBERNETES:
            return not any(_journal_is_final(response) for response in self.responses)
        return now - self.hour_started_at < timedelta(days=raw_retention_days)


def _journal_is_final(response: HourResponse) -> bool:
    """Whether the journal of this hour is final: its collector has closed the hour.

    Hours after the journal's end may still arrive from a collector that could not write.
    """
    facts = response.hour.facts
    if response.outcome is Outcome.EMPTY:
        return not facts.get(JOURNAL_ENDS_BEFORE)
    return response.outcome is Outcome.OK or bool(facts.get("closed"))


@dataclass(frozen=True, slots=True)
class DueWindow:
    """Adjacent due hours of one source that are queried together."""

    cluster_id: str
    source: Source
    window: Interval
    why: DueReason
    is_live: bool = False


def hour_ledger(
    expected: Iterable[tuple[str, Source, datetime]], attempts: Iterable[Attempt]
) -> list[HourEntry]:
    """A row for every expected hour, with its attempts in their order; by cluster, source, hour."""
    responses: dict[tuple[str, Source, datetime], list[HourResponse]] = {}
    for attempt in attempts:
        for hour in attempt.hours:
            key = (attempt.cluster_id, attempt.source, hour.hour)
            entry = HourResponse(attempt.attempt_id, attempt.sequence, attempt.draft.asked_at, hour)
            responses.setdefault(key, []).append(entry)
    return [
        HourEntry(*key, tuple(sorted(responses.get(key, ()), key=lambda one: one.sequence)))
        for key in sorted(set(expected))
    ]


def due_windows(
    entries: Sequence[HourEntry],
    now: datetime,
    raw_retention_days: int = DEFAULT_RAW_RETENTION_DAYS,
    edges: Iterable[tuple[str, datetime]] = (),
) -> list[DueWindow]:
    """Windows to query now: the newest hour of each source first, then the oldest."""
    due = [
        (entry, why)
        for entry in entries
        if (why := why_due(entry, now)) and entry.backfillable(now, raw_retention_days)
    ]
    live_hour = max((e.hour_started_at for e in entries if is_ready(e, now)), default=None)
    live = [pair for pair in due if pair[0].hour_started_at == live_hour]
    older = [pair for pair in due if pair[0].hour_started_at != live_hour]
    return [
        *(_due_window([entry], why, True) for entry, why in live),
        *sorted(_joined(older, edges), key=lambda d: (d.window, d.cluster_id, d.source)),
    ]


def is_ready(entry: HourEntry, now: datetime) -> bool:
    return entry.ended_at + READY_AFTER <= now


def why_due(entry: HourEntry, now: datetime) -> DueReason | None:
    """The reason why an hour is due now, or None when it is not due yet or any more."""
    if not is_ready(entry, now):
        return None
    if not entry.responses:
        return DueReason.NEVER_ASKED
    last = max(entry.responses, key=lambda response: (response.asked_at, response.sequence))
    if entry.source is Source.KUBERNETES:
        return (
            DueReason.NOT_OK if last.outcome is not Outcome.OK and _has_waited(entry, now) else None
        )
    if not any(response.outcome is Outcome.OK for response in entry.responses):
        return DueReason.NOT_OK if _has_waited(entry, now) else None
    if _is_suspicious(last) and _is_unconfirmed(entry) and _has_waited(entry, now):
        return DueReason.SUSPICION
    for late in LATE_AFTER:
        due_at = entry.ended_at + late
        if now >= due_at and last.asked_at < due_at and _has_waited(entry, now):
            return DueReason.LATE_DATA
    return None


def _is_suspicious(response: HourResponse) -> bool:
    return any(response.hour.facts.get(name) for name in SUSPICIONS)


def _is_unconfirmed(entry: HourEntry) -> bool:
    """Whether no two suspicious responses agree."""
    counts = [response.hour.by_metric for response in entry.responses if _is_suspicious(response)]
    return all(counts[-1] != other for other in counts[:-1])


def _has_waited(entry: HourEntry, now: datetime) -> bool:
    """Whether enough time has passed since the last attempt, by the number of failures."""
    latest = max(response.asked_at for response in entry.responses)
    bad_count = sum(response.outcome is not Outcome.OK for response in entry.responses)
    wait: timedelta = min(RETRY_AFTER * 2 ** min(max(bad_count - 1, 0), 10), RETRY_AFTER_LIMIT)
    return now - latest >= wait


def neighbours(
    entries: Iterable[HourEntry], edges: Iterable[tuple[str, datetime]] = ()
) -> Iterator[list[HourEntry]]:
    """Groups of adjacent hours of one source, of at most a day each, to be queried together.

    `edges`: (cluster, instant) at which a decision changes how a cluster is sampled; no group
    reaches over one, because an attempt has one sampling interval.
    """
    cuts = frozenset(edges)
    group: list[HourEntry] = []
    for entry in sorted(entries, key=lambda e: (e.cluster_id, e.source, e.hour_started_at)):
        follows = (
            group
            and (entry.cluster_id, entry.source) == (group[-1].cluster_id, group[-1].source)
            and entry.hour_started_at == group[-1].ended_at
            and len(group) < WINDOW_HOURS_LIMIT
            and (entry.cluster_id, entry.hour_started_at) not in cuts
        )
        if group and not follows:
            yield group
            group = []
        group.append(entry)
    if group:
        yield group


def _joined(
    due: Sequence[tuple[HourEntry, DueReason]], edges: Iterable[tuple[str, datetime]]
) -> Iterator[DueWindow]:
    """Windows of adjacent hours that are due for one reason."""
    cuts = list(edges)
    for reason in DueReason:
        entries = [entry for entry, why in due if why is reason]
        yield from (_due_window(group, reason) for group in neighbours(entries, cuts))


def _due_window(group: Sequence[HourEntry], why: DueReason, is_live: bool = False) -> DueWindow:
    first, last = group[0], group[-1]
    window = Interval(first.hour_started_at, last.ended_at)
    return DueWindow(first.cluster_id, first.source, window, why, is_live)
