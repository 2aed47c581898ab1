"""All families of kube-state-metrics, and the ones that an allow-list of labels makes.

Put here: which families there are, by name and by kind of object.
Not here: the lines of a family (`pods`, `nodes`, `namespaced`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fake_gpu.exporters.exposition import FamilyHead, Pairs, family_text
from fake_gpu.exporters.kube_state_metrics import containers, namespaced, nodes, pods
from fake_gpu.exporters.kube_state_metrics.forms import (
    Document,
    ObjectMetric,
    Rows,
    allowed,
    metadata,
    prometheus_labels,
)

# Dropped by OpenShift's own monitoring, and so by all of its readers.
OPENSHIFT_DENIED = frozenset(
    {
        "kube_pod_completion_time",
        "kube_pod_container_status_running",
        "kube_pod_container_status_terminated",
        "kube_pod_init_container_status_running",
        "kube_pod_init_container_status_terminated",
        "kube_pod_status_scheduled",
        "kube_pod_restart_policy",
    }
)


@dataclass(frozen=True, slots=True)
class AllowLists:
    """Which Kubernetes labels become labels of `kube_*_labels`; `*` means all of them."""

    pods: Sequence[str] = ("*",)
    nodes: Sequence[str] = ("*",)
    namespaces: Sequence[str] = ("*",)


def families(allow: AllowLists | None = None) -> tuple[ObjectMetric, ...]:
    """Every family, in the order of the exposition."""
    lists = allow or AllowLists()
    named = namespaced.namespace_labels
    by_allow_list = [
        _labels("kube_namespace_labels", "Namespace", named, lists.namespaces),
        _labels("kube_node_labels", "Node", nodes.own_labels, lists.nodes),
        _labels("kube_pod_labels", "Pod", containers.own_labels, lists.pods),
    ]
    fixed = [
        *namespaced.FAMILIES,
        *nodes.FAMILIES,
        *pods.FAMILIES,
        *containers.FAMILIES,
    ]
    return tuple(sorted([*by_allow_list, *fixed], key=lambda family: family.head.name))


def families_of(*, openshift: bool) -> tuple[ObjectMetric, ...]:
    """The families that a cluster's kube-state-metrics is set up to show."""
    denied = OPENSHIFT_DENIED if openshift else frozenset()
    return tuple(family for family in families() if family.head.name not in denied)


def _labels(
    name: str, kind: str, own: Callable[[Document], Pairs], allow: Sequence[str]
) -> ObjectMetric:
    def rows(document: Document) -> Rows:
        if not allow:
            return []
        labels = metadata(document).get("labels") or {}
        return [(prometheus_labels("label", allowed(labels, allow)), 1)]

    text = "[STABLE] Kubernetes labels converted to Prometheus labels."
    return ObjectMetric(FamilyHead(name, text), kind, own, rows)


def exposition(objects: Iterable[Document], shown: Iterable[ObjectMetric] | None = None) -> str:
    """The whole `/metrics` for these objects. A kind without any objects is not even headed."""
    by_kind: dict[str, list[Document]] = {}
    for document in objects:
        by_kind.setdefault(document["kind"], []).append(document)
    parts = []
    for family in families() if shown is None else shown:
        if documents := by_kind.get(family.kind):
            lines = [line for document in documents for line in family.lines(document)]
            parts.append(family_text(family.head, lines))
    return "".join(parts)
