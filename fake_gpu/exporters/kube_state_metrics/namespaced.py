"""The families of namespaces, quotas and the owners of pods.

Put here: `kube_namespace_*`, `kube_resourcequota*`, `kube_replicaset_*`, `kube_job_*`, …
Not here: pods (`pods`).
"""

from __future__ import annotations

from collections.abc import Callable

from fake_gpu.exporters.exposition import FamilyHead, Pairs
from fake_gpu.exporters.kube_state_metrics.forms import (
    Document,
    ObjectMetric,
    Rows,
    created,
    owner_rows,
    quantity,
    truth,
)

_STABLE = "[STABLE] "
_CREATED = _STABLE + "Unix creation timestamp"


def _own(label: str) -> Callable[[Document], Pairs]:
    def labels(document: Document) -> Pairs:
        about = document["metadata"]
        return (("namespace", about["namespace"]), (label, about["name"]))

    return labels


def namespace_labels(document: Document) -> Pairs:
    return (("namespace", document["metadata"]["name"]),)


def _namespace_phase(document: Document) -> Rows:
    now = document["status"]["phase"]
    return [((("phase", phase),), truth(phase == now)) for phase in ("Active", "Terminating")]


def _quota(document: Document) -> Rows:
    for kind in ("hard", "used"):
        amounts = document["status"].get(kind) or {}
        for resource in sorted(amounts):
            yield (("resource", resource), ("type", kind)), quantity(amounts[resource])


def _replicas(document: Document) -> Rows:
    count = document["spec"].get("replicas")
    return [] if count is None else [((), float(count))]


def _status_replicas(document: Document) -> Rows:
    return [((), float(document["status"].get("replicas", 0)))]


def _one(_: Document) -> Rows:
    return [((), 1)]


FAMILIES: tuple[ObjectMetric, ...] = (
    ObjectMetric(
        FamilyHead("kube_deployment_created", _CREATED), "Deployment", _own("deployment"), created
    ),
    ObjectMetric(
        FamilyHead(
            "kube_deployment_spec_replicas", _STABLE + "Number of desired pods for a deployment."
        ),
        "Deployment",
        _own("deployment"),
        _replicas,
    ),
    ObjectMetric(
        FamilyHead("kube_job_info", _STABLE + "Information about job."),
        "Job",
        _own("job_name"),
        _one,
    ),
    ObjectMetric(FamilyHead("kube_job_created", _CREATED), "Job", _own("job_name"), created),
    ObjectMetric(
        FamilyHead("kube_job_owner", _STABLE + "Information about the Job's owner."),
        "Job",
        _own("job_name"),
        owner_rows,
    ),
    ObjectMetric(
        FamilyHead("kube_namespace_created", _CREATED), "Namespace", namespace_labels, created
    ),
    ObjectMetric(
        FamilyHead("kube_namespace_status_phase", _STABLE + "kubernetes namespace status phase."),
        "Namespace",
        namespace_labels,
        _namespace_phase,
    ),
    ObjectMetric(
        FamilyHead("kube_replicaset_created", _CREATED), "ReplicaSet", _own("replicaset"), created
    ),
    ObjectMetric(
        FamilyHead(
            "kube_replicaset_status_replicas", _STABLE + "The number of replicas per ReplicaSet."
        ),
        "ReplicaSet",
        _own("replicaset"),
        _status_replicas,
    ),
    ObjectMetric(
        FamilyHead(
            "kube_replicaset_spec_replicas", _STABLE + "Number of desired pods for a ReplicaSet."
        ),
        "ReplicaSet",
        _own("replicaset"),
        _replicas,
    ),
    ObjectMetric(
        FamilyHead("kube_replicaset_owner", _STABLE + "Information about the ReplicaSet's owner."),
        "ReplicaSet",
        _own("replicaset"),
        owner_rows,
    ),
    ObjectMetric(
        FamilyHead("kube_resourcequota_created", _CREATED),
        "ResourceQuota",
        _own("resourcequota"),
        created,
    ),
    ObjectMetric(
        FamilyHead("kube_resourcequota", _STABLE + "Information about resource quota."),
        "ResourceQuota",
        _own("resourcequota"),
        _quota,
    ),
)
