"""Namespaces and what lives in them besides pods: quotas, owners, claims, events.

Put here: one document per kind, from one value of the model.
Not here: pods (`pods`), nodes (`nodes`), or when a document changes (`objects`).
"""

from __future__ import annotations

from collections.abc import Mapping

from fake_gpu.estate.model import ClaimLife, NamespaceLife, QuotaLife, WorkloadLife
from fake_gpu.kubernetes.forms import Document, derived_uid, metadata, quantities, time_text
from fake_gpu.kubernetes.pods import owner_reference


def namespace_document(life: NamespaceLife, at: int, version: int) -> Document:
    meta = metadata(
        name=life.name,
        uid=life.uid,
        created_at=life.created_at,
        resource_version=version,
        labels={"kubernetes.io/metadata.name": life.name} | dict(life.labels),
    )
    terminating = life.terminating_at is not None and at >= life.terminating_at
    if terminating and life.terminating_at is not None:
        meta["deletionTimestamp"] = time_text(life.terminating_at)
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": meta,
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Terminating" if terminating else "Active"},
    }


def quota_document(life: QuotaLife, at: int, version: int) -> Document:
    hard = _in_force(life.hard, at)
    used = dict.fromkeys(hard, 0) | {
        name: count for name, count in _in_force(life.used, at).items() if name in hard
    }
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata(
            name=life.name,
            namespace=life.namespace,
            uid=life.uid,
            created_at=life.created_at,
            resource_version=version,
        ),
        "spec": {"hard": quantities(hard)},
        "status": {"hard": quantities(hard), "used": quantities(used)},
    }


def _in_force(dated: tuple[tuple[int, Mapping[str, int]], ...], at: int) -> Mapping[str, int]:
    current: Mapping[str, int] = {}
    for from_at, counts in dated:
        if from_at <= at:
            current = counts
    return current


def workload_document(life: WorkloadLife, version: int) -> Document:
    """Deployment, ReplicaSet, StatefulSet, Job and the like, with what identifies their pods."""
    selector = {"matchLabels": dict(life.labels) or {"app": life.name}}
    spec: Document = {
        "replicas": life.replicas,
        "selector": selector,
        "template": {"metadata": {"labels": dict(selector["matchLabels"])}, "spec": {}},
    }
    status: Document = {"replicas": life.replicas, "readyReplicas": life.replicas}
    if life.kind == "Job":
        spec = {"completions": life.replicas, "parallelism": life.replicas} | spec
        del spec["replicas"]
        status = {"startTime": time_text(life.created_at)}
    return {
        "apiVersion": life.api_version,
        "kind": life.kind,
        "metadata": metadata(
            name=life.name,
            namespace=life.namespace,
            uid=life.uid,
            created_at=life.created_at,
            resource_version=version,
            labels=life.labels,
            owners=[owner_reference(life.owner)] if life.owner else None,
        ),
        "spec": spec,
        "status": status,
    }


def claim_document(life: ClaimLife, at: int, version: int) -> Document:
    annotations = {}
    if life.extended_resource:
        annotations["resource.kubernetes.io/extended-resource-claim"] = "true"
    if life.template_name:
        annotations["resource.kubernetes.io/pod-claim-name"] = life.request
    exactly: Document = {
        "allocationMode": "ExactCount",
        "count": life.count,
        "deviceClassName": life.device_class,
    }
    if life.admin_access:
        exactly["adminAccess"] = True
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata(
            name=life.name,
            namespace=life.namespace,
            uid=life.uid,
            created_at=life.created_at,
            resource_version=version,
            annotations=annotations,
        ),
        "spec": {"devices": {"requests": [{"name": life.request, "exactly": exactly}]}},
        "status": _claim_status(life, at),
    }


def _claim_status(life: ClaimLife, at: int) -> Document:
    status: Document = {}
    if life.allocated_at is not None and at >= life.allocated_at:
        results = [
            {"device": r.device, "driver": r.driver, "pool": r.pool, "request": r.request}
            | ({"adminAccess": True} if life.admin_access else {})
            for r in life.results
        ]
        status["allocation"] = {
            "allocationTimestamp": time_text(life.allocated_at),
            "devices": {"results": results},
        }
    reserved = [
        {"name": name, "resource": "pods", "uid": uid}
        for uid, name, from_at, until_at in life.reserved
        if from_at <= at and (until_at is None or at < until_at)
    ]
    if reserved:
        status["reservedFor"] = reserved
    return status


def event_document(pod: Document, reason: str, message: str, at: int, version: int) -> Document:
    """An Event about a pod; the first and only of its kind."""
    meta = pod["metadata"]
    name = f"{meta['name']}.{derived_uid('event', meta['uid'], reason, str(at))[:16]}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata(
            name=name,
            namespace=meta["namespace"],
            uid=derived_uid("event", meta["uid"], reason, str(at), "uid"),
            created_at=at,
            resource_version=version,
        ),
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": meta["name"],
            "namespace": meta["namespace"],
            "resourceVersion": meta["resourceVersion"],
            "uid": meta["uid"],
        },
        "reason": reason,
        "message": message,
        "type": "Warning" if reason in ("Evicted", "FailedScheduling") else "Normal",
        "count": 1,
        "firstTimestamp": time_text(at),
        "lastTimestamp": time_text(at),
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
        "source": {"component": "kubelet"},
    }
