"""The GPU workloads of one cluster, as its Kubernetes API shows them.

Put here: reading pods, owner chains, annotations, and other controllers of the replicas.
Not here: the decision (`idle_pruner.decision`), or changes of objects (`idle_pruner.actions`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from clients.kubernetes import Document, KubernetesClient, resource_path
from clients.kubernetes_errors import ServerRefused
from domain.tenant import BelongsTo, belongs_by_rule
from idle_pruner.decision import WorkloadPod

FIELD_MANAGER = "gpu-ledger-idle-pruner"
CLUSTER_ROLE = "gpu-ledger-idle-pruner-stop"
"""A RoleBinding of this ClusterRole is a namespace's opt-in."""

STOPPED_AT = "gpu-ledger.io/stopped-at"
PREVIOUS_STATE = "gpu-ledger.io/previous-state"
RESTORED_AT = "gpu-ledger.io/restored-at"
STOP_NOTICE = "gpu-ledger.io/stop-not-before"
KEEP_UNTIL = ("gpu-ledger.io/keep-until", "gpu-pruner.io/ack-until")

NOTEBOOK_STOPPED = "kubeflow-resource-stopped"
NOTEBOOK_LAST_ACTIVITY = "notebooks.kubeflow.org/last-activity"
SERVING_STOPPED = "serving.kserve.io/stop"
SERVING_LABEL = "serving.kserve.io/inferenceservice"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

OWNERS_LIMIT = 10  # the longest known chain (Knative) has six
GPU_RESOURCE = re.compile(r"(nvidia\.com|amd\.com)/.+", re.ASCII)
# Field managers that overwrite the replicas.
CONTROLLER = re.compile(
    r"argocd|flux|keda|autoscaler|operator|controller|rancher|fleet", re.IGNORECASE
)

SCALED_KINDS = ("Deployment", "ReplicaSet", "StatefulSet")
STOPPABLE_KINDS = (*SCALED_KINDS, "Notebook", "InferenceService")


@dataclass(frozen=True, slots=True, order=True)
class ObjectName:
    """One namespaced object."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Workload:
    """The object at the top of an owner chain that can be read, with its pods."""

    name: ObjectName
    document: Document  # {} for a pod without an owner that can be read
    chain: tuple[ObjectName, ...]  # from the pod's owner to the top
    replicas: tuple[WorkloadPod, ...]

    @property
    def uid(self) -> str:
        return str(metadata_of(self.document).get("uid", ""))

    @property
    def annotations(self) -> Mapping[str, str]:
        return annotations_of(self.document)

    @property
    def changed_at(self) -> datetime:
        """The last change of the specification by another than the pruner, or the last restore."""
        meta = metadata_of(self.document)
        times = [instant_of(meta.get("creationTimestamp"))]
        times.append(instant_of(self.annotations.get(RESTORED_AT)))
        for entry in _mappings(meta.get("managedFields")):
            if entry.get("manager") != FIELD_MANAGER and entry.get("subresource") != "status":
                times.append(instant_of(entry.get("time")))
        return max(times)


@dataclass
class ClusterReader:
    """Reads workloads through one client; owners are read once per pass."""

    client: KubernetesClient
    _objects: dict[ObjectName, Document | None] = field(default_factory=dict)
    _autoscaled: dict[str, list[Document]] = field(default_factory=dict)
    _opted_in: dict[str, bool] = field(default_factory=dict)

    def workloads(self, namespace: str = "") -> list[Workload]:
        """Every workload with a GPU pod that has not ended, outside of system namespaces."""
        tops: dict[ObjectName, tuple[Document, tuple[ObjectName, ...], list[WorkloadPod]]] = {}
        for pod in self.client.items(resource_path("v1", "pods", namespace)):
            meta, status = metadata_of(pod), _mapping(pod.get("status"))
            if belongs_by_rule(str(meta.get("namespace", ""))) is BelongsTo.PROVIDER:
                continue
            replica = replica_of(pod)
            if status.get("phase") in ("Succeeded", "Failed"):
                continue
            if not replica.device_count and not replica.has_claims:
                continue
            chain, document = self._owners(pod)
            name = chain[-1] if chain else ObjectName("v1", "Pod", replica.namespace, replica.name)
            tops.setdefault(name, (document, chain, []))[2].append(replica)
        return [
            Workload(name, document, chain, tuple(sorted(replicas, key=lambda r: r.name)))
            for name, (document, chain, replicas) in sorted(tops.items())
        ]

    def workload_of(self, namespace: str, pod_name: str) -> Workload | None:
        """The workload with this pod."""
        return next(
            (
                workload
                for workload in self.workloads(namespace)
                if any(replica.name == pod_name for replica in workload.replicas)
            ),
            None,
        )

    def read(self, name: ObjectName) -> Document | None:
        """An object, or None if it does not exist, is of an unknown kind, or may not be read."""
        if name not in self._objects:
            self._objects[name] = self._read(name)
        return self._objects[name]

    def _read(self, name: ObjectName) -> Document | None:
        try:
            path = self.client.object_path(name.api_version, name.kind, name.namespace, name.name)
            return self.client.find(path) if path else None
        except ServerRefused as refused:
            if refused.status == 403:
                return None
            raise

    def _owners(self, pod: Document) -> tuple[tuple[ObjectName, ...], Document]:
        """The chain of controllers from a pod upwards, and the last object that can be read."""
        namespace = str(metadata_of(pod).get("namespace", ""))
        chain: list[ObjectName] = []
        document: Document = {}
        current = pod
        while len(chain) < OWNERS_LIMIT and (owner := _controller_of(current, namespace)):
            chain.append(owner)
            found = self.read(owner)
            if found is None:
                return tuple(chain), {}
            current = document = found
        service = _mapping(metadata_of(pod).get("labels")).get(SERVING_LABEL)
        if service and not any(name.kind == "InferenceService" for name in chain):
            owner = ObjectName("serving.kserve.io/v1beta1", "InferenceService", namespace, service)
            chain.append(owner)
            document = self.read(owner) or {}
        return tuple(chain), document

    def replicas_owner(self, workload: Workload) -> str:
        """The other controller that sets the replicas of a workload; "" if there is none."""
        if QUEUE_LABEL in _mapping(metadata_of(workload.document).get("labels")):
            return "Kueue manages it"
        if workload.name.kind not in SCALED_KINDS:
            return ""
        for autoscaler in self._autoscalers(workload.name.namespace):
            target = _mapping(_mapping(autoscaler.get("spec")).get("scaleTargetRef"))
            if (target.get("kind"), target.get("name")) == (
                workload.name.kind,
                workload.name.name,
            ):
                name = metadata_of(autoscaler).get("name")
                return f"HorizontalPodAutoscaler {name} scales it"
        for entry in _mappings(metadata_of(workload.document).get("managedFields")):
            manager = str(entry.get("manager", ""))
            spec = _mapping(_mapping(entry.get("fieldsV1")).get("f:spec"))
            if "f:replicas" in spec and manager != FIELD_MANAGER and CONTROLLER.search(manager):
                return f"{manager} sets its replicas"
        return ""

    def _autoscalers(self, namespace: str) -> list[Document]:
        if namespace not in self._autoscaled:
            path = resource_path("autoscaling/v2", "horizontalpodautoscalers", namespace)
            self._autoscaled[namespace] = list(self.client.items(path))
        return self._autoscaled[namespace]

    def is_opted_in(self, namespace: str) -> bool:
        """Whether the namespace has a binding of the ClusterRole that is not being deleted."""
        if namespace not in self._opted_in:
            self._opted_in[namespace] = any(
                "deletionTimestamp" not in metadata_of(binding)
                for binding in self.opt_ins(namespace)
            )
        return self._opted_in[namespace]

    def opt_ins(self, namespace: str) -> list[Document]:
        """The RoleBindings by which a namespace opted in."""
        path = resource_path("rbac.authorization.k8s.io/v1", "rolebindings", namespace)
        return [
            binding
            for binding in self.client.items(path)
            if _mapping(binding.get("roleRef")).get("name") == CLUSTER_ROLE
        ]

    def kept_until(self, workload: Workload, now: datetime) -> datetime | None:
        """The latest valid end of an opt-out, of the workload or its namespace."""
        namespace = self.read(ObjectName("v1", "Namespace", "", workload.name.namespace)) or {}
        ends = [
            instant_of(own.get(key), if_invalid=_EPOCH)
            for own in (workload.annotations, annotations_of(namespace))
            for key in KEEP_UNTIL
        ]
        latest = max(ends)
        return latest if latest > now else None


def replica_of(pod: Document) -> WorkloadPod:
    """One pod as the decision needs it."""
    meta, spec, status = metadata_of(pod), _mapping(pod.get("spec")), _mapping(pod.get("status"))
    times = [instant_of(meta.get("creationTimestamp")), instant_of(status.get("startTime"))]
    for container in (
        *_mappings(status.get("containerStatuses")),
        *_mappings(status.get("initContainerStatuses")),
    ):
        for state in ("state", "lastState"):
            for details in _mapping(container.get(state)).values():
                times.append(instant_of(_mapping(details).get("startedAt")))
                times.append(instant_of(_mapping(details).get("finishedAt")))
    return WorkloadPod(
        namespace=str(meta.get("namespace", "")),
        name=str(meta.get("name", "")),
        uid=str(meta.get("uid", "")),
        phase=str(status.get("phase", "Unknown")),
        is_terminating="deletionTimestamp" in meta,
        device_count=_devices_of(spec),
        has_claims=bool(spec.get("resourceClaims")),
        changed_at=max(times),
    )


def _devices_of(spec: Mapping[str, Any]) -> int:
    """Requested devices that a pod holds while it runs: of its containers and its sidecars."""
    count = 0
    sidecars = [c for c in _mappings(spec.get("initContainers")) if c.get("restartPolicy")]
    for container in (*_mappings(spec.get("containers")), *sidecars):
        resources = _mapping(container.get("resources"))
        requests = {**_mapping(resources.get("limits")), **_mapping(resources.get("requests"))}
        for name, quantity in requests.items():
            if GPU_RESOURCE.fullmatch(str(name)) and str(quantity).isdecimal():
                count += int(str(quantity))
    return count


def _controller_of(document: Document, namespace: str) -> ObjectName | None:
    for owner in _mappings(metadata_of(document).get("ownerReferences")):
        if owner.get("controller") is True:
            return ObjectName(
                str(owner.get("apiVersion", "")),
                str(owner.get("kind", "")),
                namespace,
                str(owner.get("name", "")),
            )
    return None


def metadata_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(document.get("metadata"))


def annotations_of(document: Mapping[str, Any]) -> Mapping[str, str]:
    return _mapping(metadata_of(document).get("annotations"))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> Sequence[Mapping[str, Any]]:
    items: Iterable[object] = value if isinstance(value, list) else ()
    return [item for item in items if isinstance(item, Mapping)]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAR_FUTURE = datetime(9999, 1, 1, tzinfo=UTC)


def instant_of(text: object, *, if_invalid: datetime = _FAR_FUTURE) -> datetime:
    """A time of Kubernetes; 1970 for none. An unreadable time counts as a change just now."""
    if not text:
        return _EPOCH
    try:
        instant = datetime.fromisoformat(str(text))
    except ValueError:
        return if_invalid
    return instant if instant.tzinfo else if_invalid
