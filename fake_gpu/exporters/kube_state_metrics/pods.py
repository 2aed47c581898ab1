"""The families of pods.

Put here: `kube_pod_*`.
Not here: what a pod looks like (`fake_gpu.kubernetes.pods`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fake_gpu.exporters.exposition import Head, MetricKind, Pairs
from fake_gpu.exporters.kube_state_metrics.forms import (
    Document,
    Family,
    Rows,
    by_status,
    created,
    epoch,
    metadata,
    owner_rows,
    resource_rows,
    truth,
)

_PHASES = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
_REASONS = ("Evicted", "NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError")
_QOS_CLASSES = ("BestEffort", "Burstable", "Guaranteed")


def own_labels(pod: Document) -> Pairs:
    about = pod["metadata"]
    return (("namespace", about["namespace"]), ("pod", about["name"]), ("uid", about["uid"]))


def _status(pod: Document) -> Document:
    found: Document = pod.get("status", {})
    return found


def _statuses(pod: Document, init: bool = False) -> list[Document]:
    return _status(pod).get("initContainerStatuses" if init else "containerStatuses") or []


def _containers(pod: Document, init: bool = False) -> list[Document]:
    return pod["spec"].get("initContainers" if init else "containers") or []


def _state(status: Document, name: str, of: str = "state") -> Any:
    return (status.get(of) or {}).get(name)


# --- times ---------------------------------------------------------------------------------------


def _completion_time(pod: Document) -> Rows:
    ends = [
        epoch(ended["finishedAt"])
        for status in _statuses(pod)
        if (ended := _state(status, "terminated")) and ended.get("finishedAt")
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


# --- containers ----------------------------------------------------------------------------------


def _resources(which: str, init: bool) -> Callable[[Document], Rows]:
    def rows(pod: Document) -> Rows:
        node = pod["spec"].get("nodeName", "")
        for container in _containers(pod, init):
            before = (("container", container["name"]), ("node", node))
            asked = (container.get("resources") or {}).get(which) or {}
            for labels, amount in resource_rows(asked):
                yield (*before, *labels), amount

    return rows


def _info(init: bool) -> Callable[[Document], Rows]:
    def rows(pod: Document) -> Rows:
        statuses = {status["name"]: status for status in _statuses(pod, init)}
        for container in _containers(pod, init):
            status = statuses.get(container["name"])
            if status is None:
                continue
            labels = [
                ("container", status["name"]),
                ("image_spec", container.get("image", "")),
                ("image", status.get("image", "")),
                ("image_id", status.get("imageID", "")),
                ("container_id", status.get("containerID", "")),
            ]
            if init:
                labels.append(("restart_policy", container.get("restartPolicy", "")))
            yield tuple(labels), 1

    return rows


def _state_started(pod: Document) -> Rows:
    for status in _statuses(pod):
        current = _state(status, "running") or _state(status, "terminated")
        if current:
            yield (("container", status["name"]),), epoch(current["startedAt"])


def _in_state(name: str, init: bool) -> Callable[[Document], Rows]:
    def rows(pod: Document) -> Rows:
        for status in _statuses(pod, init):
            yield (("container", status["name"]),), truth(_state(status, name) is not None)

    return rows


def _reason(name: str, of: str, init: bool) -> Callable[[Document], Rows]:
    def rows(pod: Document) -> Rows:
        for status in _statuses(pod, init):
            current = _state(status, name, of)
            if current is not None:
                reason = current.get("reason", "")
                yield (("container", status["name"]), ("reason", reason)), 1

    return rows


def _of_status(read: Callable[[Document], float], init: bool) -> Callable[[Document], Rows]:
    def rows(pod: Document) -> Rows:
        for status in _statuses(pod, init):
            yield (("container", status["name"]),), read(status)

    return rows


def _last_terminated(read: Callable[[Document], float]) -> Callable[[Document], Rows]:
    def rows(pod: Document) -> Rows:
        for status in _statuses(pod):
            ended = _state(status, "terminated", "lastState")
            if ended is not None:
                yield (("container", status["name"]),), read(ended)

    return rows


# --- the pod -------------------------------------------------------------------------------------


def _pod_info(pod: Document) -> Rows:
    owners = metadata(pod).get("ownerReferences") or []
    nobody: Document = {}
    owner = next((owner for owner in owners if owner.get("controller")), nobody)
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
    """As kube-state-metrics shows claims since 2026: the spec's name and what it resolved to."""
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

_BETTER = (
    "by a container. It is recommended to use the kube_pod_resource_{0} metric exposed by "
    "kube-scheduler instead, as it is more precise."
)
_STABLE = "[STABLE] "
_LAST = "_last_terminated_"


def _family(
    name: str, text: str, rows: Callable[[Document], Rows], kind: MetricKind = "gauge"
) -> Family:
    return Family(Head(f"kube_pod_{name}", text, kind), "Pod", own_labels, rows)


def _states(init: bool) -> list[Family]:
    """What kube-state-metrics says of the states of containers, or of init containers."""
    prefix = "init_container_status_" if init else "container_status_"
    one, many = ("init container", "init containers") if init else ("container", "containers")
    restarts = "restarts for the init container" if init else "container restarts per container"
    waiting = f"{'' if init else _STABLE}Describes the reason the {one} is currently in waiting"
    families = [
        _family(
            prefix + "ready",
            f"{_STABLE}Describes whether the {many} readiness check succeeded.",
            _of_status(lambda status: truth(status.get("ready")), init),
        ),
        _family(
            prefix + "restarts_total",
            f"{_STABLE}The number of {restarts}.",
            _of_status(lambda status: float(status.get("restartCount", 0)), init),
            "counter",
        ),
    ]
    for name in ("running", "terminated"):
        text = f"{_STABLE}Describes whether the {one} is currently in {name} state."
        families.append(_family(prefix + name, text, _in_state(name, init)))
    families += [
        _family(
            prefix + "terminated_reason",
            f"Describes the reason the {one} is currently in terminated state.",
            _reason("terminated", "state", init),
        ),
        _family(
            prefix + "waiting",
            f"{_STABLE}Describes whether the {one} is currently in waiting state.",
            _in_state("waiting", init),
        ),
        _family(prefix + "waiting_reason", f"{waiting} state.", _reason("waiting", "state", init)),
    ]
    return families


FAMILIES: tuple[Family, ...] = (
    _family(
        "completion_time",
        _STABLE + "Completion time in unix timestamp for a pod.",
        _completion_time,
    ),
    _family(
        "container_info", _STABLE + "Information about a container in a pod.", _info(init=False)
    ),
    _family(
        "container_resource_limits",
        "The number of requested limit resource " + _BETTER.format("limits"),
        _resources("limits", init=False),
    ),
    _family(
        "container_resource_requests",
        "The number of requested request resource " + _BETTER.format("requests"),
        _resources("requests", init=False),
    ),
    _family(
        "container_state_started",
        _STABLE + "Start time in unix timestamp for a pod container.",
        _state_started,
    ),
    _family(
        "container_status" + _LAST + "reason",
        "Describes the last reason the container was in terminated state.",
        _reason("terminated", "lastState", init=False),
    ),
    _family(
        "container_status" + _LAST + "exitcode",
        "Describes the exit code for the last container in terminated state.",
        _last_terminated(lambda ended: float(ended["exitCode"])),
    ),
    _family(
        "container_status" + _LAST + "timestamp",
        "Last terminated time for a pod container in unix timestamp.",
        _last_terminated(lambda ended: epoch(ended["finishedAt"])),
    ),
    *_states(init=False),
    _family("created", _STABLE + "Unix creation timestamp", created),
    _family("deletion_timestamp", "Unix deletion timestamp", _deletion_timestamp),
    _family("info", _STABLE + "Information about pod.", _pod_info),
    _family("ips", "Pod IP addresses", _ips),
    _family(
        "init_container_info",
        _STABLE + "Information about an init container in a pod.",
        _info(init=True),
    ),
    _family(
        "init_container_resource_limits",
        "The number of requested limit resource by an init container.",
        _resources("limits", init=True),
    ),
    _family(
        "init_container_resource_requests",
        "The number of requested request resource by an init container.",
        _resources("requests", init=True),
    ),
    _family(
        "init_container_status" + _LAST + "reason",
        "Describes the last reason the init container was in terminated state.",
        _reason("terminated", "lastState", init=True),
    ),
    *_states(init=True),
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
