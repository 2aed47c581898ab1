"""An API server that keeps objects in memory: get, list, create, server-side apply, merge patch.

Put here: the server for the agent of simulated GPUs in tests without real servers.
Not here: expectations. tests/servers runs the agent on a real control plane.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import httpx

from clients.credentials import ServerAccess
from clients.kubernetes import APPLY_PATCH, KubernetesClient

Document = dict[str, Any]
STATUS_MAPS = ("capacity", "allocatable")


class ApplyingApi:
    """Objects by path; a field of a map belongs to the manager that applied it."""

    def __init__(self) -> None:
        self.objects: dict[str, Document] = {}
        self.events: list[Document] = []
        self.applied: list[tuple[str, str]] = []  # (manager, path)
        self.conflict_once = False
        self._version = 0

    def client(self) -> KubernetesClient:
        access = ServerAccess("http://api.test")
        return KubernetesClient(access, transport=httpx.MockTransport(self._respond))

    def put(self, path: str, document: Document) -> Document:
        self._version += 1
        document = copy.deepcopy(document)
        document["metadata"]["resourceVersion"] = str(self._version)
        self.objects[path] = document
        return document

    def _respond(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if request.method == "POST":
            self.events.append(json.loads(request.content))
            return httpx.Response(201, json={"metadata": {}})
        if request.method == "PATCH":
            is_apply = request.headers["content-type"] == APPLY_PATCH
            return self._apply(path, request) if is_apply else self._merge(path, request)
        if path in self.objects:
            return httpx.Response(200, json=self.objects[path])
        below = [o for key, o in self.objects.items() if key.startswith(path + "/")]
        if below:
            return httpx.Response(200, json={"items": below, "metadata": {"resourceVersion": "1"}})
        return httpx.Response(404, json={"reason": "NotFound"})

    def _apply(self, path: str, request: httpx.Request) -> httpx.Response:
        manager = request.url.params["fieldManager"]
        if self.conflict_once and request.url.params["force"] == "false":
            self.conflict_once = False
            return httpx.Response(409, json={"reason": "Conflict"})
        self.applied.append((manager, path))
        new = json.loads(request.content)
        place = path.removesuffix("/status")
        found = copy.deepcopy(self.objects.get(place) or {"metadata": {"name": path}})
        metadata = found["metadata"]
        metadata |= {k: v for k, v in new["metadata"].items() if k != "labels"}
        managed = [m for m in metadata.get("managedFields", []) if m["manager"] != manager]
        before = [m for m in metadata.get("managedFields", []) if m["manager"] == manager]
        parts = {
            "labels": (metadata, new["metadata"].get("labels") or {}),
            "data": (found, new.get("data") or {}),
            "capacity": (found.setdefault("status", {}), new.get("status", {}).get("capacity", {})),
            "allocatable": (found["status"], new.get("status", {}).get("allocatable", {})),
        }
        owned = {}
        for name, (holder, values) in parts.items():
            present = holder.setdefault(name, {}) or {}
            for entry in before:
                for key in entry["owned"].get(name, ()):
                    present.pop(key, None)
                if name in STATUS_MAPS and entry["owned"].get(name) and not values:
                    # The map is removed too, with the fields that no manager owns: those of the
                    # status with which the node was created. Labels have a manager.
                    kept = {key for other in managed for key in other["owned"].get(name, ())}
                    present = {key: value for key, value in present.items() if key in kept}
            holder[name] = present | values
            owned[name] = list(values)
        fields = {part: {f"f:{key}": {} for key in keys} for part, keys in owned.items()}
        of_status = {f"f:{part}": fields[part] for part in STATUS_MAPS}
        managed.append(
            {
                "manager": manager,
                "operation": "Apply",
                "owned": owned,
                "fieldsV1": {
                    "f:metadata": {"f:labels": fields["labels"]},
                    "f:status": of_status,
                },
            }
        )
        metadata["managedFields"] = managed
        return httpx.Response(200, json=self.put(place, found))

    def _merge(self, path: str, request: httpx.Request) -> httpx.Response:
        """A JSON merge patch that deletes resources of a node's status."""
        place = path.removesuffix("/status")
        found = copy.deepcopy(self.objects[place])
        for part, values in json.loads(request.content)["status"].items():
            for key, value in values.items():
                assert value is None
                found["status"][part].pop(key, None)
        return httpx.Response(200, json=self.put(place, found))
