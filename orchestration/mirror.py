"""Showing in the strips what the hour ledger knows, also of hours that Dagster never asked for.

Put here: comparing the ledger with Dagster's memory, one witness at a time.
Not here: what an hour shows (`assets.hour_events`), or asking for it.

The command line pulls, too; and Dagster's memory may be lost, or restored from an older day. The
strips follow the ledger: an hour that landed becomes green, one that did not says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import dagster as dg

from domain.decisions import Source
from ingestion.hours import HourEntry
from orchestration.assets.hour_events import HourEvent, hour_event
from orchestration.checks import is_whole
from orchestration.open_home import OpenHome
from orchestration.partitions import hour_name

Statuses = Mapping[str, object]


def unknown_hours(
    opened: OpenHome,
    instance: dg.DagsterInstance,
    entries: Sequence[HourEntry],
    assets: Mapping[tuple[str, Source], tuple[dg.AssetKey, dg.PartitionsDefinition[str]]],
    told_after: datetime | None,
) -> Iterator[HourEvent]:
    """Events for hours of which Dagster shows another thing than the ledger, oldest first.

    `told_after`: hours that are not whole are told once, as far as anybody remembers.
    """
    for place, (key, partitions) in assets.items():
        told = [e for e in entries if (e.cluster_id, e.source) == place and e.told]
        names = [hour_name(entry.hour_started_at) for entry in told]
        shown = instance.get_status_by_partition(key, names, partitions) or {}
        for name, entry in zip(names, told, strict=True):
            if event := _unknown(opened, key, entry, shown.get(name), told_after):
                yield event


def _unknown(
    opened: OpenHome,
    key: dg.AssetKey,
    entry: HourEntry,
    status: object,
    told_after: datetime | None,
) -> HourEvent | None:
    shown = getattr(status, "value", None)
    if shown == "IN_PROGRESS" or entry.best is None:
        return None
    if is_whole(entry):
        return None if shown == "MATERIALIZED" else hour_event(opened, key, entry, entry.best)
    last = max(entry.told, key=lambda told: (told.asked_at, told.sequence))
    is_news = told_after is None or last.asked_at > told_after
    return hour_event(opened, key, entry, last) if shown is None and is_news else None
