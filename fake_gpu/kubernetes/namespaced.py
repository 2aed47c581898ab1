"""Namespaces and their objects besides pods: quotas, budgets, owners, claims.

Put here: one document per kind, from one value of the model.
Not here: pods (`pods`), nodes (`nodes`), events (`events`), or when a document changes (`objects`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from fake_gpu.fleet.model import (
    BudgetLifetime,
    ClaimLifetime,
    NamespaceLifetime,
    QuotaLifetime,
    WorkloadLifetime,
)
from fake_gpu.kubernetes.forms import Document, metadata, quantities, time_text
from fake_gpu.kubernetes.pods import owner_reference


def namespace_document(namespace: NamespaceLifetime, at: int, version: int) -> Document:
    meta = metadata(
        name=namespace.name,
        uid=namespace.uid,
        created_at=namespace.created_at,
        resource_version=version,
        labels={"kubernetes.io/metadata.name": namespace.name} | dict(namespace.labels_at(at)),
    )
    terminating = namespace.terminating_at is not None and at >= namespace.terminating_at
    if terminating and namespace.terminating_at is not None:
        meta["deletionTimestamp"] = time_text(namespace.terminating_at)
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": meta,
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Terminating" if terminating else "Active"},
    }


def quota_document(quota: QuotaLifetime, at: int, version: int) -> Document:
    hard = _counts_at(quota.hard, at)
    used = dict.fromkeys(hard, 0) | {
        name: count for name, count in _counts_at(quota.used, at).items() if name in hard
    }
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata(
            name=quota.name,
            namespace=quota.namespace,
            uid=quota.uid,
            created_at=quota.created_at,
            resource_version=version,
        ),
        "spec": {"hard": quantities(hard)},
        "status": {"hard": quantities(hard), "used": quantities(used)},
    }


def budget_document(budget: BudgetLifetime, at: int, version: int) -> Document:
    edits = [from_at for from_at, _ in budget.amounts if from_at <= at]
    spec: Document = {
        "amount": next(amount for from_at, amount in budget.amounts[::-1] if from_at <= at),
        "currency": budget.currency,
        "actualSteps": list(budget.actual_steps),
        "forecastSteps": list(budget.forecast_steps),
    }
    for name, value in (
        ("billingPeriod", budget.billing_period),
        ("workload", budget.workload),
        ("label", budget.label),
    ):
        if value:
            spec[name] = value
    return {
        "apiVersion": "gpu-ledger.io/v1",
        "kind": "GpuBudget",
        "metadata": metadata(
            name=budget.name,
            namespace=budget.namespace,
            uid=budget.uid,
            created_at=budget.created_at,
            resource_version=version,
            generation=len(edits),
        ),
        "spec": spec,
    }


def _counts_at(dated: tuple[tuple[int, Mapping[str, int]], ...], at: int) -> Mapping[str, int]:
    current: Mapping[str, int] = {}
    for from_at, counts in dated:
        if from_at <= at:
            current = counts
    return current


def workload_document(workload: WorkloadLifetime, at: int, version: int) -> Document:
    """Deployment, ReplicaSet, StatefulSet, Job, CronJob, with the selectors of their pods."""
    state = workload.state_at(at)
    numbers = [
        workload.replicas,
        *(change.replicas for change in workload.changes if change.at <= at),
    ]
    generation = 1 + sum(before != after for before, after in pairwise(numbers))
    workload = replace(workload, replicas=state.replicas)
    return {
        "apiVersion": workload.api_version,
        "kind": workload.kind,
        "metadata": metadata(
            name=workload.name,
            namespace=workload.namespace,
            uid=workload.uid,
            created_at=workload.created_at,
            resource_version=version,
            labels=dict(workload.labels)
            | (_job_labels(workload) if workload.kind == "Job" else {}),
            owners=[owner_reference(workload.owner)] if workload.owner else None,
            generation=generation,
            annotations=dict(state.annotations),
        ),
        "spec": _workload_spec(workload),
        "status": _workload_status(workload),
    }


# All documents share these values, and no code changes them.
_CONTAINER: Document = {
    "image": "registry.example/train:1",
    "imagePullPolicy": "Always",
    "name": "main",
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_POD_SPEC: Document = {
    "containers": [_CONTAINER],
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}
_JOB_POD_SPEC = _POD_SPEC | {"restartPolicy": "Never"}


def _workload_spec(workload: WorkloadLifetime) -> Document:
    labels = dict(workload.labels) or {"app": workload.name}
    pod_spec = _JOB_POD_SPEC if workload.kind in ("Job", "CronJob") else _POD_SPEC
    template: Document = {"metadata": {"labels": labels}, "spec": pod_spec}
    selected: Document = {"selector": {"matchLabels": dict(labels)}, "template": template}
    match workload.kind:
        case "Job":
            by_uid = {"batch.kubernetes.io/controller-uid": workload.uid}
            return {
                "backoffLimit": 6,
                "completionMode": "NonIndexed",
                "completions": workload.replicas,
                "manualSelector": False,
                "parallelism": workload.replicas,
                "podReplacementPolicy": "TerminatingOrFailed",
                "selector": {"matchLabels": by_uid},
                "suspend": False,
                "template": {"metadata": {"labels": _job_labels(workload)}, "spec": pod_spec},
            }
        case "CronJob":
            job: Document = {"spec": {"template": template}}
            return {"concurrencyPolicy": "Allow", "jobTemplate": job, "schedule": "0 * * * *"}
        case "StatefulSet":
            return {"replicas": workload.replicas, "serviceName": workload.name} | selected
        case _:
            return {"replicas": workload.replicas} | selected


def _job_labels(workload: WorkloadLifetime) -> dict[str, str]:
    """The labels of the pods of a Job that the API server sets."""
    return {
        "batch.kubernetes.io/controller-uid": workload.uid,
        "batch.kubernetes.io/job-name": workload.name,
        "controller-uid": workload.uid,
        "job-name": workload.name,
    }


def _workload_status(workload: WorkloadLifetime) -> Document:
    match workload.kind:
        case "Job":
            return {"ready": 0, "startTime": time_text(workload.created_at)}
        case "CronJob":
            return {}
        case _:
            return {
                "availableReplicas": workload.replicas,
                "observedGeneration": 1,
                "readyReplicas": workload.replicas,
                "replicas": workload.replicas,
            }


def claim_document(claim: ClaimLifetime, at: int, version: int) -> Document:
    annotations = {}
    if claim.extended_resource:
        annotations["resource.kubernetes.io/extended-resource-claim"] = "true"
    if claim.template_name:
        annotations["resource.kubernetes.io/pod-claim-name"] = claim.request
    exactly: Document = {
        "allocationMode": "ExactCount",
        "count": claim.count,
        "deviceClassName": claim.device_class,
    }
    if claim.admin_access:
        exactly["adminAccess"] = True
    if claim.memory:
        exactly["capacity"] = {"requests": {"memory": claim.memory}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata(
            name=claim.name,
            namespace=claim.namespace,
            uid=claim.uid,
            created_at=claim.created_at,
            resource_version=version,
            annotations=annotations,
        ),
        "spec": {"devices": {"requests": [{"name": claim.request, "exactly": exactly}]}},
        "status": _claim_status(claim, at),
    }


def _claim_status(claim: ClaimLifetime, at: int) -> Document:
    status: Document = {}
    if claim.allocated_at is not None and at >= claim.allocated_at:
        results = [
            {"device": r.device, "driver": r.driver, "pool": r.pool, "request": r.request}
            | ({"adminAccess": True} if claim.admin_access else {})
            | (
                {"shareID": r.share_id, "consumedCapacity": {"memory": r.memory}}
                if r.share_id
                else {}
            )
            for r in claim.results
        ]
        status["allocation"] = {"devices": {"results": results}}
    reserved = [
        {"name": name, "resource": "pods", "uid": uid}
        for uid, name, from_at, until_at in claim.reserved
        if from_at <= at and (until_at is None or at < until_at)
    ]
    if reserved:
        status["reservedFor"] = reserved
    return status
