"""The kept fields of each Kubernetes object: an allow-list, field by field.

Put here: which pods are relevant, and the projection of each kind that goes into the journal.
Not here: comparing observations (`journal_state`), or writing them (`journal`).

Environment variables, annotations, commands, messages and volumes are never stored: tenants put
secrets there. Number and length of the kept texts are limited, so no object can fill the journal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from domain.gpu.names import DEVICE_DOMAINS, may_be_a_device

Document = Mapping[str, Any]
Projection = dict[str, Any]

# Kubernetes allows 253 for a name and 63 for a label's value; anything longer is not from there.
TEXT_LIMIT = 253
# A pod of the API server may have more; no billed fact needs more.
LIST_LIMIT = 256

POD_LABELS = (
    "app",
    "app.kubernetes.io/component",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/name",
    "app.kubernetes.io/part-of",
    "batch.kubernetes.io/job-name",
    "job-name",
    "kueue.x-k8s.io/queue-name",
    "leaderworkerset.sigs.k8s.io/name",
    "notebook-name",
    "pod-template-hash",
    "ray.io/cluster",
    "serving.kserve.io/inferenceservice",
    "training.kubeflow.org/job-name",
)
NODE_LABEL_PREFIXES = (
    *(f"{domain}/" for domain in DEVICE_DOMAINS),
    "feature.node.kubernetes.io/amd-gpu",
    "node-role.kubernetes.io/",
    "topology.kubernetes.io/",
)
NODE_LABELS = ("kubernetes.io/hostname", "node.kubernetes.io/instance-type")
# Rewritten whenever feature discovery restarts; says nothing about the node.
NODE_LABELS_LEFT_OUT = ("nvidia.com/gfd.timestamp",)

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


def matters(pod: Document) -> bool:
    """Whether a pod requests a device, or uses a claim that may be one."""
    spec = _mapping(pod.get("spec"))
    if spec.get("resourceClaims") or _mapping(pod.get("status")).get("extendedResourceClaimStatus"):
        return True
    containers = [*_items(spec.get("containers")), *_items(spec.get("initContainers"))]
    return any(_device_requests(container) for container in containers)


def _device_requests(container: Document) -> dict[str, str]:
    asked = extended_requests(container)
    return {name: text for name, text in asked.items() if may_be_a_device(name) and text != "0"}


def extended_requests(container: Document) -> dict[str, str]:
    """A container's requests besides CPU, memory and storage: raw names and quantities."""
    resources = _mapping(container.get("resources"))
    # Kubernetes writes both; a missing one equals the other.
    asked = {**_mapping(resources.get("limits")), **_mapping(resources.get("requests"))}
    return {
        _text(name): _text(quantity)
        for name, quantity in sorted(asked.items())[:LIST_LIMIT]
        if "/" in name and not name.startswith("requests.")
    }


# --- projections ---------------------------------------------------------------------------------


def pod(document: Document, kept_labels: tuple[str, ...] = POD_LABELS) -> Projection:
    spec, status = _mapping(document.get("spec")), _mapping(document.get("status"))
    labels = _mapping(_mapping(document.get("metadata")).get("labels"))
    projection: Projection = {
        "metadata": _metadata(document) | {"labels": _chosen(labels, kept_labels)},
        "spec": {
            "nodeName": _text(spec.get("nodeName")),
            "restartPolicy": _text(spec.get("restartPolicy")),
            "containers": [_container(c) for c in _items(spec.get("containers"))],
            "initContainers": [_container(c) for c in _items(spec.get("initContainers"))],
            "resourceClaims": [
                _texts(c, "name", "resourceClaimName", "resourceClaimTemplateName")
                for c in _items(spec.get("resourceClaims"))
            ],
        },
        "status": {
            "phase": _text(status.get("phase")),
            "reason": _text(status.get("reason")),
            "startTime": time_or_empty(status.get("startTime")),
            "conditions": [_condition(c) for c in _items(status.get("conditions"))],
            "containerStatuses": _container_statuses(status, "containerStatuses"),
            "initContainerStatuses": _container_statuses(status, "initContainerStatuses"),
            "resourceClaimStatuses": [
                _texts(c, "name", "resourceClaimName")
                for c in _items(status.get("resourceClaimStatuses"))
            ],
        },
    }
    extended = _mapping(status.get("extendedResourceClaimStatus"))
    if extended:
        projection["status"]["extendedResourceClaim"] = _text(extended.get("resourceClaimName"))
    return projection


def _metadata(document: Document) -> Projection:
    meta = _mapping(document.get("metadata"))
    owners = [o for o in _items(meta.get("ownerReferences")) if o.get("controller")]
    projection: Projection = _texts(meta, "name", "namespace", "uid", "resourceVersion")
    projection["creationTimestamp"] = time_or_empty(meta.get("creationTimestamp"))
    if meta.get("deletionTimestamp"):
        projection["deletionTimestamp"] = time_or_empty(meta.get("deletionTimestamp"))
        projection["deletionGracePeriodSeconds"] = _int_or_zero(
            meta.get("deletionGracePeriodSeconds")
        )
    if owners:
        projection["owner"] = _texts(owners[0], "apiVersion", "kind", "name", "uid")
    return projection


def _container(document: Document) -> Projection:
    projection: Projection = {
        "name": _text(document.get("name")),
        "requests": extended_requests(document),
    }
    if document.get("restartPolicy"):
        projection["restartPolicy"] = _text(document.get("restartPolicy"))
    claims = _items(_mapping(document.get("resources")).get("claims"))
    if claims:
        projection["claims"] = [_texts(c, "name", "request") for c in claims]
    return projection


def _condition(document: Document) -> Projection:
    return _texts(document, "type", "status", "reason") | {
        "lastTransitionTime": time_or_empty(document.get("lastTransitionTime"))
    }


def _container_statuses(status: Document, name: str) -> list[Projection]:
    return [
        {
            "name": _text(c.get("name")),
            "restartCount": _count(c.get("restartCount")),
            "state": _container_state(_mapping(c.get("state"))),
            "lastState": _container_state(_mapping(c.get("lastState"))),
        }
        for c in _items(status.get(name))
    ]


def _container_state(state: Document) -> Projection:
    for kind in ("running", "terminated", "waiting"):
        if kind not in state:
            continue
        inside = _mapping(state[kind])
        projection: Projection = _texts(inside, "reason")
        for time in ("startedAt", "finishedAt"):
            if inside.get(time):
                projection[time] = time_or_empty(inside[time])
        if kind == "terminated":
            projection["exitCode"] = _int_or_zero(inside.get("exitCode"))
        return {kind: projection}
    return {}


def node(document: Document) -> Projection:
    spec, status = _mapping(document.get("spec")), _mapping(document.get("status"))
    labels = _mapping(_mapping(document.get("metadata")).get("labels"))
    ready = [c for c in _items(status.get("conditions")) if c.get("type") == "Ready"]
    return {
        "metadata": _metadata(document) | {"labels": _node_labels(labels)},
        "unschedulable": bool(spec.get("unschedulable", False)),
        "ready": [_condition(c) for c in ready],
        "capacity": _extended(status.get("capacity")),
        "allocatable": _extended(status.get("allocatable")),
    }


def _node_labels(labels: Document) -> dict[str, str]:
    kept = {
        name: value
        for name, value in labels.items()
        if (name.startswith(NODE_LABEL_PREFIXES) or name in NODE_LABELS)
        and name not in NODE_LABELS_LEFT_OUT
    }
    return _chosen(kept, tuple(kept))


def _extended(resources: object) -> dict[str, str]:
    pairs = sorted(_mapping(resources).items())
    return {_text(name): _text(quantity) for name, quantity in pairs[:LIST_LIMIT] if "/" in name}


def namespace(document: Document) -> Projection:
    phase = _mapping(document.get("status")).get("phase")
    return {"metadata": _metadata(document), "phase": _text(phase)}


def quota(document: Document) -> Projection:
    status = _mapping(document.get("status"))
    return {
        "metadata": _metadata(document),
        "hard": _device_quota(status.get("hard")),
        "used": _device_quota(status.get("used")),
    }


def _device_quota(counts: object) -> dict[str, str]:
    """Requests of extended resources, and devices of a class: the parts of a quota about GPUs."""
    pairs = sorted(_mapping(counts).items())
    return {
        _text(name): _text(quantity)
        for name, quantity in pairs[:LIST_LIMIT]
        if (name.startswith("requests.") and "/" in name) or name.endswith("/devices")
    }


def budget(document: Document) -> Projection:
    """A GpuBudget: its spec as text, and lists of steps only where it has them."""
    spec = _mapping(document.get("spec"))
    steps = {
        name: [_text(step) for step in spec[name][:LIST_LIMIT]]
        for name in ("actualSteps", "forecastSteps")
        if isinstance(spec.get(name), list)
    }
    names = ("amount", "currency", "billingPeriod", "workload", "label")
    return {
        "metadata": _metadata(document),
        "spec": {name: _text(spec.get(name)) for name in names} | steps,
    }


def claim(document: Document) -> Projection:
    spec, status = _mapping(document.get("spec")), _mapping(document.get("status"))
    requests = _items(_mapping(spec.get("devices")).get("requests"))
    allocation = _mapping(status.get("allocation"))
    results = _items(_mapping(allocation.get("devices")).get("results"))
    annotations = _mapping(_mapping(document.get("metadata")).get("annotations"))
    extended = annotations.get("resource.kubernetes.io/extended-resource-claim") == "true"
    return {
        "metadata": _metadata(document),
        "extendedResource": extended,
        "requests": [_claim_request(r) for r in requests],
        "allocatedAt": time_or_empty(allocation.get("allocationTimestamp")),
        "results": [_claim_result(r) for r in results],
        "reservedFor": [
            _texts(r, "name", "uid")
            for r in _items(status.get("reservedFor"))
            if r.get("resource") == "pods"
        ],
    }


def _claim_result(result: Document) -> Projection:
    """An allocated device; with `shareID` it is a share of it, and `consumedCapacity` its size."""
    projection = _texts(result, "driver", "pool", "device", "request", "shareID")
    projection["adminAccess"] = bool(result.get("adminAccess", False))
    if result.get("consumedCapacity"):
        projection["consumedCapacity"] = _quantities(result["consumedCapacity"])
    return projection


def _claim_request(request: Document) -> Projection:
    """A request; of a prioritised list each alternative, because a result names the chosen one."""
    exactly = _mapping(request.get("exactly")) or request
    projection = _texts(request, "name") | {
        "deviceClassName": _text(exactly.get("deviceClassName")),
        "allocationMode": _text(exactly.get("allocationMode")),
        "count": _int_or_zero(exactly.get("count", 1)),
        "adminAccess": bool(exactly.get("adminAccess", False)),
    }
    capacity = _mapping(exactly.get("capacity")).get("requests")
    if capacity:
        projection["capacity"] = _quantities(capacity)
    if alternatives := _items(request.get("firstAvailable")):
        projection["firstAvailable"] = [_claim_request(a) for a in alternatives]
    return projection


def resource_slice(document: Document) -> Projection:
    spec = _mapping(document.get("spec"))
    pool = _mapping(spec.get("pool"))
    return {
        "metadata": _metadata(document),
        "driver": _text(spec.get("driver")),
        "nodeName": _text(spec.get("nodeName")),
        "pool": _text(pool.get("name")),
        "generation": _int_or_zero(pool.get("generation")),
        "devices": [_device(d) for d in _items(spec.get("devices"))],
        "sharedCounters": [
            _texts(c, "name") | {"counters": _values(c.get("counters"))}
            for c in _items(spec.get("sharedCounters"))
        ],
    }


def _device(document: Document) -> Projection:
    inside = _mapping(document.get("basic")) or document  # v1beta1 puts them one level deeper
    projection: Projection = {
        "name": _text(document.get("name")),
        "attributes": {
            _text(name): _attribute(_mapping(value))
            for name, value in _pairs(inside.get("attributes"))
        },
        "capacity": {
            _text(name): _capacity(_mapping(value))
            for name, value in _pairs(inside.get("capacity"))
        },
        "allowMultipleAllocations": bool(inside.get("allowMultipleAllocations", False)),
        "consumesCounters": [
            _texts(c, "counterSet") | {"counters": _values(c.get("counters"))}
            for c in _items(inside.get("consumesCounters"))
        ],
        "taints": [
            _texts(t, "key", "value", "effect") | {"timeAdded": time_or_empty(t.get("timeAdded"))}
            for t in _items(inside.get("taints"))
        ],
    }
    if inside.get("nodeName"):  # of a slice whose devices belong to several nodes
        projection["nodeName"] = _text(inside["nodeName"])
    return projection


def _attribute(value: Document) -> str:
    """The text of an attribute, whichever of its four types it has."""
    if isinstance(value.get("bool"), bool):
        return "true" if value["bool"] else "false"
    return _text(value.get("string") or value.get("version") or value.get("int"))


def _capacity(capacity: Document) -> Projection:
    """How much of one dimension a device has, and in which amounts claims consume it."""
    projection: Projection = {"value": _text(capacity.get("value"))}
    policy = _mapping(capacity.get("requestPolicy"))
    if policy:
        valid = policy.get("validValues")
        projection["requestPolicy"] = _texts(policy, "default") | {
            "validValues": [_text(v) for v in valid[:LIST_LIMIT]]
            if isinstance(valid, list)
            else [],
            "validRange": _texts(_mapping(policy.get("validRange")), "min", "max", "step"),
        }
    return projection


def _values(counters: object) -> dict[str, str]:
    """Counters, each an object with one `value`."""
    return {_text(name): _text(_mapping(c).get("value")) for name, c in _pairs(counters)}


def _quantities(amounts: object) -> dict[str, str]:
    return {_text(name): _text(quantity) for name, quantity in _pairs(amounts)}


def owner(document: Document) -> Projection:
    """An owner of pods, or of their owners, with the owner that it has itself."""
    return _texts(document, "apiVersion", "kind") | {"metadata": _metadata(document)}


# In the order of the lists: objects that pods refer to come before pods.
PROJECTIONS: Mapping[str, Callable[[Document], Projection]] = {
    "namespaces": namespace,
    "nodes": node,
    "resourcequotas": quota,
    "gpubudgets": budget,
    "resourceslices": resource_slice,
    "resourceclaims": claim,
    "pods": pod,
}


# --- readers of fields, for any input ------------------------------------------------------------


def time_or_empty(value: object) -> str:
    """A time as the API writes it, or "" when it is none."""
    return value if isinstance(value, str) and _is_time(value) else ""


@lru_cache(maxsize=4096)
def _is_time(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False  # 30 February
    return True


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _pairs(value: object) -> list[tuple[str, Any]]:
    return sorted(_mapping(value).items())[:LIST_LIMIT]


def _items(value: object) -> list[Mapping[str, Any]]:
    if not isinstance(value, list):
        return []
    return [item for item in value[:LIST_LIMIT] if isinstance(item, Mapping)]


def _text(value: object) -> str:
    if not isinstance(value, (str, int)):
        return ""
    # NUL ends strings in some readers; a lone surrogate has no UTF-8.
    cleaned = str(value)[:TEXT_LIMIT].replace("\0", "\N{REPLACEMENT CHARACTER}")
    return cleaned if cleaned.isascii() else cleaned.encode("utf-8", "replace").decode()


def _texts(document: Mapping[str, Any], *names: str) -> Projection:
    return {name: _text(document[name]) for name in names if document.get(name)}


def _int_or_zero(value: object) -> int:
    """A number as Kubernetes has them: 64 bits wide."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << 63:
        return 0
    return value


def _count(value: object) -> int:
    """A number as Kubernetes has restarts: 31 bits wide, and no sign."""
    number = _int_or_zero(value)
    return number if 0 <= number < 1 << 31 else 0


def _chosen(labels: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, str]:
    return {n: _text(labels[n]) for n in sorted(names)[:LIST_LIMIT] if n in labels}
