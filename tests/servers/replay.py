"""The simulated fleet's objects, written into a real kube-apiserver exactly as they are.

Put here: writing, and reading back. Not here: what is compared.

Each object is created and given its status by the API, strictly checked, as a client of it would.
What the server alone decides (UID, times of creation and deletion) is then written into its store,
so that everybody who reads from it sees the fleet's own.
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

# etcd's own names of resources, where they differ.
STORED_AS = {"nodes": "minions"}
# What an object says of itself that no client may write.
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
    """Where the API serves this object."""
    return f"{_folder(document)}/{document['metadata']['name']}"


def _folder(document: Document) -> str:
    resource = SERVED[document["kind"]]
    inside = f"/namespaces/{document['metadata']['namespace']}" if resource.namespaced else ""
    return f"{resource.path}{inside}/{resource.plural}"


def key_of(document: Document) -> str:
    """Where etcd keeps it."""
    resource, meta = SERVED[document["kind"]], document["metadata"]
    inside = f"{meta['namespace']}/" if resource.namespaced else ""
    return f"{_prefix(resource)}{inside}{meta['name']}"


def _prefix(resource: Resource) -> str:
    return f"/registry/{STORED_AS.get(resource.plural, resource.plural)}/"


def write_all(plane: ControlPlane, documents: Iterable[Document]) -> None:
    """Write objects in an order in which a server takes them: namespaces first.

    A namespace that is going takes nothing new, so it begins to go at the end.
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
    """Create one object, ask for its deletion, give it its status, and then its identity."""
    shown = _created(admin, document)
    if document["kind"] == "Namespace":
        _identify(plane, document)
        return
    if _is_going(document):
        # Asked for while it does not run yet: of a pod that has ended nothing would be left.
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
    """Give a stored object the UID and the times that it has in the fleet."""
    stored = plane.stored(key_of(document))
    # The server derives other values from the UID: the selector of a Job.
    text = json.dumps(stored).replace(stored["metadata"]["uid"], document["metadata"]["uid"])
    stored = json.loads(text)
    # Only what the server has decided already: a namespace is identified before it goes.
    for name in ("uid", "creationTimestamp", "deletionTimestamp"):
        if name in stored["metadata"]:
            stored["metadata"][name] = document["metadata"][name]
    plane.store(key_of(document), stored)


def _created(admin: httpx.Client, document: Document) -> Document:
    body = _as_a_client_writes(document)
    strictly = {"fieldValidation": "Strict"}
    answer = admin.post(_folder(document), params=strictly, json=body)
    if answer.status_code == 409 and document["kind"] == "Namespace":
        # kube-system is there from the start; it becomes the fleet's.
        return dict(admin.get(path_of(document)).json())
    return _accepted(answer, document)


def _as_a_client_writes(document: Document) -> Document:
    body = copy.deepcopy(document)
    body.pop("status", None)
    for name in DECIDED_BY_SERVER:
        body["metadata"].pop(name, None)
    if body["kind"] == "Job":
        # A server makes both itself, from the Job's UID.
        body["spec"].pop("selector", None)
        body["spec"]["template"]["metadata"].pop("labels", None)
    return body


def _accepted(answer: httpx.Response, document: Document) -> Document:
    what = f"{document['kind']} {document['metadata']['name']}"
    assert answer.status_code in (200, 201), f"{what}: {answer.text[:2000]}"
    read: Document = answer.json()
    return read


def read_back(admin: httpx.Client, document: Document) -> Document:
    """The object as the server shows it now, without what every write changes."""
    answer = admin.get(path_of(document))
    read = _accepted(answer, document)
    read["metadata"].pop("managedFields", None)
    return read


def wipe(plane: ControlPlane) -> None:
    """Remove all objects of the fleet's kinds, whatever holds them, but kube-system."""
    system = plane.stored("/registry/namespaces/kube-system")
    for resource in RESOURCES:
        plane.remove(_prefix(resource))
    plane.store("/registry/namespaces/kube-system", system)
