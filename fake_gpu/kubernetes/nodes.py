"""Nodes and their resources, as documents: Node and ResourceSlice.

Put here: the fields that the kubelet, the device plugin and the DRA driver write.
Not here: pods and their owners.
"""

from __future__ import annotations

from fake_gpu.fleet.model import Device, Node, NodeState, SimulatedCluster
from fake_gpu.kubernetes.forms import (
    Document,
    byte_quantity,
    derived_uid,
    metadata,
    quantity,
    time_text,
)

_PODS_PER_NODE = 110

# status, reason and message of each condition while the kubelet posts nothing wrong.
_HEALTHY = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def node_document(
    cluster: SimulatedCluster, node: Node, state: NodeState, version: int
) -> Document:
    """The node as it is during `state`."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(
            name=node.name,
            uid=node.uid,
            created_at=node.created_at,
            resource_version=version,
            labels=_labels(node, state),
            annotations=state.annotations,
        ),
        "spec": _spec(state),
        "status": {
            "addresses": [
                {"address": node.host_ip, "type": "InternalIP"},
                {"address": node.name, "type": "Hostname"},
            ],
            "allocatable": _offered(node, dict(state.allocatable)),
            "capacity": _offered(node, dict(state.capacity)),
            "conditions": _conditions(node, state),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": _info(cluster, node),
        },
    }


def _labels(node: Node, state: NodeState) -> Document:
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
    }
    labels |= {f"node-role.kubernetes.io/{role}": "" for role in node.roles}
    return dict(sorted((labels | dict(state.labels)).items()))


def _spec(state: NodeState) -> Document:
    spec: Document = {}
    taints = [
        {"effect": effect, "key": key} | ({"value": value} if value else {})
        for key, value, effect in state.taints
    ]
    if state.unschedulable:
        spec["unschedulable"] = True
        taints.append({"effect": "NoSchedule", "key": "node.kubernetes.io/unschedulable"})
    if state.ready != "True":
        unreachable = state.ready == "Unknown"
        key = "node.kubernetes.io/" + ("unreachable" if unreachable else "not-ready")
        taints += [{"effect": effect, "key": key} for effect in ("NoSchedule", "NoExecute")]
    if taints:
        unique = {(t["key"], t["effect"]): t for t in taints}
        spec["taints"] = [unique[key] for key in sorted(unique)]
    return spec


def _offered(node: Node, extended: dict[str, int]) -> dict[str, str]:
    resources = {
        "cpu": str(node.cpu_cores),
        "ephemeral-storage": "959786032Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": byte_quantity(node.memory_bytes),
        "pods": str(_PODS_PER_NODE),
    }
    resources |= {name: quantity(count) for name, count in extended.items()}
    return dict(sorted(resources.items()))


def _conditions(node: Node, state: NodeState) -> list[Document]:
    since = _ready_since(node, state)
    lost = state.ready == "Unknown"
    ready = {
        "True": ("KubeletReady", "kubelet is posting ready status"),
        "False": ("KubeletNotReady", "container runtime network not ready"),
        "Unknown": ("NodeStatusUnknown", "Kubelet stopped posting node status."),
    }[state.ready]
    reason = state.not_ready_reason if state.ready != "True" else ""
    rows = [
        (kind, "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.", since)
        if lost
        else (kind, "False", good_reason, message, node.created_at)
        for kind, good_reason, message in _HEALTHY
    ]
    rows.append(("Ready", state.ready, reason or ready[0], ready[1], since))
    return [
        {
            "lastHeartbeatTime": time_text(max(state.from_at, changed_at)),
            "lastTransitionTime": time_text(changed_at),
            "message": message,
            "reason": why,
            "status": status,
            "type": kind,
        }
        for kind, status, why, message, changed_at in rows
    ]


def _ready_since(node: Node, state: NodeState) -> int:
    """When the Ready condition took the status that it has in `state`."""
    since = state.from_at
    earlier = [other for other in node.states if other.from_at < state.from_at]
    for other in reversed(earlier):
        if other.ready != state.ready:
            break
        since = other.from_at
    return since


def _info(cluster: SimulatedCluster, node: Node) -> Document:
    return {
        "architecture": "amd64",
        "bootID": derived_uid("boot", node.uid),
        "containerRuntimeVersion": "containerd://1.7.27",
        "kernelVersion": "5.14.0-427.13.1.el9_4.x86_64",
        "kubeProxyVersion": "",
        "kubeletVersion": cluster.kubernetes_version,
        "machineID": derived_uid("machine", node.uid).replace("-", ""),
        "operatingSystem": "linux",
        "osImage": "Red Hat Enterprise Linux CoreOS"
        if cluster.openshift_version
        else "Ubuntu 22.04.5 LTS",
        "systemUUID": derived_uid("system", node.uid),
    }


# --- dynamic resource allocation -----------------------------------------------------------------


def slice_name(node: Node) -> str:
    return f"{node.name}-{_driver(node)}"


def _driver(node: Node) -> str:
    vendor = node.cards[0].vendor if node.cards else "nvidia"
    return "gpu.amd.com" if vendor == "amd" else "gpu.nvidia.com"


def slice_document(node: Node, state: NodeState, version: int, generation: int) -> Document:
    """The node's devices as its DRA driver publishes them during `state`."""
    devices = [d for d in node.devices if d.device_id in set(state.device_ids)]
    broken = {i.card_id for i in node.incidents if i.covers(state.from_at)}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": metadata(
            name=slice_name(node),
            uid=derived_uid("slice", node.uid),
            created_at=node.created_at,
            resource_version=version,
            generation=generation,
            owners=[
                {
                    "apiVersion": "v1",
                    "controller": True,
                    "kind": "Node",
                    "name": node.name,
                    "uid": node.uid,
                }
            ],
        ),
        "spec": {
            "devices": [_device(node, d, d.card_id in broken) for d in devices],
            "driver": _driver(node),
            "nodeName": node.name,
            "pool": {"generation": generation, "name": node.name, "resourceSliceCount": 1},
        },
    }


def _device(node: Node, device: Device, broken: bool) -> Document:
    card = node.card(device.card_id)
    attributes: Document = {
        "brand": {"string": "Nvidia" if card.vendor == "nvidia" else "AMD"},
        "productName": {"string": card.model_name},
        "type": {"string": "mig" if device.makeup == "mig" else "gpu"},
        "uuid": {"string": device.device_id},
    }
    if device.makeup == "mig":
        attributes["parentUUID"] = {"string": card.card_id}
        attributes["profile"] = {"string": device.profile}
    document: Document = {
        "name": device.dra_name,
        "attributes": attributes,
        "capacity": {"memory": {"value": f"{device.memory_mib}Mi"}},
    }
    if device.makeup == "shared":
        document["allowMultipleAllocations"] = True
        valid = {"min": "1Mi", "step": "1Mi"}
        document["capacity"]["memory"]["requestPolicy"] = {"default": "1Mi", "validRange": valid}
    if broken:
        document["taints"] = [{"key": "gpu.nvidia.com/xid", "effect": "NoExecute"}]
    return document
