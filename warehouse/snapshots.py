"""Snapshots: the files that the portal opens, one for each tenant and one for the provider.

Put here: which rows each snapshot has, and writing and switching them.
Not here: opening them for a request (`warehouse.snapshot_reader`), or who may read which one.

    snapshots/<hash>.duckdb    tables of the marts, with the rows of one tenant, or of everybody
    snapshots/index.json       the file of the provider and of each tenant

Most rows are hours of pods. `fct_pod_hours` of a snapshot is a view of two tables in the schema
`stored`: the texts of each pod with a number, and its hours with this number instead of the texts.
`pod_days` of a tenant, the sums that pages of whole months show, is such a view of their days, and
`fct_pod_periods` one of the texts alone.

A file is named by the hash of its rows. One whose rows did not change is not written again, and a
file never changes while a request reads it. All snapshots are switched by one rename of the index.

A snapshot of a tenant contains nothing that another tenant's use can change. For example, it has
the coverage status of each hour, but not the number of samples that a cluster had in it. It names
only the clusters in which the tenant had a pod, a namespace or a quota in the period, and the time
until which data is complete is that of these clusters.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from domain.errors import LedgerError, TemporarilyUnavailable
from domain.identity import sha256
from warehouse.about import AboutPeriod
from warehouse.connection import connected, lock_warehouse, thread_count, transaction
from warehouse.content_hash import columns_of, mart_names
from warehouse.home import Home
from warehouse.raw_schema import insert_rows
from warehouse.reports.opened_facts import FactsOfAnotherVersion
from warehouse.reports.usage import costs_of_last_hours
from warehouse.store import UNREADABLE, make_folder, write_whole

INDEX = "index.json"
FORMAT = 11
"""Part of each name: a new version of this module writes every file again."""

SMALL_BLOCKS = "block_size 16384, "
"""The smallest block of DuckDB. With the usual 256 KB a tenant without use would take megabytes."""

POD_HOURS = "fct_pod_hours"
OF_PODS = {POD_HOURS: "hours", "pod_days": "days"}
"""Views of a snapshot, and the stored tables that they join to the texts of pods."""

_OF_PODS = """
    select
        * exclude (number, first_started_at, last_ended_at)
        replace (cast(cost_nanos as decimal(38, 0)) as cost_nanos)
    from stored.{stored}
    inner join stored.pods using (number)
"""
_POD_PERIODS = """
    select
        billing_period,
        tenant,
        cluster_id,
        pod_uid,
        max(workload_kind) as workload_kind,
        max(workload_name) as workload_name,
        max(node_name) as node_name,
        max(gpu_class) as gpu_class,
        max(mig_profile) as mig_profile,
        min(first_started_at) as first_started_at,
        max(last_ended_at) as last_ended_at
    from stored.pods
    group by billing_period, tenant, cluster_id, pod_uid, resource
"""

_HOUR_COLUMNS = """
    billing_period, tenant, belongs_to, cluster_id, hour_started_at, pod_uid, pod_name, node_name,
    workload_kind, workload_name, resource, device_count, gpu_class, mig_profile,
    segment_started_at, billable_seconds, uncertainty_seconds, weight_numerator,
    weight_denominator, currency, cost_nanos
"""
READ_COLUMNS = {
    POD_HOURS: f"""
        {_HOUR_COLUMNS}, segment_ended_at, state, running_seconds, held_seconds,
        lifecycle_seconds, sampled_seconds, compute_share_numerator, compute_share_denominator,
        method, method_reason
    """,
    "fct_gpu_use": """
        billing_period, tenant, cluster_id, node_name, pod_uid, pod_name, device_uuid, gpu_index,
        instance_id, hour_started_at, idle_seconds, idle_nanos
    """,
}
"""Of the two largest marts, the columns that any page reads. A page that needs another one adds it
here."""

_FORECAST_COLUMNS = """
    billing_period, tenant, subject, currency, forecast_nanos, forecast_low_nanos,
    forecast_high_nanos, forecast_method, budget_nanos, has_budget, budget_used_millionths
"""
_POD_DAYS = """
    select
        number, device_count, weight_numerator, weight_denominator,
        date_trunc('day', hour_started_at) as usage_day,
        min(hour_started_at) as hour_started_at,
        min(segment_started_at) as segment_started_at,
        cast(sum(billable_seconds) as bigint) as billable_seconds,
        cast(sum(uncertainty_seconds) as bigint) as uncertainty_seconds,
        cast(sum(cost_nanos) as bigint) as cost_nanos
    from stored.hours
    group by all
    order by number
"""
_POD_USE = """
    select
        billing_period,
        tenant,
        cluster_id,
        pod_uid,
        cast(
            sum(use_millionths_average * allocated_seconds)
            filter (use_millionths_average is not null) as bigint
        ) as used,
        cast(
            sum(allocated_seconds) filter (use_millionths_average is not null) as bigint
        ) as measured_seconds,
        cast(sum(idle_nanos) as bigint) as idle_nanos,
        min(hour_started_at) as first_hour,
        max(hour_started_at) as last_hour,
        max(hour_started_at) filter (not is_idle) as last_busy_hour
    from w.marts.fct_gpu_use
    where tenant <> ''
    group by all
"""
TENANT_MARTS: Mapping[str, str] = {
    "dim_tenants": "select * from marts.dim_tenants where belongs_to = 'tenant'",
    "fct_forecasts": f"select {_FORECAST_COLUMNS} from marts.fct_forecasts "
    "where subject = 'tenant'",
    "fct_outage_credits": "select billing_period, tenant, cluster_id, belongs_to, currency, "
    "credit_nanos from marts.fct_outage_credits where belongs_to = 'tenant'",
    POD_HOURS: f"select {_HOUR_COLUMNS}, segment_ended_at from marts.{POD_HOURS} "
    "where belongs_to = 'tenant'",
    "fct_quotas": "select * from marts.fct_quotas",
    "pod_costs": "from pod_costs",
    "pod_use": _POD_USE,
}
"""Tables of which a tenant has its own rows, and the selection of them. A page that needs another
column adds it here: each column takes at least one block of each file."""

PROVIDER_MARTS = (
    "dim_clusters",
    "dim_devices",
    "dim_nodes",
    "dim_rates",
    "dim_tenants",
    "fct_charges",
    "fct_cluster_hours",
    "fct_device_anomalies",
    "fct_fleet_hours",
    "fct_forecasts",
    "fct_gpu_health",
    "fct_gpu_use",
    "fct_node_class_hours",
    "fct_node_hours",
    "fct_node_share_hours",
    "fct_outage_credits",
    POD_HOURS,
    "fct_quotas",
    "rpt_ccsp_hours",
)


@dataclass(frozen=True, slots=True)
class IssuedDocument:
    """One document of the record: an invoice, a consumption statement or a void."""

    billing_period: str
    tenant: str
    number: str
    document: str
    status: str
    currency: str  # empty on a statement without prices
    billed: str
    issued_at: datetime
    files: Sequence[tuple[str, str]]  # name below the tenant's folder, and its SHA-256


@dataclass(frozen=True, slots=True)
class Correction:
    """A change of a closed period that is recorded, and not on an invoice yet."""

    corrects_period: str
    tenant: str
    currency: str
    cost_nanos: int
    reason: str


@dataclass(frozen=True, slots=True)
class BudgetStep:
    """One step of a budget in one month, and its state."""

    billing_period: str
    tenant: str
    budget: str
    source: str
    workload_kind: str
    workload_name: str
    label_key: str
    label_value: str
    currency: str
    amount_nanos: int
    cost_nanos: int
    forecast_nanos: int
    forecast_method: str
    rate_nanos_per_hour: int
    spent_at: datetime | None
    counted_until: datetime
    step_kind: str
    step_pct: int
    state: str  # not reached, reached or delivered
    reached_at: datetime | None
    delivered_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoppedWorkload:
    """An idle workload that was scaled to zero, and its cost per hour."""

    tenant: str
    workload_kind: str
    workload_name: str
    device_count: int
    stopped_at: datetime
    restored_at: datetime | None
    hourly_cost: str  # empty where the price of one of its pods is unknown
    currency: str
    reason: str


@dataclass(frozen=True, slots=True)
class WrittenSnapshots:
    """The result of `write_snapshots`."""

    tenant_count: int
    written_count: int  # the others had the same rows before


class SnapshotsNotWritten(TemporarilyUnavailable):
    """A step is done, and the snapshots of its result could not be written."""

    code = "PORTAL-001"

    def __init__(self, folder: Path, cause: Exception) -> None:
        said = (
            f"{cause.code} {cause.where}: {cause.seen}"
            if isinstance(cause, LedgerError)
            else str(cause).partition("\n")[0]
        )
        super().__init__(
            where=str(folder),
            seen=f"the step itself is done; snapshots of its result were not written: {said}",
            why="the portal responds with 503 until they are, because older ones would show other "
            "amounts than the ledger",
            remedy=cause.remedy if isinstance(cause, LedgerError) else "gpu-ledger publish",
        )


_PERIODS = {
    "billing_period": "VARCHAR",
    "amounts": "VARCHAR",
    "data_complete_to": "TIMESTAMPTZ",
    "counted_until": "TIMESTAMPTZ",
}
_CHECKED = {"finding_count": "BIGINT", "blocking_count": "BIGINT"}
_FILES = {
    "billing_period": "VARCHAR",
    "tenant": "VARCHAR",
    "number": "VARCHAR",
    "name": "VARCHAR",
    "sha256": "VARCHAR",
}
_TYPES = {
    "str": "VARCHAR",
    "int": "BIGINT",
    "datetime": "TIMESTAMPTZ",
    "datetime | None": "TIMESTAMPTZ",
}
"""Of the fields of a row; a field of another type is no column. Amounts in nanos are decimals."""

# Hours that are not due yet have no status. Where a period was not checked since it was counted,
# the outcomes of its attempts are all that is known.
_COVERAGE = """
    with hours as (
        select
            states.billing_period, states.cluster_id, states.source, states.hour_started_at,
            states.state, states.reason
        from {checked} as states
        inner join periods on states.billing_period = periods.billing_period
        where periods.blocking_count is not null
            and states.hour_started_at < periods.counted_until
        union all
        select
            attempts.billing_period, attempts.cluster_id, attempts.source,
            attempts.hour_started_at,
            case attempts.outcome
                when 'ok' then 'complete' when 'not_asked' then 'missing' else 'degraded'
            end as state,
            attempts.reason
        from marts.fct_coverage as attempts
        inner join periods on attempts.billing_period = periods.billing_period
        where periods.blocking_count is null
            and attempts.hour_started_at < periods.counted_until
    ),

    numbered as (
        select
            *,
            hour_started_at - to_hours(row_number() over (
                partition by billing_period, cluster_id, source, state, reason
                order by hour_started_at
            )) as run
        from hours
    )

    select
        billing_period,
        cluster_id,
        source,
        state,
        reason,
        min(hour_started_at) as started_at,
        max(hour_started_at) + interval 1 hour as ended_at,
        count(*) as hour_count
    from numbered
    group by billing_period, cluster_id, source, state, reason, run
"""
# Every tenant that is known, also without use or namespace of its own any more.
_TENANTS = """
    create table tenants as
    select tenant from of_tenants_dim_tenants union select tenant from documents
    union select tenant from marts.fct_charges where belongs_to = 'tenant'
"""
_TENANT_CLUSTERS = """
    create table tenant_clusters as
    select billing_period, cluster_id, tenant from of_tenants_fct_pod_hours
    union select billing_period, cluster_id, namespace from marts.dim_namespaces
    union select billing_period, cluster_id, tenant from marts.fct_quotas
"""
_TENANT_LABELS = """
    select labels.*, pods.tenant
    from marts.dim_pod_labels as labels
    inner join (
        select distinct billing_period, cluster_id, pod_uid, tenant
        from of_tenants_fct_pod_hours
    ) as pods
        using (billing_period, cluster_id, pod_uid)
"""
_PROVIDER_PERIODS = """
    create view provider_periods as
    select
        periods.*,
        coalesce(
            hours.hour_started_at, periods.counted_until - interval 1 hour
        ) as last_complete_hour_started_at
    from periods
    left join last_complete_hours as hours
        on periods.billing_period = hours.billing_period and hours.tenant = ''
"""
# Complete until the first gap in a cluster of the tenant; a closed period to its end.
_TENANT_PERIODS = """
    with gaps as (
        select billing_period, tenant, min(started_at) as started_at
        from of_tenants_coverage
        where state in ('missing', 'degraded')
        group by billing_period, tenant
    )

    select
        periods.billing_period,
        tenants.tenant,
        periods.amounts,
        periods.counted_until,
        if(
            periods.amounts = 'final', periods.counted_until,
            coalesce(gaps.started_at, periods.counted_until)
        ) as data_complete_to,
        coalesce(
            hours.hour_started_at, periods.counted_until - interval 1 hour
        ) as last_complete_hour_started_at
    from periods
    cross join tenants
    left join last_complete_hours as hours
        on periods.billing_period = hours.billing_period and tenants.tenant = hours.tenant
    left join gaps
        on periods.billing_period = gaps.billing_period and tenants.tenant = gaps.tenant
"""
_NO_STATES = """(
    select billing_period, cluster_id, source, hour_started_at, outcome as state, reason
    from marts.fct_coverage where false
)"""
_ROWS_HASH = "count(*), bit_xor(hash(t)), sum(hash(t))"
"""DuckDB's own hash: a cryptographic one of the rows as text took longer than writing the files."""

_NO_FINDINGS = """
    select
        '' as billing_period, '' as code, '' as name, false as blocks, '' as cluster_id,
        '' as found_where, '' as seen, '' as what_to_do
    where false
"""


def write_snapshots(
    home: Home,
    periods: Sequence[AboutPeriod],
    documents: Sequence[IssuedDocument],
    corrections: Sequence[Correction],
    budget_steps: Sequence[BudgetStep] = (),
    stops: Sequence[StoppedWorkload] = (),
) -> WrittenSnapshots:
    """Write the snapshots whose rows changed, and switch all of them at once.

    Raises FactsOfAnotherVersion where the warehouse lacks a table or column that a page reads.
    """

    make_folder(home.snapshots)
    scratch = home.snapshots / ".scratch.duckdb"
    with lock_warehouse(home):
        scratch.unlink(missing_ok=True)
        try:
            with connected(":memory:") as connection:
                # The rows of a file are written once, without a log.
                connection.execute("set checkpoint_threshold = '1KB'")
                connection.execute(f"attach '{_quoted(scratch)}' as scratch")
                connection.execute(f"attach '{_quoted(home.warehouse_path)}' as w (read_only)")
                owned = _gather(connection, periods, documents, corrections, budget_steps, stops)
                return _write(connection, home.snapshots, owned)
        except (duckdb.CatalogException, duckdb.BinderException) as cause:
            names = tuple(one.billing_period for one in periods)
            said = str(cause).splitlines()[0]
            raise FactsOfAnotherVersion(str(home.warehouse_path), names, said) from cause
        finally:
            scratch.unlink(missing_ok=True)
            scratch.with_name(f"{scratch.name}.wal").unlink(missing_ok=True)


def _write(
    connection: duckdb.DuckDBPyConnection, folder: Path, owned: Sequence[str]
) -> WrittenSnapshots:
    hashes = {table: _rows_by_tenant(connection, table) for table in owned}
    names = {
        tenant: _name(tenant, *(of_table.get(tenant, "") for of_table in hashes.values()))
        for [tenant] in connection.execute("from tenants order by tenant").fetchall()
    }
    beside = ("budget_steps", "coverage", "corrections", "documents", "findings", "pod_costs")
    of_provider = {table: table for table in (*PROVIDER_MARTS, *beside, "stops", "tenant_periods")}
    of_provider["periods"] = "provider_periods"
    provider = _name("", *(_rows_sha256(connection, rows) for rows in of_provider.values()))
    changed = [tenant for tenant, name in names.items() if not (folder / name).is_file()]
    is_new = not (folder / provider).is_file()
    if changed or is_new:
        _store_pod_hours(connection)
    own = "select * from scratch.of_tenants_{} where tenant = $tenant"
    select = {table: own.format(table) for table in owned if table != POD_HOURS}
    columns = columns_of(connection, "main", f"of_tenants_{POD_HOURS}")
    del columns["segment_ended_at"]  # pages read the end of a pod only, which `stored.pods` has
    numbers = _numbers_by_tenant(connection) if changed else {}

    def write(tenant: str) -> None:
        stored = _stored_pod_hours(columns, *numbers.get(tenant, (1, 0)))
        with connection.cursor() as cursor:
            path = folder / names[tenant]
            _write_file(cursor, path, select | stored, {"tenant": tenant}, SMALL_BLOCKS)

    # A file this small is written by one thread; several files are written at a time.
    connection.execute("set threads = 1")
    with ThreadPoolExecutor(thread_count()) as pool:
        list(pool.map(write, changed))
    connection.execute("reset threads")
    if is_new:
        del of_provider[POD_HOURS]
        select = {table: f"select * from {rows}" for table, rows in of_provider.items()}
        columns = columns_of(connection, "main", POD_HOURS)
        [(pod_count,)] = connection.execute("select count(*) from stored.pods").fetchall()
        stored = _stored_pod_hours(columns, 1, pod_count)
        del stored["stored.days"]
        _write_file(connection, folder / provider, select | stored, {})
    _switch(folder, provider, names)
    return WrittenSnapshots(len(names), len(changed) + is_new)


def _gather(
    connection: duckdb.DuckDBPyConnection,
    periods: Sequence[AboutPeriod],
    documents: Sequence[IssuedDocument],
    corrections: Sequence[Correction],
    budget_steps: Sequence[BudgetStep],
    stops: Sequence[StoppedWorkload],
) -> list[str]:
    """Views and tables with every row that any snapshot has, under the names in the files.

    The tables of tenants are returned.
    """
    connection.execute("use w")
    marts = set(mart_names(connection))
    quality = set(mart_names(connection, "quality"))
    connection.execute("use scratch")
    connection.execute("create schema marts")
    connection.execute("create schema stored")
    others = ("dim_namespaces", "dim_pod_labels", "fct_coverage")
    for mart in sorted({*TENANT_MARTS, *PROVIDER_MARTS, *others} & marts):
        columns = READ_COLUMNS.get(mart, "*")
        connection.execute(f"create view marts.{mart} as select {columns} from w.marts.{mart}")
    connection.execute("use scratch.marts")
    statuses = "w.quality.coverage_statuses" if "coverage_statuses" in quality else ""
    for table, rows in costs_of_last_hours(statuses).items():
        connection.execute(f"create table scratch.main.{table} as {rows}")
    connection.execute("use scratch")
    _table(connection, "periods", _PERIODS | _CHECKED, (_fields(one) for one in periods))
    _table(
        connection, "documents", _columns_of(IssuedDocument), (_fields(one) for one in documents)
    )
    files = (
        {**_fields(one), "name": name, "sha256": digest}
        for one in documents
        for name, digest in one.files
    )
    _table(connection, "document_files", _FILES, files)
    _table(
        connection, "corrections", _columns_of(Correction), (_fields(one) for one in corrections)
    )
    _table(
        connection, "budget_steps", _columns_of(BudgetStep), (_fields(one) for one in budget_steps)
    )
    _table(connection, "stops", _columns_of(StoppedWorkload), (_fields(one) for one in stops))
    checked = _COVERAGE.format(checked=statuses or _NO_STATES)
    connection.execute(f"create table coverage as {checked}")
    findings = "from w.quality.findings" if "findings" in quality else _NO_FINDINGS
    connection.execute(f"create view findings as {findings}")
    for mart in PROVIDER_MARTS:
        connection.execute(f"create view {mart} as from marts.{mart}")
    connection.execute(f"create view of_tenants_{POD_HOURS} as {TENANT_MARTS[POD_HOURS]}")
    connection.execute(_TENANT_CLUSTERS)
    shared = "select * from {} inner join tenant_clusters using (billing_period, cluster_id)"
    beside = ("budget_steps", "documents", "document_files", "stops")
    selections = {
        **TENANT_MARTS,
        **{table: f"from {table}" for table in beside},
        **{table: shared.format(table) for table in ("coverage", "dim_clusters")},
        "dim_pod_labels": _TENANT_LABELS,
    }
    del selections[POD_HOURS]
    for table, selection in selections.items():
        _own_rows(connection, table, selection)
    connection.execute(_TENANTS)
    connection.execute(_PROVIDER_PERIODS)
    _own_rows(connection, "periods", _TENANT_PERIODS)
    connection.execute("create view tenant_periods as from of_tenants_periods")
    return [POD_HOURS, *selections, "periods"]


def _own_rows(connection: duckdb.DuckDBPyConnection, table: str, selection: str) -> None:
    """The rows of all tenants, each tenant's side by side: a file is written without reading all
    others'."""
    connection.execute(f"create table of_tenants_{table} as {selection} order by tenant")


def _store_pod_hours(connection: duckdb.DuckDBPyConnection) -> None:
    """Number the pods, those of a tenant in one range, and sort all hours by this number.

    A text takes as long to write as all numbers of a row together, and a row has 16 texts. Rows are
    compared by a hash of their texts: only rows of one pod need different hashes. The cost of a
    pod's hour is stored as BIGINT, which is written in half the time; the view has the mart's type.
    """
    columns = columns_of(connection, "marts", POD_HOURS)
    texts = _texts(columns)
    others = ", ".join(f"any_value({name}) as {name}" for name in texts if name != "pod_uid")
    rest = ", ".join(
        f"cast({name} as bigint) as {name}" if kind.startswith("DECIMAL") else name
        for name, kind in columns.items()
        if name not in texts
    )
    hours = f"(select *, hash({', '.join(texts)}) as texts_hash from marts.{POD_HOURS})"
    connection.execute(
        "create table stored.pods as select row_number() over () as number, * from "
        f"(select pod_uid, texts_hash, {others}, min(segment_started_at) as first_started_at, "
        f"max(segment_ended_at) as last_ended_at from {hours} group by pod_uid, texts_hash "
        "order by belongs_to, tenant, pod_uid, texts_hash)"
    )
    connection.execute(
        f"create table stored.hours as select number, {rest} from {hours} "
        "inner join (select number, pod_uid, texts_hash from stored.pods) "
        "using (pod_uid, texts_hash) order by number"
    )
    connection.execute(f"create table stored.days as {_POD_DAYS}")


def _numbers_by_tenant(connection: duckdb.DuckDBPyConnection) -> dict[str, tuple[int, int]]:
    """The first and the last number of each tenant's own pods."""
    rows = connection.execute(
        "select tenant, min(number), max(number) from stored.pods where belongs_to = 'tenant' "
        "group by tenant"
    ).fetchall()
    return {tenant: (first, last) for tenant, first, last in rows}


def _stored_pod_hours(columns: Mapping[str, str], first: int, last: int) -> dict[str, str]:
    """The stored tables of a snapshot with some columns of pods in a range, with new numbers.

    Numbers of the range itself would say how many pods other tenants have.
    """
    texts = _texts(columns)
    rest = [name for name in columns if name not in texts]
    number = f"number - {first - 1} as number"
    selections = {
        "pods": f"{number}, {', '.join(texts)}, first_started_at, last_ended_at",
        "hours": f"{number}, {', '.join(rest)}",
        "days": f"* replace ({number})",
    }
    return {
        f"stored.{table}": f"select {selection} from scratch.stored.{table} "
        f"where number between {first} and {last}"
        for table, selection in selections.items()
    }


def _texts(columns: Mapping[str, str]) -> list[str]:
    return [name for name, kind in columns.items() if kind == "VARCHAR"]


def _rows_sha256(connection: duckdb.DuckDBPyConnection, table: str) -> str:
    """A hash of a table's rows in any order. Only files of one machine are compared by it."""
    [row] = connection.execute(f"select {_ROWS_HASH} from {table} as t").fetchall()
    return sha256([_columns(connection, table), *map(str, row)])


def _rows_by_tenant(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    rows = connection.execute(
        f"select tenant, {_ROWS_HASH} from of_tenants_{table} as t group by tenant"
    ).fetchall()
    columns = _columns(connection, f"of_tenants_{table}")
    return {row[0]: sha256([columns, *map(str, row)]) for row in rows}


def _columns(connection: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    described = connection.execute(f"describe {table}").fetchall()
    return [f"{name} {kind}" for name, kind, *_ in described]


def _name(tenant: str, *hashes: str) -> str:
    return f"{sha256([FORMAT, tenant, *hashes])[:32]}.duckdb"


def _write_file(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    select: Mapping[str, str],
    parameters: Mapping[str, str],
    options: str = "",
) -> None:
    """Write the selected tables, and the views of stored ones."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    snapshot = f"snapshot_{path.stem}"
    connection.execute(
        f"attach '{_quoted(unfinished)}' as {snapshot} ({options}storage_version 'latest')"
    )
    with transaction(connection):
        connection.execute(f"create schema {snapshot}.stored")
        for table, statement in select.items():
            own = parameters if "$tenant" in statement else {}
            connection.execute(f"create table {snapshot}.{table} as {statement}", own)
        connection.execute(f"use {snapshot}")
        for view, stored in OF_PODS.items():
            if f"stored.{stored}" in select:
                connection.execute(f"create view {view} as {_OF_PODS.format(stored=stored)}")
        connection.execute(f"create view fct_pod_periods as {_POD_PERIODS}")
    connection.execute("use scratch")
    connection.execute(f"detach {snapshot}")
    unfinished.replace(path)


def _files_named_in(index: Path) -> set[str]:
    """None where it is damaged: it is then written again."""
    try:
        named = json.loads(index.read_bytes())
        return {str(named["provider"]), *map(str, named["tenants"].values())}
    except (FileNotFoundError, *UNREADABLE):
        return set()


def _switch(folder: Path, provider: str, names: Mapping[str, str]) -> None:
    """Name the files of this version; those of the version before are kept for its readers."""
    index = folder / INDEX
    before = _files_named_in(index)
    now = {"format": FORMAT, "provider": provider, "tenants": dict(sorted(names.items()))}
    write_whole(index, (json.dumps(now, indent=1) + "\n").encode())
    kept = {provider, *names.values(), *before}
    for path in folder.glob("*.duckdb"):
        if path.name not in kept:
            path.unlink(missing_ok=True)


def remove_index(home: Home) -> None:
    """Leave no snapshot that could be read. The files stay, for those that are written next."""
    (home.snapshots / INDEX).unlink(missing_ok=True)


def _table(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    columns: Mapping[str, str],
    rows: Iterable[Mapping[str, Any]],
) -> None:
    spelled = ", ".join(f"{column} {kind}" for column, kind in columns.items())
    connection.execute(f"create table {name} ({spelled})")
    insert_rows(connection, name, columns, rows)


def _columns_of(kind: Any) -> dict[str, str]:
    return {
        name: "DECIMAL(38,0)" if "nanos" in name else _TYPES[field.type]
        for name, field in kind.__dataclass_fields__.items()
        if field.type in _TYPES
    }


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
