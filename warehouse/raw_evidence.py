"""Evidence for one billing period, as the raw schema of a fresh build.

Put here: which files a period needs, and the views over them.
Not here: the types (`warehouse.raw_schema`), decisions (`warehouse.raw_decisions`), classification
(`warehouse.device_tables`).

A period needs the evidence of its own hours, one hour on each side of them (a sample has
neighbours), the last complete list of the journal before it and all journal after that list;
never the whole past.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import duckdb

from domain.billing_period import BillingPeriod
from domain.decisions.rows import Source
from domain.errors import TemporarilyUnavailable
from domain.interval import HOUR, Interval, format_instant
from warehouse.attempt_hours import AttemptHour, attempt_hours, inside
from warehouse.derived_files import DerivedFolder
from warehouse.home import Home
from warehouse.raw_schema import (
    KUBERNETES_TABLES,
    LABELS_SHA256,
    THANOS_TABLES,
    create_table,
    create_view_of_files,
)

LOOK_BACK = timedelta(days=35)
"""A complete list is searched this far back. A collector lists all objects every hour; without
a complete list for a month, the journal has a gap that no older list could close."""


def hours_taken(period: BillingPeriod) -> Mapping[Source, Interval]:
    """The hours from which a period can need evidence, by source."""
    around = Interval(period.started_at - HOUR, period.ended_at + HOUR)
    listed = Interval(period.started_at - LOOK_BACK, around.ended_at)
    return {Source.THANOS: around, Source.KUBERNETES: listed}


_TABLES = {"thanos": THANOS_TABLES, "kubernetes": KUBERNETES_TABLES}


class RunsMissing(TemporarilyUnavailable):
    """An attempt is landed, and its decoded Parquet is not there."""

    code = "FACTS-001"

    def __init__(self, attempt: AttemptHour, folder: Path) -> None:
        super().__init__(
            where=f"{folder}, attempt {attempt.attempt_id[:12]}",
            seen=f"{attempt.source} has a response for {format_instant(attempt.hour_started_at)} "
            f"({attempt.row['sample_count']} samples), and no file has its rows",
            why="counting without them would take landed evidence for a gap",
            remedy="gpu-ledger rebuild",
        )


# The cards of a node without feature discovery are named only in its ResourceSlices.
_PRODUCTS_OF_SLICES = f"""
    alter view raw.kubernetes_node_observations rename to kubernetes_node_observations_as_observed;
    create view raw.kubernetes_node_observations as
    with stated as (
        select cluster_id, node_name,
            case driver when 'gpu.nvidia.com' then 'nvidia.com/gpu.product'
                when 'gpu.amd.com' then 'amd.com/gpu.product-name' end as label,
            replace(
                any_value(product), ' ', case driver when 'gpu.amd.com' then '_' else '-' end
            ) as product
        from raw.kubernetes_slice_devices
        where product <> '' and driver in ('gpu.nvidia.com', 'gpu.amd.com')
        group by cluster_id, node_name, driver
        having count(distinct product) = 1
    ),
    labelled as (
        select observed.* exclude (labels, labels_sha256),
            case
                when stated.product is null or map_contains(observed.labels, stated.label)
                    then observed.labels
                else map_concat(observed.labels, map([stated.label], [stated.product]))
            end as labels
        from raw.kubernetes_node_observations_as_observed as observed
        left join stated using (cluster_id, node_name)
    )
    select *, {LABELS_SHA256} as labels_sha256 from labelled
"""

StoodOn = Callable[[AttemptHour], bool]


def create_raw_evidence(
    connection: duckdb.DuckDBPyConnection,
    home: Home,
    period: BillingPeriod,
    stood_on: StoodOn | None = None,
) -> None:
    """Create `raw.attempts` and a view for every decoded table.

    `stood_on`: whether an hour of an attempt belongs to the basis of a closed period; others are
    left out.
    """
    connection.execute("create schema if not exists raw")
    needed = evidence_of(connection, home, period, stood_on)
    # The file of a day has all attempts of that day.
    among = "true" if stood_on is None else "attempt_id in (select attempt_id from raw.attempts)"
    create_table(connection, "attempts", (hour.row for hour in needed))
    for source, tables in _TABLES.items():
        attempts = sorted({(h.cluster_id, h.attempt_id) for h in needed if h.source == source})
        for table in tables:
            files = _existing(home.runs / source, attempts, table)
            create_view_of_files(connection, f"{source}_{table}", files, among)
    connection.execute(_PRODUCTS_OF_SLICES)


def evidence_of(
    connection: duckdb.DuckDBPyConnection,
    home: Home,
    period: BillingPeriod,
    stood_on: StoodOn | None = None,
) -> list[AttemptHour]:
    """The hours of attempts from which a period is counted."""
    everything = attempt_hours(home.landing_store())
    if stood_on is not None:
        everything = [hour for hour in everything if stood_on(hour)]
    taken = hours_taken(period)
    around, listed = taken[Source.THANOS], taken[Source.KUBERNETES]
    needed = inside(everything, around)
    before = Interval(listed.started_at, period.started_at)
    for journal in _journals(inside(everything, before)).values():
        since = _last_complete_list(connection, home.runs / "kubernetes", journal)
        since_list = Interval(min(since, around.started_at), around.started_at)
        needed += inside(journal, since_list)
    _require_files(home, needed)
    return sorted(needed, key=lambda h: (h.cluster_id, h.source, h.hour_started_at, h.sequence))


def _journals(hours: Iterable[AttemptHour]) -> dict[str, list[AttemptHour]]:
    found: defaultdict[str, list[AttemptHour]] = defaultdict(list)
    for hour in hours:
        if hour.source == "kubernetes" and hour.usable:
            found[hour.cluster_id].append(hour)
    return found


def _last_complete_list(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    journal: Sequence[AttemptHour],
) -> datetime:
    """The hour of the last complete list before the period; without one, the earliest hour."""
    attempts = sorted({(hour.cluster_id, hour.attempt_id) for hour in journal})
    files = _existing(folder, attempts, "coverage")
    earliest = min(hour.hour_started_at for hour in journal)
    if not files:
        return earliest
    row = connection.execute(
        "select max(hour_started_at) from read_parquet($files) "
        "where list_complete and list_contains($attempts, attempt_id)",
        {"files": files, "attempts": [attempt_id for _, attempt_id in attempts]},
    ).fetchone()
    return row[0] if row and row[0] is not None else earliest


def _require_files(home: Home, needed: Iterable[AttemptHour]) -> None:
    present: dict[tuple[str, str], set[str]] = {}
    for hour in needed:
        key = (hour.source, hour.cluster_id)
        if key not in present:
            present[key] = DerivedFolder.of(home.runs, *key).present()
        if hour.row["outcome"] == "ok" and hour.attempt_id not in present[key]:
            raise RunsMissing(hour, home.runs.joinpath(*key))


def _existing(folder: Path, attempts: Iterable[tuple[str, str]], table: str) -> list[str]:
    by_cluster: defaultdict[str, list[str]] = defaultdict(list)
    for cluster, attempt in attempts:
        by_cluster[cluster].append(attempt)
    return [
        str(path)
        for cluster, names in sorted(by_cluster.items())
        for path in DerivedFolder(folder / cluster).files(names, table)
    ]
