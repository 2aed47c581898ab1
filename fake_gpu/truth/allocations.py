"""One row per pod and the devices that it held: start, end, and seconds in the window.

Put here: the ledger of allocations.
Not here: sums over them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from fake_gpu.truth.history import FOR_EVER, History, TrueHold


def allocations(history: History) -> list[dict[str, Any]]:
    """Pod × node × product × profile, with the seconds that lie in the window."""
    grouped: dict[tuple[str, ...], list[TrueHold]] = defaultdict(list)
    for hold in history.holds:
        key = (hold.pod.cluster_id, hold.pod.pod_uid, hold.device.product, hold.device.mig_profile)
        grouped[(*key, hold.device.resource, hold.claim_uid)].append(hold)
    rows = [_row(history, holds) for _, holds in sorted(grouped.items(), key=lambda g: g[0])]
    return sorted(rows, key=lambda r: (r["cluster_id"], r["bound_at"], r["pod_uid"], r["resource"]))


def _row(history: History, holds: list[TrueHold]) -> dict[str, Any]:
    first = holds[0]
    pod, device = first.pod, first.device
    count = sum(hold.count for hold in holds)
    held_from, until = history.clip(first.from_at, first.until_at)
    running_from = min(max(first.running_from, held_from), max(until, held_from))
    running = max(0, until - running_from)
    return {
        "cluster_id": pod.cluster_id,
        "namespace": pod.namespace,
        "pod_uid": pod.pod_uid,
        "pod_name": pod.pod_name,
        "workload_kind": pod.workload_kind,
        "workload_name": pod.workload_name,
        "node_name": pod.node_name,
        "resource": device.resource,
        "product": device.product,
        "mig_profile": device.mig_profile,
        "claim_uid": first.claim_uid,
        "device_count": sum(hold.devices for hold in holds),
        "card_count": len({hold.device.card_id for hold in holds}),
        "bound_at": first.from_at,
        "started_at": pod.started_at,
        "ended_at": None if first.until_at == FOR_EVER else first.until_at,
        "held_seconds": max(0, running_from - held_from),
        "running_seconds": running,
        "device_seconds": running * sum(hold.devices for hold in holds),
        "compute_share_numerator": (device.compute * count).numerator,
        "compute_share_denominator": (device.compute * count).denominator,
        "memory_share_numerator": (device.memory * count).numerator,
        "memory_share_denominator": (device.memory * count).denominator,
    }
