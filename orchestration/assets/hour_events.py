"""What an hour's partition shows: what landed, or what is missing, why, and what to run next.

Put here: one event for one hour of one source, and tables of hours.
Not here: asking (`assets.evidence`), or which hours are due (`orchestration.ledger`).
"""

# No `from __future__ import annotations` here: beside assets, types are read by Dagster.
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import dagster as dg

from domain.decisions import Cluster, Source
from domain.interval import HOUR, Interval, format_instant
from ingestion.evidence.hour_ledger import FIRST_UNWATCHED, HourEntry, HourResponse
from ingestion.metric_catalogue import sentinels
from orchestration import ledger
from orchestration.commands import cell
from orchestration.links import partition_link
from orchestration.open_home import OpenHome
from orchestration.partitions import hour_name, hours_in_words
from warehouse.manifest import Attempt, Hour, Outcome

HourEvent = dg.AssetMaterialization | dg.AssetObservation

ASSET_OF_SOURCE = {Source.THANOS: "thanos_hours", Source.KUBERNETES: "kubernetes_hours"}
LINKS_SHOWN = 100
"""Links in one table; the partition strip itself shows every hour."""

ATTEMPT = "attempt"
"""The metadata that says which attempt an event speaks of."""

CELL_LIMIT = 240
"""Letters of one cell of a table: a reason can be as long as a server's error page."""


def evidence_keys(clusters: Sequence[Cluster]) -> dict[tuple[str, Source], dg.AssetKey]:
    """The raw asset of every source, with its cluster's latest name, and its ID where two agree."""
    latest = {row.cluster_id: row for row in sorted(clusters, key=lambda row: row.valid_from)}
    names = {cluster_id: _key_part(row.cluster_name) for cluster_id, row in latest.items()}
    shared = {name for name in names.values() if list(names.values()).count(name) > 1}
    return {
        (row.cluster_id, source): dg.AssetKey(
            [
                f"{name}_{_key_part(row.cluster_id)[:8]}"
                if (name := names[row.cluster_id]) in shared
                else name,
                ASSET_OF_SOURCE[source],
            ]
        )
        for row in clusters
        for source in row.expected_sources
    }


def attempt_events(
    opened: OpenHome, key: dg.AssetKey, attempt: Attempt
) -> Iterator[tuple[datetime, HourEvent]]:
    """What an attempt adds to the partitions of its hours, in their order.

    An hour that was whole before stays so, whatever a second look came to.
    """
    before = _known_before(opened, attempt)
    for hour in attempt.hours:
        response = HourResponse(attempt.attempt_id, attempt.sequence, attempt.draft.asked_at, hour)
        entry = before.get(hour.hour) or HourEntry(
            attempt.cluster_id, attempt.source, hour.hour, (response,)
        )
        yield hour.hour, hour_event(opened, key, entry, response)
        best = entry.best
        if response.outcome is not Outcome.OK and best and best.outcome is Outcome.OK:
            yield hour.hour, hour_event(opened, key, entry, best)


def _known_before(opened: OpenHome, attempt: Attempt) -> dict[datetime, HourEntry]:
    """The hours of an attempt with all their attempts; read only where it matters."""
    if attempt.outcome is Outcome.OK:
        return {}
    entries = ledger.ledger(opened, attempt.window)
    place = (attempt.cluster_id, attempt.source)
    return {e.hour_started_at: e for e in entries if (e.cluster_id, e.source) == place}


def hour_event(
    opened: OpenHome, key: dg.AssetKey, entry: HourEntry, response: HourResponse
) -> HourEvent:
    """A materialization for an hour that was answered whole; else an observation that says why."""
    partition = hour_name(entry.hour_started_at)
    if response.outcome is Outcome.OK:
        return dg.AssetMaterialization(key, partition=partition, metadata=_landed(response))
    return dg.AssetObservation(
        key,
        partition=partition,
        description=f"{response.outcome.value}: {response.hour.reason}"[:200],
        metadata=_not_whole(opened, key, entry, response),
    )


def last_response(entry: HourEntry) -> HourResponse:
    """What was answered last, of an hour that was asked."""
    return max(entry.responses, key=lambda response: (response.asked_at, response.sequence))


def gap_table(
    key: dg.AssetKey, entries: Sequence[HourEntry], backfillable: Mapping[datetime, bool]
) -> str:
    """Hours that are not whole, each with a link to its partition."""
    rows = [
        f"| [{hour_name(entry.hour_started_at)}]({partition_link(key, entry.hour_started_at)}) "
        f"| {_outcome(entry)} | {'yes' if backfillable[entry.hour_started_at] else 'no'} |"
        for entry in entries[:LINKS_SHOWN]
    ]
    more = len(entries) - LINKS_SHOWN
    rows += [f"| and {more} more | | |"] if more > 0 else []
    return "\n".join(["| hour | what was answered | can be backfilled |", "|---|---|---|", *rows])


def _outcome(entry: HourEntry) -> str:
    best = entry.best
    return table_cell(f"{best.outcome.value}: {best.hour.reason}") if best else "never asked"


def _landed(response: HourResponse) -> dict[str, dg.MetadataValue]:
    return {
        "dagster/row_count": dg.MetadataValue.int(response.hour.sample_count),
        "series": dg.MetadataValue.int(response.hour.series_count),
        "asked at": dg.MetadataValue.text(format_instant(response.asked_at)),
        ATTEMPT: dg.MetadataValue.text(response.attempt_id),
        **{
            name.replace("_", " "): dg.MetadataValue.int(count)
            for name, count in response.hour.facts.items()
        },
    }


def _not_whole(
    opened: OpenHome, key: dg.AssetKey, entry: HourEntry, response: HourResponse
) -> dict[str, dg.MetadataValue]:
    expected, seen = _expected_and_seen(opened, entry, response.hour)
    return {
        "outcome": dg.MetadataValue.text(response.outcome.value),
        "reason": dg.MetadataValue.text(response.hour.reason),
        "expected": dg.MetadataValue.text(expected),
        "seen": dg.MetadataValue.text(seen),
        "first missing": dg.MetadataValue.text(_first_missing(entry, response.hour)),
        "asked at": dg.MetadataValue.text(format_instant(response.asked_at)),
        **remedy(opened, key, entry),
        ATTEMPT: dg.MetadataValue.text(response.attempt_id),
    }


def remedy(opened: OpenHome, key: dg.AssetKey, entry: HourEntry) -> dict[str, dg.MetadataValue]:
    """Whether an hour that is not whole can be backfilled, and what does it."""
    days = ledger.retention_days(opened, entry.cluster_id)
    can_be_backfilled = entry.backfillable(opened.clock.now(), days)
    return {
        "can be backfilled": dg.MetadataValue.text(
            _can_be_backfilled(entry, can_be_backfilled, days)
        ),
        "what to run next": dg.MetadataValue.md(_what_next(opened, key, entry, can_be_backfilled)),
    }


def _expected_and_seen(opened: OpenHome, entry: HourEntry, hour: Hour) -> tuple[str, str]:
    if entry.source is Source.KUBERNETES:
        watched = hour.facts.get("watched_seconds", 0)
        return "3600 s watched without a break", f"{watched} s watched"
    decided = opened.decisions.cluster_in_hour(entry.cluster_id, entry.hour_started_at)
    due = 3600 // decided.sample_interval_seconds if decided else 0
    return (
        f"{due} samples of every series that lives through the hour",
        f"{hour.sample_count} samples of {hour.series_count} series",
    )


def _first_missing(entry: HourEntry, hour: Hour) -> str:
    if entry.source is Source.KUBERNETES:
        second = hour.facts.get(FIRST_UNWATCHED)
        at = None if second is None else entry.hour_started_at + timedelta(seconds=second)
        return instant_or_reason(at)
    if not hour.sample_count:
        return format_instant(entry.hour_started_at)
    counts = hour.by_metric
    absent = [m for m in sorted({*counts, *sentinels()}) if not counts.get(m, (0, 0))[0]]
    return f"no series of {absent[0]}" if absent else instant_or_reason(None)


def instant_or_reason(first_missing_at: datetime | None) -> str:
    """Where the hole begins; of some hours only the reason is known."""
    return format_instant(first_missing_at) if first_missing_at else "see the reason"


def _can_be_backfilled(entry: HourEntry, can_be_backfilled: bool, days: int) -> str:
    if entry.source is Source.KUBERNETES:
        return (
            "yes: the journal may still bring it"
            if can_be_backfilled
            else "no: nobody watched this time"
        )
    until = format_instant(entry.hour_started_at + timedelta(days=days))
    return (
        f"yes, until {until}, as long as the store keeps raw samples" if can_be_backfilled else "no"
    )


def _what_next(
    opened: OpenHome, key: dg.AssetKey, entry: HourEntry, can_be_backfilled: bool
) -> str:
    hour, whose = entry.hour_started_at, f"--cluster {entry.cluster_id}"
    span = Interval(hour, hour + HOUR)
    if can_be_backfilled:
        command = cell(
            opened,
            f"gpu-ledger pull --hours {hours_in_words(span)}",
            whose,
            f"--source {entry.source.value} --again",
        )
        here = f"Or [materialize this partition]({partition_link(key, hour)})."
        return f"{command}\n{here} It is asked again by itself, too."
    command = cell(
        opened,
        f"gpu-ledger accept-gap --source {entry.source.value}",
        whose,
        f"--from {format_instant(span.started_at)}",
        f"--to {format_instant(span.ended_at)}",
        "--treatment bill_nothing",
        "--reason WHY --by NAME",
    )
    return (
        f"{command}\nNothing can bring this hour back. It has to be signed only where "
        "the other source misses it as well: `gpu-ledger gaps` says so."
    )


def table_cell(text: str) -> str:
    """One line that no letter of it breaks out of, and no longer than can be read."""
    line = " ".join(text.split())
    cut = line if len(line) <= CELL_LIMIT else line[: CELL_LIMIT - 1] + "…"
    return cut.replace("|", "\\|")


def _key_part(name: str) -> str:
    """Dagster's keys take letters, digits and underscores."""
    return "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
