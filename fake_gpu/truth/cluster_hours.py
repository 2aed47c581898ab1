"""One row per cluster and hour, and one for the whole fleet: cards in use, active worker nodes.

Put here: the ledger of cluster-hours.
Not here: nodes (`node_hours`).
"""

from __future__ import annotations

from typing import Any

from fake_gpu.truth.history import HOUR, History, Rows, TrueHold, edges, holds_by_node_hour

FLEET = ""


def cluster_hours(
    history: History, rows: Rows, node_rows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Every cluster, then the fleet (an empty cluster ID), every hour of the window."""
    by_node = holds_by_node_hour(history)
    by_hour: dict[tuple[str, int], list[TrueHold]] = {}
    for (cluster_id, _, hour), holds in by_node.items():
        by_hour.setdefault((cluster_id, hour), []).extend(holds)
        by_hour.setdefault((FLEET, hour), []).extend(holds)
    sums: dict[tuple[str, int], list[int]] = {}
    for row in node_rows:
        for cluster_id in (row["cluster_id"], FLEET):
            entry = sums.setdefault((cluster_id, row["hour_started_at"]), [0, 0, 0])
            entry[0] += row["gpu_capacity"]
            entry[1] += row["gpu_count_max"]
            entry[2] += row["gpu_seconds"]
    found = []
    for cluster_id in [*(c["cluster_id"] for c in rows["clusters"]), FLEET]:
        for hour in history.hours():
            capacity, node_max, seconds = sums.get((cluster_id, hour), (0, 0, 0))
            found.append(
                {
                    "cluster_id": cluster_id,
                    "hour_started_at": hour,
                    "active_worker_nodes": _workers_at(rows, cluster_id, hour),
                    "active_worker_nodes_max": _workers_at_most(rows, cluster_id, hour),
                    "gpu_capacity": capacity,
                    "sum_of_node_max": node_max,
                    "simultaneous_max": _simultaneous(
                        history, by_hour.get((cluster_id, hour), []), hour
                    ),
                    "gpu_seconds": seconds,
                }
            )
    return found


def _simultaneous(history: History, holds: list[TrueHold], hour: int) -> int:
    begin, end = history.clip(hour, hour + HOUR)
    most = 0
    for at in edges(holds, begin, end):
        cards = {
            (hold.device.cluster_id, hold.device.node_name, hold.device.card_id)
            for hold in holds
            if hold.runs_at(at)
        }
        most = max(most, len(cards))
    return most


def _workers_at(rows: Rows, cluster_id: str, second: int) -> int:
    """Nodes with the role worker that are Ready; cordoned ones too."""
    workers = {(n["cluster_id"], n["node_name"]) for n in rows["nodes"] if n["is_worker"]}
    return sum(
        1
        for state in rows["node_states"]
        if (state["cluster_id"], state["node_name"]) in workers
        and cluster_id in (FLEET, state["cluster_id"])
        and state["ready"] == "True"
        and state["from_at"] <= second
        and (state["until_at"] is None or second < state["until_at"])
    )


def _workers_at_most(rows: Rows, cluster_id: str, hour: int) -> int:
    moments = {hour}
    for state in rows["node_states"]:
        if cluster_id in (FLEET, state["cluster_id"]):
            moments |= {state["from_at"]}
    inside = [at for at in moments if hour <= at < hour + HOUR]
    return max(_workers_at(rows, cluster_id, at) for at in inside)
