"""The contents of a fleet, in a few lines and tables.

Put here: the output of `gpu-ledger fake check`.
Not here: any truth about use (`fake_gpu.truth`).
"""

from __future__ import annotations

from typing import Any

from domain.interval import format_instant
from fake_gpu.faults.fault_catalogue import CATALOGUE
from fake_gpu.fleet.model import Fault, Fleet, Node, SimulatedCluster, instant


def summary(fleet: Fleet) -> list[str]:
    """A summary of a scenario, in sentences."""
    begin, end = (format_instant(instant(t)) for t in (fleet.started_at, fleet.ended_at))
    lines = [f"{fleet.name}: {begin} to {end}, seed {fleet.seed}"]
    for cluster in fleet.clusters:
        cards = sum(len(node.cards) for node in cluster.nodes)
        bound = sum(1 for pod in cluster.pods if pod.scheduled_at is not None)
        lines.append(
            f"  {cluster.name} ({cluster.cluster_id}): {len(cluster.nodes)} nodes, {cards} cards, "
            f"{len(cluster.pods)} pods, {bound} of them bound"
        )
    if fleet.faults:
        own = sum(1 for fault in fleet.faults if _is_history(fault))
        lines.append(
            f"  {len(fleet.faults)} faults, {own} of them in the history itself; "
            "the others fire when a client queries"
        )
    return lines


def silent_faults(fleet: Fleet) -> list[str]:
    """Faults of the history itself, in its time, that nevertheless touched nothing."""
    return [
        f"{fault.fault_id} has no effect: its target does not exist in its time"
        for fault in fleet.faults
        if _is_history(fault)
        and fault.fault_id not in fleet.fired
        and fault.from_at < fleet.ended_at
        and fault.until_at > fleet.started_at
    ]


def _is_history(fault: Fault) -> bool:
    return CATALOGUE[fault.kind].side == "fleet"


def table(fleet: Fleet, part: str) -> list[dict[str, Any]]:
    """One part of the fleet as rows."""
    match part:
        case "nodes":
            return [_node(c, node) for c in fleet.clusters for node in c.nodes]
        case "pods":
            return [row for c in fleet.clusters for row in _pods(c)]
        case "workloads":
            return [row for c in fleet.clusters for row in _workloads(c)]
        case "namespaces":
            return [row for c in fleet.clusters for row in _namespaces(c)]
        case _:
            return [
                {
                    "fault": fault.fault_id,
                    "cluster_id": fault.cluster_id or "all",
                    "from": instant(fault.from_at),
                    "until": instant(fault.until_at),
                    "seed": fault.seed,
                    "parameters": {k: v for k, v in fault.parameters.items() if v not in ("", ())},
                    "touched_in_history": fleet.fired.get(fault.fault_id, 0),
                }
                for fault in fleet.faults
            ]


def _when(second: int | None) -> object:
    return None if second is None else instant(second)


def _node(cluster: SimulatedCluster, node: Node) -> dict[str, Any]:
    first = node.states[0]
    return {
        "cluster": cluster.name,
        "node": node.name,
        "cards": len(node.cards),
        "product": node.cards[0].product if node.cards else "",
        "offers": {k: v for k, v in first.capacity.items() if v},
        "devices": sum(1 for d in node.devices if d.exists_at(first.from_at)),
        "changes": len(node.states) - 1,
        "joins": _when(node.created_at),
        "leaves": _when(node.gone_at),
    }


def _pods(cluster: SimulatedCluster) -> list[dict[str, Any]]:
    return [
        {
            "cluster": cluster.name,
            "namespace": pod.namespace,
            "pod": pod.name,
            "node": pod.node_name,
            "requests": dict(pod.requests),
            "created": _when(pod.created_at),
            "bound": _when(pod.scheduled_at),
            "started": _when(pod.started_at),
            "ended": _when(pod.finished_at),
            "gone": _when(pod.gone_at),
            "last_phase": pod.phases[-1].phase,
        }
        for pod in cluster.pods
    ]


def _workloads(cluster: SimulatedCluster) -> list[dict[str, Any]]:
    counts: dict[tuple[str, str], list[int]] = {}
    for pod in cluster.pods:
        entry = counts.setdefault((pod.namespace, pod.workload), [0, 0, 0])
        entry[0] += 1
        entry[1] += pod.scheduled_at is not None
        entry[2] += max((len(c.runs) for c in pod.containers), default=0) > 1
    return [
        {
            "cluster": cluster.name,
            "namespace": namespace,
            "workload": name,
            "pods": pods,
            "bound": bound,
            "with_restarts": restarted,
        }
        for (namespace, name), (pods, bound, restarted) in sorted(counts.items())
    ]


def _namespaces(cluster: SimulatedCluster) -> list[dict[str, Any]]:
    return [
        {
            "cluster": cluster.name,
            "namespace": namespace.name,
            "uid": namespace.uid,
            "created": _when(namespace.created_at),
            "deleted": _when(namespace.terminating_at),
        }
        for namespace in cluster.namespaces
    ]
