"""Series that faults rename, relabel, cut, or give other values.

Put here: the effects of faults on series, each in the time of the fault.
Not here: their effects on times (`scrape_faults`) and responses (`answer_faults`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from fake_gpu.exporters.numbers import parse_value
from fake_gpu.fleet.model import Fault
from fake_gpu.prometheus.faults import SampleFaults, drawn, for_job, for_metric, pick, text, words
from fake_gpu.prometheus.label_sets import Labels
from fake_gpu.prometheus.segments import (
    NO_END,
    AnySegment,
    ExposedSeries,
    ExposedSeriesSource,
    ValueSegment,
    within,
)
from fake_gpu.prometheus.targets import DCGM, Target

Change = Callable[[Fault, ExposedSeries], ExposedSeries | None]
Seen = Callable[[ExposedSeries], None]
# Labels that dcgm-exporter takes from the kubelet.
_POD_LABELS = ("container", "namespace", "pod", "pod_uid")
_KSM_ABOUT_PODS = ("kube_pod_labels", "kube_pod_info", "kube_pod_owner")
_ODD_VALUES = ("NaN", "+Inf", "-1", "0.5", "1e+308")


class FaultedSeries:
    """A source of series as the faults of its cluster show it."""

    def __init__(
        self, source: ExposedSeriesSource, faults: SampleFaults, cluster_ids: Mapping[str, str]
    ) -> None:
        self.source = source
        self.cluster_ids = cluster_ids  # by name
        self.faults = faults
        renamed = faults.of("metric_renamed")
        self._renamed = [fault for fault in renamed if text(fault, "metric") != text(fault, "to")]
        changes = {**_CHANGES, "shared_external_labels": self._other_cluster}
        self._changes = [
            (fault, change) for kind, change in changes.items() for fault in faults.of(kind)
        ]

    def names(self) -> Iterable[str]:
        own = list(self.source.names())
        new = [text(f, "to") for f in self._renamed if text(f, "metric") in own]
        return [*own, *new]

    def exposed_series(self, name: str, start_ms: int, end_ms: int) -> Sequence[ExposedSeries]:
        found: list[ExposedSeries] = []
        if name in self.source.names():
            found += self._through(
                self.source.exposed_series(name, start_ms, end_ms), start_ms, end_ms
            )
        for fault in self._renamed:
            if text(fault, "to") == name:
                series_list = self.source.exposed_series(text(fault, "metric"), start_ms, end_ms)
                moved = [series for series in self._moved(fault, series_list) if series.segments]
                for series in moved:
                    self._count_if_seen(fault, start_ms, end_ms, series)
                found += moved
        for fault in self._renamed:
            if text(fault, "metric") == name:
                found = [
                    series for series in (self._outside(fault, each) for each in found) if series
                ]
        return found

    def _through(
        self, series_list: Iterable[ExposedSeries], start_ms: int, end_ms: int
    ) -> Iterator[ExposedSeries]:
        changes = [
            (fault, change, partial(self._count_if_seen, fault, start_ms, end_ms))
            for fault, change in self._changes
            if fault.from_at * 1000 <= end_ms and fault.until_at * 1000 > start_ms
        ]
        for series in series_list:
            parts = [series]
            for fault, change, seen in changes:
                parts = [new for part in parts for new in self._apply(fault, change, part, seen)]
            yield from parts

    def _apply(
        self, fault: Fault, change: Change, series: ExposedSeries, seen: Seen
    ) -> Iterator[ExposedSeries]:
        inside = replace(series, segments=_during(series.segments, fault), label_sets={})
        if not inside.segments:
            yield series
            return
        changed = change(fault, inside)
        if changed == inside:
            yield series
            return
        seen(inside)
        outside = _without(series.segments, fault)
        if outside:
            yield replace(series, segments=outside, label_sets={})
        if changed is not None:
            yield changed

    def _count_if_seen(
        self, fault: Fault, start_ms: int, end_ms: int, touched: ExposedSeries
    ) -> None:
        """Count the fault if one of its changes lies in the closed range of the query."""
        if within(touched.segments, ((start_ms, end_ms + 1),)):
            self.faults.fire(fault, fault.from_at, _name(touched))

    def _other_cluster(self, fault: Fault, series: ExposedSeries) -> ExposedSeries | None:
        name = text(fault, "as_cluster")
        if self.cluster_ids.get(name) == self.faults.cluster_id:
            return series
        other = {"cluster": name, "clusterID": self.cluster_ids.get(name, "")}
        return replace(series, external=other)

    def _moved(self, fault: Fault, series_list: Iterable[ExposedSeries]) -> Iterator[ExposedSeries]:
        for series in series_list:
            labels = _set(series.labels, {"__name__": text(fault, "to")})
            yield replace(
                series, labels=labels, segments=_during(series.segments, fault), label_sets={}
            )

    def _outside(self, fault: Fault, series: ExposedSeries) -> ExposedSeries | None:
        segments = _without(series.segments, fault)
        return replace(series, segments=segments, label_sets={}) if segments else None


def _name(series: ExposedSeries) -> str:
    return series.labels.get("__name__", "")


def _during(segments: Iterable[AnySegment], fault: Fault) -> tuple[AnySegment, ...]:
    return within(segments, ((fault.from_at * 1000, fault.until_at * 1000),))


def _without(segments: Iterable[AnySegment], fault: Fault) -> tuple[AnySegment, ...]:
    return within(segments, ((-NO_END, fault.from_at * 1000), (fault.until_at * 1000, None)))


def _set(labels: Labels, changed: Labels) -> Labels:
    """The labels with some changed; an empty value takes a label away."""
    return {key: value for key, value in {**labels, **changed}.items() if value}


def _value(series: ExposedSeries, value: float) -> ExposedSeries:
    segments = tuple(ValueSegment(s.from_ms, s.until_ms, value) for s in series.segments)
    return replace(series, segments=segments)


# --- one function per kind: the series in the time of the fault ----------------------------------


def _target_down(fault: Fault, series: ExposedSeries) -> ExposedSeries | None:
    """`up` is 0 and everything else of the target ends."""
    if not for_job(fault, series.target.job, _default_job(fault)) or not _on_node(
        fault, series.target
    ):
        return series
    name = _name(series)
    if name == "up" or name.startswith(("scrape_samples", "scrape_series")):
        return _value(series, 0.0)
    return series if name == "scrape_duration_seconds" else None


def _default_job(fault: Fault) -> str:
    return DCGM if fault.kind == "exporter_down" else ""


def _on_node(fault: Fault, target: Target) -> bool:
    wanted = text(fault, "node")
    return not wanted or (target.node is not None and target.node.name == wanted)


def _exporter_moved(fault: Fault, series: ExposedSeries) -> ExposedSeries | None:
    if not for_job(fault, series.target.job, "kube-state-metrics"):
        return series
    own = dict(series.target.labels)
    labels = series.labels
    moved = {"instance": _elsewhere(own.get("instance", ""))}
    if own.get("pod"):  # OpenShift drops this label of kube-state-metrics
        moved["pod"] = own["pod"] + "-moved"
    # Only the target's own labels: those of a pod that the series describes are kept.
    changed = {key: value for key, value in moved.items() if labels.get(key) == own.get(key)}
    if not changed:
        return series
    return replace(series, labels=_set(series.labels, changed))


def _elsewhere(instance: str) -> str:
    address, _, port = instance.partition(":")
    head, _, last = address.rpartition(".")
    return f"{head}.{(int(last) + 101) % 250}:{port}" if last.isdigit() else f"{address}-2:{port}"


def _honor_flipped(fault: Fault, series: ExposedSeries) -> ExposedSeries | None:
    target = series.target
    if not for_job(fault, target.job, DCGM) or series.exposed is None:
        return series
    flipped = replace(target, honor_labels=not target.honor_labels)
    return replace(series, labels=flipped.labelled(_name(series), series.exposed))


def _relabelled(
    fault: Fault, series: ExposedSeries, changed: dict[str, str]
) -> ExposedSeries | None:
    """The series with other exposed labels."""
    if series.exposed is None:
        return series
    exposed = tuple({**dict(series.exposed), **changed}.items())
    labels = series.target.labelled(_name(series), exposed)
    return series if labels == series.labels else replace(series, labels=labels, exposed=exposed)


def _pod_labels_lost(fault: Fault, series: ExposedSeries) -> ExposedSeries | None:
    if series.target.job != DCGM or not _on_node(fault, series.target):
        return series
    return _relabelled(fault, series, dict.fromkeys(_POD_LABELS, ""))


def _model_renamed(fault: Fault, series: ExposedSeries) -> ExposedSeries | None:
    exposed = dict(series.exposed or ())
    if (
        series.target.job != DCGM
        or not _on_node(fault, series.target)
        or "modelName" not in exposed
    ):
        return series
    return _relabelled(fault, series, {"modelName": text(fault, "to", "NVIDIA A100-SXM4-40GB-NEW")})


def _label_renamed(fault: Fault, series: ExposedSeries) -> ExposedSeries | None:
    label, new = text(fault, "label", "uid"), text(fault, "to", "pod_uid")
    exposed = dict(series.exposed or ())
    about = series.target.job == "kube-state-metrics" and for_metric(fault, _name(series))
    if not about or label not in exposed:
        return series
    changed = {label: ""} | ({new: exposed[label]} if new else {})
    return _relabelled(fault, series, changed)


def _hostname_renamed(fault: Fault, series: ExposedSeries) -> ExposedSeries | None:
    exposed = dict(series.exposed or ())
    if series.target.job != DCGM or "Hostname" not in exposed:
        return series
    return _relabelled(fault, series, {"Hostname": "", "hostname": exposed["Hostname"]})


def _pod_metadata_lost(fault: Fault, series: ExposedSeries) -> ExposedSeries | None:
    labels = series.labels
    wanted, metric = text(fault, "namespace"), text(fault, "metric")
    if _name(series) not in ((metric,) if metric else _KSM_ABOUT_PODS):
        return series
    if wanted and labels.get("namespace") != wanted:
        return series
    return None if drawn(fault, labels.get("uid", "")) else series


def _odd_values(fault: Fault, series: ExposedSeries) -> ExposedSeries | None:
    name = _name(series)
    if name != text(fault, "metric", "kube_pod_container_resource_requests"):
        return series
    which = tuple(series.labels.items())
    if not drawn(fault, which):
        return series
    values = words(fault, "values", _ODD_VALUES)
    return _value(series, parse_value(pick(fault, values, which)))


def _cluster_label_lost(fault: Fault, series: ExposedSeries) -> ExposedSeries | None:
    if not for_metric(fault, _name(series)):
        return series
    return replace(series, external={"cluster": "", "clusterID": ""})


def _undeclared(fault: Fault, series: ExposedSeries) -> ExposedSeries | None:
    return replace(series, replica_label=text(fault, "label", "prometheus_instance"))


_CHANGES: dict[str, Change] = {
    "exporter_down": _target_down,
    "sample_limit": _target_down,
    "exporter_moved": _exporter_moved,
    "honor_labels_flipped": _honor_flipped,
    "pod_labels_lost": _pod_labels_lost,
    "model_renamed": _model_renamed,
    "label_renamed": _label_renamed,
    "hostname_label_renamed": _hostname_renamed,
    "pod_metadata_lost": _pod_metadata_lost,
    "odd_values": _odd_values,
    "cluster_label_lost": _cluster_label_lost,
    "replicas_undeclared": _undeclared,
}
# Faults that change the labels that select a cluster; then every cluster is searched.
EXTERNAL = ("cluster_label_lost", "shared_external_labels", "replicas_undeclared")
KINDS = (*_CHANGES, "shared_external_labels", "metric_renamed")
