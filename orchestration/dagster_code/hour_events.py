"""The events of an hour's partition: landed, or incomplete with the reason and the next command.

Put here: one event for one hour of one source, and comparing events with the landed hours.
Not here: queries (`evidence_assets`), or which hours are due (`orchestration.open_hours`).

A partition shows the state of its landed hour, even if the command line pulled the hour, or if the
database of Dagster was restored and does not have it: a complete hour is green, an incomplete one
has an observation with the reason. The page of a partition lists only the events of runs, so
observations are written by runs.
"""

# No `from __future__ import annotations` here: Dagster reads the types of parameters.
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import datetime, timedelta
from itertools import islice

import dagster as dg

from domain.decisions import Cluster, Source
from domain.findings import CheckResult, CoverageState, CoverageStatus
from domain.interval import HOUR, Interval, format_instant
from ingestion.evidence.hour_ledger import FIRST_UNWATCHED, HourEntry, HourResponse
from ingestion.metric_catalogue import sentinels
from orchestration import open_hours
from orchestration.dagster_code.partitions import hour_name, hours_argument
from orchestration.dagster_code.ui_links import command_cell, partition_link
from orchestration.open_home import OpenHome
from orchestration.open_hours import is_complete
from warehouse.manifest import Attempt, Hour, Outcome

HourEvent = dg.AssetMaterialization | dg.AssetObservation
EvidenceKeys = Mapping[tuple[str, Source], dg.AssetKey]

ASSET_OF_SOURCE = {Source.THANOS: "thanos_hours", Source.KUBERNETES: "kubernetes_hours"}
LINKS_SHOWN = 100
"""Most links in one table; the page of partitions shows every hour."""

ATTEMPT = "attempt"
"""The name of the metadata entry with the attempt that an event describes."""

COVERAGE_STATUS = "coverage status"
"""The name of the metadata entry with the coverage status of the hour in the last check."""

CELL_LIMIT = 240
"""Most characters in a table cell: a reason can be as long as a server's error page."""

HOURS_AT_ONCE = 200
"""Most hours in one request to Dagster, and most hours for which one run writes events."""

EVENTS_PER_HOUR = 5
"""Most observations of one hour that are read; an older one may therefore be written again."""

NEW_STATUSES_LIMIT = 200
"""Most observations that one check adds to one source, 18 ms each on PostgreSQL; the next check
adds the others."""


def evidence_keys(clusters: Sequence[Cluster]) -> dict[tuple[str, Source], dg.AssetKey]:
    """The key of each raw asset: its cluster's latest name, plus its ID if two names are equal."""
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
    """The events of an attempt, hour by hour.

    An hour that was complete before stays complete after any later attempt.
    """
    before = _entries_of(opened, attempt)
    for hour in attempt.hours:
        response = HourResponse(attempt.attempt_id, attempt.sequence, attempt.draft.asked_at, hour)
        entry = before.get(hour.hour) or HourEntry(
            attempt.cluster_id, attempt.source, hour.hour, (response,)
        )
        yield hour.hour, hour_event(opened, key, entry, response)
        best = entry.best
        if response.outcome is not Outcome.OK and best and best.outcome is Outcome.OK:
            yield hour.hour, hour_event(opened, key, entry, best)


def _entries_of(opened: OpenHome, attempt: Attempt) -> dict[datetime, HourEntry]:
    """The hours of an attempt, each with all its attempts; empty if the attempt succeeded."""
    if attempt.outcome is Outcome.OK:
        return {}
    entries = open_hours.hour_entries(opened, attempt.window)
    place = (attempt.cluster_id, attempt.source)
    return {e.hour_started_at: e for e in entries if (e.cluster_id, e.source) == place}


def hour_event(
    opened: OpenHome, key: dg.AssetKey, entry: HourEntry, response: HourResponse
) -> HourEvent:
    """A materialization for a complete response; else an observation with the reason."""
    partition = hour_name(entry.hour_started_at)
    if response.outcome is Outcome.OK:
        return dg.AssetMaterialization(
            key, partition=partition, metadata=_landed_metadata(response)
        )
    return dg.AssetObservation(
        key,
        partition=partition,
        description=f"{response.outcome.value}: {response.hour.reason}"[:200],
        metadata=_incomplete_metadata(opened, key, entry, response),
    )


def last_response(entry: HourEntry) -> HourResponse:
    """The latest response about an hour that was queried."""
    return max(entry.responses, key=lambda response: (response.asked_at, response.sequence))


def unreported_complete_hours(
    opened: OpenHome,
    instance: dg.DagsterInstance,
    entries: Sequence[HourEntry],
    assets: Mapping[tuple[str, Source], tuple[dg.AssetKey, dg.PartitionsDefinition[str]]],
) -> Iterator[HourEvent]:
    """Materializations for complete hours whose partitions are not green."""
    for place, (key, partitions) in assets.items():
        landed = [e for e in entries if (e.cluster_id, e.source) == place and is_complete(e)]
        names = [hour_name(entry.hour_started_at) for entry in landed]
        shown = instance.get_status_by_partition(key, names, partitions) or {}
        for name, entry in zip(names, landed, strict=True):
            status = getattr(shown.get(name), "value", None)
            if status not in ("MATERIALIZED", "IN_PROGRESS") and entry.best is not None:
                yield hour_event(opened, key, entry, entry.best)


def unreported_incomplete_hours(
    instance: dg.DagsterInstance,
    entries: Sequence[HourEntry],
    place: tuple[str, Source],
    key: dg.AssetKey,
    in_progress: Set[datetime] = frozenset(),
) -> Iterator[tuple[HourEntry, HourResponse]]:
    """Incomplete hours that were queried and have no observation of their latest response."""
    incomplete = [
        entry
        for entry in entries
        if (entry.cluster_id, entry.source) == place
        and entry.responses
        and not is_complete(entry)
        and entry.hour_started_at not in in_progress
    ]
    for first in range(0, len(incomplete), HOURS_AT_ONCE):
        some = incomplete[first : first + HOURS_AT_ONCE]
        reported = {
            (event.partition, str(event.metadata[ATTEMPT].value))
            for event in _observations(
                instance, key, [hour_name(entry.hour_started_at) for entry in some]
            )
            if ATTEMPT in event.metadata
        }
        for entry in some:
            last = last_response(entry)
            if (hour_name(entry.hour_started_at), last.attempt_id) not in reported:
                yield entry, last


def coverage_observations(
    instance: dg.DagsterInstance, opened: OpenHome, evidence: EvidenceKeys, result: CheckResult
) -> Iterator[dg.AssetObservation]:
    """The coverage status of each hour that is not complete, unless an observation has it."""
    incomplete: dict[dg.AssetKey, list[CoverageStatus]] = {}
    keys = {(cluster_id, source.value): key for (cluster_id, source), key in evidence.items()}
    for status in result.coverage_statuses:
        key = keys.get((status.cluster_id, status.source))
        if key is not None and status.state not in (
            CoverageState.COMPLETE,
            CoverageState.NOT_EXPECTED,
        ):
            incomplete.setdefault(key, []).append(status)
    window = result.period.interval
    entries = {
        (entry.cluster_id, entry.source.value, entry.hour_started_at): entry
        for entry in (open_hours.hour_entries(opened, window) if incomplete else ())
    }
    for key, statuses in incomplete.items():
        observations = [
            _coverage_observation(
                opened, key, s, entries.get((s.cluster_id, s.source, s.hour_started_at))
            )
            for s in statuses
        ]
        yield from islice(_not_logged(instance, key, observations), NEW_STATUSES_LIMIT)


def _coverage_observation(
    opened: OpenHome, key: dg.AssetKey, status: CoverageStatus, entry: HourEntry | None
) -> dg.AssetObservation:
    return dg.AssetObservation(
        key,
        partition=hour_name(status.hour_started_at),
        description=f"coverage {status.state.value}: {status.reason}"[:200],
        metadata={
            COVERAGE_STATUS: status.state.value,
            "reason": status.reason,
            "expected": status.expected_count,
            "seen": status.seen_count,
            "missing": status.expected_count - status.seen_count,
            "first missing": _instant_or_reason(status.first_missing_at),
            **(_remedy(opened, key, entry) if entry else {}),
            # With its attempt, no second observation is written for the same response.
            **({ATTEMPT: last_response(entry).attempt_id} if entry and entry.responses else {}),
        },
    )


def _not_logged(
    instance: dg.DagsterInstance, key: dg.AssetKey, observations: Sequence[dg.AssetObservation]
) -> Iterator[dg.AssetObservation]:
    """The observations that differ from the last one of their partition in Dagster."""
    for first in range(0, len(observations), HOURS_AT_ONCE):
        some = observations[first : first + HOURS_AT_ONCE]
        last: dict[str, Mapping[str, dg.MetadataValue]] = {}
        for event in _observations(instance, key, [str(one.partition) for one in some]):
            if COVERAGE_STATUS in event.metadata:  # the newest first
                last.setdefault(str(event.partition), event.metadata)
        yield from (one for one in some if last.get(str(one.partition)) != one.metadata)


def _observations(
    instance: dg.DagsterInstance, key: dg.AssetKey, names: Sequence[str]
) -> Iterator[dg.AssetObservation]:
    """The observations of these partitions, the newest first."""
    filters = dg.AssetRecordsFilter(asset_key=key, asset_partitions=list(names))
    records = instance.fetch_observations(filters, limit=len(names) * EVENTS_PER_HOUR).records
    for record in records:
        if record.asset_observation and record.asset_observation.partition:
            yield record.asset_observation


def gap_table(
    key: dg.AssetKey, entries: Sequence[HourEntry], backfillable: Mapping[datetime, bool]
) -> str:
    """Incomplete hours, each with a link to its partition."""
    rows = [
        f"| [{hour_name(entry.hour_started_at)}]({partition_link(key, entry.hour_started_at)}) "
        f"| {_outcome(entry)} | {'yes' if backfillable[entry.hour_started_at] else 'no'} |"
        for entry in entries[:LINKS_SHOWN]
    ]
    more = len(entries) - LINKS_SHOWN
    rows += [f"| and {more} more | | |"] if more > 0 else []
    return "\n".join(["| hour | outcome | can be backfilled |", "|---|---|---|", *rows])


def _outcome(entry: HourEntry) -> str:
    best = entry.best
    return table_cell(f"{best.outcome.value}: {best.hour.reason}") if best else "never queried"


def _landed_metadata(response: HourResponse) -> dict[str, dg.MetadataValue]:
    return {
        "dagster/row_count": dg.MetadataValue.int(response.hour.sample_count),
        "series": dg.MetadataValue.int(response.hour.series_count),
        "queried at": dg.MetadataValue.text(format_instant(response.asked_at)),
        ATTEMPT: dg.MetadataValue.text(response.attempt_id),
        **{
            name.replace("_", " "): dg.MetadataValue.int(count)
            for name, count in response.hour.facts.items()
        },
    }


def _incomplete_metadata(
    opened: OpenHome, key: dg.AssetKey, entry: HourEntry, response: HourResponse
) -> dict[str, dg.MetadataValue]:
    expected, seen = _expected_and_seen(opened, entry, response.hour)
    return {
        "outcome": dg.MetadataValue.text(response.outcome.value),
        "reason": dg.MetadataValue.text(response.hour.reason),
        "expected": dg.MetadataValue.text(expected),
        "seen": dg.MetadataValue.text(seen),
        "first missing": dg.MetadataValue.text(_first_missing(entry, response.hour)),
        "queried at": dg.MetadataValue.text(format_instant(response.asked_at)),
        **_remedy(opened, key, entry),
        ATTEMPT: dg.MetadataValue.text(response.attempt_id),
    }


def _remedy(opened: OpenHome, key: dg.AssetKey, entry: HourEntry) -> dict[str, dg.MetadataValue]:
    """Whether an incomplete hour can be backfilled, and the next command."""
    days = open_hours.retention_days(opened, entry.cluster_id)
    backfillable = entry.backfillable(opened.clock.now(), days)
    return {
        "can be backfilled": dg.MetadataValue.text(_backfill_text(entry, backfillable, days)),
        "next command": dg.MetadataValue.md(_next_command(opened, key, entry, backfillable)),
    }


def _expected_and_seen(opened: OpenHome, entry: HourEntry, hour: Hour) -> tuple[str, str]:
    if entry.source is Source.KUBERNETES:
        watched = hour.facts.get("watched_seconds", 0)
        return "3600 s watched without a break", f"{watched} s watched"
    decided = opened.decisions.cluster_in_hour(entry.cluster_id, entry.hour_started_at)
    due = 3600 // decided.sample_interval_seconds if decided else 0
    return (
        f"{due} samples of every series that exists for the whole hour",
        f"{hour.sample_count} samples of {hour.series_count} series",
    )


def _first_missing(entry: HourEntry, hour: Hour) -> str:
    if entry.source is Source.KUBERNETES:
        second = hour.facts.get(FIRST_UNWATCHED)
        at = None if second is None else entry.hour_started_at + timedelta(seconds=second)
        return _instant_or_reason(at)
    if not hour.sample_count:
        return format_instant(entry.hour_started_at)
    counts = hour.by_metric
    absent = [m for m in sorted({*counts, *sentinels()}) if not counts.get(m, (0, 0))[0]]
    return f"no series of {absent[0]}" if absent else _instant_or_reason(None)


def _instant_or_reason(first_missing_at: datetime | None) -> str:
    """The start of the gap, or `unknown`: for some hours only the reason is known."""
    return format_instant(first_missing_at) if first_missing_at else "unknown"


def _backfill_text(entry: HourEntry, backfillable: bool, days: int) -> str:
    if entry.source is Source.KUBERNETES:
        return (
            "yes: the journal may still contain it"
            if backfillable
            else "no: no collector watched this time"
        )
    until = format_instant(entry.hour_started_at + timedelta(days=days))
    return f"yes, until {until}, while the store keeps raw samples" if backfillable else "no"


def _next_command(opened: OpenHome, key: dg.AssetKey, entry: HourEntry, backfillable: bool) -> str:
    hour, cluster = entry.hour_started_at, f"--cluster {entry.cluster_id}"
    window = Interval(hour, hour + HOUR)
    if backfillable:
        command = command_cell(
            opened,
            f"gpu-ledger pull --hours {hours_argument(window)}",
            cluster,
            f"--source {entry.source.value} --all",
        )
        here = f"Or [materialize this partition]({partition_link(key, hour)})."
        return f"{command}\n{here} The sensor hours_due queries it again as well."
    command = command_cell(
        opened,
        f"gpu-ledger accept-gap --source {entry.source.value}",
        cluster,
        f"--from {format_instant(window.started_at)}",
        f"--to {format_instant(window.ended_at)}",
        "--treatment bill_nothing",
        "--reason WHY --by NAME",
    )
    return (
        f"{command}\nThis hour cannot be backfilled. Accept it only if the other source lacks "
        "it as well: `gpu-ledger gaps` lists such hours."
    )


def table_cell(text: str) -> str:
    """The text as one line of a Markdown table, escaped and cut to a readable length."""
    line = " ".join(text.split())
    cut = line if len(line) <= CELL_LIMIT else line[: CELL_LIMIT - 1] + "…"
    return cut.replace("|", "\\|")


def _key_part(name: str) -> str:
    """The name with the letters, digits and underscores that Dagster's keys may have."""
    return "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
