"""The status updater of the design document: the cards that each pod uses, and their use.

Put here: running pods written into the topology of their node, in the document's own form.
Not here: how devices are given (`calendar`), or the series of DCGM about them (`exporters`).

A pure function from a fleet and an instant to documents, so that a version against a real
cluster only has to watch pods and write the results.
"""

from __future__ import annotations

from typing import Any

from fake_gpu.fleet.model import Device, DeviceHold, Fleet, Node, PodLifetime, SimulatedCluster

Use = tuple[PodLifetime, DeviceHold]


def topology(fleet: Fleet, at: int) -> dict[str, dict[str, Any]]:
    """Cluster name to node name to the node's entry, at one instant."""
    return {cluster.name: cluster_topology(cluster, at) for cluster in fleet.clusters}


def cluster_topology(cluster: SimulatedCluster, at: int) -> dict[str, Any]:
    users: dict[str, list[Use]] = {}
    for pod in cluster.pods:
        for hold in pod.holds:
            if hold.held_from <= at and (hold.held_until is None or at < hold.held_until):
                users.setdefault(hold.device_id, []).append((pod, hold))
    return {
        node.name: _node_entry(node, users, at)
        for node in cluster.nodes
        if node.cards and node.state_at(at) is not None
    }


def _node_entry(node: Node, users: dict[str, list[Use]], at: int) -> dict[str, Any]:
    devices = [device for device in node.devices if device.exists_at(at)]
    state = node.state_at(at)
    strategy = state.labels.get("nvidia.com/mig.strategy") if state else None
    return {
        "gpu-memory": node.cards[0].memory_mib,
        "gpu-product": node.cards[0].product,
        "mig-strategy": strategy or node.mig_strategy,
        "gpus": [_gpu_entry(device, users.get(device.device_id, []), at) for device in devices],
    }


def _gpu_entry(device: Device, users: list[Use], at: int) -> dict[str, Any]:
    """A GPU's section, as the design document's configuration has it."""
    if not users:
        return {"id": device.device_id, "metrics": {"metadata": {}, "utilization": 0, "fb-used": 0}}
    pod, hold = users[-1]
    used = busy = 0
    for load in pod.loads(hold):
        if load.from_at <= at:
            share = device.memory_mib * pod.memory_used_pct // 100
            used = share if load.memory_used_mib is None else load.memory_used_mib
            busy = load.utilisation.pct_at(at - load.from_at)
    metadata = {"namespace": pod.namespace, "pod": pod.name, "container": hold.container}
    return {
        "id": device.device_id,
        "metrics": {"metadata": metadata, "utilization": busy, "fb-used": used},
    }
