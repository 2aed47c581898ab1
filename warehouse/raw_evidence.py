"""Evidence for one billing period, as the raw schema of a fresh build.

Put here: which files a period needs, and the views over them.
Not here: the types (`warehouse.raw_schema`), decisions (`warehouse.raw_decisions`), classification
(`warehouse.device_tables`).

A period needs the evidence of its own hours and of one hour on each side (runs of samples cross
its limits), the last complete list of the journal before it, and the journal after that list. It
never needs all evidence.
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
from warehouse.attempt_hours import AttemptHour, attempt_hours, hours_in
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
"""How far before the period a complete list is searched. A collector lists all objects every hour;
if a month has no complete list, the journal has a gap that no older list can close."""


def evidence_windows(period: BillingPeriod) -> Mapping[Source, Interval]:
    """The windows from which a period can need evidence, by source."""
    sample_window = Interval(period.started_at - HOUR, period.ended_at + HOUR)
    journal_window = Interval(period.started_at - LOOK_BACK, sample_window.ended_at)
    return {Source.THANOS: sample_window, Source.KUBERNETES: journal_window}


_TABLES = {"thanos": THANOS_TABLES, "kubernetes": KUBERNETES_TABLES}


class RunsMissing(TemporarilyUnavailable):
    """An attempt was landed, and its decoded Parquet file is missing."""

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

HourPredicate = Callable[[AttemptHour], bool]


def create_raw_evidence(
    connection: duckdb.DuckDBPyConnection,
    home: Home,
    period: BillingPeriod,
    is_in_basis: HourPredicate | None = None,
) -> None:
    """Create `raw.attempts` and a view for every decoded table.

    With `is_in_basis`, only the hours of attempts in the basis of a closed period are read.
    """
    connection.execute("create schema if not exists raw")
    needed = evidence_of(connection, home, period, is_in_basis)
    # The file of a day has all attempts of that day.
    condition = (
        "true" if is_in_basis is None else "attempt_id in (select attempt_id from raw.attempts)"
    )
    create_table(connection, "attempts", (hour.row for hour in needed))
    for source, tables in _TABLES.items():
        attempts = sorted({(h.cluster_id, h.attempt_id) for h in needed if h.source == source})
        for table in tables:
            files = _existing_files(home.runs / source, attempts, table)
            create_view_of_files(connection, f"{source}_{table}", files, condition)
    connection.execute(_PRODUCTS_OF_SLICES)


def evidence_of(
    connection: duckdb.DuckDBPyConnection,
    home: Home,
    period: BillingPeriod,
    is_in_basis: HourPredicate | None = None,
) -> list[AttemptHour]:
    """The hours of attempts that a period needs."""
    hours = attempt_hours(home.landing_store())
    if is_in_basis is not None:
        hours = [hour for hour in hours if is_in_basis(hour)]
    windows = evidence_windows(period)
    sample_window, journal_window = windows[Source.THANOS], windows[Source.KUBERNETES]
    needed = hours_in(hours, sample_window)
    before = Interval(journal_window.started_at, period.started_at)
    for journal in _journals(hours_in(hours, before)).values():
        last_list_at = _last_complete_list(connection, home.runs / "kubernetes", journal)
        list_window = Interval(
            min(last_list_at, sample_window.started_at), sample_window.started_at
        )
        needed += hours_in(journal, list_window)
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
    files = _existing_files(folder, attempts, "coverage")
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


def _existing_files(folder: Path, attempts: Iterable[tuple[str, str]], table: str) -> list[str]:
    by_cluster: defaultdict[str, list[str]] = defaultdict(list)
    for cluster, attempt in attempts:
        by_cluster[cluster].append(attempt)
    return [
        str(path)
        for cluster, names in sorted(by_cluster.items())
        for path in DerivedFolder(folder / cluster).files(names, table)
    ]
