"""The metrics and labels of one hour, and the exporters that write them.

Put here: lines of the doctor about metrics, telemetry and exporters.
Not here: reaching the server, its clock, intervals and retention (`ingestion.thanos.store_probe`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ingestion.doctor_lines import OPERATOR_REMEDY, OPERATORS, OPERATORS_SPELLED, DoctorLine
from ingestion.exporter_pins import Exporter
from ingestion.metric_catalogue import (
    CATALOGUE,
    POD_LABELS_ENTRY,
    POD_LABELS_METRIC,
    TELEMETRY_ENTRIES,
    Entry,
    queried_entries,
)
from ingestion.settings import ClusterSource
from ingestion.thanos.decode import Runs
from ingestion.thanos.runs import sanitise_label
from ingestion.thanos.series import SeriesIdentity

ABSENT_BECAUSE = {
    "kube_pod_init_container_resource_requests": "no init container requests a device",
    "kube_pod_init_container_info": "no pod has an init container",
    "kube_pod_completion_time": "no pod has ended; OpenShift drops it: ends follow from samples",
    "kube_pod_deletion_timestamp": "no pod is being deleted",
    "kube_pod_status_unschedulable": "no pod waits for a device",
    "kube_pod_status_scheduled_time": "OpenShift drops it: a pod is held from its first sample",
    "kube_pod_start_time": "no pod; or it is not forwarded: starts of containers replace it",
    "kube_pod_resourceclaim_info": "no pod claims a device; older kube-state-metrics lack it",
    "kube_replicaset_owner": "no ReplicaSet; else use is shown by ReplicaSet, not by Deployment",
    "kube_job_owner": "no Job; otherwise usage is shown per Job, not per its owner",
    "kube_resourcequota": "no quota names a device",
    "kube_namespace_labels": "it is not forwarded; no amount needs it",
    "kube_pod_resource_request": "the scheduler's /metrics/resources is not scraped, or not "
    "forwarded: then requests have no second count",
}
"""Metrics that a healthy cluster may lack at any one time, and why."""

REQUESTS_METRIC = "kube_pod_container_resource_requests"
"""Present only while a pod requests devices: an idle cluster lacks it, too."""

PODS_METRIC = "kube_pod_info"

VENDORS = {"nvidia_com": ("DCGM_",), "amd_com": ("gpu_", "amd_gpu_")}
"""The prefixes of a vendor's resources in kube-state-metrics, and of the metrics of each of its
exporters: AMD's own and ours."""

USE = frozenset(e.metric for e in TELEMETRY_ENTRIES if e.reading in ("use", "card_use"))
"""Without one of these it is unknown whether a device was used at all."""

SINCE = {entry.replaces: entry.metric for entry in TELEMETRY_ENTRIES if entry.replaces}
"""The names of fields since DCGM 4.7, by those before."""

_TELEMETRY = frozenset(entry.metric for entry in TELEMETRY_ENTRIES)

NAMED_LIMIT = 3

ByExporter = dict[Exporter, dict[str, Counter[str]]]


class SeriesSeen:
    """The series of an hour, by metric."""

    def __init__(self, runs: Iterable[Runs]) -> None:
        self.series: dict[str, list[SeriesIdentity]] = {}
        for part in runs:
            for place in np.unique(part.series_index).tolist():
                one = part.series[place]
                self.series.setdefault(one.metric, []).append(one)

    def labels(self, metric: str) -> set[str]:
        return {name for one in self.series.get(metric, ()) for name in one.labels}

    def texts(self, metric: str, label: str) -> set[str]:
        return {one.labels.get(label, "") for one in self.series.get(metric, ())}


def metric_lines(cluster: ClusterSource, seen_series: SeriesSeen) -> Iterator[DoctorLine]:
    """Every metric of the catalogue, with the labels that the models use."""
    for entry in queried_entries(cluster.pod_labels):
        labels = seen_series.labels(entry.metric)
        missing = [name for name in entry.labels if name not in labels]
        if entry.metric == REQUESTS_METRIC and not labels and seen_series.series.get(PODS_METRIC):
            yield _without_requests(entry, cluster, seen_series)
        elif not labels:
            yield _absent(entry, cluster)
        elif missing:
            yield DoctorLine(
                entry.metric,
                False,
                f"has no label {', '.join(missing)}",
                "no relabelling may drop it: " + entry.why,
            )
        elif entry.metric == POD_LABELS_METRIC:
            yield _pod_labels(cluster.pod_labels, labels)
        else:
            yield DoctorLine(entry.metric, True, "present with its labels")
    if not cluster.pod_labels:
        seen = "not queried: config.toml names no pod_labels under [pull]"
        yield DoctorLine(POD_LABELS_METRIC, True, seen)


def _absent(entry: Entry, cluster: ClusterSource) -> DoctorLine:
    if why := ABSENT_BECAUSE.get(entry.metric):
        return DoctorLine(
            entry.metric, True, f"no sample in the last hour, which can be normal: {why}"
        )
    on_acm = "on ACM: `gpu-ledger init FOLDER --from-acm` writes the allowlist"
    remedy = f"collect it ({entry.why}); {on_acm}"
    if pins := cluster.thanos.pins.of(entry.exporter):
        section = f"[thanos.{cluster.thanos.name}.pins]"
        remedy += f"; or correct {section}: only {', '.join(pins)} is accepted"
    return DoctorLine(entry.metric, False, "no sample in the last hour", remedy)


def _without_requests(entry: Entry, cluster: ClusterSource, seen_series: SeriesSeen) -> DoctorLine:
    """Pods are shown, and none of them requests a device: idle, unless another metric disagrees."""
    pods = _pods_with_devices(seen_series)
    if not pods:
        seen = "no sample in the last hour, which can be normal: no pod requests a device"
        return DoctorLine(entry.metric, True, seen)
    line = _absent(entry, cluster)
    seen = f"{line.seen}, but other metrics show {len(pods)} pods with devices, such as {pods[0]}"
    return replace(line, seen=seen)


def _pods_with_devices(seen_series: SeriesSeen) -> list[str]:
    """Pods that the scheduler, init containers or device telemetry show to have devices."""
    requesting = ("kube_pod_init_container_resource_requests", "kube_pod_resource_request")
    telemetry = [metric for metric in seen_series.series if metric in _TELEMETRY]
    own = seen_series.texts("up", "pod")
    found: set[str] = set()
    for metric in (*requesting, *telemetry):
        for one in seen_series.series.get(metric, ()):
            name = one.labels.get("exported_pod") or one.labels.get("pod", "")
            found.add("" if metric in telemetry and name in own else name)
    return sorted(found - {""})


def _pod_labels(wanted: Sequence[str], labels: Collection[str]) -> DoctorLine:
    """kube-state-metrics lists every pod, but only with labels on its allow-list."""
    hidden = [name for name in wanted if f"label_{sanitise_label(name)}" not in labels]
    return DoctorLine(
        POD_LABELS_METRIC,
        not hidden,
        f"no pod shows {', '.join(hidden)}" if hidden else f"shows {', '.join(wanted)}",
        f"start kube-state-metrics with --metric-labels-allowlist=pods=[{','.join(wanted)}]; "
        "on OpenShift it is: then no pod has that label",
    )


def _known_metrics(prefix: str) -> list[str]:
    """The metrics of one exporter that the catalogue has, each field once."""
    listed = [e.metric for e in TELEMETRY_ENTRIES if not e.replaces]
    # Metrics of NVIDIA's operator begin like those of AMD's exporter, and are about nodes.
    return [
        metric
        for metric in listed
        if metric.startswith(prefix) and not metric.startswith("gpu_operator_")
    ]


def _present(prefix: str, names: Collection[str]) -> list[str]:
    return [metric for metric in _known_metrics(prefix) if {metric, SINCE.get(metric)} & set(names)]


def telemetry_lines(names: Collection[str], seen_series: SeriesSeen) -> Iterator[DoctorLine]:
    """The metrics of each vendor's exporter, present and missing."""
    resources = seen_series.texts("kube_node_status_capacity", "resource")
    there = False
    for resource, prefixes in VENDORS.items():
        prefix, found = max(
            ((each, _present(each, names)) for each in prefixes), key=lambda pair: len(pair[1])
        )
        known = _known_metrics(prefix)
        if not found and not any(text.startswith(resource) for text in resources):
            continue
        there = True
        missing = [metric for metric in known if metric not in found]
        seen = f"{len(found)} of {len(known)} metrics"
        if found and missing:
            seen += f"; missing: {', '.join(missing)}"
        is_used = any(metric in names for metric in USE if metric.startswith(prefix))
        remedy = (
            OPERATOR_REMEDY if not found else "its exporter must expose a metric of utilisation"
        )
        check = f"device telemetry of {resource.replace('_', '.')}"
        yield DoctorLine(check, is_used, seen, remedy)
    if not there:
        seen = "no metrics of devices, and no node with known devices"
        yield DoctorLine("device telemetry", False, seen, OPERATOR_REMEDY)


def operator_line(names: Collection[str], seen_series: SeriesSeen) -> DoctorLine:
    """Whether any target in the namespace of a GPU operator is scraped, by `up`."""
    spaces = Counter(one.labels.get("namespace", "") for one in seen_series.series.get("up", ()))
    found = {name: count for name, count in spaces.items() if any(o in name for o in OPERATORS)}
    listed = ", ".join(f"{count} in {name}" for name, count in sorted(found.items()))
    seen = f"targets: {listed}" if found else f"no target in a namespace like {OPERATORS_SPELLED}"
    if names and not found:
        seen += ", but device metrics come from elsewhere"
    return DoctorLine("GPU operator is scraped", bool(found or names), seen, OPERATOR_REMEDY)


def exporter_lines(cluster: ClusterSource, seen_series: SeriesSeen) -> Iterator[DoctorLine]:
    """The jobs of each metric: one metric of several jobs may be a tenant's invention."""
    for exporter, by_metric in _exporters(seen_series).items():
        pins = cluster.thanos.pins.of(exporter)
        several = {metric: of for metric, of in by_metric.items() if len(of) > 1}
        seen = _spelled(several or _first(by_metric))
        yield DoctorLine(
            f"one source of {exporter.value}",
            not several or len(pins) > 1,
            f"{seen}; {'pinned to ' + ', '.join(pins) if pins else 'not pinned'}",
            f"add the accepted jobs to [thanos.{cluster.thanos.name}.pins]: {exporter.value} "
            '= ["NAMESPACE/JOB"]; the exporter of a tenant can write any metric',
        )
    spaces = _namespaces_by_uid(seen_series)
    twice = sorted(uid for uid, names in spaces.items() if len(names) > 1)
    yield DoctorLine(
        "one namespace for each pod",
        not twice,
        f"{len(twice)} of {len(spaces)} UIDs occur in two namespaces{_example(twice, spaces)}",
        "a UID has one namespace: find the exporter of the other one, and pin the right exporter",
    )


def _exporters(seen_series: SeriesSeen) -> ByExporter:
    """Series by exporter: each metric, from which job."""
    found: ByExporter = {}
    for entry in (*CATALOGUE, POD_LABELS_ENTRY):
        if entry.exporter and (series := seen_series.series.get(entry.metric)):
            found.setdefault(entry.exporter, {})[entry.metric] = Counter(_origins(entry, series))
    return found


def _origins(entry: Entry, series: Sequence[SeriesIdentity]) -> Iterator[str]:
    """`NAMESPACE/JOB`, or the job alone where the namespace is a pod's and not the exporter's."""
    moved = any("exported_namespace" in one.labels for one in series)
    for labels in (one.labels for one in series):
        if "namespace" in entry.labels:
            is_own = "exported_namespace" in labels
        else:
            is_own = moved or entry.exporter is not Exporter.DEVICES
        job = labels.get("job", "no job")
        yield f"{labels.get('namespace', '')}/{job}" if is_own else job


def _first(by_metric: Mapping[str, Counter[str]]) -> Mapping[str, Counter[str]]:
    """One that shows the exporter's own namespace, if there is any: as it is to be pinned."""
    metric = max(by_metric, key=lambda name: "/" in min(by_metric[name]))
    return {metric: by_metric[metric]}


def _spelled(by_metric: Mapping[str, Counter[str]]) -> str:
    named = list(by_metric.items())[:NAMED_LIMIT]
    more = len(by_metric) - len(named)
    shown = [
        f"{metric}: " + ", ".join(f"{count} series of {job}" for job, count in sorted(of.items()))
        for metric, of in named
    ]
    return "; ".join(shown) + (f"; and {more} more metrics" if more else "")


def _namespaces_by_uid(seen_series: SeriesSeen) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for series in seen_series.series.values():
        for one in series:
            if one.uid:
                found.setdefault(one.uid, set()).add(one.text("namespace"))
    return found


def _example(uids: Sequence[str], spaces: Mapping[str, set[str]]) -> str:
    return f", such as {uids[0]} in {' and '.join(sorted(spaces[uids[0]]))}" if uids else ""
