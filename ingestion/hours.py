"""The hour ledger: what the calendar expects, what was asked, and what is still owed.

Put here: joining expected hours with attempts, which hours are due again, and in which order.
Not here: verdicts (`quality`), or the asking itself (`ingestion.thanos.pull`,
`ingestion.kubernetes.pull`).

The calendar drives it, not what arrived: an hour for which nothing ever came is a row like any
other. An hour of samples can be healed as long as the store keeps raw samples. An hour of the
journal that nobody watched is missing for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from domain.clock import READY_AFTER
from domain.decisions.rows import Source
from domain.interval import HOUR, Interval
from ingestion.manifest import WINDOW_HOURS_LIMIT, Attempt, Hour, Outcome
from ingestion.settings import DEFAULT_RAW_RETENTION_DAYS

LATE_AFTER = (timedelta(hours=3), timedelta(hours=26))
"""Backlogs of senders last minutes to hours; blocks are uploaded every 2 h, and synced in a day."""

RETRY_AFTER = timedelta(minutes=10)
RETRY_AFTER_LIMIT = timedelta(hours=6)
"""A bad hour is asked again after 10 minutes, then twice as long, at most 6 hours apart."""

MASS_ENDINGS = "mass_endings"  # many series ended at one scrape, or are gone since the hour before
EARLY_ENDINGS = "series_ending_before_their_pod"
INCOMPLETE_PODS = "pods_lacking_a_metric"
SUSPICIONS = (MASS_ENDINGS, EARLY_ENDINGS, INCOMPLETE_PODS)
"""Facts of an hour that look like a store which died in silence: believed when seen twice."""


DOWN_SAMPLED = "down_sampled_targets"
"""The fact of an hour in which so many targets have averages in the place of samples."""

USABLE = (Outcome.WARNED, Outcome.EMPTY, Outcome.DEGRADED, Outcome.TRUNCATED)
"""Answers that are not whole, and of which something is kept."""

JOURNAL_ENDS_BEFORE = "journal_ends_before"
"""The fact in an hour that says: the journal has nothing of it, and nothing of a later one."""

FIRST_UNWATCHED = "first_unwatched_second"
"""The fact of an hour that was not watched whole: how long after its start that was so first."""


class Why(StrEnum):
    """Why an hour is owed another asking."""

    NEVER_ASKED = "never asked"
    NOT_OK = "the last answer was not ok"
    SUSPICION = "series may have been lost in silence, seen once"
    LATE_DATA = "late samples may have arrived since"


@dataclass(frozen=True, slots=True)
class Told:
    """What one attempt said about one hour."""

    attempt_id: str
    sequence: int
    asked_at: datetime
    hour: Hour

    @property
    def outcome(self) -> Outcome:
        return self.hour.outcome


@dataclass(frozen=True, slots=True)
class HourEntry:
    """One expected hour of one witness, and everything that was ever answered about it."""

    cluster_id: str
    source: Source
    hour_started_at: datetime
    told: tuple[Told, ...] = ()

    @property
    def ended_at(self) -> datetime:
        return self.hour_started_at + HOUR

    @property
    def best(self) -> Told | None:
        """The attempt that speaks for the hour: an ok one before others, then the latest."""
        ranked = sorted(self.told, key=lambda t: (t.outcome is Outcome.OK, t.asked_at, t.sequence))
        return ranked[-1] if ranked else None

    @property
    def used(self) -> tuple[Told, ...]:
        """Whose samples are counted: those of the latest ok attempt, or of all that said anything.

        The models choose by the same rule (`int_attempts_used`).
        """
        whole = [told for told in self.told if told.outcome is Outcome.OK]
        return tuple(whole[-1:] or [told for told in self.told if told.outcome in USABLE])

    @property
    def is_whole(self) -> bool:
        return any(told.outcome is Outcome.OK for told in self.told)

    @property
    def doubts(self) -> dict[str, int]:
        """What in the best answer looks like series that were lost in silence."""
        facts = self.best.hour.facts if self.best else {}
        return {name: facts[name] for name in SUSPICIONS if facts.get(name)}

    @property
    def changes(self) -> dict[str, tuple[int, int]]:
        """Metrics whose number of samples differs between the last two ok attempts: late data."""
        whole = [told for told in self.told if told.outcome is Outcome.OK]
        return self.changes_by(whole[-1]) if whole else {}

    def changes_by(self, told: Told) -> dict[str, tuple[int, int]]:
        """Metrics of which an ok attempt has another number of samples than the ok one before."""
        earlier = [
            one.hour.by_metric
            for one in self.told
            if one.outcome is Outcome.OK and one.sequence < told.sequence
        ]
        if told.outcome is not Outcome.OK or not earlier:
            return {}
        before, after = earlier[-1], told.hour.by_metric
        return {
            metric: (was, now)
            for metric in sorted({*before, *after})
            if (was := before.get(metric, (0, 0))[1]) != (now := after.get(metric, (0, 0))[1])
        }

    def healable(self, now: datetime, raw_retention_days: int = DEFAULT_RAW_RETENTION_DAYS) -> bool:
        """Whether asking again can bring anything."""
        if self.source is Source.KUBERNETES:
            return not any(_journal_is_final(told) for told in self.told)
        return now - self.hour_started_at < timedelta(days=raw_retention_days)


def _journal_is_final(told: Told) -> bool:
    """The journal is ours: what it says of an hour that its collector has closed will not change.

    An hour after its end may still come, from a collector that could not write for a while.
    """
    facts = told.hour.facts
    if told.outcome is Outcome.EMPTY:
        return not facts.get(JOURNAL_ENDS_BEFORE)
    return told.outcome is Outcome.OK or bool(facts.get("closed"))


@dataclass(frozen=True, slots=True)
class Debt:
    """Neighbouring hours of one witness that are to be asked together."""

    cluster_id: str
    source: Source
    window: Interval
    why: Why
    is_live: bool = False


def hour_ledger(
    expected: Iterable[tuple[str, Source, datetime]], attempts: Iterable[Attempt]
) -> list[HourEntry]:
    """A row for every expected hour, with its attempts in their order; by cluster, source, hour."""
    told: dict[tuple[str, Source, datetime], list[Told]] = {}
    for attempt in attempts:
        for hour in attempt.hours:
            key = (attempt.cluster_id, attempt.source, hour.hour)
            entry = Told(attempt.attempt_id, attempt.sequence, attempt.draft.asked_at, hour)
            told.setdefault(key, []).append(entry)
    return [
        HourEntry(*key, tuple(sorted(told.get(key, ()), key=lambda one: one.sequence)))
        for key in sorted(set(expected))
    ]


def debts(
    entries: Sequence[HourEntry],
    now: datetime,
    raw_retention_days: int = DEFAULT_RAW_RETENTION_DAYS,
    edges: Iterable[tuple[str, datetime]] = (),
) -> list[Debt]:
    """What is to be asked now: the live hour of each witness first, then the oldest."""
    owed = [
        (entry, why)
        for entry in entries
        if (why := why_due(entry, now)) and entry.healable(now, raw_retention_days)
    ]
    live_hour = max((e.hour_started_at for e in entries if ready(e, now)), default=None)
    live = [pair for pair in owed if pair[0].hour_started_at == live_hour]
    older = [pair for pair in owed if pair[0].hour_started_at != live_hour]
    return [
        *(_debt([entry], why, True) for entry, why in live),
        *sorted(_joined(older, edges), key=lambda d: (d.window, d.cluster_id, d.source)),
    ]


def ready(entry: HourEntry, now: datetime) -> bool:
    return entry.ended_at + READY_AFTER <= now


def why_due(entry: HourEntry, now: datetime) -> Why | None:
    """The reason why an hour is due now, or None when nothing is owed yet or any more."""
    if not ready(entry, now):
        return None
    if not entry.told:
        return Why.NEVER_ASKED
    last = max(entry.told, key=lambda told: (told.asked_at, told.sequence))
    if entry.source is Source.KUBERNETES:
        return Why.NOT_OK if last.outcome is not Outcome.OK and _rested(entry, now) else None
    if not any(told.outcome is Outcome.OK for told in entry.told):
        return Why.NOT_OK if _rested(entry, now) else None
    if _suspicious(last) and _seen_once(entry) and _rested(entry, now):
        return Why.SUSPICION
    for late in LATE_AFTER:
        due_at = entry.ended_at + late
        if now >= due_at and last.asked_at < due_at and _rested(entry, now):
            return Why.LATE_DATA
    return None


def _suspicious(told: Told) -> bool:
    return any(told.hour.facts.get(name) for name in SUSPICIONS)


def _seen_once(entry: HourEntry) -> bool:
    """Whether no two suspicious answers agree."""
    counts = [told.hour.by_metric for told in entry.told if _suspicious(told)]
    return all(counts[-1] != other for other in counts[:-1])


def _rested(entry: HourEntry, now: datetime) -> bool:
    """Whether enough time has passed since the last asking, by how often it went wrong."""
    latest = max(told.asked_at for told in entry.told)
    bad_count = sum(told.outcome is not Outcome.OK for told in entry.told)
    wait: timedelta = min(RETRY_AFTER * 2 ** min(max(bad_count - 1, 0), 10), RETRY_AFTER_LIMIT)
    return now - latest >= wait


def neighbours(
    entries: Iterable[HourEntry], edges: Iterable[tuple[str, datetime]] = ()
) -> Iterator[list[HourEntry]]:
    """Hours of one witness that follow each other, as they are asked together: a day at most.

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
    owed: Sequence[tuple[HourEntry, Why]], edges: Iterable[tuple[str, datetime]]
) -> Iterator[Debt]:
    """Neighbouring hours with one reason become windows."""
    cuts = list(edges)
    for reason in Why:
        entries = [entry for entry, why in owed if why is reason]
        yield from (_debt(group, reason) for group in neighbours(entries, cuts))


def _debt(group: Sequence[HourEntry], why: Why, is_live: bool = False) -> Debt:
    first, last = group[0], group[-1]
    window = Interval(first.hour_started_at, last.ended_at)
    return Debt(first.cluster_id, first.source, window, why, is_live)
