"""Showing in the strips what the hour ledger knows, also of hours that Dagster never asked for.

Put here: comparing the ledger with Dagster's memory, one source at a time.
Not here: what an hour shows (`assets.hour_events`), or asking for it.

The command line pulls, too; and Dagster's memory may be lost, or restored from an older day. The
strips follow the ledger: an hour that landed becomes green, one that did not says why. The pages of
a partition list only what a run said: so what is wrong with an hour is always said by a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import datetime

import dagster as dg

from domain.decisions import Source
from ingestion.evidence.hour_ledger import HourEntry, HourResponse
from orchestration.assets.hour_events import ATTEMPT, HourEvent, hour_event, last_response
from orchestration.checks import is_whole
from orchestration.open_home import OpenHome
from orchestration.partitions import hour_name

HOURS_AT_ONCE = 200
"""Hours that are looked up together, and hours that one run says something about."""

MARKS_PER_HOUR = 5
"""Marks of one hour that are read back; with more than these it is written once more."""


def whole_hours(
    opened: OpenHome,
    instance: dg.DagsterInstance,
    entries: Sequence[HourEntry],
    assets: Mapping[tuple[str, Source], tuple[dg.AssetKey, dg.PartitionsDefinition[str]]],
) -> Iterator[HourEvent]:
    """Events for hours that landed whole, and are not green."""
    for place, (key, partitions) in assets.items():
        landed = [e for e in entries if (e.cluster_id, e.source) == place and is_whole(e)]
        names = [hour_name(entry.hour_started_at) for entry in landed]
        shown = instance.get_status_by_partition(key, names, partitions) or {}
        for name, entry in zip(names, landed, strict=True):
            status = getattr(shown.get(name), "value", None)
            if status not in ("MATERIALIZED", "IN_PROGRESS") and entry.best is not None:
                yield hour_event(opened, key, entry, entry.best)


def unreported_hours(
    instance: dg.DagsterInstance,
    entries: Sequence[HourEntry],
    place: tuple[str, Source],
    key: dg.AssetKey,
    busy: Set[datetime] = frozenset(),
) -> Iterator[tuple[HourEntry, HourResponse]]:
    """Hours that were asked and are not whole, whose last answer no mark in the strip shows."""
    bad = [
        entry
        for entry in entries
        if (entry.cluster_id, entry.source) == place
        and entry.responses
        and not is_whole(entry)
        and entry.hour_started_at not in busy
    ]
    for first in range(0, len(bad), HOURS_AT_ONCE):
        some = bad[first : first + HOURS_AT_ONCE]
        marked = _marked(instance, key, [hour_name(entry.hour_started_at) for entry in some])
        for entry in some:
            last = last_response(entry)
            if (hour_name(entry.hour_started_at), last.attempt_id) not in marked:
                yield entry, last


def _marked(
    instance: dg.DagsterInstance, key: dg.AssetKey, names: Sequence[str]
) -> set[tuple[str, str]]:
    """Which attempts the marks of these hours speak of."""
    filters = dg.AssetRecordsFilter(asset_key=key, asset_partitions=list(names))
    records = instance.fetch_observations(filters, limit=len(names) * MARKS_PER_HOUR).records
    marks = [record.asset_observation for record in records if record.asset_observation]
    return {
        (mark.partition, str(mark.metadata[ATTEMPT].value))
        for mark in marks
        if mark.partition and ATTEMPT in mark.metadata
    }
