"""The documents that the API server shows of a pod, one per step of its lifetime.

Put here: the fields that the scheduler and the kubelet write into a pod, and when.
Not here: the times of changes (`fleet.model.PodLifetime`), or the order among objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from domain.identity import sha256
from fake_gpu.fleet.model import Container, OwnerRef, PodLifetime, Run
from fake_gpu.kubernetes.forms import Document, metadata, quantities, time_text

Verb = Literal["ADDED", "MODIFIED", "DELETED"]
_Rule = Callable[[PodLifetime, int], bool]


@dataclass(frozen=True, slots=True)
class PodStep:
    """One change of a pod's document; `bound` and `tried` order changes of one second."""

    at: int
    verb: Verb
    bound: bool  # a node is written into the spec
    tried: bool  # the scheduler has looked at it


def pod_steps(pod: PodLifetime) -> list[PodStep]:
    """Every change of the pod's document, in order: created, tried, bound, and so on."""
    end = pod.gone_at
    steps = [PodStep(pod.created_at, "ADDED", False, False)]
    bound_at = pod.scheduled_at
    if bound_at != pod.created_at:
        steps.append(PodStep(pod.created_at, "MODIFIED", False, True))
    times = sorted(t for t in _fact_times(pod) if end is None or t <= end)
    for at in times:
        bound = bound_at is not None and at >= bound_at
        if at > pod.created_at or bound or at == pod.deletion_requested_at:
            steps.append(PodStep(at, "MODIFIED", bound, True))
    if end is not None:
        steps.append(PodStep(end, "DELETED", bound_at is not None and end >= bound_at, True))
    return steps


def _fact_times(pod: PodLifetime) -> set[int]:
    times = {pod.scheduled_at, pod.acknowledged_at, pod.finished_at, pod.deletion_requested_at}
    times |= {change.at for change in pod.phases[1:]}
    for container in pod.containers:
        for run in container.runs:
            times |= {run.started_at, run.ended_at}
    return {t for t in times if t is not None and t >= pod.created_at}


def pod_document(pod: PodLifetime, step: PodStep, resource_version: int) -> Document:
    """The pod as the API server shows it from this step on."""
    meta = metadata(
        name=pod.name,
        namespace=pod.namespace,
        uid=pod.uid,
        created_at=pod.created_at,
        resource_version=resource_version,
        labels=pod.labels,
        annotations=pod.annotations,
        owners=[owner_reference(pod.owners[0])] if pod.owners else None,
        generation=1,
    )
    if pod.owners:
        meta["generateName"] = pod.name.rpartition("-")[0] + "-"
    requested_at = pod.deletion_requested_at
    if requested_at is not None and step.at >= requested_at:
        meta["generation"] = 2
        meta["deletionTimestamp"] = time_text(requested_at + pod.grace_seconds)
        meta["deletionGracePeriodSeconds"] = pod.grace_seconds
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": _spec(pod, step),
        "status": _status(pod, step),
    }


def owner_reference(owner: OwnerRef) -> Document:
    return {
        "apiVersion": owner.api_version,
        "blockOwnerDeletion": True,
        "controller": True,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    }


# --- requests ------------------------------------------------------------------------------------


def _spec(pod: PodLifetime, step: PodStep) -> Document:
    spec: Document = {
        "containers": [_container(c) for c in pod.containers if c.kind == "main"],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": pod.priority,
        "restartPolicy": pod.restart_policy,
        "schedulerName": pod.scheduler_name,
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": pod.grace_seconds or 30,
        "tolerations": [
            _tolerates("node.kubernetes.io/not-ready"),
            _tolerates("node.kubernetes.io/unreachable"),
        ],
    }
    before = [_container(c) for c in pod.containers if c.kind != "main"]
    if before:
        spec["initContainers"] = before
    if step.bound:
        spec["nodeName"] = pod.node_name
    named = [claim for claim in pod.claims if not claim.extended_resource]
    if named:
        spec["resourceClaims"] = [
            {"name": c.name, "resourceClaimTemplateName": c.template_name}
            if c.template_name
            else {"name": c.name, "resourceClaimName": c.claim_name}
            for c in named
        ]
    return spec


def _tolerates(key: str) -> Document:
    return {"effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": 300}


def _container(container: Container) -> Document:
    asked = quantities(container.requests)
    document: Document = {
        "name": container.name,
        "image": container.image,
        "imagePullPolicy": "Always",
        "resources": {"limits": asked, "requests": dict(asked)} if asked else {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    if container.kind == "sidecar":
        document["restartPolicy"] = "Always"
    return document


# --- written by the scheduler and the kubelet ----------------------------------------------------


def _status(pod: PodLifetime, step: PodStep) -> Document:
    at = step.at
    change = _phase_at(pod, at)
    status: Document = {"phase": change[0], "qosClass": "BestEffort"}
    if change[1]:
        status["reason"] = change[1]
        status["message"] = _MESSAGES.get(change[1], f"Pod ended: {change[1]}")
    conditions = _conditions(pod, step)
    if conditions:
        status["conditions"] = conditions
    _add_claims(pod, step, status)
    if pod.acknowledged_at is None or at < pod.acknowledged_at:
        return status
    status["startTime"] = time_text(pod.acknowledged_at)
    status["containerStatuses"] = [
        _container_status(pod, c, at) for c in pod.containers if c.kind == "main"
    ]
    before = [_container_status(pod, c, at) for c in pod.containers if c.kind != "main"]
    if before:
        status["initContainerStatuses"] = before
    if pod.pod_ip:
        status["podIP"] = pod.pod_ip
        status["podIPs"] = [{"ip": pod.pod_ip}]
    return status


_MESSAGES = {
    "Evicted": "The node was low on resource: memory.",
    "Preempting": "Preempted in order to admit critical pod",
    "NodeLost": "Node which was running pod is unresponsive",
}


def _phase_at(pod: PodLifetime, at: int) -> tuple[str, str]:
    current = pod.phases[0]
    for change in pod.phases:
        if change.at <= at:
            current = change
    return current.phase, current.reason


def _add_claims(pod: PodLifetime, step: PodStep, status: Document) -> None:
    resolved = [
        {"name": c.name, "resourceClaimName": c.claim_name}
        for c in pod.claims
        if not c.extended_resource
    ]
    if resolved:
        status["resourceClaimStatuses"] = resolved
    for claim in pod.claims:
        if claim.extended_resource and step.bound:
            status["extendedResourceClaimStatus"] = {
                "resourceClaimName": claim.claim_name,
                "requestMappings": [
                    {
                        "containerName": container.name,
                        "resourceName": resource,
                        "requestName": f"container-{index}-request-0",
                    }
                    for index, container in enumerate(pod.containers)
                    for resource in sorted(container.requests)
                ],
            }


def _run_at(pod: PodLifetime, container: Container, at: int) -> tuple[int, Run] | None:
    """The latest run that has begun, and how many there were before it."""
    begun = [(index, run) for index, run in enumerate(container.runs) if run.started_at <= at]
    return begun[-1] if begun else None


def _ended(pod: PodLifetime, container: Container, run: Run, at: int) -> bool:
    """Whether the status shows it: an end that was not reported stays `running` for ever."""
    if run.ended_at is None or run.ended_at > at:
        return False
    return pod.end_reported or run is not container.runs[-1]


def _container_status(pod: PodLifetime, container: Container, at: int) -> Document:
    begun = _run_at(pod, container, at)
    status: Document = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "lastState": {},
        "ready": False,
        "started": False,
        "restartCount": 0,
    }
    if begun is None:
        started_mains = any(_run_at(pod, c, at) for c in pod.containers if c.kind == "main")
        waits_for_init = _has_init(pod) and not started_mains
        reason = "PodInitializing" if waits_for_init else "ContainerCreating"
        status["state"] = {"waiting": {"reason": reason}}
        return status
    index, run = begun
    status["imageID"] = f"{container.image.split(':')[0]}@sha256:{sha256(container.image)}"
    status["containerID"] = _container_id(pod, container, index)
    status["restartCount"] = index
    if index:
        status["lastState"] = _terminated(pod, container, index - 1)
    if not _ended(pod, container, run, at):
        status["state"] = {"running": {"startedAt": time_text(run.started_at)}}
        status["started"] = True
        status["ready"] = container.kind != "init"
    elif index + 1 < len(container.runs):
        status["state"] = {
            "waiting": {
                "reason": "CrashLoopBackOff",
                "message": f"back-off restarting failed container={container.name}",
            }
        }
        status["lastState"] = _terminated(pod, container, index)
    else:
        status["state"] = _terminated(pod, container, index)
        status["ready"] = container.kind == "init" and run.exit_code == 0
    return status


def _has_init(pod: PodLifetime) -> bool:
    return any(c.kind != "main" for c in pod.containers)


def _container_id(pod: PodLifetime, container: Container, index: int) -> str:
    return f"containerd://{sha256([pod.uid, container.name, index])}"


def _terminated(pod: PodLifetime, container: Container, index: int) -> Document:
    run = container.runs[index]
    ended_at = run.ended_at if run.ended_at is not None else run.started_at
    return {
        "terminated": {
            "containerID": _container_id(pod, container, index),
            "exitCode": run.exit_code,
            "finishedAt": time_text(ended_at),
            "reason": run.reason or ("Completed" if run.exit_code == 0 else "Error"),
            "startedAt": time_text(run.started_at),
        }
    }


# --- conditions ----------------------------------------------------------------------------------


def _conditions(pod: PodLifetime, step: PodStep) -> list[Document]:
    if not step.tried:
        return []
    if not step.bound:
        message = "0 nodes are available: insufficient free devices."
        return [_condition("PodScheduled", False, pod.created_at, "Unschedulable", message)]
    assert pod.scheduled_at is not None
    scheduled = _condition("PodScheduled", True, pod.scheduled_at)
    if pod.acknowledged_at is None or step.at < pod.acknowledged_at:
        return [scheduled]
    return [
        _since("PodReadyToStartContainers", _has_sandbox, pod, step.at, ""),
        _since("Initialized", _is_initialised, pod, step.at, "ContainersNotInitialized"),
        _since("Ready", _is_ready, pod, step.at, _not_ready_reason(pod, step.at)),
        _since("ContainersReady", _is_ready, pod, step.at, _not_ready_reason(pod, step.at)),
        scheduled,
    ]


def _condition(kind: str, holds: bool, since: int, reason: str = "", message: str = "") -> Document:
    condition: Document = {
        "lastProbeTime": None,
        "lastTransitionTime": time_text(since),
        "status": "True" if holds else "False",
        "type": kind,
    }
    if reason and not holds:
        condition["reason"] = reason
    if message and not holds:
        condition["message"] = message
    return condition


def _since(kind: str, holds: _Rule, pod: PodLifetime, at: int, reason: str) -> Document:
    """A condition with the time at which it last changed."""
    assert pod.acknowledged_at is not None
    now = holds(pod, at)
    since = pod.acknowledged_at
    for time in sorted(t for t in _fact_times(pod) if pod.acknowledged_at < t <= at):
        if holds(pod, time) != holds(pod, time - 1):
            since = time
    return _condition(kind, now, since, reason)


def _has_sandbox(pod: PodLifetime, at: int) -> bool:
    return _phase_at(pod, at)[0] not in ("Succeeded", "Failed")


def _is_initialised(pod: PodLifetime, at: int) -> bool:
    for container in pod.containers:
        if container.kind == "main":
            continue
        begun = _run_at(pod, container, at)
        if begun is None:
            return False
        _, run = begun
        done = run.ended_at is not None and run.ended_at <= at and run.exit_code == 0
        if container.kind == "init" and not done:
            return False
    return True


def _is_ready(pod: PodLifetime, at: int) -> bool:
    if _phase_at(pod, at)[0] in ("Succeeded", "Failed") and pod.end_reported:
        return False
    for container in pod.containers:
        if container.kind == "init":
            continue
        begun = _run_at(pod, container, at)
        if begun is None or _ended(pod, container, begun[1], at):
            return False
    return True


def _not_ready_reason(pod: PodLifetime, at: int) -> str:
    phase = _phase_at(pod, at)[0]
    return {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")
