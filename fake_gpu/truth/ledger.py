"""The truth by grain: plain rows in, plain rows out.

Put here: the one entry, and how times are written.
Not here: any ledger's arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from fake_gpu.truth.allocations import allocations
from fake_gpu.truth.cluster_hours import cluster_hours
from fake_gpu.truth.history import HOUR, Rows, read_history
from fake_gpu.truth.node_hours import node_hours
from fake_gpu.truth.tenant_periods import tenant_periods

GRAINS = ("allocations", "node-hours", "cluster-hours", "tenant-periods", "coverage", "faults")


def ledger(rows: Rows, grain: str, *, instants: bool = True) -> list[dict[str, Any]]:
    """The true rows of a grain; times as `2026-10-01T00:00:00Z`, or as seconds."""
    history = read_history(rows)
    match grain:
        case "allocations":
            found = allocations(history)
        case "node-hours":
            found = node_hours(history, rows)
        case "cluster-hours":
            found = cluster_hours(history, rows, node_hours(history, rows))
        case "tenant-periods":
            found = tenant_periods(history)
        case "coverage":
            found = coverage(rows, list(history.hours()))
        case "faults":
            found = [dict(row) for row in rows["faults"]]
        case _:
            raise ValueError(f"no grain {grain!r}; one of {', '.join(GRAINS)}")
    return [_with_instants(row) for row in found] if instants else found


def coverage(rows: Rows, hours: Iterable[int]) -> list[dict[str, Any]]:
    """Which faults lie over which hour of which cluster: where the views may not be believed."""
    found = []
    for cluster in rows["clusters"]:
        for hour in hours:
            over = [
                fault
                for fault in rows["faults"]
                if fault["cluster_id"] in ("", cluster["cluster_id"])
                and fault["started_at"] < hour + HOUR
                and hour < fault["ended_at"]
            ]
            touched = set()
            for fault in over:
                begin, end = max(hour, fault["started_at"]), min(hour + HOUR, fault["ended_at"])
                touched |= set(range(begin, end))
            found.append(
                {
                    "cluster_id": cluster["cluster_id"],
                    "hour_started_at": hour,
                    "disturbed_seconds": len(touched),
                    "faults": " ".join(sorted(fault["fault_id"] for fault in over)),
                }
            )
    return found


def _with_instants(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _instant(value) if name.endswith("_at") and isinstance(value, int) else value
        for name, value in row.items()
    }


def _instant(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
