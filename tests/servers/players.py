"""People and kubelets of a real cluster in tests: they create pods and change their state.

Put here: single actions through the API. Not here: sequences of actions, or expectations.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx

Document = dict[str, Any]
GPU = "nvidia.com/gpu"
MERGE = {"Content-Type": "application/merge-patch+json"}


def now_text() -> str:
    """The machine's time in the format of a kubelet."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Players:
    """Does all actions as the admin; tests compare only the responses of the server."""

    admin: httpx.Client

    def _done(self, answer: httpx.Response) -> Document:
        assert answer.is_success, answer.text
        document: Document = answer.json()
        return document

    def namespace(self, name: str) -> None:
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self._done(self.admin.post("/api/v1/namespaces", json=document))

    def node(self, name: str, gpus: int) -> None:
        offered = {"cpu": "1000", "memory": "10Ti", "pods": "1000", GPU: str(gpus)}
        labels = {"node-role.kubernetes.io/worker": "", "nvidia.com/gpu.count": str(gpus)}
        document = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"capacity": offered, "allocatable": offered},
        }
        made = self._done(self.admin.post("/api/v1/nodes", json=document))
        # A created node has the status from its creator.
        assert made["status"]["capacity"][GPU] == str(gpus)

    def job(self, namespace: str, name: str) -> Document:
        template = {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "registry.example/train:1"}],
            }
        }
        document = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"template": template},
        }
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        return self._done(self.admin.post(path, json=document))

    def pod(
        self,
        namespace: str,
        name: str,
        gpus: int = 1,
        *,
        owner: Document | None = None,
        before: tuple[Document, ...] = (),
    ) -> None:
        """A pod with one main container; `before` are init containers and sidecars."""
        meta: Document = {"name": name, "labels": {"app": name.rpartition("-")[0] or name}}
        if owner is not None:
            meta["ownerReferences"] = [_owner(owner)]
        spec = {
            "restartPolicy": "Never" if owner else "Always",
            "containers": [container("main", gpus)],
            "initContainers": list(before),
            "terminationGracePeriodSeconds": 20,
        }
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        self._done(self.admin.post(f"/api/v1/namespaces/{namespace}/pods", json=document))

    def pods(self) -> list[Document]:
        items: list[Document] = self._done(self.admin.get("/api/v1/pods"))["items"]
        return items

    def read(self, namespace: str, name: str) -> Document:
        return self._done(self.admin.get(_pod(namespace, name)))

    def restart(self, namespace: str, name: str) -> None:
        """End the main container with an error and run it again."""
        [status] = self.read(namespace, name)["status"]["containerStatuses"]
        began, now = status["state"]["running"]["startedAt"], now_text()
        ended = {"exitCode": 137, "finishedAt": now, "reason": "OOMKilled", "startedAt": began}
        again = {
            "restartCount": status["restartCount"] + 1,
            "lastState": {"terminated": ended},
            "state": {"running": {"startedAt": now}},
        }
        self._patch_status(namespace, name, {"containerStatuses": [status | again]})

    def evict(self, namespace: str, name: str) -> None:
        """Evict the pod like a kubelet under pressure: Failed, no finish times of containers."""
        failed = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}
        self._patch_status(namespace, name, failed)

    def fail(self, namespace: str, name: str) -> None:
        """End its container with an error, permanently."""
        [status] = self.read(namespace, name)["status"]["containerStatuses"]
        began = status["state"]["running"]["startedAt"]
        ended = {"exitCode": 1, "finishedAt": now_text(), "reason": "Error", "startedAt": began}
        over = status | {"state": {"terminated": ended}, "ready": False}
        self._patch_status(namespace, name, {"phase": "Failed", "containerStatuses": [over]})

    def delete(self, namespace: str, name: str, grace: int | None = None) -> None:
        """Request its deletion; with `grace=0` it is removed at once, even if it runs."""
        params = {} if grace is None else {"gracePeriodSeconds": grace}
        self._done(self.admin.delete(_pod(namespace, name), params=params))

    def _patch_status(self, namespace: str, name: str, status: Document) -> None:
        path = f"{_pod(namespace, name)}/status"
        self._done(self.admin.patch(path, json={"status": status}, headers=MERGE))


def container(name: str, gpus: int, *, stays: bool = False) -> Document:
    asked = {GPU: str(gpus)} if gpus else {}
    document: Document = {
        "name": name,
        "image": "registry.example/train:1",
        "resources": {"limits": asked, "requests": asked},
    }
    return document | ({"restartPolicy": "Always"} if stays else {})


def _pod(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _owner(document: Document) -> Document:
    return {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "name": document["metadata"]["name"],
        "uid": document["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
