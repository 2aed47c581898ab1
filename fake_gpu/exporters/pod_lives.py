"""What exporters say of one pod over its whole life, without making its documents.

Put here: the metrics that a ledger reads, each as stretches of constant labels and value.
Not here: all other metrics of pods, which come from documents (`kube_state_metrics.pods`).

These are the same functions as those of documents, solved for time; a test compares the two for
every pod of the library. They exist because a month has hundreds of thousands of pod versions,
and a document of each costs a hundred times what its lines cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from fake_gpu.estate.model import Container, PodLife
from fake_gpu.exporters.exposition import Pairs
from fake_gpu.exporters.kube_state_metrics.forms import prometheus_labels, sanitised, unit_of


class PodStretch(NamedTuple):
    """A line of a pod during `[from_at, until_at)`: all its labels, and its value."""

    labels: Pairs
    from_at: int
    until_at: int | None
    value: float


Stretches = Iterator[PodStretch]


def _own(pod: PodLife) -> Pairs:
    return (("namespace", pod.namespace), ("pod", pod.name), ("uid", pod.uid))


def _bound_at(pod: PodLife) -> int | None:
    """When the document shows the node: not before the pod itself."""
    return None if pod.scheduled_at is None else max(pod.scheduled_at, pod.created_at)


def _by_node(pod: PodLife, until: int | None) -> list[tuple[str, int, int | None]]:
    """(node, from, until): unbound, then bound."""
    bound = _bound_at(pod)
    if bound is None or (until is not None and bound >= until):
        return [("", pod.created_at, until)]
    return [("", pod.created_at, bound), (pod.node_name, bound, until)]


def _requests(init: bool) -> Callable[[PodLife], Stretches]:
    def stretches(pod: PodLife) -> Stretches:
        own = _own(pod)
        for container in pod.containers:
            if (container.kind != "main") != init:
                continue
            for resource in sorted(container.requests):
                tail = _resource_labels(resource)
                count = float(container.requests[resource])
                for node, from_at, until_at in _by_node(pod, pod.gone_at):
                    labels = (*own, ("container", container.name), ("node", node), *tail)
                    yield PodStretch(labels, from_at, until_at, count)

    return stretches


@lru_cache(maxsize=4096)
def _resource_labels(resource: str) -> Pairs:
    return (("resource", sanitised(resource)), ("unit", unit_of(resource)))


def _phase(pod: PodLife) -> Stretches:
    own = _own(pod)
    changes = [change for change in pod.phases if pod.gone_at is None or change.at < pod.gone_at]
    for position, change in enumerate(changes):
        last = position + 1 == len(changes)
        until = pod.gone_at if last else changes[position + 1].at
        for phase in ("Pending", "Succeeded", "Failed", "Unknown", "Running"):
            value = 1.0 if phase == change.phase else 0.0
            yield PodStretch((*own, ("phase", phase)), change.at, until, value)


def _state_started(pod: PodLife) -> Stretches:
    """A container that waits for its restart says nothing."""
    own = _own(pod)
    for container in pod.containers:
        if container.kind != "main":
            continue
        for position, run in enumerate(container.runs):
            last = position + 1 == len(container.runs)
            until = pod.gone_at if last else run.ended_at
            labels = (*own, ("container", container.name))
            yield PodStretch(labels, run.started_at, until, float(run.started_at))


def _info(pod: PodLife) -> Stretches:
    owner = pod.owners[0] if pod.owners else None
    seen = pod.acknowledged_at
    edges = {pod.created_at, _bound_at(pod), seen if pod.pod_ip else None}
    ordered = sorted(at for at in edges if at is not None)
    for position, at in enumerate(ordered):
        until = ordered[position + 1] if position + 1 < len(ordered) else pod.gone_at
        bound = _bound_at(pod)
        labels = (
            *_own(pod),
            ("host_ip", ""),
            ("pod_ip", pod.pod_ip if seen is not None and at >= seen else ""),
            ("node", pod.node_name if bound is not None and at >= bound else ""),
            ("created_by_kind", owner.kind if owner else ""),
            ("created_by_name", owner.name if owner else ""),
            ("priority_class", ""),
            ("host_network", "false"),
        )
        yield PodStretch(labels, at, until, 1.0)


def _owner(pod: PodLife) -> Stretches:
    owner = pod.owners[0] if pod.owners else None
    labels = (
        *_own(pod),
        ("owner_kind", owner.kind if owner else ""),
        ("owner_name", owner.name if owner else ""),
        ("owner_is_controller", "true" if owner else ""),
    )
    yield PodStretch(labels, pod.created_at, pod.gone_at, 1.0)


def _labels(pod: PodLife) -> Stretches:
    labels = (*_own(pod), *prometheus_labels("label", pod.labels))
    yield PodStretch(labels, pod.created_at, pod.gone_at, 1.0)


def _created(pod: PodLife) -> Stretches:
    yield PodStretch(_own(pod), pod.created_at, pod.gone_at, float(pod.created_at))


def _start_time(pod: PodLife) -> Stretches:
    if pod.acknowledged_at is not None:
        yield PodStretch(_own(pod), pod.acknowledged_at, pod.gone_at, float(pod.acknowledged_at))


def _scheduled_time(pod: PodLife) -> Stretches:
    bound = _bound_at(pod)
    if bound is not None and pod.scheduled_at is not None:
        yield PodStretch(_own(pod), bound, pod.gone_at, float(pod.scheduled_at))


def _unschedulable(pod: PodLife) -> Stretches:
    bound = _bound_at(pod)
    yield PodStretch(_own(pod), pod.created_at, pod.gone_at if bound is None else bound, 1.0)


def _deletion_timestamp(pod: PodLife) -> Stretches:
    asked = pod.deletion_requested_at
    if asked is not None:
        yield PodStretch(_own(pod), asked, pod.gone_at, float(asked + pod.grace_seconds))


def _completion_time(pod: PodLife) -> Stretches:
    """The latest end of those main containers that say so and are not to be started again."""
    if not pod.end_reported:
        return
    ends = sorted(
        end
        for container in pod.containers
        if container.kind == "main" and (end := _last_end(container)) is not None
    )
    for position, end in enumerate(ends):
        until = ends[position + 1] if position + 1 < len(ends) else pod.gone_at
        yield PodStretch(_own(pod), end, until, float(end))


def _last_end(container: Container) -> int | None:
    return container.runs[-1].ended_at if container.runs else None


def _scheduler(pod: PodLife) -> Stretches:
    """The effective request, until the pod has ended on a node."""
    ended = [change.at for change in pod.phases if change.phase in ("Succeeded", "Failed")]
    bound = _bound_at(pod)
    until = pod.gone_at
    if ended and bound is not None:
        until = max(bound, ended[0])
    for resource, count in pod.requests.items():
        for node, from_at, until_at in _by_node(pod, until):
            labels = (
                ("namespace", pod.namespace),
                ("node", node),
                ("pod", pod.name),
                ("priority", str(pod.priority)),
                ("resource", resource),
                ("scheduler", pod.scheduler_name),
                ("unit", ""),
            )
            if count:
                yield PodStretch(labels, from_at, until_at, float(count))


KUBE_STATE_METRICS: Mapping[str, Callable[[PodLife], Stretches]] = {
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
SCHEDULER: Mapping[str, Callable[[PodLife], Stretches]] = {
    "kube_pod_resource_limit": _scheduler,
    "kube_pod_resource_request": _scheduler,
}


def stretches(
    families: Mapping[str, Callable[[PodLife], Stretches]], name: str, pod: PodLife
) -> Iterator[PodStretch]:
    """The stretches of a pod that are not empty."""
    for stretch in families[name](pod):
        if stretch.until_at is None or stretch.from_at < stretch.until_at:
            yield stretch
