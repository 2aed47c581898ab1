"""The patches that stop and restore a workload of each kind, with preconditions.

Put here: the patch that stops a kind, the patch that restores it, Events and alerts about both.
Not here: which workload is stopped, and when (`idle_pruner.pruner`).

The previous state is written once, in the same patch that stops the workload. The patch names the
UID and the resource version that were read: an object that has changed since is left alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from clients.alertmanager import Alert, Alertmanager, AlertmanagerFailed, peer_addresses
from clients.kubernetes import Document, KubernetesClient, resource_path
from clients.kubernetes_errors import ServerRefused
from domain.errors import CheckFailed
from idle_pruner.cluster import (
    FIELD_MANAGER,
    NOTEBOOK_LAST_ACTIVITY,
    NOTEBOOK_STOPPED,
    PREVIOUS_STATE,
    RESTORED_AT,
    SCALED_KINDS,
    SERVING_STOPPED,
    STOP_NOTICE,
    STOPPED_AT,
    ObjectName,
    annotations_of,
    metadata_of,
)
from idle_pruner.records import instant_text


class NotRestored(CheckFailed):
    """A workload is not in the state in which the pruner left it."""

    code: ClassVar[str] = "PRUNE-001"

    def __init__(self, name: ObjectName, seen: str, remedy: str) -> None:
        super().__init__(
            where=f"restore of {name}",
            seen=seen,
            why="a restore sets exactly the previous state, and undoes no other change",
            remedy=remedy,
        )


@dataclass(frozen=True, slots=True)
class StopPlan:
    """The patch that stops a workload, and the state that it replaces."""

    patch: Document
    previous_state: dict[str, Any]


def plan_stop(name: ObjectName, document: Document, now: datetime) -> StopPlan | None:
    """The plan for stopping a workload; None if it is stopped already."""
    annotations = annotations_of(document)
    at = instant_text(now)
    if name.kind in SCALED_KINDS:
        replicas = document.get("spec", {}).get("replicas", 1)
        if replicas == 0:
            return None
        previous: dict[str, Any] = {"replicas": replicas}
        change: Document = {"spec": {"replicas": 0}}
        extra: dict[str, str | None] = {}
    elif name.kind == "Notebook":
        if NOTEBOOK_STOPPED in annotations:
            return None
        previous, change, extra = {NOTEBOOK_STOPPED: None}, {}, {NOTEBOOK_STOPPED: at}
    else:
        if annotations.get(SERVING_STOPPED) == "true":
            return None
        previous = {SERVING_STOPPED: annotations.get(SERVING_STOPPED)}
        change, extra = {}, {SERVING_STOPPED: "true"}
    extra |= {
        STOPPED_AT: at,
        PREVIOUS_STATE: json.dumps(previous, sort_keys=True),
        RESTORED_AT: None,
        STOP_NOTICE: None,
    }
    return StopPlan(change | {"metadata": _identity(document) | {"annotations": extra}}, previous)


def plan_restore(name: ObjectName, document: Document, now: datetime) -> Document:
    """The patch that sets the previous state again; `NotRestored` if the state is not ours."""
    annotations = annotations_of(document)
    if STOPPED_AT not in annotations:
        seen = f"{name} has no annotation {STOPPED_AT}; the pruner did not stop it"
        raise NotRestored(name, seen, "see `gpu-ledger prune list`")
    try:
        previous = json.loads(annotations.get(PREVIOUS_STATE, ""))
        if not isinstance(previous, dict):
            raise ValueError
    except ValueError:
        seen = f"the annotation {PREVIOUS_STATE} is not a JSON object"
        remedy = "take the previous state from `gpu-ledger prune list -o json`, and set it by hand"
        raise NotRestored(name, seen, remedy) from None
    change: Document = {}
    restored: dict[str, str | None] = {
        STOPPED_AT: None,
        PREVIOUS_STATE: None,
        RESTORED_AT: instant_text(now),
    }
    if name.kind in SCALED_KINDS:
        current = document.get("spec", {}).get("replicas", 1)
        if current != 0:
            seen = f"it has {current} replicas instead of 0; someone scaled it after the stop"
            remedy = f"remove the annotations {STOPPED_AT} and {PREVIOUS_STATE} if that is right"
            raise NotRestored(name, seen, remedy)
        replicas = previous.get("replicas")
        if not isinstance(replicas, int) or replicas < 1:
            seen = f"the annotation {PREVIOUS_STATE} has no number of replicas"
            raise NotRestored(name, seen, "scale the workload by hand")
        change = {"spec": {"replicas": replicas}}
    elif name.kind == "Notebook":
        if annotations.get(NOTEBOOK_STOPPED) != annotations[STOPPED_AT]:
            seen = f"its annotation {NOTEBOOK_STOPPED} is not that of the stop"
            raise NotRestored(name, seen, "start or stop the notebook by hand")
        # With the old value its own culler would stop it again at once.
        restored |= {NOTEBOOK_STOPPED: None, NOTEBOOK_LAST_ACTIVITY: instant_text(now)}
    else:
        if annotations.get(SERVING_STOPPED) != "true":
            seen = f"its annotation {SERVING_STOPPED} is not that of the stop"
            raise NotRestored(name, seen, "start or stop the service by hand")
        restored[SERVING_STOPPED] = previous.get(SERVING_STOPPED)
    return change | {"metadata": _identity(document) | {"annotations": restored}}


def annotate(document: Document, annotations: Mapping[str, str | None]) -> Document:
    """The patch that sets or removes annotations of exactly this version of an object."""
    return {"metadata": _identity(document) | {"annotations": dict(annotations)}}


def apply_patch(client: KubernetesClient, name: ObjectName, patch: Document) -> Document:
    path = client.object_path(name.api_version, name.kind, name.namespace, name.name)
    return client.merge_patch(path, patch, field_manager=FIELD_MANAGER)


def may_stop(client: KubernetesClient, name: ObjectName) -> bool:
    """Whether the pruner's own user may patch this kind in the namespace."""
    group = name.api_version.rpartition("/")[0]
    plural = client.plural_of(name.api_version, name.kind)
    return bool(plural) and client.is_allowed("patch", group, plural, name.namespace)


def post_event(
    client: KubernetesClient,
    name: ObjectName,
    document: Document,
    reason: str,
    message: str,
    now: datetime,
    *,
    is_warning: bool = False,
) -> None:
    """Post an Event on a workload. The same reason and message is posted once per day."""
    meta = metadata_of(document)
    identity = f"{meta.get('uid')} {reason} {message} {now.date()}"
    at = instant_text(now)
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{name.name[:200]}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}",
            "namespace": name.namespace,
        },
        "involvedObject": {
            "apiVersion": name.api_version,
            "kind": name.kind,
            "namespace": name.namespace,
            "name": name.name,
            "uid": meta.get("uid", ""),
            "resourceVersion": meta.get("resourceVersion", ""),
        },
        "reason": reason,
        "message": message[:1024],
        "type": "Warning" if is_warning else "Normal",
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
    try:
        client.create(resource_path("v1", "events", name.namespace), event)
    except ServerRefused as refused:
        if refused.status != 409:  # it exists: already posted
            raise


def post_stop_notice(
    url: str, name: ObjectName, message: str, now: datetime, not_before: datetime
) -> list[str]:
    """Post the alert to every peer at the URL; the problems as sentences."""
    alert = Alert(
        labels={
            "alertname": "GpuWorkloadWillBeStopped",
            "namespace": name.namespace,
            "workload_kind": name.kind,
            "workload": name.name,
            "severity": "warning",
        },
        annotations={"summary": message, "stop_not_before": instant_text(not_before)},
        starts_at=now,
        # It ends by itself: the stop is an Event and a record, not an alert.
        ends_at=not_before + timedelta(minutes=5),
    )
    problems = []
    for address in peer_addresses(url):
        with closing(Alertmanager(url, address)) as peer:
            try:
                peer.post([alert])
            except AlertmanagerFailed as failed:
                problems.append(f"The alert was not posted to {peer.name}: {failed.seen}.")
    return problems


def _identity(document: Document) -> dict[str, Any]:
    meta = metadata_of(document)
    return {"uid": meta.get("uid"), "resourceVersion": meta.get("resourceVersion")}
