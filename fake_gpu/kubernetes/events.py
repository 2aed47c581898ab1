"""Events about pods, as the scheduler, the kubelet and the controllers leave them behind.

Put here: the event of each change of a pod, and how long it is kept.
Not here: the changes themselves (`objects`). Nothing that bills may depend on events: real ones
expire, are aggregated and rate-limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from fake_gpu.kubernetes.forms import Document, derived_uid, metadata, time_text
from fake_gpu.kubernetes.objects import Change

# How long an API server keeps an event, by default.
EVENT_SECONDS = 3600


def event_changes(changes: Iterable[Change], version_at: Callable[[int], int]) -> list[Change]:
    """Every event of these pods: added with its change, deleted an hour later."""
    events: list[Change] = []
    seen: set[tuple[str, str]] = set()
    for change in changes:
        if change.kind != "Pod":
            continue
        for reason, message in _reasons(change.undistorted):
            if (change.uid, reason) in seen:
                continue
            seen.add((change.uid, reason))
            events += _event_changes(change, reason, message, version_at)
    return sorted(events, key=lambda event: event.resource_version)


def _reasons(pod: Document) -> Iterator[tuple[str, str]]:
    """The events of a pod in its present state."""
    status = pod["status"]
    for condition in status.get("conditions", []):
        if condition.get("reason") == "Unschedulable":
            yield "FailedScheduling", condition["message"]
    if pod["spec"].get("nodeName"):
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        yield "Scheduled", f"Successfully assigned {name} to {node}"
    if any("running" in c["state"] for c in status.get("containerStatuses", [])):
        yield "Started", "Started container"
    if status.get("reason") == "Evicted":
        yield "Evicted", status["message"]
    if "deletionTimestamp" in pod["metadata"]:
        yield "Killing", "Stopping container"


def _event_changes(
    change: Change, reason: str, message: str, version_at: Callable[[int], int]
) -> Iterator[Change]:
    name = f"{change.name}.{derived_uid('event', change.uid, reason)[:13].replace('-', '')}"
    uid = derived_uid("event", change.uid, reason)
    build = partial(_document, change, name, uid, reason, message)
    gone_at = change.at + EVENT_SECONDS
    namespace, version = change.namespace, change.resource_version
    yield Change(change.at, version, "Event", "ADDED", namespace, name, uid, build)
    yield Change(gone_at, version_at(gone_at), "Event", "DELETED", namespace, name, uid, build)


def _document(
    change: Change, name: str, uid: str, reason: str, message: str, version: int
) -> Document:
    """The first and only event of its kind about a pod."""
    warns = reason in ("Evicted", "FailedScheduling")
    source = "default-scheduler" if reason.endswith(("Scheduling", "Scheduled")) else "kubelet"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata(
            name=name,
            namespace=change.namespace,
            uid=uid,
            created_at=change.at,
            resource_version=version,
        ),
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": change.name,
            "namespace": change.namespace,
            "resourceVersion": str(change.resource_version),
            "uid": change.uid,
        },
        "reason": reason,
        "message": message,
        "type": "Warning" if warns else "Normal",
        "count": 1,
        "firstTimestamp": time_text(change.at),
        "lastTimestamp": time_text(change.at),
        "eventTime": None,
        "reportingComponent": source,
        "reportingInstance": "",
        "source": {"component": source},
    }
