"""Writes to a Kubernetes API: scales and annotations of workloads, Events, RoleBindings.

Put here: which objects can be written, merge patches and their preconditions, objects that only
clients write.
Not here: the effect of a changed workload on its pods (`fake_gpu.fleet.cluster_simulation`), or
serving the changed scenario (`fake_gpu.serve`).

A patch of a workload becomes a change in the scenario from the next second on. So pods, samples and
the truth ledger follow from it as if it had been written there from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fake_gpu.kubernetes.answers import ApiRefusal, not_found
from fake_gpu.kubernetes.forms import Document, derived_uid, time_text
from fake_gpu.kubernetes.resources import Resource
from fake_gpu.scenario.spec import ClusterSpec, Scenario
from fake_gpu.scenario.spec_work import MAXIMUM_REPLICAS, OwnerChangeSpec, WorkloadSpec

SCALED_KINDS = ("Deployment", "StatefulSet")
STOP_ANNOTATIONS: Mapping[str, Callable[[str], bool]] = {
    "kubeflow-resource-stopped": bool,  # a Notebook is stopped by any value
    "serving.kserve.io/stop": lambda value: value == "true",
}
"""Annotations with which the controller of an object scales its workload to zero."""
BODY_BYTES_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class WorkloadPatch:
    """A change of one workload or of an object above it."""

    kind: str
    namespace: str
    name: str
    replicas: int | None  # None: as before
    annotations: Mapping[str, str]  # all of them


@dataclass
class WrittenObjects:
    """Objects that only clients wrote; they stay when the scenario changes."""

    objects: dict[tuple[str, str, str], Document] = field(default_factory=dict)
    count: int = 0

    def of(self, resource: Resource, namespace: str = "") -> list[Document]:
        return [
            document
            for (kind, where, _), document in sorted(self.objects.items())
            if kind == resource.kind and namespace in ("", where)
        ]

    def find(self, resource: Resource, namespace: str, name: str) -> Document | None:
        return self.objects.get((resource.kind, namespace, name))

    def create(self, resource: Resource, namespace: str, body: Document, at: int) -> Document:
        meta = dict(_mapping(body.get("metadata")))
        name = str(meta.get("name") or "")
        if not name:
            raise ApiRefusal(422, "Invalid", f"{resource.kind} is invalid: metadata.name: Required")
        key = (resource.kind, namespace, name)
        if key in self.objects:
            message = f'{resource.full_name} "{name}" already exists'
            raise ApiRefusal(409, "AlreadyExists", message)
        meta |= {
            "namespace": namespace,
            "uid": derived_uid("written", resource.kind, namespace, name, str(at)),
            "creationTimestamp": time_text(at),
        }
        made = {"apiVersion": resource.group_version, "kind": resource.kind} | body
        return self._keep(key, made | {"metadata": meta})

    def patch(self, resource: Resource, namespace: str, name: str, patch: Document) -> Document:
        key = (resource.kind, namespace, name)
        if key not in self.objects:
            raise not_found(resource, name)
        require_same(self.objects[key], patch)
        merged = merged_patch(self.objects[key], patch)
        meta = merged["metadata"]
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            del self.objects[key]
            return merged
        return self._keep(key, merged)

    def delete(self, resource: Resource, namespace: str, name: str, at: int) -> Document:
        """Gone at once, or marked while a finalizer holds it."""
        key = (resource.kind, namespace, name)
        if key not in self.objects:
            raise not_found(resource, name)
        document = self.objects[key]
        if not document["metadata"].get("finalizers"):
            return self.objects.pop(key)
        meta = document["metadata"] | {"deletionTimestamp": time_text(at)}
        return self._keep(key, document | {"metadata": meta})

    def _keep(self, key: tuple[str, str, str], document: Document) -> Document:
        self.count += 1
        version = {"resourceVersion": f"9{self.count:09}"}
        self.objects[key] = document | {"metadata": document["metadata"] | version}
        return self.objects[key]


def workload_patch(resource: Resource, current: Document, patch: Document) -> WorkloadPatch:
    """What a merge patch of a workload sets; Refusal where it sets anything else."""
    require_same(current, patch)
    changed = merged_patch(current, patch)
    before, after = _mapping(current.get("spec")), _mapping(changed.get("spec"))
    other = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if other and not (other == ["replicas"] and resource.kind in SCALED_KINDS):
        message = f"the simulated cluster changes replicas and annotations, not spec.{other[0]}"
        raise ApiRefusal(422, "Invalid", message)
    meta, new = _mapping(current.get("metadata")), _mapping(changed.get("metadata"))
    if any(meta.get(name) != new.get(name) for name in {**meta, **new} if name != "annotations"):
        raise ApiRefusal(
            422, "Invalid", "the simulated cluster changes replicas and annotations only"
        )
    annotations = {str(k): str(v) for k, v in _mapping(new.get("annotations")).items()}
    replicas = after.get("replicas") if other else None
    if replicas is not None and not (
        isinstance(replicas, int) and 0 <= replicas <= MAXIMUM_REPLICAS
    ):
        raise ApiRefusal(
            422, "Invalid", f"spec.replicas: {replicas!r} is not 0 to {MAXIMUM_REPLICAS}"
        )
    name, namespace = str(meta.get("name")), str(meta.get("namespace"))
    return WorkloadPatch(resource.kind, namespace, name, replicas, annotations)


def scale_document(resource: Resource, workload: Document) -> Document:
    """The scale subresource; a number of 0 is left out, as the server leaves it out."""
    meta = workload["metadata"]
    replicas = workload["spec"].get("replicas", 1)
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    count = {"replicas": replicas} if replicas else {}
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {name: meta[name] for name in kept},
        "spec": count,
        "status": count | {"selector": ""},
    }


def require_same(current: Document, patch: Document) -> None:
    """The preconditions of a patch: it may name the UID and the version that were read."""
    meta, wanted = current["metadata"], _mapping(patch.get("metadata"))
    if wanted.get("uid", meta["uid"]) != meta["uid"]:
        raise ApiRefusal(422, "Invalid", "metadata.uid: field is immutable")
    if str(wanted.get("resourceVersion", meta["resourceVersion"])) != meta["resourceVersion"]:
        message = "the object has been modified; please apply your changes to the latest version"
        raise ApiRefusal(409, "Conflict", f"Operation cannot be fulfilled: {message}")


def merged_patch(target: Any, patch: Document) -> Document:
    """An object after a JSON merge patch (RFC 7386)."""
    result: Document = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            found = result.get(name)
            result[name] = merged_patch(found, value) if isinstance(value, dict) else value
    return result


def with_patch(scenario: Scenario, cluster_name: str, patch: WorkloadPatch, at: int) -> Scenario:
    """The scenario with the change from `at` on; Refusal where the workload cannot be changed."""
    clusters = tuple(
        _changed(cluster, patch, at) if cluster.name == cluster_name else cluster
        for cluster in scenario.clusters
    )
    return replace(scenario, clusters=clusters)


def _changed(cluster: ClusterSpec, patch: WorkloadPatch, at: int) -> ClusterSpec:
    found = [w for w in cluster.workloads if _is_meant(w, patch)]
    if len(found) != 1 or found[0].pods or found[0].arrivals:
        message = f"{patch.kind} {patch.name} of the simulated cluster has a fixed course"
        raise ApiRefusal(422, "Invalid", message)
    [workload] = found
    is_own = (workload.kind, workload.name) == (patch.kind, patch.name)
    replicas = patch.replicas
    if not is_own:
        is_stopped = any(
            name in patch.annotations and stops(patch.annotations[name])
            for name, stops in STOP_ANNOTATIONS.items()
        )
        wanted = 0 if is_stopped else workload.replicas
        replicas = wanted if wanted != workload.replicas_at(at) else None
    owner = "" if is_own else f"{patch.kind}/{patch.name}"
    change = OwnerChangeSpec(at, replicas, patch.annotations, owner)
    changed = replace(workload, changes=(*workload.changes, change))
    workloads = tuple(changed if each is workload else each for each in cluster.workloads)
    return replace(cluster, workloads=workloads)


def _is_meant(workload: WorkloadSpec, patch: WorkloadPatch) -> bool:
    own = (workload.kind, workload.name)
    above = [(owner.kind, owner.name) for owner in workload.owners]
    return workload.namespace == patch.namespace and (patch.kind, patch.name) in (own, *above)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
