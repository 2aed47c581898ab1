"""The targets of a cluster's Prometheus, and the labels that it adds.

Put here: targets, and how their labels meet those of an exposition.
Not here: the exposition (`fake_gpu.exporters`), or the times of scrapes (`scrapes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fake_gpu.exporters.exposition import Pairs
from fake_gpu.fleet.model import Node, ScrapeJob, SimulatedCluster
from fake_gpu.prometheus.label_sets import LabelPairs, Labels

KUBE_STATE_METRICS = "kube-state-metrics"
SCHEDULER = "kube-scheduler"
DCGM = "dcgm-exporter"
AMD = "amd-exporter"
KUBELET = "kubelet"
# Where each exporter listens, and its container and endpoint in OpenShift.
_PLACES = {
    KUBE_STATE_METRICS: ("openshift-monitoring", 8443, "kube-rbac-proxy-main", "https-main"),
    SCHEDULER: ("openshift-kube-scheduler", 10259, "kube-scheduler", "https"),
    DCGM: ("nvidia-gpu-operator", 9400, "nvidia-dcgm-exporter", "gpu-metrics"),
    AMD: ("kube-amd-gpu", 5000, "metrics-exporter-container", "exporter-port"),
    KUBELET: ("kube-system", 10250, "", "https-metrics"),
}
# Exporters with a target on each node, and the vendor of the cards that a node must have for it.
_PER_NODE = {DCGM: "nvidia", AMD: "amd", KUBELET: ""}
# These two describe other pods, and are scraped with honorLabels wherever they are installed.
_ALWAYS_HONOURED = frozenset({KUBE_STATE_METRICS, SCHEDULER})
# kube-state-metrics describes others; its own instance means nothing and changes at restarts, and
# its pod would be mistaken for the pod that it describes.
_DROPPED_FROM_SAMPLES = {KUBE_STATE_METRICS: ("instance",)}


@dataclass(frozen=True, slots=True)
class Target:
    """One endpoint that is scraped, from when until when it is known."""

    name: str  # unique in the fleet
    job: str
    interval_ms: int
    honor_labels: bool
    labels: LabelPairs  # of `up` and of all samples
    dropped: tuple[str, ...]  # labels that samples lose again
    present: tuple[tuple[int, int | None], ...]  # milliseconds; known to service discovery
    reachable: tuple[tuple[int, int | None], ...]  # milliseconds; `up` is 0 elsewhere
    node: Node | None = None

    def labelled(self, name: str, exposed: Iterable[tuple[str, str]]) -> Labels:
        """The labels of a sample: those exposed, those of the target, and renamed conflicts."""
        labels = dict(self.labels)
        if self.honor_labels:
            labels.update(exposed)
        else:
            labels = _target_first(labels, dict(exposed))
        labels["__name__"] = name
        for dropped in self.dropped:
            labels.pop(dropped, None)
        return {name: value for name, value in labels.items() if value}

    def labelled_up(self, name: str) -> Labels:
        """The labels of Prometheus' own series about the scrapes of this target."""
        return {**dict(self.labels), "__name__": name}


def sources_of_labels(target: Target, name: str, exposed: Pairs) -> tuple[dict[str, int], Labels]:
    """Where `Target.labelled` takes its labels from: the places of exposed ones, and the rest.

    It depends on the names that are exposed, and on which of them have no value.
    """
    marks = [f"\0{place}" for place in range(len(exposed))]
    marked = [
        (own, mark if value else "") for (own, value), mark in zip(exposed, marks, strict=True)
    ]
    labels = target.labelled(name, marked)
    places = {own: marks.index(value) for own, value in labels.items() if value in marks}
    return places, {own: value for own, value in labels.items() if own not in places}


def _target_first(own: dict[str, str], exposed: dict[str, str]) -> dict[str, str]:
    """As without honor_labels: an exposed label of the same name becomes `exported_…`."""
    merged = {**exposed, **own}
    conflicts = [name for name in own if exposed.get(name)]
    for name in sorted(conflicts, key=len):
        moved = f"exported_{name}"
        while merged.get(moved):
            moved = f"exported_{moved}"
        merged[moved] = exposed[name]
    return merged


def targets_of(cluster: SimulatedCluster) -> tuple[Target, ...]:
    """Every target of a cluster's Prometheus."""
    found: list[Target] = []
    for job in cluster.monitoring.jobs:
        if not job.enabled:
            continue
        vendor = _PER_NODE.get(job.job)
        if vendor is None:
            found.append(_central(cluster, job))
        else:
            nodes = (node for node in cluster.nodes if _has_cards(node, vendor))
            found.extend(_on_node(cluster, job, node) for node in nodes)
    return tuple(found)


def _has_cards(node: Node, vendor: str) -> bool:
    return not vendor or any(card.vendor == vendor for card in node.cards)


def _central(cluster: SimulatedCluster, job: ScrapeJob) -> Target:
    always = ((cluster.created_at * 1000, None),)
    address = f"10.128.0.{10 + len(job.job)}"
    pod = f"{job.job}-0"
    return _target(cluster, job, address, pod, always, always, None)


def _on_node(cluster: SimulatedCluster, job: ScrapeJob, node: Node) -> Target:
    own = job.job != KUBELET
    known = [state for state in node.states if not (own and state.exporters_paused)]
    present = [(state.from_at, state.until_at) for state in known]
    reachable = [(state.from_at, state.until_at) for state in known if state.ready == "True"]
    pod = f"{job.job}-{node.uid[:5]}"
    return _target(
        cluster, job, node.host_ip, pod, _milliseconds(present), _milliseconds(reachable), node
    )


def _target(
    cluster: SimulatedCluster,
    job: ScrapeJob,
    address: str,
    pod: str,
    present: tuple[tuple[int, int | None], ...],
    reachable: tuple[tuple[int, int | None], ...],
    node: Node | None,
) -> Target:
    namespace, port, container, endpoint = _PLACES.get(
        job.job, ("monitoring", 8080, job.job, "metrics")
    )
    labels = {
        "container": container,
        "endpoint": endpoint,
        "instance": f"{address}:{port}",
        "job": job.job,
        "namespace": namespace,
        "pod": pod,
        "service": job.job,
    }
    if job.job == KUBE_STATE_METRICS:
        labels["pod"] = ""
    if job.job == KUBELET:
        # It is no pod; its service monitor gives it the name of its node instead.
        labels = {**labels, "pod": "", "node": node.name if node else ""}
    return Target(
        name=f"{cluster.cluster_id}/{job.job}/{address}:{port}",
        job=job.job,
        interval_ms=job.scrape_interval_seconds * 1000,
        honor_labels=job.honor_labels or job.job in _ALWAYS_HONOURED,
        labels=tuple((name, value) for name, value in labels.items() if value),
        dropped=_DROPPED_FROM_SAMPLES.get(job.job, ()),
        present=present,
        reachable=reachable,
        node=node,
    )


def _milliseconds(
    intervals: Sequence[tuple[int, int | None]],
) -> tuple[tuple[int, int | None], ...]:
    """The same in milliseconds, with adjoining intervals joined."""
    joined: list[tuple[int, int | None]] = []
    for from_at, until_at in intervals:
        end = None if until_at is None else until_at * 1000
        if joined and joined[-1][1] == from_at * 1000:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((from_at * 1000, end))
    return tuple(joined)
