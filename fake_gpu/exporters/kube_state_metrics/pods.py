"""The families of pods.

Put here: `kube_pod_*`.
Not here: containers (`containers`), the pod's document (`fake_gpu.kubernetes.pods`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fake_gpu.exporters.exposition import FamilyHead, Pairs
from fake_gpu.exporters.kube_state_metrics.containers import own_labels, state, statuses
from fake_gpu.exporters.kube_state_metrics.forms import (
    Document,
    ObjectMetric,
    Rows,
    by_status,
    created,
    epoch,
    metadata,
    owner_rows,
    truth,
)

_PHASES = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
_REASONS = ("Evicted", "NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError")
_QOS_CLASSES = ("BestEffort", "Burstable", "Guaranteed")


def _status(pod: Document) -> Document:
    found: Document = pod.get("status", {})
    return found


# --- times ---------------------------------------------------------------------------------------


def _completion_time(pod: Document) -> Rows:
    ends = [
        epoch(ended["finishedAt"])
        for status in statuses(pod)
        if (ended := state(status, "terminated")) and ended.get("finishedAt")
    ]
    return [((), max(ends))] if ends else []


def _deletion_timestamp(pod: Document) -> Rows:
    at = metadata(pod).get("deletionTimestamp")
    return [((), epoch(at))] if at else []


def _start_time(pod: Document) -> Rows:
    at = _status(pod).get("startTime")
    return [((), epoch(at))] if at else []


def _condition_time(kind: str) -> Callable[[Document], Rows]:
    def rows(pod: Document) -> Rows:
        for condition in _status(pod).get("conditions") or []:
            if condition["type"] == kind and condition["status"] == "True":
                yield (), epoch(condition["lastTransitionTime"])

    return rows


# --- conditions and phases -----------------------------------------------------------------------


def _condition(kind: str) -> Callable[[Document], Rows]:
    def rows(pod: Document) -> Rows:
        for condition in _status(pod).get("conditions") or []:
            if condition["type"] == kind:
                for status, value in by_status(condition["status"]):
                    yield (("condition", status),), value

    return rows


def _unschedulable(pod: Document) -> Rows:
    for condition in _status(pod).get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield (), 1


def _one_of(label: str, key: str, possible: tuple[str, ...], always: bool) -> Any:
    def rows(pod: Document) -> Rows:
        now = _status(pod).get(key, "")
        if not now and not always:
            return []
        return [(((label, name),), truth(name == now)) for name in possible]

    return rows


# --- the pod -------------------------------------------------------------------------------------


def _pod_info(pod: Document) -> Rows:
    owners = metadata(pod).get("ownerReferences") or []
    no_owner: Document = {}
    owner = next((owner for owner in owners if owner.get("controller")), no_owner)
    spec, status = pod["spec"], _status(pod)
    labels = (
        ("host_ip", status.get("hostIP", "")),
        ("pod_ip", status.get("podIP", "")),
        ("node", spec.get("nodeName", "")),
        ("created_by_kind", owner.get("kind", "")),
        ("created_by_name", owner.get("name", "")),
        ("priority_class", spec.get("priorityClassName", "")),
        ("host_network", "true" if spec.get("hostNetwork") else "false"),
    )
    return [(labels, 1)]


def _ips(pod: Document) -> Rows:
    for entry in _status(pod).get("podIPs") or []:
        family = "6" if ":" in entry["ip"] else "4"
        yield (("ip", entry["ip"]), ("ip_family", family)), 1


def _spec_label(label: str, key: str) -> Callable[[Document], Rows]:
    return lambda pod: [(((label, pod["spec"].get(key, "")),), 1)]


def _tolerations(pod: Document) -> Iterator[tuple[Pairs, float]]:
    seen: set[Pairs] = set()
    for toleration in pod["spec"].get("tolerations") or []:
        seconds = toleration.get("tolerationSeconds")
        labels = (
            ("key", toleration.get("key", "")),
            ("operator", toleration.get("operator", "")),
            ("value", toleration.get("value", "")),
            ("effect", toleration.get("effect", "")),
            ("toleration_seconds", "" if seconds is None else str(seconds)),
        )
        if labels not in seen:
            seen.add(labels)
            yield labels, 1


def _claims(pod: Document) -> Rows:
    """Claims as kube-state-metrics shows them since 2026: name in the spec, resolved claim."""
    resolved = {
        entry["name"]: entry.get("resourceClaimName", "")
        for entry in _status(pod).get("resourceClaimStatuses") or []
    }
    for claim in pod["spec"].get("resourceClaims") or []:
        name = claim["name"]
        labels = (
            ("claim_name", name),
            ("resourceclaim_name", resolved.get(name) or claim.get("resourceClaimName", "")),
            ("resourceclaim_template_name", claim.get("resourceClaimTemplateName", "")),
        )
        yield labels, 1


# --- the table -----------------------------------------------------------------------------------

_STABLE = "[STABLE] "


def _family(name: str, text: str, rows: Callable[[Document], Rows]) -> ObjectMetric:
    return ObjectMetric(FamilyHead(f"kube_pod_{name}", text), "Pod", own_labels, rows)


FAMILIES: tuple[ObjectMetric, ...] = (
    _family(
        "completion_time",
        _STABLE + "Completion time in unix timestamp for a pod.",
        _completion_time,
    ),
    _family("created", _STABLE + "Unix creation timestamp", created),
    _family("deletion_timestamp", "Unix deletion timestamp", _deletion_timestamp),
    _family("info", _STABLE + "Information about pod.", _pod_info),
    _family("ips", "Pod IP addresses", _ips),
    _family("owner", _STABLE + "Information about the Pod's owner.", owner_rows),
    _family("resourceclaim_info", "Information about the resource claims of a pod.", _claims),
    _family(
        "restart_policy",
        _STABLE + "Describes the restart policy in use by this pod.",
        _spec_label("type", "restartPolicy"),
    ),
    _family("start_time", _STABLE + "Start time in unix timestamp for a pod.", _start_time),
    _family(
        "status_phase",
        _STABLE + "The pods current phase.",
        _one_of("phase", "phase", _PHASES, always=False),
    ),
    _family(
        "status_qos_class",
        "The pods current qosClass.",
        _one_of("qos_class", "qosClass", _QOS_CLASSES, always=False),
    ),
    _family(
        "status_ready",
        _STABLE + "Describes whether the pod is ready to serve requests.",
        _condition("Ready"),
    ),
    _family(
        "status_ready_time",
        "Readiness achieved time in unix timestamp for a pod.",
        _condition_time("Ready"),
    ),
    _family(
        "status_initialized_time",
        "Initialized time in unix timestamp for a pod.",
        _condition_time("Initialized"),
    ),
    _family(
        "status_container_ready_time",
        "Readiness achieved time in unix timestamp for a pod containers.",
        _condition_time("ContainersReady"),
    ),
    _family(
        "status_reason",
        "The pod status reasons",
        _one_of("reason", "reason", _REASONS, always=True),
    ),
    _family(
        "status_scheduled",
        _STABLE + "Describes the status of the scheduling process for the pod.",
        _condition("PodScheduled"),
    ),
    _family(
        "status_scheduled_time",
        _STABLE + "Unix timestamp when pod moved into scheduled status",
        _condition_time("PodScheduled"),
    ),
    _family(
        "status_unschedulable",
        _STABLE + "Describes the unschedulable status for the pod.",
        _unschedulable,
    ),
    _family("tolerations", "Information about the pod tolerations", _tolerations),
    _family(
        "service_account",
        "The service account for a pod.",
        _spec_label("service_account", "serviceAccountName"),
    ),
    _family("scheduler", "The scheduler for a pod.", _spec_label("name", "schedulerName")),
)
