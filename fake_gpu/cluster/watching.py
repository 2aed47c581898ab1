"""A copy of one list of objects of the API server, kept up to date by a watch.

Put here: listing the objects, watching them, and listing them again after an error.
Not here: the reaction to a change (`agent`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from clients.kubernetes import KubernetesClient, WatchEvent, version_of
from domain.errors import LedgerError

RETRY_SECONDS = 1.0

log = logging.getLogger("fake_gpu.cluster")

Document = dict[str, Any]


class WatchedObjects(threading.Thread):
    """The objects of one API path; each change sets the event `changed`."""

    def __init__(
        self,
        client: KubernetesClient,
        path: str,
        changed: threading.Event,
        stop: threading.Event,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name=f"watch {path}", daemon=True)
        self._client = client
        self._path = path
        self._parameters = dict(parameters or {})
        self._changed = changed
        self._halt = stop
        self._objects: dict[tuple[str, str], Document] = {}
        self._lock = threading.Lock()
        self.is_complete = threading.Event()

    def objects(self) -> list[Document]:
        """The objects, sorted by namespace and name."""
        with self._lock:
            return [self._objects[key] for key in sorted(self._objects)]

    def find(self, name: str, namespace: str = "") -> Document | None:
        with self._lock:
            return self._objects.get((namespace, name))

    def run(self) -> None:
        while not self._halt.is_set():
            try:
                version = self._list()
                for event in self._client.watch(self._path, version, self._parameters):
                    if self._halt.is_set():
                        return
                    self._apply(event)
            except LedgerError as error:
                log.warning("%s; listing again", error.seen)
                self._halt.wait(RETRY_SECONDS)

    def _list(self) -> int:
        page = self._client.get(self._path, self._parameters)
        with self._lock:
            self._objects = {_key(document): document for document in page["items"]}
        self.is_complete.set()
        self._changed.set()
        return version_of(page["metadata"])

    def _apply(self, event: WatchEvent) -> None:
        if event.kind == "BOOKMARK":
            return
        with self._lock:
            if event.kind == "DELETED":
                self._objects.pop(_key(event.document), None)
            else:
                self._objects[_key(event.document)] = event.document
        self._changed.set()


def _key(document: Document) -> tuple[str, str]:
    metadata = document["metadata"]
    return str(metadata.get("namespace", "")), str(metadata["name"])
