"""The simulated fleet's objects, written unchanged into a real kube-apiserver.

Put here: writing, and reading back. Not here: comparisons.

Each object is created and receives its status through the API, with strict validation. The fields
that only the server sets (UID, times of creation and deletion) are then written into etcd, so that
all readers get the values of the fleet.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any

import httpx

from fake_gpu.kubernetes.resources import RESOURCES, Resource
from tests.servers.control_plane import ControlPlane

Document = dict[str, Any]

# etcd's own names of resources, if they differ.
STORED_AS = {"nodes": "minions", "gpubudgets": "gpu-ledger.io/gpubudgets"}
# The metadata that only the server writes.
DECIDED_BY_SERVER = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
SERVED = {resource.kind: resource for resource in RESOURCES}


def path_of(document: Document) -> str:
    """The path of this object in the API."""
    return f"{_folder(document)}/{document['metadata']['name']}"


def _folder(document: Document) -> str:
    resource = SERVED[document["kind"]]
    inside = f"/namespaces/{document['metadata']['namespace']}" if resource.namespaced else ""
    return f"{resource.path}{inside}/{resource.plural}"


def key_of(document: Document) -> str:
    """The key of this object in etcd."""
    resource, meta = SERVED[document["kind"]], document["metadata"]
    inside = f"{meta['namespace']}/" if resource.namespaced else ""
    return f"{_prefix(resource)}{inside}{meta['name']}"


def _prefix(resource: Resource) -> str:
    return f"/registry/{STORED_AS.get(resource.plural, resource.plural)}/"


def write_all(plane: ControlPlane, documents: Iterable[Document]) -> None:
    """Write objects in an order that the server accepts: namespaces first.

    A namespace in deletion accepts no new objects, so its deletion is requested last.
    """
    ordered = sorted(documents, key=lambda d: d["kind"] != "Namespace")
    with plane.client() as admin:
        for document in ordered:
            write(plane, admin, document)
        for document in ordered:
            if document["kind"] == "Namespace" and _is_going(document):
                _accepted(admin.delete(path_of(document)), document)
                _identify(plane, document)


def write(plane: ControlPlane, admin: httpx.Client, document: Document) -> None:
    """Create one object, request its deletion, set its status, and then its identity."""
    shown = _created(admin, document)
    if document["kind"] == "Namespace":
        _identify(plane, document)
        return
    if _is_going(document):
        # Deleted before it runs, because the server removes a pod that has ended at once.
        grace = {"gracePeriodSeconds": document["metadata"]["deletionGracePeriodSeconds"]}
        shown = _accepted(admin.delete(path_of(document), params=grace), document)
    if document.get("status"):
        whole = shown | {"status": document["status"]}
        path, strictly = f"{path_of(document)}/status", {"fieldValidation": "Strict"}
        _accepted(admin.put(path, params=strictly, json=whole), document)
    _identify(plane, document)


def _is_going(document: Document) -> bool:
    return "deletionTimestamp" in document["metadata"]


def _identify(plane: ControlPlane, document: Document) -> None:
    """Write the fleet's UID and times into a stored object."""
    stored = plane.stored(key_of(document))
    # The server derives other values from the UID, such as the selector of a Job.
    text = json.dumps(stored).replace(stored["metadata"]["uid"], document["metadata"]["uid"])
    stored = json.loads(text)
    # Only fields that the server has set: a namespace is identified before its deletion.
    for name in ("uid", "creationTimestamp", "deletionTimestamp"):
        if name in stored["metadata"]:
            stored["metadata"][name] = document["metadata"][name]
    plane.store(key_of(document), stored)


def _created(admin: httpx.Client, document: Document) -> Document:
    body = _as_a_client_writes(document)
    strictly = {"fieldValidation": "Strict"}
    answer = admin.post(_folder(document), params=strictly, json=body)
    if answer.status_code == 409 and document["kind"] == "Namespace":
        # kube-system exists from the start; it receives the fleet's values.
        return dict(admin.get(path_of(document)).json())
    return _accepted(answer, document)


def _as_a_client_writes(document: Document) -> Document:
    body = copy.deepcopy(document)
    body.pop("status", None)
    for name in DECIDED_BY_SERVER:
        body["metadata"].pop(name, None)
    if body["kind"] == "Job":
        # The server derives both from the UID of the Job.
        body["spec"].pop("selector", None)
        body["spec"]["template"]["metadata"].pop("labels", None)
    return body


def _accepted(answer: httpx.Response, document: Document) -> Document:
    what = f"{document['kind']} {document['metadata']['name']}"
    assert answer.status_code in (200, 201), f"{what}: {answer.text[:2000]}"
    read: Document = answer.json()
    return read


def read_back(admin: httpx.Client, document: Document) -> Document:
    """The object in the server's current form, without fields that every write changes."""
    answer = admin.get(path_of(document))
    read = _accepted(answer, document)
    read["metadata"].pop("managedFields", None)
    return read


def wipe(plane: ControlPlane) -> None:
    """Remove all objects of the fleet's kinds except kube-system, with or without finalizers."""
    system = plane.stored("/registry/namespaces/kube-system")
    for resource in RESOURCES:
        plane.remove(_prefix(resource))
    plane.store("/registry/namespaces/kube-system", system)
