"""The scheduler's `/metrics/resources`: the effective request of every pod that has not ended.

Put here: `kube_pod_resource_request` and `kube_pod_resource_limit`, from pods.
Not here: the series of kube-state-metrics about the same pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fake_gpu.exporters.exposition import FamilyHead, Pairs, SeriesLine, family_text
from fake_gpu.exporters.kube_state_metrics.forms import Document, ObjectMetric, Rows, quantity

_UNITS = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}
_SHOWS = (
    "broken down by pod. This shows the resource usage the scheduler and kubelet expect per pod "
    "for resources along with the unit for the resource if any."
)


def _nothing(_: Document) -> Pairs:
    return ()


def _rows(which: str) -> ObjectMetric:
    head = FamilyHead(
        f"kube_pod_resource_{'request' if which == 'requests' else 'limit'}",
        "[STABLE] Resources "
        + ("requested by" if which == "requests" else "limit for")
        + f" workloads on the cluster, {_SHOWS}",
    )

    def rows(pod: Document) -> Rows:
        if _terminal(pod):
            return
        for resource, amount in sorted(effective(pod, which).items()):
            if amount:
                yield _labels(pod, resource), amount

    return ObjectMetric(head, "Pod", _nothing, rows)


def _terminal(pod: Document) -> bool:
    """A pod that was never bound cannot have ended, in any phase."""
    bound = bool(pod["spec"].get("nodeName"))
    return bound and pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def effective(pod: Document, which: str = "requests") -> Mapping[str, float]:
    """max(over init i: init i + sidecars before it, sum of containers and sidecars) + overhead."""
    sidecars: dict[str, float] = {}
    peak: dict[str, float] = {}
    steady: dict[str, float] = {}
    for container in pod["spec"].get("initContainers") or []:
        stays = container.get("restartPolicy") == "Always"
        for resource, amount in _read_quantities(container, which):
            if stays:
                sidecars[resource] = sidecars.get(resource, 0) + amount
                steady[resource] = steady.get(resource, 0) + amount
            else:
                needed = amount + sidecars.get(resource, 0)
                peak[resource] = max(peak.get(resource, 0), needed)
    for container in pod["spec"].get("containers") or []:
        for resource, amount in _read_quantities(container, which):
            steady[resource] = steady.get(resource, 0) + amount
    return {r: max(peak.get(r, 0), steady.get(r, 0)) for r in peak.keys() | steady.keys()}


def _read_quantities(container: Document, which: str) -> Iterator[tuple[str, float]]:
    for resource, text in ((container.get("resources") or {}).get(which) or {}).items():
        yield resource, quantity(text)


def _labels(pod: Document, resource: str) -> Pairs:
    spec = pod["spec"]
    priority = spec.get("priority")
    return (
        ("namespace", pod["metadata"]["namespace"]),
        ("node", spec.get("nodeName", "")),
        ("pod", pod["metadata"]["name"]),
        ("priority", "" if priority is None else str(priority)),
        ("resource", resource),
        ("scheduler", spec.get("schedulerName", "")),
        ("unit", "bytes" if resource.startswith("hugepages-") else _UNITS.get(resource, "")),
    )


FAMILIES: tuple[ObjectMetric, ...] = (_rows("limits"), _rows("requests"))


def exposition(pods: Iterable[Document]) -> str:
    """The whole `/metrics/resources`, in the order of a registry: by labels."""
    listed = list(pods)
    parts = []
    for family in FAMILIES:
        lines: list[SeriesLine] = [line for pod in listed for line in family.lines(pod)]
        if lines:
            parts.append(family_text(family.head, sorted(lines, key=lambda line: line.labels)))
    return "".join(parts)
