"""Namespaces and their objects besides pods: quotas, budgets, owners, claims.

Put here: one document per kind, from one value of the model.
Not here: pods (`pods`), nodes (`nodes`), events (`events`), or when a document changes (`objects`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from fake_gpu.fleet.model import BudgetLife, ClaimLife, NamespaceLife, QuotaLife, WorkloadLife
from fake_gpu.kubernetes.forms import Document, metadata, quantities, time_text
from fake_gpu.kubernetes.pods import owner_reference


def namespace_document(life: NamespaceLife, at: int, version: int) -> Document:
    meta = metadata(
        name=life.name,
        uid=life.uid,
        created_at=life.created_at,
        resource_version=version,
        labels={"kubernetes.io/metadata.name": life.name} | dict(life.labels_at(at)),
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


def budget_document(life: BudgetLife, at: int, version: int) -> Document:
    edits = [from_at for from_at, _ in life.amounts if from_at <= at]
    spec: Document = {
        "amount": next(amount for from_at, amount in life.amounts[::-1] if from_at <= at),
        "currency": life.currency,
        "actualSteps": list(life.actual_steps),
        "forecastSteps": list(life.forecast_steps),
    }
    for name, value in (
        ("billingPeriod", life.billing_period),
        ("workload", life.workload),
        ("label", life.label),
    ):
        if value:
            spec[name] = value
    return {
        "apiVersion": "gpu-ledger.io/v1",
        "kind": "GpuBudget",
        "metadata": metadata(
            name=life.name,
            namespace=life.namespace,
            uid=life.uid,
            created_at=life.created_at,
            resource_version=version,
            generation=len(edits),
        ),
        "spec": spec,
    }


def _in_force(dated: tuple[tuple[int, Mapping[str, int]], ...], at: int) -> Mapping[str, int]:
    current: Mapping[str, int] = {}
    for from_at, counts in dated:
        if from_at <= at:
            current = counts
    return current


def workload_document(life: WorkloadLife, at: int, version: int) -> Document:
    """Deployment, ReplicaSet, StatefulSet, Job, CronJob, with the selectors of their pods."""
    state = life.state_at(at)
    numbers = [life.replicas, *(change.replicas for change in life.changes if change.at <= at)]
    generation = 1 + sum(before != after for before, after in pairwise(numbers))
    life = replace(life, replicas=state.replicas)
    return {
        "apiVersion": life.api_version,
        "kind": life.kind,
        "metadata": metadata(
            name=life.name,
            namespace=life.namespace,
            uid=life.uid,
            created_at=life.created_at,
            resource_version=version,
            labels=dict(life.labels) | (_of_job(life) if life.kind == "Job" else {}),
            owners=[owner_reference(life.owner)] if life.owner else None,
            generation=generation,
            annotations=dict(state.annotations),
        ),
        "spec": _workload_spec(life),
        "status": _workload_status(life),
    }


# Shared by all documents, which are read only.
_CONTAINER: Document = {
    "image": "registry.example/train:1",
    "imagePullPolicy": "Always",
    "name": "main",
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_RUNS_ON: Document = {
    "containers": [_CONTAINER],
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}
_RUNS_ONCE = _RUNS_ON | {"restartPolicy": "Never"}


def _workload_spec(life: WorkloadLife) -> Document:
    labels = dict(life.labels) or {"app": life.name}
    pod_spec = _RUNS_ONCE if life.kind in ("Job", "CronJob") else _RUNS_ON
    template: Document = {"metadata": {"labels": labels}, "spec": pod_spec}
    selected: Document = {"selector": {"matchLabels": dict(labels)}, "template": template}
    match life.kind:
        case "Job":
            by_uid = {"batch.kubernetes.io/controller-uid": life.uid}
            return {
                "backoffLimit": 6,
                "completionMode": "NonIndexed",
                "completions": life.replicas,
                "manualSelector": False,
                "parallelism": life.replicas,
                "podReplacementPolicy": "TerminatingOrFailed",
                "selector": {"matchLabels": by_uid},
                "suspend": False,
                "template": {"metadata": {"labels": _of_job(life)}, "spec": pod_spec},
            }
        case "CronJob":
            job: Document = {"spec": {"template": template}}
            return {"concurrencyPolicy": "Allow", "jobTemplate": job, "schedule": "0 * * * *"}
        case "StatefulSet":
            return {"replicas": life.replicas, "serviceName": life.name} | selected
        case _:
            return {"replicas": life.replicas} | selected


def _of_job(life: WorkloadLife) -> dict[str, str]:
    """The labels by which a server, not its user, ties a Job to its pods."""
    return {
        "batch.kubernetes.io/controller-uid": life.uid,
        "batch.kubernetes.io/job-name": life.name,
        "controller-uid": life.uid,
        "job-name": life.name,
    }


def _workload_status(life: WorkloadLife) -> Document:
    match life.kind:
        case "Job":
            return {"ready": 0, "startTime": time_text(life.created_at)}
        case "CronJob":
            return {}
        case _:
            return {
                "availableReplicas": life.replicas,
                "observedGeneration": 1,
                "readyReplicas": life.replicas,
                "replicas": life.replicas,
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
    if life.memory:
        exactly["capacity"] = {"requests": {"memory": life.memory}}
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
            | (
                {"shareID": r.share_id, "consumedCapacity": {"memory": r.memory}}
                if r.share_id
                else {}
            )
            for r in life.results
        ]
        status["allocation"] = {"devices": {"results": results}}
    reserved = [
        {"name": name, "resource": "pods", "uid": uid}
        for uid, name, from_at, until_at in life.reserved
        if from_at <= at and (until_at is None or at < until_at)
    ]
    if reserved:
        status["reservedFor"] = reserved
    return status
