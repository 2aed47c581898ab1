"""The Parquet tables that a journal is decoded into: their names, columns and types.

Put here: names and types of columns. Not here: the rows (`lifecycle_rows`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from warehouse.manifest import Attempt

# Column types by a short name, so that the forms below read as a table. `time` is UTC.
_COLUMNS: Mapping[str, Mapping[str, str]] = {
    # One row per observation of a pod. `deleted`: this observation says that the pod is gone;
    # it was last known to be there at `last_seen_at`.
    "pod_observations": {
        "observed_at": "time",
        "journal_position": "whole",
        "via": "text",
        "pod_uid": "text",
        "namespace": "text",
        "namespace_uid": "text",
        "pod_name": "text",
        "node_name": "text",
        "phase": "text",
        "bound_at": "time",
        "started_at": "time",
        "ended_at": "time",
        "deleted": "flag",
        "deletion_deadline_at": "time",
        "restart_count": "whole",
        "owner_kind": "text",
        "owner_name": "text",
        "workload_kind": "text",
        "workload_name": "text",
        "reason": "text",
        "labels": "labels",
        "last_seen_at": "time",
    },
    # One row per pod and resource: the effective request, as the scheduler counts it.
    "pod_requests": {"pod_uid": "text", "resource": "text", "device_count": "whole"},
    "node_observations": {
        "observed_at": "time",
        "journal_position": "whole",
        "via": "text",
        "node_uid": "text",
        "node_name": "text",
        "ready": "flag",
        "unschedulable": "flag",
        "roles": "texts",
        "labels": "labels",
        "deleted": "flag",
    },
    "node_resources": {
        "node_uid": "text",
        "node_name": "text",
        "observed_at": "time",
        "resource": "text",
        "capacity": "whole",
        "allocatable": "whole",
    },
    "namespace_observations": {
        "observed_at": "time",
        "via": "text",
        "namespace": "text",
        "namespace_uid": "text",
        "deleted": "flag",
    },
    "quota_observations": {
        "observed_at": "time",
        "namespace": "text",
        "quota_name": "text",
        "resource": "text",
        "hard": "whole",
        "used": "whole",
    },
    # One row per observation of a GpuBudget; its values are missing where a row of budgets.csv with
    # them would be refused, for the reason in `invalid`.
    "budget_observations": {
        "observed_at": "time",
        "journal_position": "whole",
        "namespace": "text",
        "budget_name": "text",
        "created_at": "time",
        "billing_period": "text",
        "currency": "text",
        "budget_nanos": "text",
        "workload_kind": "text",
        "workload_name": "text",
        "label_key": "text",
        "label_value": "text",
        "actual_steps": "text",
        "forecast_steps": "text",
        "invalid": "text",
        "deleted": "flag",
    },
    # One row per claim, observation and device; a claim without a device holds nothing.
    "claim_observations": {
        "observed_at": "time",
        "claim_uid": "text",
        "namespace": "text",
        "claim_name": "text",
        "pod_uids": "texts",
        "driver": "text",
        "pool": "text",
        "device": "text",
        "request_name": "text",
        "deleted": "flag",
        "admin_access": "flag",
        "extended_resource": "flag",
        "device_class": "text",
        # Set where several claims share the device: this claim has so much of each dimension.
        "share_id": "text",
        "consumed_capacity": "labels",
    },
    # One row per device that a node's driver offers to claims.
    "slice_devices": {
        "observed_at": "time",
        "node_name": "text",
        "driver": "text",
        "pool": "text",
        "device": "text",
        "device_type": "text",
        "product": "text",
        "profile": "text",
        "device_uuid": "text",
        "parent_uuid": "text",
        "memory": "text",
        "capacity": "labels",
        "allows_multiple_allocations": "flag",
        "tainted": "flag",
        "deleted": "flag",
    },
    # The intervals in which the watch of the pods was unbroken, clipped to the hour.
    "coverage": {
        "hour_started_at": "time",
        "watched_from": "time",
        "watched_until": "time",
        "list_complete": "flag",
    },
    "journal_gaps": {"gap_started_at": "time", "gap_ended_at": "time", "reason": "text"},
    # The same for every resource that is watched.
    "resource_gaps": {
        "resource": "text",
        "gap_started_at": "time",
        "gap_ended_at": "time",
        "reason": "text",
    },
    "contradictions": {
        "observed_at": "time",
        "resource": "text",
        "object_uid": "text",
        "what": "text",
        "before_value": "text",
        "after_value": "text",
    },
}

TABLES = tuple(_COLUMNS)


def filled(table: str, attempt: Attempt, rows: Sequence[dict[str, Any]]) -> pa.Table:
    """A table of an attempt with these rows; a missing value is null."""
    named = {"cluster_id": attempt.cluster_id, "attempt_id": attempt.attempt_id}
    return pa.Table.from_pylist([named | row for row in rows], schema=table_schema(table))


def table_schema(table: str) -> pa.Schema:
    """The columns of a table; every table begins with its cluster and its attempt."""
    types = {
        "time": pa.timestamp("us", tz="UTC"),
        "text": pa.string(),
        "whole": pa.int64(),
        "flag": pa.bool_(),
        "texts": pa.list_(pa.string()),
        "labels": pa.map_(pa.string(), pa.string()),
    }
    columns = {"cluster_id": "text", "attempt_id": "text"} | dict(_COLUMNS[table])
    return pa.schema([pa.field(name, types[kind]) for name, kind in columns.items()])
