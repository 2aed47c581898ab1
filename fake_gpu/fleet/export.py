"""A fleet as plain rows of text and whole numbers, for the truth ledger to read.

Put here: the one translation from the model to rows.
Not here: any arithmetic about use; that is done apart, in `truth`, from these rows alone.

Every row is a flat dict of `str`, `int` and None; times are seconds since the epoch; fractions are
two columns.
"""

from __future__ import annotations

from collections.abc import Iterator

from fake_gpu.fleet.hardware import products, profiles
from fake_gpu.fleet.model import Fleet, Node, PodLifetime, SimulatedCluster

Row = dict[str, str | int | None]
Rows = dict[str, list[Row]]


def plain_rows(fleet: Fleet) -> Rows:
    """All tables of a fleet, by name."""
    rows: Rows = {
        "window": [{"started_at": fleet.started_at, "ended_at": fleet.ended_at}],
        "clusters": [],
        "nodes": [],
        "node_states": [],
        "capacity": [],
        "cards": [],
        "devices": [],
        "pods": [],
        "requests": [],
        "runs": [],
        "holds": [],
        "mig_profiles": [],
        "faults": [],
    }
    for cluster in fleet.clusters:
        rows["clusters"].append({"cluster_id": cluster.cluster_id, "cluster_name": cluster.name})
        for node in cluster.nodes:
            _node(rows, cluster, node)
        for pod in cluster.pods:
            _pod(rows, pod)
    rows["mig_profiles"] = list(_mig_profiles(fleet))
    rows["faults"] = [
        {
            "fault_id": fault.fault_id,
            "kind": fault.kind,
            "cluster_id": fault.cluster_id,
            "started_at": fault.from_at,
            "ended_at": fault.until_at,
            "seed": fault.seed,
            "parameters": " ".join(f"{k}={_text(v)}" for k, v in fault.parameters.items()),
            "touched_in_history": fleet.fired.get(fault.fault_id, 0),
        }
        for fault in fleet.faults
    ]
    return rows


def _text(value: object) -> str:
    return ",".join(str(v) for v in value) if isinstance(value, tuple) else str(value)


def _node(rows: Rows, cluster: SimulatedCluster, node: Node) -> None:
    key: Row = {"cluster_id": cluster.cluster_id, "node_name": node.name}
    rows["nodes"].append(
        key | {"is_worker": int("worker" in node.roles), "card_count": len(node.cards)}
    )
    for state in node.states:
        span: Row = {"from_at": state.from_at, "until_at": state.until_at}
        rows["node_states"].append(
            key | span | {"ready": state.ready, "is_cordoned": int(state.unschedulable)}
        )
        for resource, count in state.capacity.items():
            counts: Row = {
                "resource": resource,
                "capacity": count,
                "allocatable": state.allocatable.get(resource, 0),
            }
            rows["capacity"].append(key | span | counts)
    for card in node.cards:
        rows["cards"].append(
            key
            | {
                "card_id": card.card_id,
                "product": card.product,
                "mig_family": products()[card.product].mig_family,
                "compute_slots": card.compute_slots,
                "memory_slots": card.memory_slots,
            }
        )
    for device in node.devices:
        rows["devices"].append(
            key
            | {
                "device_id": device.device_id,
                "card_id": device.card_id,
                "makeup": device.makeup,
                "resource": device.resource,
                "mig_profile": device.profile,
                "compute_numerator": device.compute_share.numerator,
                "compute_denominator": device.compute_share.denominator,
                "memory_numerator": device.memory_share.numerator,
                "memory_denominator": device.memory_share.denominator,
                "replica_count": device.replica_count or 0,
                "from_at": device.exists_from,
                "until_at": device.exists_until,
            }
        )


def _pod(rows: Rows, pod: PodLifetime) -> None:
    key: Row = {"cluster_id": pod.cluster_id, "pod_uid": pod.uid}
    top = pod.owners[-1] if pod.owners else None
    rows["pods"].append(
        key
        | {
            "namespace": pod.namespace,
            "pod_name": pod.name,
            "node_name": pod.node_name,
            "workload_kind": top.kind if top else "Pod",
            "workload_name": top.name if top else pod.name,
            "created_at": pod.created_at,
            "bound_at": pod.scheduled_at,
            "gone_at": pod.gone_at,
        }
    )
    for resource, count in pod.requests.items():
        rows["requests"].append(key | {"resource": resource, "device_count": count})
    for container in pod.containers:
        for run in container.runs:
            rows["runs"].append(
                key
                | {
                    "container": container.name,
                    "kind": container.kind,
                    "started_at": run.started_at,
                    "ended_at": run.ended_at,
                }
            )
    for hold in pod.holds:
        rows["holds"].append(
            key
            | {
                "node_name": pod.node_name,
                "device_id": hold.device_id,
                "claim_uid": hold.claim_uid,
                "replica_start": hold.replica_start,
                "replica_count": hold.replica_count,
                "from_at": hold.held_from,
                "until_at": hold.held_until,
            }
        )


def _mig_profiles(fleet: Fleet) -> Iterator[Row]:
    families = {
        products()[card.product].mig_family
        for cluster in fleet.clusters
        for node in cluster.nodes
        for card in node.cards
    }
    for family in sorted(families - {""}):
        for profile in profiles(family).values():
            yield {
                "mig_family": family,
                "mig_profile": profile.profile,
                "max_count": profile.max_count,
                "placement_size": profile.placement_size,
                "placement_starts": " ".join(str(s) for s in profile.placement_starts),
                "compute_slots": profile.compute_slots,
            }
