"""The naive observer: every revision of every pod directly from etcd, without interpretation.

Put here: watching etcd from the present on, and reading single facts from a pod's revisions.
Not here: code of the collector or the watch of the API server; neither is used.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx

from domain.clock import Clock
from tests.servers.control_plane import ControlPlane
from tests.servers.process import wait_for

Document = dict[str, Any]
PREFIX = "/registry/pods/"


@dataclass(frozen=True)
class Revision:
    """One write: the new state of the pod, or its last state if it was deleted."""

    number: int
    told_at: datetime
    document: Document
    deleted: bool


@dataclass
class PodHistory:
    """One pod's revisions, first to last."""

    revisions: list[Revision] = field(default_factory=list)

    @property
    def last(self) -> Document:
        return self.revisions[-1].document

    @property
    def name(self) -> str:
        name: str = self.last["metadata"]["name"]
        return name

    @property
    def deleted(self) -> bool:
        return self.revisions[-1].deleted

    @property
    def node(self) -> str:
        return max(str(r.document["spec"].get("nodeName", "")) for r in self.revisions)

    @property
    def phase(self) -> str:
        phase: str = self.last["status"]["phase"]
        return phase

    @property
    def bound_at(self) -> str:
        """The earliest time of scheduling in any revision."""
        said = [
            condition["lastTransitionTime"]
            for revision in self.revisions
            for condition in revision.document["status"].get("conditions", [])
            if condition["type"] == "PodScheduled" and condition["status"] == "True"
        ]
        return min(said, default="")

    @property
    def started_at(self) -> str:
        """The earliest start of a main container in any revision."""
        return min((at for r in self.revisions for at in _starts(r.document)), default="")

    @property
    def ends(self) -> list[str]:
        """The last finish in each revision in which the pod and all containers have ended.

        On a busy machine, kwok may end a pod a second time, at a later time.
        """
        found = []
        for revision in self.revisions:
            states = [c["state"] for c in _statuses(revision.document)]
            leaving = "deletionTimestamp" in revision.document["metadata"]
            over = revision.document["status"]["phase"] in ("Succeeded", "Failed") or leaving
            if over and states and all("terminated" in state for state in states):
                found.append(max(str(state["terminated"]["finishedAt"]) for state in states))
        return found

    @property
    def ended_at(self) -> str:
        """The last finish in the first revision in which the pod and every container have ended."""
        return next(iter(self.ends), "")

    @property
    def restarts(self) -> int:
        return sum(c["restartCount"] for c in self.last["status"].get("containerStatuses", []))


def _statuses(document: Document) -> list[Document]:
    status = document["status"]
    return [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]


def _starts(document: Document) -> Iterator[str]:
    for container in document["status"].get("containerStatuses", []):
        for state in (container["state"], container.get("lastState", {})):
            for kind in ("running", "terminated"):
                if kind in state:
                    yield state[kind]["startedAt"]


class Observer:
    """Watches until it is closed."""

    def __init__(self, plane: ControlPlane, clock: Clock) -> None:
        self.pods: dict[str, PodHistory] = {}
        self.revision = plane.revision()
        self._plane, self._clock = plane, clock
        self._client = httpx.Client(timeout=None)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        wanted = {
            "key": _base64(PREFIX),
            "range_end": _base64(PREFIX[:-1] + "0"),
            "start_revision": self.revision + 1,
            "prev_kv": True,
        }
        url = f"http://127.0.0.1:{self._plane.etcd_port}/v3/watch"
        try:
            with self._client.stream("POST", url, json={"create_request": wanted}) as answer:
                for line in answer.iter_lines():
                    for event in json.loads(line).get("result", {}).get("events", []):
                        self._take(event)
        except (httpx.HTTPError, httpx.StreamError):
            return  # closed

    def _take(self, event: Document) -> None:
        deleted = event.get("type") == "DELETE"
        held = event["prev_kv"] if deleted else event["kv"]
        document = json.loads(base64.b64decode(held["value"]))
        number = int(event["kv"]["mod_revision"])
        history = self.pods.setdefault(document["metadata"]["uid"], PodHistory())
        history.revisions.append(Revision(number, self._clock.now(), document, deleted))
        self.revision = number

    def until(self, at: datetime) -> dict[str, PodHistory]:
        """The revisions before an instant."""
        then = {
            uid: PodHistory([r for r in pod.revisions if r.told_at < at])
            for uid, pod in self.pods.items()
        }
        return {uid: pod for uid, pod in then.items() if pod.revisions}

    def wait_until(self, revision: int) -> None:
        wait_for(lambda: self.revision >= revision, f"etcd telling of {revision}")

    def close(self) -> None:
        self._client.close()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@contextmanager
def observing(plane: ControlPlane, clock: Clock) -> Iterator[Observer]:
    observer = Observer(plane, clock)
    try:
        yield observer
    finally:
        observer.close()
