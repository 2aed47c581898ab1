"""A pod's life as the documents that the API server shows of it, one per step.

Put here: the fields that the scheduler and the kubelet write into a pod, and when.
Not here: the times of changes (`fleet.model.PodLife`), or the order among objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from domain.identity import sha256
from fake_gpu.fleet.model import Container, OwnerRef, PodLife, Run
from fake_gpu.kubernetes.forms import Document, metadata, quantities, time_text

Verb = Literal["ADDED", "MODIFIED", "DELETED"]
_Rule = Callable[[PodLife, int], bool]


@dataclass(frozen=True, slots=True)
class PodStep:
    """One change of a pod's document; `bound` and `tried` order changes of one second."""

    at: int
    verb: Verb
    bound: bool  # a node is written into the spec
    tried: bool  # the scheduler has looked at it


def pod_steps(life: PodLife) -> list[PodStep]:
    """Every change of the pod's document, in order: created, tried, bound, and so on."""
    end = life.gone_at
    steps = [PodStep(life.created_at, "ADDED", False, False)]
    bound_at = life.scheduled_at
    if bound_at != life.created_at:
        steps.append(PodStep(life.created_at, "MODIFIED", False, True))
    times = sorted(t for t in _fact_times(life) if end is None or t <= end)
    for at in times:
        bound = bound_at is not None and at >= bound_at
        if at > life.created_at or bound or at == life.deletion_requested_at:
            steps.append(PodStep(at, "MODIFIED", bound, True))
    if end is not None:
        steps.append(PodStep(end, "DELETED", bound_at is not None and end >= bound_at, True))
    return steps


def _fact_times(life: PodLife) -> set[int]:
    times = {life.scheduled_at, life.acknowledged_at, life.finished_at, life.deletion_requested_at}
    times |= {change.at for change in life.phases[1:]}
    for container in life.containers:
        for run in container.runs:
            times |= {run.started_at, run.ended_at}
    return {t for t in times if t is not None and t >= life.created_at}


def pod_document(life: PodLife, step: PodStep, resource_version: int) -> Document:
    """The pod as the API server shows it from this step on."""
    meta = metadata(
        name=life.name,
        namespace=life.namespace,
        uid=life.uid,
        created_at=life.created_at,
        resource_version=resource_version,
        labels=life.labels,
        annotations=life.annotations,
        owners=[owner_reference(life.owners[0])] if life.owners else None,
        generation=1,
    )
    if life.owners:
        meta["generateName"] = life.name.rpartition("-")[0] + "-"
    requested_at = life.deletion_requested_at
    if requested_at is not None and step.at >= requested_at:
        meta["generation"] = 2
        meta["deletionTimestamp"] = time_text(requested_at + life.grace_seconds)
        meta["deletionGracePeriodSeconds"] = life.grace_seconds
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": _spec(life, step),
        "status": _status(life, step),
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


def _spec(life: PodLife, step: PodStep) -> Document:
    spec: Document = {
        "containers": [_container(c) for c in life.containers if c.kind == "main"],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": life.priority,
        "restartPolicy": life.restart_policy,
        "schedulerName": life.scheduler_name,
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": life.grace_seconds or 30,
        "tolerations": [
            _tolerates("node.kubernetes.io/not-ready"),
            _tolerates("node.kubernetes.io/unreachable"),
        ],
    }
    before = [_container(c) for c in life.containers if c.kind != "main"]
    if before:
        spec["initContainers"] = before
    if step.bound:
        spec["nodeName"] = life.node_name
    named = [claim for claim in life.claims if not claim.extended_resource]
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


def _status(life: PodLife, step: PodStep) -> Document:
    at = step.at
    change = _phase_at(life, at)
    status: Document = {"phase": change[0], "qosClass": "BestEffort"}
    if change[1]:
        status["reason"] = change[1]
        status["message"] = _MESSAGES.get(change[1], f"Pod ended: {change[1]}")
    conditions = _conditions(life, step)
    if conditions:
        status["conditions"] = conditions
    _add_claims(life, step, status)
    if life.acknowledged_at is None or at < life.acknowledged_at:
        return status
    status["startTime"] = time_text(life.acknowledged_at)
    status["containerStatuses"] = [
        _container_status(life, c, at) for c in life.containers if c.kind == "main"
    ]
    before = [_container_status(life, c, at) for c in life.containers if c.kind != "main"]
    if before:
        status["initContainerStatuses"] = before
    if life.pod_ip:
        status["podIP"] = life.pod_ip
        status["podIPs"] = [{"ip": life.pod_ip}]
    return status


_MESSAGES = {
    "Evicted": "The node was low on resource: memory.",
    "Preempting": "Preempted in order to admit critical pod",
    "NodeLost": "Node which was running pod is unresponsive",
}


def _phase_at(life: PodLife, at: int) -> tuple[str, str]:
    current = life.phases[0]
    for change in life.phases:
        if change.at <= at:
            current = change
    return current.phase, current.reason


def _add_claims(life: PodLife, step: PodStep, status: Document) -> None:
    resolved = [
        {"name": c.name, "resourceClaimName": c.claim_name}
        for c in life.claims
        if not c.extended_resource
    ]
    if resolved:
        status["resourceClaimStatuses"] = resolved
    for claim in life.claims:
        if claim.extended_resource and step.bound:
            status["extendedResourceClaimStatus"] = {
                "resourceClaimName": claim.claim_name,
                "requestMappings": [
                    {
                        "containerName": container.name,
                        "resourceName": resource,
                        "requestName": f"container-{index}-request-0",
                    }
                    for index, container in enumerate(life.containers)
                    for resource in sorted(container.requests)
                ],
            }


def _run_at(life: PodLife, container: Container, at: int) -> tuple[int, Run] | None:
    """The latest run that has begun, and how many there were before it."""
    begun = [(index, run) for index, run in enumerate(container.runs) if run.started_at <= at]
    return begun[-1] if begun else None


def _ended(life: PodLife, container: Container, run: Run, at: int) -> bool:
    """Whether the status shows it: an end that was not reported stays `running` for ever."""
    if run.ended_at is None or run.ended_at > at:
        return False
    return life.end_reported or run is not container.runs[-1]


def _container_status(life: PodLife, container: Container, at: int) -> Document:
    begun = _run_at(life, container, at)
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
        started_mains = any(_run_at(life, c, at) for c in life.containers if c.kind == "main")
        waits_for_init = _has_init(life) and not started_mains
        reason = "PodInitializing" if waits_for_init else "ContainerCreating"
        status["state"] = {"waiting": {"reason": reason}}
        return status
    index, run = begun
    status["imageID"] = f"{container.image.split(':')[0]}@sha256:{sha256(container.image)}"
    status["containerID"] = _container_id(life, container, index)
    status["restartCount"] = index
    if index:
        status["lastState"] = _terminated(life, container, index - 1)
    if not _ended(life, container, run, at):
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
        status["lastState"] = _terminated(life, container, index)
    else:
        status["state"] = _terminated(life, container, index)
        status["ready"] = container.kind == "init" and run.exit_code == 0
    return status


def _has_init(life: PodLife) -> bool:
    return any(c.kind != "main" for c in life.containers)


def _container_id(life: PodLife, container: Container, index: int) -> str:
    return f"containerd://{sha256([life.uid, container.name, index])}"


def _terminated(life: PodLife, container: Container, index: int) -> Document:
    run = container.runs[index]
    ended_at = run.ended_at if run.ended_at is not None else run.started_at
    return {
        "terminated": {
            "containerID": _container_id(life, container, index),
            "exitCode": run.exit_code,
            "finishedAt": time_text(ended_at),
            "reason": run.reason or ("Completed" if run.exit_code == 0 else "Error"),
            "startedAt": time_text(run.started_at),
        }
    }


# --- conditions ----------------------------------------------------------------------------------


def _conditions(life: PodLife, step: PodStep) -> list[Document]:
    if not step.tried:
        return []
    if not step.bound:
        message = "0 nodes are available: insufficient free devices."
        return [_condition("PodScheduled", False, life.created_at, "Unschedulable", message)]
    assert life.scheduled_at is not None
    scheduled = _condition("PodScheduled", True, life.scheduled_at)
    if life.acknowledged_at is None or step.at < life.acknowledged_at:
        return [scheduled]
    return [
        _since("PodReadyToStartContainers", _has_sandbox, life, step.at, ""),
        _since("Initialized", _is_initialised, life, step.at, "ContainersNotInitialized"),
        _since("Ready", _is_ready, life, step.at, _not_ready_reason(life, step.at)),
        _since("ContainersReady", _is_ready, life, step.at, _not_ready_reason(life, step.at)),
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


def _since(kind: str, holds: _Rule, life: PodLife, at: int, reason: str) -> Document:
    """A condition with the time at which it last changed."""
    assert life.acknowledged_at is not None
    now = holds(life, at)
    since = life.acknowledged_at
    for time in sorted(t for t in _fact_times(life) if life.acknowledged_at < t <= at):
        if holds(life, time) != holds(life, time - 1):
            since = time
    return _condition(kind, now, since, reason)


def _has_sandbox(life: PodLife, at: int) -> bool:
    return _phase_at(life, at)[0] not in ("Succeeded", "Failed")


def _is_initialised(life: PodLife, at: int) -> bool:
    for container in life.containers:
        if container.kind == "main":
            continue
        begun = _run_at(life, container, at)
        if begun is None:
            return False
        _, run = begun
        done = run.ended_at is not None and run.ended_at <= at and run.exit_code == 0
        if container.kind == "init" and not done:
            return False
    return True


def _is_ready(life: PodLife, at: int) -> bool:
    if _phase_at(life, at)[0] in ("Succeeded", "Failed") and life.end_reported:
        return False
    for container in life.containers:
        if container.kind == "init":
            continue
        begun = _run_at(life, container, at)
        if begun is None or _ended(life, container, begun[1], at):
            return False
    return True


def _not_ready_reason(life: PodLife, at: int) -> str:
    phase = _phase_at(life, at)[0]
    return {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")
