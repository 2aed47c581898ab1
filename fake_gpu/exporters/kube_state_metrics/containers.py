"""The families of the containers of pods.

Put here: `kube_pod_container_*` and `kube_pod_init_container_*`.
Not here: the pods themselves (`pods`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fake_gpu.exporters.exposition import FamilyHead, MetricKind, Pairs
from fake_gpu.exporters.kube_state_metrics.forms import (
    Document,
    ObjectMetric,
    Rows,
    epoch,
    resource_rows,
    truth,
)


def own_labels(pod: Document) -> Pairs:
    about = pod["metadata"]
    return (("namespace", about["namespace"]), ("pod", about["name"]), ("uid", about["uid"]))


def statuses(pod: Document, init: bool = False) -> list[Document]:
    found: Document = pod.get("status", {})
    return found.get("initContainerStatuses" if init else "containerStatuses") or []


def state(status: Document, name: str, of: str = "state") -> Any:
    return (status.get(of) or {}).get(name)


def _containers(pod: Document, init: bool = False) -> list[Document]:
    return pod["spec"].get("initContainers" if init else "containers") or []


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
        known = {status["name"]: status for status in statuses(pod, init)}
        for container in _containers(pod, init):
            status = known.get(container["name"])
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
    for status in statuses(pod):
        current = state(status, "running") or state(status, "terminated")
        if current:
            yield (("container", status["name"]),), epoch(current["startedAt"])


def _in_state(name: str, init: bool) -> Callable[[Document], Rows]:
    def rows(pod: Document) -> Rows:
        for status in statuses(pod, init):
            yield (("container", status["name"]),), truth(state(status, name) is not None)

    return rows


def _reason(name: str, of: str, init: bool) -> Callable[[Document], Rows]:
    def rows(pod: Document) -> Rows:
        for status in statuses(pod, init):
            current = state(status, name, of)
            if current is not None:
                reason = current.get("reason", "")
                yield (("container", status["name"]), ("reason", reason)), 1

    return rows


def _of_status(read: Callable[[Document], float], init: bool) -> Callable[[Document], Rows]:
    def rows(pod: Document) -> Rows:
        for status in statuses(pod, init):
            yield (("container", status["name"]),), read(status)

    return rows


def _last_terminated(read: Callable[[Document], float]) -> Callable[[Document], Rows]:
    def rows(pod: Document) -> Rows:
        for status in statuses(pod):
            ended = state(status, "terminated", "lastState")
            if ended is not None:
                yield (("container", status["name"]),), read(ended)

    return rows


# --- the table -----------------------------------------------------------------------------------

_BETTER = (
    "by a container. It is recommended to use the kube_pod_resource_{0} metric exposed by "
    "kube-scheduler instead, as it is more precise."
)
_STABLE = "[STABLE] "
_LAST = "_last_terminated_"


def _family(
    name: str, text: str, rows: Callable[[Document], Rows], kind: MetricKind = "gauge"
) -> ObjectMetric:
    return ObjectMetric(FamilyHead(f"kube_pod_{name}", text, kind), "Pod", own_labels, rows)


def _states(init: bool) -> list[ObjectMetric]:
    """The families of the states of containers, or of init containers."""
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


FAMILIES: tuple[ObjectMetric, ...] = (
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
)
