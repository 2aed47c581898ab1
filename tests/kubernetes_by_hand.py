"""Short Kubernetes objects written by hand, and a journal state that receives them.

Put here: documents for tests of the collector's pure parts.
Not here: the simulated API server's objects, which come from a fleet.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from ingestion.kubernetes.journal_lines import Line
from ingestion.kubernetes.journal_state import JournalState
from ingestion.kubernetes.observations import Bookmark, Broken, Event, Listed

NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)


def at(seconds: int) -> datetime:
    """The instant this number of seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def text(seconds: int) -> str:
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(started: int) -> dict[str, Any]:
    return {"running": {"startedAt": text(started)}}


def terminated(started: int, finished: int | None, exit_code: int = 0) -> dict[str, Any]:
    inside: dict[str, Any] = {"exitCode": exit_code, "startedAt": text(started)}
    if finished is not None:
        inside["finishedAt"] = text(finished)
    return {"terminated": inside}


def pod(
    uid: str,
    version: int,
    *,
    phase: str = "Running",
    states: dict[str, dict[str, Any]] | None = None,
    bound: int | None = 0,
    gpus: int = 1,
    name: str = "",
    deleting: int | None = None,
    restarts: int = 0,
    last_state: dict[str, Any] | None = None,
    sidecars: dict[str, dict[str, Any]] | None = None,
    node: str = "node-a",
) -> dict[str, Any]:
    """A pod whose containers are in these states (one running container `main` by default)."""
    states = states if states is not None else {"main": running(10)}
    sidecars = sidecars or {}
    meta: dict[str, Any] = {
        "name": name or uid,
        "namespace": "team-a",
        "uid": uid,
        "resourceVersion": str(version),
        "creationTimestamp": text(-10),
    }
    if deleting is not None:
        meta |= {"deletionTimestamp": text(deleting), "deletionGracePeriodSeconds": 30}
    conditions = []
    if bound is not None:
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": text(bound)}
        conditions.append(scheduled)
    asked = {"requests": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    return {
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            "containers": [{"name": n, "resources": asked} for n in states or {"main": {}}],
            "initContainers": [{"name": n, "restartPolicy": "Always"} for n in sidecars],
        }
        | ({"nodeName": node} if bound is not None else {}),
        "status": {
            "phase": phase,
            "conditions": conditions,
            "containerStatuses": [
                {
                    "name": n,
                    "restartCount": restarts,
                    "state": s,
                    "lastState": last_state or {},
                }
                for n, s in states.items()
            ],
            "initContainerStatuses": [
                {"name": n, "restartCount": 0, "state": s, "lastState": {}}
                for n, s in sidecars.items()
            ],
        },
    }


def listed(
    *documents: dict[str, Any],
    version: int,
    seconds: int,
    why: str = "start",
    complete: bool = True,
    resource: str = "pods",
    reason: str = "",
) -> Listed:
    moment = at(seconds)
    return Listed(resource, moment, moment, why, documents, version, complete, reason)


def event_of(verb: str, document: dict[str, Any], seconds: int, resource: str = "pods") -> Event:
    version = int(document["metadata"]["resourceVersion"])
    return Event(resource, at(seconds), verb, document, version)


def mark(version: int, seconds: int, resource: str = "pods") -> Bookmark:
    return Bookmark(resource, at(seconds), version)


def broken(seconds: int, resource: str = "pods", reason: str = "cut") -> Broken:
    return Broken(resource, at(seconds), reason)


def tell(state: JournalState, *observations: Any) -> list[Line]:
    """The lines of all these observations, one after the other."""
    return [line for observation in observations for line in state.apply(observation)]


def of_kind(lines: list[Line], kind: str, **parts: Any) -> list[Line]:
    chosen = [line for line in lines if line["line"] == kind]
    return [x for x in chosen if all(x.get(k) == v for k, v in parts.items())]


def vias(lines: list[Line]) -> list[tuple[str, str]]:
    """(uid, via) of every observation."""
    objects = of_kind(lines, "object")
    return [(line["object"]["metadata"]["uid"], line["via"]) for line in objects]


def changes(lines: list[Line]) -> list[tuple[str, str]]:
    """(uid, via) of every observation, without unchanged pods of a list."""
    return [(uid, via) for uid, via in vias(lines) if via != "list"]
