"""Which exporters a cluster has, and where their series come from.

Put here: one list of sources for the targets of a cluster.
Not here: the sources (`pod_series`, `object_series`, `device_series`, `target_series`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from fake_gpu.exporters import dcgm, pod_intervals, scheduler
from fake_gpu.exporters.devices import NodeUse, UnaccountedProcess
from fake_gpu.exporters.kube_state_metrics.forms import ObjectMetric
from fake_gpu.exporters.kube_state_metrics.metric_families import families_of
from fake_gpu.fleet.model import Fault, PodLifetime, SimulatedCluster
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.device_faults import DisturbedSeries
from fake_gpu.prometheus.device_series import Amd, Dcgm, DeviceSeries
from fake_gpu.prometheus.faults import SampleFaults, text, whole
from fake_gpu.prometheus.forgeries import ForgedSeries, SecondExporter
from fake_gpu.prometheus.line_counts import ObjectLines, PodLines
from fake_gpu.prometheus.node_intervals import NodeIntervals
from fake_gpu.prometheus.object_series import ObjectSeries
from fake_gpu.prometheus.pod_series import PodIndex, PodSeries
from fake_gpu.prometheus.segments import ExposedSeriesSource, LineCounts
from fake_gpu.prometheus.series_added import SeriesAdded
from fake_gpu.prometheus.series_faults import KINDS, FaultedSeries
from fake_gpu.prometheus.target_series import TargetSeries
from fake_gpu.prometheus.targets import AMD, DCGM, KUBE_STATE_METRICS, SCHEDULER, Target

_KUBELET_FAULTS = ("start_rewritten", "finished_before_started")
_WRITTEN_BY_KUBELETS = frozenset({"kube_pod_container_state_started", "kube_pod_completion_time"})
Counter = Callable[[int, int], LineCounts]


def sources_of(
    cluster: SimulatedCluster,
    history: ObjectHistory,
    targets: Sequence[Target],
    faults: SampleFaults,
    cluster_ids: Mapping[str, str],
) -> list[ExposedSeriesSource]:
    """The sources of all series that the cluster's Prometheus scrapes, with its faults."""
    found: list[ExposedSeriesSource] = []
    counters: dict[str, Counter] = {}
    index = PodIndex(cluster.pods)
    on_nodes: dict[str, list[PodLifetime]] = {}
    for pod in cluster.pods:
        if pod.holds:
            on_nodes.setdefault(pod.node_name, []).append(pod)
    for target in targets:
        if target.job == KUBE_STATE_METRICS:
            sources, counter = _state_metrics(cluster, history, target, index, faults)
            sources += _second_exporter(sources, target, faults)
        elif target.job == SCHEDULER:
            sources = [PodSeries(target, index, pod_intervals.SCHEDULER)]
            counter = PodLines(index, scheduler.FAMILIES).between
        else:
            sources, counter = _devices(cluster, target, on_nodes, faults)
        found += sources
        counters[target.name] = counter

    def lines(target: Target, start_ms: int, end_ms: int) -> LineCounts:
        return counters[target.name](start_ms, end_ms)

    # It reads which series there are, and that does not count as serving them.
    added = SeriesAdded(targets, [s.source if isinstance(s, DisturbedSeries) else s for s in found])
    found += [
        ForgedSeries(fault, faults, targets[0].interval_ms) for fault in faults.of("forged_series")
    ]
    everything: list[ExposedSeriesSource] = [TargetSeries(targets, lines), added, *found]
    if faults.of(*KINDS):
        return [FaultedSeries(source, faults, cluster_ids) for source in everything]
    return everything


def _second_exporter(
    sources: Sequence[ExposedSeriesSource], target: Target, faults: SampleFaults
) -> list[ExposedSeriesSource]:
    """A second kube-state-metrics, where a fault brings one."""
    return [
        SecondExporter(source, target, fault, faults)
        for fault in faults.of("second_kube_state_metrics")
        for source in sources
    ]


def _state_metrics(
    cluster: SimulatedCluster,
    history: ObjectHistory,
    target: Target,
    index: PodIndex,
    faults: SampleFaults,
) -> tuple[list[ExposedSeriesSource], Counter]:
    shown = families_of(openshift=bool(cluster.openshift_version))
    named = {family.head.name for family in shown}
    # Values that a faulty kubelet wrote are only in the documents.
    distorted = _WRITTEN_BY_KUBELETS if faults.of(*_KUBELET_FAULTS) else frozenset()
    solved = {
        name: of_pod
        for name, of_pod in pod_intervals.KUBE_STATE_METRICS.items()
        if name in named - distorted
    }
    others = [family for family in shown if family.head.name not in solved]
    pods = PodLines(index, [family for family in shown if family.kind == "Pod"])
    objects = ObjectLines(history, shown)

    def lines(start_ms: int, end_ms: int) -> LineCounts:
        return chain(pods.between(start_ms, end_ms), objects.between(start_ms, end_ms))

    series = ObjectSeries(history, target, others, _objects_with_series(cluster, others))
    return [PodSeries(target, index, solved), series], lines


def _objects_with_series(
    cluster: SimulatedCluster, families: Sequence[ObjectMetric]
) -> dict[str, frozenset[str]]:
    """Most pods have no init containers and no claims, so no document is built for them."""
    starting = frozenset(p.uid for p in cluster.pods if any(c.kind != "main" for c in p.containers))
    claiming = frozenset(pod.uid for pod in cluster.pods if pod.claims)
    found = {"kube_pod_resourceclaim_info": claiming}
    for family in families:
        if family.head.name.startswith("kube_pod_init_container"):
            found[family.head.name] = starting
    return found


def _devices(
    cluster: SimulatedCluster,
    target: Target,
    on_nodes: dict[str, list[PodLifetime]],
    faults: SampleFaults,
) -> tuple[list[ExposedSeriesSource], Counter]:
    node = target.node
    if node is None or target.job not in (DCGM, AMD):
        return [], lambda start_ms, end_ms: iter(())
    pods = on_nodes.get(node.name, ())

    def series(own: Sequence[Fault]) -> DeviceSeries:
        loads = [
            _unaccounted_process(fault) for fault in own if fault.kind == "unaccounted_process"
        ]
        resets = [fault.from_at for fault in own if fault.kind == "counter_reset"]
        intervals = NodeIntervals(NodeUse(node, pods, loads), resets)
        if target.job == AMD:
            return DeviceSeries(target, Amd(intervals))
        return DeviceSeries(target, Dcgm(intervals, dcgm.Style.of(cluster.monitoring)))

    own = [
        f
        for f in faults.of("counter_reset", "unaccounted_process")
        if text(f, "node") in ("", node.name)
    ]
    source = series(own)
    if own:
        without = [(fault, series([f for f in own if f is not fault])) for fault in own]
        source = DisturbedSeries(source, without, faults)
    return [source], source.line_counts


def _unaccounted_process(fault: Fault) -> UnaccountedProcess:
    card, pct = whole(fault, "card", 0), whole(fault, "pct", 60)
    return UnaccountedProcess(card, fault.from_at, fault.until_at, pct)
