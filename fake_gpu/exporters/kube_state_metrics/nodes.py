"""The families of nodes.

Put here: `kube_node_*`.
Not here: the node's document (`fake_gpu.kubernetes.nodes`).
"""

from __future__ import annotations

from collections.abc import Callable

from fake_gpu.exporters.exposition import FamilyHead, Pairs
from fake_gpu.exporters.kube_state_metrics.forms import (
    Document,
    ObjectMetric,
    Rows,
    by_status,
    created,
    epoch,
    metadata,
    resource_rows,
    truth,
)

_ROLE = "node-role.kubernetes.io/"
_STABLE = "[STABLE] "


def own_labels(node: Document) -> Pairs:
    return (("node", node["metadata"]["name"]),)


def _deletion_timestamp(node: Document) -> Rows:
    at = metadata(node).get("deletionTimestamp")
    return [((), epoch(at))] if at else []


def _info(node: Document) -> Rows:
    about = node["status"].get("nodeInfo") or {}
    spec = node.get("spec") or {}
    addresses = node["status"].get("addresses") or []
    internal = [entry["address"] for entry in addresses if entry["type"] == "InternalIP"]
    labels = (
        ("kernel_version", about.get("kernelVersion", "")),
        ("os_image", about.get("osImage", "")),
        ("container_runtime_version", about.get("containerRuntimeVersion", "")),
        ("kubelet_version", about.get("kubeletVersion", "")),
        ("kubeproxy_version", "deprecated"),
        ("provider_id", spec.get("providerID", "")),
        ("pod_cidr", spec.get("podCIDR", "")),
        ("system_uuid", about.get("systemUUID", "")),
        ("internal_ip", internal[-1] if internal else ""),
    )
    return [(labels, 1)]


def _roles(node: Document) -> Rows:
    for label in sorted(metadata(node).get("labels") or {}):
        if label.startswith(_ROLE):
            yield (("role", label.removeprefix(_ROLE)),), 1


def _taints(node: Document) -> Rows:
    for taint in node.get("spec", {}).get("taints") or []:
        value = taint.get("value", "")
        yield (("key", taint["key"]), ("value", value), ("effect", taint["effect"])), 1


def _unschedulable(node: Document) -> Rows:
    return [((), truth(node.get("spec", {}).get("unschedulable")))]


def _amounts(which: str) -> Callable[[Document], Rows]:
    return lambda node: resource_rows(node["status"].get(which) or {})


def _conditions(node: Document) -> Rows:
    for condition in node["status"].get("conditions") or []:
        for status, value in by_status(condition["status"]):
            yield (("condition", condition["type"]), ("status", status)), value


def _addresses(node: Document) -> Rows:
    for entry in node["status"].get("addresses") or []:
        yield (("type", entry["type"]), ("address", entry["address"])), 1


def _family(name: str, text: str, rows: Callable[[Document], Rows]) -> ObjectMetric:
    return ObjectMetric(FamilyHead(f"kube_node_{name}", text), "Node", own_labels, rows)


FAMILIES: tuple[ObjectMetric, ...] = (
    _family("created", _STABLE + "Unix creation timestamp", created),
    _family("deletion_timestamp", "Unix deletion timestamp", _deletion_timestamp),
    _family("info", _STABLE + "Information about a cluster node.", _info),
    _family("role", "The role of a cluster node.", _roles),
    _family("spec_taint", _STABLE + "The taint of a cluster node.", _taints),
    _family(
        "spec_unschedulable", _STABLE + "Whether a node can schedule new pods.", _unschedulable
    ),
    _family(
        "status_allocatable",
        _STABLE
        + "The allocatable for different resources of a node that are available for scheduling.",
        _amounts("allocatable"),
    ),
    _family(
        "status_capacity",
        _STABLE + "The capacity for different resources of a node.",
        _amounts("capacity"),
    ),
    _family("status_condition", _STABLE + "The condition of a cluster node.", _conditions),
    _family("status_addresses", "Node address information.", _addresses),
)
