"""The raw schema: every table that dbt reads, with the type of every column.

Put here: names and types, and how an empty or a filled raw table is made.
Not here: the origin of the rows (`warehouse.raw_evidence`, `warehouse.raw_decisions`), or their
meaning (`dbt/models`).

A table is always there and always typed: where nothing has landed it is empty, so that a period
without evidence is counted as one, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

Columns = Mapping[str, str]

_OBSERVED = {"cluster_id": "VARCHAR", "attempt_id": "VARCHAR", "observed_at": "TIMESTAMPTZ"}
_LABELS = "MAP(VARCHAR, VARCHAR)"
_WIDE = "DECIMAL(38,0)"
_BUDGET = {
    "currency": "VARCHAR",
    "budget_nanos": "VARCHAR",
    "workload_kind": "VARCHAR",
    "workload_name": "VARCHAR",
    "label_key": "VARCHAR",
    "label_value": "VARCHAR",
    "actual_steps": "VARCHAR",
    "forecast_steps": "VARCHAR",
}

# Read from Parquet; the key is also the middle part of the files' names.
THANOS_TABLES: dict[str, Columns] = {
    "runs": {
        "cluster_id": "VARCHAR",
        "attempt_id": "VARCHAR",
        "hour_started_at": "TIMESTAMPTZ",
        "metric": "VARCHAR",
        "series_key": "BIGINT",
        "first_offset_ms": "BIGINT",
        "last_offset_ms": "BIGINT",
        "sample_count": "BIGINT",
        "sample_value": "VARCHAR",
    },
    "series": {
        "cluster_id": "VARCHAR",
        "attempt_id": "VARCHAR",
        "series_key": "BIGINT",
        "metric": "VARCHAR",
        "uid": "VARCHAR",
        "pod": "VARCHAR",
        "labels": _LABELS,
    },
    "telemetry": {
        "cluster_id": "VARCHAR",
        "attempt_id": "VARCHAR",
        "hour_started_at": "TIMESTAMPTZ",
        "metric": "VARCHAR",
        "series_key": "BIGINT",
        "reading": "VARCHAR",
        "sample_count": "BIGINT",
        "average_value": "DOUBLE",
        "maximum_value": "DOUBLE",
    },
}

KUBERNETES_TABLES: dict[str, Columns] = {
    "pod_observations": {
        **_OBSERVED,
        "journal_position": "BIGINT",
        "via": "VARCHAR",
        "pod_uid": "VARCHAR",
        "namespace": "VARCHAR",
        "namespace_uid": "VARCHAR",
        "pod_name": "VARCHAR",
        "node_name": "VARCHAR",
        "phase": "VARCHAR",
        "bound_at": "TIMESTAMPTZ",
        "started_at": "TIMESTAMPTZ",
        "ended_at": "TIMESTAMPTZ",
        "deleted": "BOOLEAN",
        "deletion_deadline_at": "TIMESTAMPTZ",
        "restart_count": "BIGINT",
        "owner_kind": "VARCHAR",
        "owner_name": "VARCHAR",
        "workload_kind": "VARCHAR",
        "workload_name": "VARCHAR",
        "reason": "VARCHAR",
        "labels": _LABELS,
    },
    "pod_requests": {
        "cluster_id": "VARCHAR",
        "attempt_id": "VARCHAR",
        "pod_uid": "VARCHAR",
        "resource": "VARCHAR",
        "device_count": "BIGINT",
    },
    "node_observations": {
        **_OBSERVED,
        "journal_position": "BIGINT",
        "via": "VARCHAR",
        "node_uid": "VARCHAR",
        "node_name": "VARCHAR",
        "ready": "BOOLEAN",
        "unschedulable": "BOOLEAN",
        "roles": "VARCHAR[]",
        "labels": _LABELS,
        "deleted": "BOOLEAN",
    },
    "node_resources": {
        "cluster_id": "VARCHAR",
        "attempt_id": "VARCHAR",
        "node_uid": "VARCHAR",
        "node_name": "VARCHAR",
        "observed_at": "TIMESTAMPTZ",
        "resource": "VARCHAR",
        "capacity": "BIGINT",
        "allocatable": "BIGINT",
    },
    "namespace_observations": {
        **_OBSERVED,
        "via": "VARCHAR",
        "namespace": "VARCHAR",
        "namespace_uid": "VARCHAR",
        "deleted": "BOOLEAN",
    },
    "quota_observations": {
        **_OBSERVED,
        "namespace": "VARCHAR",
        "quota_name": "VARCHAR",
        "resource": "VARCHAR",
        "hard": "BIGINT",
        "used": "BIGINT",
    },
    "budget_observations": {
        **_OBSERVED,
        "journal_position": "BIGINT",
        "namespace": "VARCHAR",
        "budget_name": "VARCHAR",
        "created_at": "TIMESTAMPTZ",
        "billing_period": "VARCHAR",
        **_BUDGET,
        "invalid": "VARCHAR",
        "deleted": "BOOLEAN",
    },
    "claim_observations": {
        **_OBSERVED,
        "claim_uid": "VARCHAR",
        "namespace": "VARCHAR",
        "claim_name": "VARCHAR",
        "pod_uids": "VARCHAR[]",
        "driver": "VARCHAR",
        "pool": "VARCHAR",
        "device": "VARCHAR",
        "request_name": "VARCHAR",
        "deleted": "BOOLEAN",
        "admin_access": "BOOLEAN",
        "extended_resource": "BOOLEAN",
        "share_id": "VARCHAR",
        "consumed_capacity": _LABELS,
    },
    "slice_devices": {
        **_OBSERVED,
        "node_name": "VARCHAR",
        "driver": "VARCHAR",
        "pool": "VARCHAR",
        "device": "VARCHAR",
        "product": "VARCHAR",
        "capacity": _LABELS,
        "tainted": "BOOLEAN",
        "deleted": "BOOLEAN",
    },
    "coverage": {
        "cluster_id": "VARCHAR",
        "attempt_id": "VARCHAR",
        "hour_started_at": "TIMESTAMPTZ",
        "watched_from": "TIMESTAMPTZ",
        "watched_until": "TIMESTAMPTZ",
        "list_complete": "BOOLEAN",
    },
    "contradictions": {
        "cluster_id": "VARCHAR",
        "attempt_id": "VARCHAR",
        "observed_at": "TIMESTAMPTZ",
        "resource": "VARCHAR",
        "object_uid": "VARCHAR",
        "what": "VARCHAR",
        "before_value": "VARCHAR",
        "after_value": "VARCHAR",
    },
    "journal_gaps": {
        "cluster_id": "VARCHAR",
        "attempt_id": "VARCHAR",
        "gap_started_at": "TIMESTAMPTZ",
        "gap_ended_at": "TIMESTAMPTZ",
        "reason": "VARCHAR",
    },
}

# Written by Python: manifests, decisions, product facts, and results computed from the evidence.
WRITTEN_TABLES: dict[str, Columns] = {
    "parameters": {
        "billing_period": "VARCHAR",
        "period_started_at": "TIMESTAMPTZ",
        "period_ended_at": "TIMESTAMPTZ",
        "currency": "VARCHAR",
        "decisions_sha256": "VARCHAR",
    },
    "closed_periods": {"billing_period": "VARCHAR"},
    "attempts": {
        "cluster_id": "VARCHAR",
        "source": "VARCHAR",
        "attempt_id": "VARCHAR",
        "sequence": "BIGINT",
        "hour_started_at": "TIMESTAMPTZ",
        "asked_at": "TIMESTAMPTZ",
        "answered_at": "TIMESTAMPTZ",
        "outcome": "VARCHAR",
        "reason": "VARCHAR",
        "series_count": "BIGINT",
        "sample_count": "BIGINT",
        "warning_count": "BIGINT",
        "answer_sha256s": "VARCHAR[]",
        "sample_interval_seconds": "BIGINT",
        "scrape_interval_seconds": "BIGINT",
    },
    "clusters": {
        "cluster_id": "VARCHAR",
        "cluster_name": "VARCHAR",
        "valid_from": "TIMESTAMPTZ",
        "valid_until": "TIMESTAMPTZ",
        "expects_samples": "BOOLEAN",
        "expects_journal": "BOOLEAN",
        "sample_interval_seconds": "BIGINT",
        "scrape_interval_seconds": "BIGINT",
        "is_hub": "BOOLEAN",
    },
    "tenant_intervals": {
        "namespace": "VARCHAR",
        "belongs_to": "VARCHAR",
        "valid_from": "TIMESTAMPTZ",
        "valid_until": "TIMESTAMPTZ",
    },
    "rates": {
        "rate_id": "VARCHAR",
        "cluster_id": "VARCHAR",
        "gpu_class": "VARCHAR",
        "mig_profile": "VARCHAR",
        "currency": "VARCHAR",
        "rate_nanos_per_hour": _WIDE,
        "valid_from": "TIMESTAMPTZ",
        "valid_until": "TIMESTAMPTZ",
        "reason": "VARCHAR",
    },
    "rate_intervals": {
        "cluster_id": "VARCHAR",
        "gpu_class": "VARCHAR",
        "mig_profile": "VARCHAR",
        "rate_id": "VARCHAR",
        "prices_profile": "BOOLEAN",
        "currency": "VARCHAR",
        "rate_nanos_per_hour": _WIDE,
        "valid_from": "TIMESTAMPTZ",
        "valid_until": "TIMESTAMPTZ",
    },
    "budgets": {"tenant": "VARCHAR", "budget_name": "VARCHAR", **_BUDGET},
    "outages": {
        "cluster_id": "VARCHAR",
        "node_name": "VARCHAR",
        "pod_uid": "VARCHAR",
        "started_at": "TIMESTAMPTZ",
        "ended_at": "TIMESTAMPTZ",
        "reason": "VARCHAR",
    },
    "cut_points": {"cut_at": "TIMESTAMPTZ"},
    "accepted_gaps": {
        "cluster_id": "VARCHAR",
        "source": "VARCHAR",
        "started_at": "TIMESTAMPTZ",
        "ended_at": "TIMESTAMPTZ",
        "treatment": "VARCHAR",
        "pod_uid": "VARCHAR",
        "reason": "VARCHAR",
        "decided_by": "VARCHAR",
    },
    "policies": {
        "policy": "VARCHAR",
        "policy_version": "VARCHAR",
        "policy_value": "VARCHAR",
        "valid_from": "TIMESTAMPTZ",
        "valid_until": "TIMESTAMPTZ",
    },
    "resources": {
        "resource": "VARCHAR",
        "resource_key": "VARCHAR",
        "requested_name": "VARCHAR",
        "is_gpu": "BOOLEAN",
    },
    # The part of a device that each claim got, and the pods that share it.
    "claimed_devices": {
        "cluster_id": "VARCHAR",
        "claim_uid": "VARCHAR",
        "driver": "VARCHAR",
        "pool": "VARCHAR",
        "device": "VARCHAR",
        "share_id": "VARCHAR",
        "holding_key": "VARCHAR",
        "resource": "VARCHAR",
    },
    "device_kinds": {
        "labels_sha256": "VARCHAR",
        "resource": "VARCHAR",
        "vendor": "VARCHAR",
        "kind": "VARCHAR",
        "product": "VARCHAR",
        "gpu_class": "VARCHAR",
        "mig_profile": "VARCHAR",
        "mig_geometry": "VARCHAR",
        "compute_share_numerator": "BIGINT",
        "compute_share_denominator": "BIGINT",
        "memory_share_numerator": "BIGINT",
        "memory_share_denominator": "BIGINT",
        "class_compute_unit": "BIGINT",
        "class_memory_unit": "BIGINT",
        "replica_count": "BIGINT",
        "is_claimed": "BOOLEAN",
        "unclassified_reason": "VARCHAR",
    },
    "labelled_cards": {
        "labels_sha256": "VARCHAR",
        "gpu_class": "VARCHAR",
        "card_count": "BIGINT",
    },
    "device_weights": {
        "labels_sha256": "VARCHAR",
        "resource": "VARCHAR",
        "weight_policy": "VARCHAR",
        "weight_numerator": "BIGINT",
        "weight_denominator": "BIGINT",
        "valid_from": "TIMESTAMPTZ",
        "valid_until": "TIMESTAMPTZ",
    },
}

PARQUET_TABLES: dict[str, Columns] = {
    **{f"thanos_{name}": columns for name, columns in THANOS_TABLES.items()},
    **{f"kubernetes_{name}": columns for name, columns in KUBERNETES_TABLES.items()},
}
RAW_TABLES: dict[str, Columns] = {**PARQUET_TABLES, **WRITTEN_TABLES}

# Node label sets are compared by this hash: entries in the order of their names, as JSON.
LABELS_SHA256 = "sha256(cast(to_json(list_sort(map_entries(labels))) as varchar))"
_LABELLED = ("kubernetes_node_observations", "thanos_series")


def create_view_of_files(
    connection: duckdb.DuckDBPyConnection, table: str, files: Sequence[str], where: str = "true"
) -> None:
    """`raw.<table>` as a view of Parquet files, every column of its type; empty without files."""
    columns = ", ".join(
        f"cast({name} as {kind}) as {name}" if files else f"cast(null as {kind}) as {name}"
        for name, kind in PARQUET_TABLES[table].items()
    )
    rows = f"from {_files(files)} where {where}" if files else "where false"
    # Only the labels of nodes are classified; hashing every pod's labels would cost seconds.
    label = f", {_labels_sha256(table)} as labels_sha256" if table in _LABELLED else ""
    connection.execute(f"create view raw.{table} as select *{label} from (select {columns} {rows})")


def create_table(
    connection: duckdb.DuckDBPyConnection, table: str, rows: Iterable[Mapping[str, Any]] = ()
) -> None:
    """`raw.<table>` with these rows."""
    columns = WRITTEN_TABLES[table]
    spelled = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    connection.execute(f"create or replace table raw.{table} ({spelled})")
    insert_rows(connection, f"raw.{table}", columns, rows)


def describe_table(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    description: str,
    columns: Iterable[str],
    descriptions: Mapping[str, str],
) -> None:
    """Comment a table and its columns; a column without a description is an error."""
    connection.execute(f"comment on table {table} is {_literal(description)}")
    for name in columns:
        connection.execute(f"comment on column {table}.{name} is {_literal(descriptions[name])}")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def insert_rows(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    columns: Columns,
    rows: Iterable[Mapping[str, Any]],
) -> None:
    """Insert rows given as mappings; a missing column is an error, not a NULL."""
    import pyarrow as pa  # the image of the portal has no pyarrow

    materialised = list(rows)
    if not materialised:
        return
    arrays = [
        pa.array([row[name] for row in materialised], type=_arrow_type(kind))
        for name, kind in columns.items()
    ]
    incoming = pa.Table.from_arrays(arrays, names=list(columns))
    connection.register("incoming_rows", incoming)
    names = ", ".join(columns)
    connection.execute(f"insert into {table} ({names}) select {names} from incoming_rows")
    connection.unregister("incoming_rows")


def _arrow_type(kind: str) -> pa.DataType:
    import pyarrow as pa  # as above

    return {
        "VARCHAR": pa.string(),
        "VARCHAR[]": pa.list_(pa.string()),
        "BIGINT": pa.int64(),
        "BOOLEAN": pa.bool_(),
        "TIMESTAMPTZ": pa.timestamp("us", tz="UTC"),
        _WIDE: pa.decimal128(38, 0),
    }[kind]


def _files(files: Sequence[str]) -> str:
    listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
    return f"read_parquet([{listed}])"


def _labels_sha256(table: str) -> str:
    if table == "thanos_series":
        return f"case when metric = 'kube_node_labels' then {LABELS_SHA256} end"
    return LABELS_SHA256
