"""The series of one pod over its whole lifetime, without making its documents.

Put here: the metrics that a ledger reads, each as intervals of constant labels and value.
Not here: all other metrics of pods, which come from documents (`kube_state_metrics.pods`).

These are the same functions as those of documents, solved for time; a test compares the two for
every pod of the library. They exist because a month has hundreds of thousands of pod versions,
and a document costs a hundred times as much as its lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from fake_gpu.exporters.exposition import Pairs
from fake_gpu.exporters.kube_state_metrics.forms import prometheus_labels, sanitised, unit_of
from fake_gpu.fleet.model import Container, PodLifetime

Texts = tuple[str, ...]


class PodInterval(NamedTuple):
    """A line of a pod during `[from_at, until_at)`: all its labels, and its value."""

    names: Texts  # of the labels: nearly always the same ones for a metric
    values: Texts
    from_at: int
    until_at: int | None
    value: float

    @property
    def labels(self) -> Pairs:
        return tuple(zip(self.names, self.values, strict=True))


PodIntervals = Iterator[PodInterval]

_OWN = ("namespace", "pod", "uid")
_REQUEST = (*_OWN, "container", "node", "resource", "unit")
_OF_PHASE = (*_OWN, "phase")
_OF_CONTAINER = (*_OWN, "container")
_INFO = (
    *_OWN,
    "host_ip",
    "pod_ip",
    "node",
    "created_by_kind",
    "created_by_name",
    "priority_class",
    "host_network",
)
_OWNER = (*_OWN, "owner_kind", "owner_name", "owner_is_controller")
_SCHEDULED = ("namespace", "node", "pod", "priority", "resource", "scheduler", "unit")


def _own(pod: PodLifetime) -> tuple[str, str, str]:
    return (pod.namespace, pod.name, pod.uid)


def _bound_at(pod: PodLifetime) -> int | None:
    """When the document shows the node: not before the pod itself."""
    return None if pod.scheduled_at is None else max(pod.scheduled_at, pod.created_at)


def _by_node(pod: PodLifetime, until: int | None) -> list[tuple[str, int, int | None]]:
    """(node, from, until): unbound, then bound."""
    bound = _bound_at(pod)
    if bound is None or (until is not None and bound >= until):
        return [("", pod.created_at, until)]
    return [("", pod.created_at, bound), (pod.node_name, bound, until)]


def _requests(init: bool) -> Callable[[PodLifetime], PodIntervals]:
    def intervals(pod: PodLifetime) -> PodIntervals:
        own = _own(pod)
        for container in pod.containers:
            if (container.kind != "main") != init:
                continue
            for resource in sorted(container.requests):
                tail = _resource_labels(resource)
                count = float(container.requests[resource])
                for node, from_at, until_at in _by_node(pod, pod.gone_at):
                    values = (*own, container.name, node, *tail)
                    yield PodInterval(_REQUEST, values, from_at, until_at, count)

    return intervals


@lru_cache(maxsize=4096)
def _resource_labels(resource: str) -> tuple[str, str]:
    return (sanitised(resource), unit_of(resource))


def _phase(pod: PodLifetime) -> PodIntervals:
    own = _own(pod)
    changes = [change for change in pod.phases if pod.gone_at is None or change.at < pod.gone_at]
    if not changes:
        return
    seen = {change.phase for change in changes}
    for phase in ("Pending", "Succeeded", "Failed", "Unknown", "Running"):
        values = (*own, phase)
        since, was_in = changes[0].at, changes[0].phase == phase
        for change in changes[1:] if phase in seen else ():
            if was_in != (change.phase == phase):
                yield PodInterval(_OF_PHASE, values, since, change.at, 1.0 if was_in else 0.0)
                since, was_in = change.at, not was_in
        yield PodInterval(_OF_PHASE, values, since, pod.gone_at, 1.0 if was_in else 0.0)


def _state_started(pod: PodLifetime) -> PodIntervals:
    """A container that waits for its restart has no series."""
    own = _own(pod)
    for container in pod.containers:
        if container.kind != "main":
            continue
        for position, run in enumerate(container.runs):
            last = position + 1 == len(container.runs)
            until = pod.gone_at if last else run.ended_at
            started = float(run.started_at)
            yield PodInterval(_OF_CONTAINER, (*own, container.name), run.started_at, until, started)


def _info(pod: PodLifetime) -> PodIntervals:
    owner = pod.owners[0] if pod.owners else None
    seen = pod.acknowledged_at
    edges = {pod.created_at, _bound_at(pod), seen if pod.pod_ip else None}
    ordered = sorted(at for at in edges if at is not None)
    for position, at in enumerate(ordered):
        until = ordered[position + 1] if position + 1 < len(ordered) else pod.gone_at
        bound = _bound_at(pod)
        values = (
            *_own(pod),
            "",
            pod.pod_ip if seen is not None and at >= seen else "",
            pod.node_name if bound is not None and at >= bound else "",
            owner.kind if owner else "",
            owner.name if owner else "",
            "",
            "false",
        )
        yield PodInterval(_INFO, values, at, until, 1.0)


def _owner(pod: PodLifetime) -> PodIntervals:
    owner = pod.owners[0] if pod.owners else None
    labels = (owner.kind, owner.name, "true") if owner else ("", "", "")
    yield PodInterval(_OWNER, (*_own(pod), *labels), pod.created_at, pod.gone_at, 1.0)


def _labels(pod: PodLifetime) -> PodIntervals:
    names, values = _label_texts(tuple(pod.labels.items()))
    yield PodInterval((*_OWN, *names), (*_own(pod), *values), pod.created_at, pod.gone_at, 1.0)


@lru_cache(maxsize=4096)
def _label_texts(labels: Pairs) -> tuple[Texts, Texts]:
    """Pods of one workload are labelled alike."""
    pairs = prometheus_labels("label", dict(labels))
    return tuple([name for name, _ in pairs]), tuple([value for _, value in pairs])


def _created(pod: PodLifetime) -> PodIntervals:
    yield PodInterval(_OWN, _own(pod), pod.created_at, pod.gone_at, float(pod.created_at))


def _start_time(pod: PodLifetime) -> PodIntervals:
    seen = pod.acknowledged_at
    if seen is not None:
        yield PodInterval(_OWN, _own(pod), seen, pod.gone_at, float(seen))


def _scheduled_time(pod: PodLifetime) -> PodIntervals:
    bound = _bound_at(pod)
    if bound is not None and pod.scheduled_at is not None:
        yield PodInterval(_OWN, _own(pod), bound, pod.gone_at, float(pod.scheduled_at))


def _unschedulable(pod: PodLifetime) -> PodIntervals:
    bound = _bound_at(pod)
    yield PodInterval(_OWN, _own(pod), pod.created_at, pod.gone_at if bound is None else bound, 1.0)


def _deletion_timestamp(pod: PodLifetime) -> PodIntervals:
    asked = pod.deletion_requested_at
    if asked is not None:
        yield PodInterval(_OWN, _own(pod), asked, pod.gone_at, float(asked + pod.grace_seconds))


def _completion_time(pod: PodLifetime) -> PodIntervals:
    """The latest end of the main containers that show one and are not to be started again."""
    if not pod.end_reported:
        return
    ends = sorted(
        end
        for container in pod.containers
        if container.kind == "main" and (end := _last_end(container)) is not None
    )
    for position, end in enumerate(ends):
        until = ends[position + 1] if position + 1 < len(ends) else pod.gone_at
        yield PodInterval(_OWN, _own(pod), end, until, float(end))


def _last_end(container: Container) -> int | None:
    return container.runs[-1].ended_at if container.runs else None


def _scheduler(pod: PodLifetime) -> PodIntervals:
    """The effective request, until the pod has ended on a node."""
    ended = [change.at for change in pod.phases if change.phase in ("Succeeded", "Failed")]
    bound = _bound_at(pod)
    until = pod.gone_at
    if ended and bound is not None:
        until = max(bound, ended[0])
    for resource, count in pod.requests.items():
        for node, from_at, until_at in _by_node(pod, until):
            priority, scheduler = str(pod.priority), pod.scheduler_name
            values = (pod.namespace, node, pod.name, priority, resource, scheduler, "")
            if count:
                yield PodInterval(_SCHEDULED, values, from_at, until_at, float(count))


KUBE_STATE_METRICS: Mapping[str, Callable[[PodLifetime], PodIntervals]] = {
    "kube_pod_completion_time": _completion_time,
    "kube_pod_container_resource_limits": _requests(init=False),
    "kube_pod_container_resource_requests": _requests(init=False),
    "kube_pod_container_state_started": _state_started,
    "kube_pod_created": _created,
    "kube_pod_deletion_timestamp": _deletion_timestamp,
    "kube_pod_info": _info,
    "kube_pod_init_container_resource_limits": _requests(init=True),
    "kube_pod_init_container_resource_requests": _requests(init=True),
    "kube_pod_labels": _labels,
    "kube_pod_owner": _owner,
    "kube_pod_start_time": _start_time,
    "kube_pod_status_phase": _phase,
    "kube_pod_status_scheduled_time": _scheduled_time,
    "kube_pod_status_unschedulable": _unschedulable,
}
SCHEDULER: Mapping[str, Callable[[PodLifetime], PodIntervals]] = {
    "kube_pod_resource_limit": _scheduler,
    "kube_pod_resource_request": _scheduler,
}


def intervals_of(
    families: Mapping[str, Callable[[PodLifetime], PodIntervals]], name: str, pod: PodLifetime
) -> Iterator[PodInterval]:
    """The intervals of a pod that are not empty."""
    for interval in families[name](pod):
        if interval.until_at is None or interval.from_at < interval.until_at:
            yield interval
