"""An invoice as CSV: its lines, and the pods behind them.

Put here: the columns of the two files, in the order in which people read them.
Not here: FOCUS (`focus`), or how CSV is written (`csv_text`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from domain.csv_text import csv_bytes

LINE_COLUMNS = (
    "invoice",
    "tenant",
    "line",
    "kind",
    "charge_period",
    "cluster_id",
    "cluster_name",
    "gpu_class",
    "mig_profile",
    "started_at",
    "ended_at",
    "device_seconds",
    "weight",
    "weight_policy",
    "rate_id",
    "rate_per_hour",
    "currency",
    "cost",
    "billed_cost",
    "reason",
)

POD_COLUMNS = (
    "invoice",
    "line",
    "cluster_id",
    "pod_uid",
    "pod_name",
    "node_name",
    "resource",
    "workload_kind",
    "workload_name",
    "method",
    "device_count",
    "started_at",
    "ended_at",
    "device_seconds",
    "uncertain_device_seconds",
    "currency",
    "cost",
)


def lines_csv(document: Mapping[str, Any]) -> bytes:
    """One row per line; `billed_cost` adds up to the total."""
    return csv_bytes(LINE_COLUMNS, _rows(document, "lines", LINE_COLUMNS))


def pods_csv(document: Mapping[str, Any]) -> bytes:
    """One row per pod, line and method; `cost` adds up to the exact total of the usage lines."""
    return csv_bytes(POD_COLUMNS, _rows(document, "pods", POD_COLUMNS))


def _rows(document: Mapping[str, Any], part: str, columns: tuple[str, ...]) -> list[list[object]]:
    clusters = {line["line"]: line["cluster_id"] for line in document["lines"]}
    shared = {"invoice": document["number"], "tenant": document["tenant"]}
    shared["currency"] = document["currency"]
    return [
        [{"cluster_id": clusters[entry["line"]], **shared, **entry}[name] for name in columns]
        for entry in document[part]
    ]
