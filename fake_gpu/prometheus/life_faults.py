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
    LifeSource,
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
    """A source of lives as the faults of its cluster show it."""

    def __init__(
        self, source: LifeSource, faults: SampleFaults, cluster_ids: Mapping[str, str]
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

    def lives(self, name: str, start_ms: int, end_ms: int) -> Sequence[ExposedSeries]:
        found: list[ExposedSeries] = []
        if name in self.source.names():
            found += self._through(self.source.lives(name, start_ms, end_ms), start_ms, end_ms)
        for fault in self._renamed:
            if text(fault, "to") == name:
                lives = self.source.lives(text(fault, "metric"), start_ms, end_ms)
                moved = [life for life in self._moved(fault, lives) if life.segments]
                for life in moved:
                    self._seen(fault, start_ms, end_ms, life)
                found += moved
        for fault in self._renamed:
            if text(fault, "metric") == name:
                found = [life for life in (self._outside(fault, each) for each in found) if life]
        return found

    def _through(
        self, lives: Iterable[ExposedSeries], start_ms: int, end_ms: int
    ) -> Iterator[ExposedSeries]:
        changes = [
            (fault, change, partial(self._seen, fault, start_ms, end_ms))
            for fault, change in self._changes
            if fault.from_at * 1000 <= end_ms and fault.until_at * 1000 > start_ms
        ]
        for life in lives:
            parts = [life]
            for fault, change, seen in changes:
                parts = [new for part in parts for new in self._apply(fault, change, part, seen)]
            yield from parts

    def _apply(
        self, fault: Fault, change: Change, life: ExposedSeries, seen: Seen
    ) -> Iterator[ExposedSeries]:
        inside = replace(life, segments=_cut(life.segments, fault), label_sets={})
        if not inside.segments:
            yield life
            return
        changed = change(fault, inside)
        if changed == inside:
            yield life
            return
        seen(inside)
        outside = _without(life.segments, fault)
        if outside:
            yield replace(life, segments=outside, label_sets={})
        if changed is not None:
            yield changed

    def _seen(self, fault: Fault, start_ms: int, end_ms: int, touched: ExposedSeries) -> None:
        """Count the fault if one of its changes lies in the closed range of the query."""
        if within(touched.segments, ((start_ms, end_ms + 1),)):
            self.faults.fire(fault, fault.from_at, _name(touched))

    def _other_cluster(self, fault: Fault, life: ExposedSeries) -> ExposedSeries | None:
        name = text(fault, "as_cluster")
        if self.cluster_ids.get(name) == self.faults.cluster_id:
            return life
        other = {"cluster": name, "clusterID": self.cluster_ids.get(name, "")}
        return replace(life, external=other)

    def _moved(self, fault: Fault, lives: Iterable[ExposedSeries]) -> Iterator[ExposedSeries]:
        for life in lives:
            labels = _set(life.labels, {"__name__": text(fault, "to")})
            yield replace(life, labels=labels, segments=_cut(life.segments, fault), label_sets={})

    def _outside(self, fault: Fault, life: ExposedSeries) -> ExposedSeries | None:
        segments = _without(life.segments, fault)
        return replace(life, segments=segments, label_sets={}) if segments else None


def _name(life: ExposedSeries) -> str:
    return life.labels.get("__name__", "")


def _cut(segments: Iterable[AnySegment], fault: Fault) -> tuple[AnySegment, ...]:
    return within(segments, ((fault.from_at * 1000, fault.until_at * 1000),))


def _without(segments: Iterable[AnySegment], fault: Fault) -> tuple[AnySegment, ...]:
    return within(segments, ((-NO_END, fault.from_at * 1000), (fault.until_at * 1000, None)))


def _set(labels: Labels, changed: Labels) -> Labels:
    """The labels with some changed; an empty value takes a label away."""
    return {key: value for key, value in {**labels, **changed}.items() if value}


def _value(life: ExposedSeries, value: float) -> ExposedSeries:
    segments = tuple(ValueSegment(s.from_ms, s.until_ms, value) for s in life.segments)
    return replace(life, segments=segments)


# --- one function per kind: the life in the time of the fault ------------------------------------


def _target_down(fault: Fault, life: ExposedSeries) -> ExposedSeries | None:
    """`up` is 0 and everything else of the target ends."""
    if not for_job(fault, life.target.job, _default_job(fault)) or not _on_node(fault, life.target):
        return life
    name = _name(life)
    if name == "up" or name.startswith(("scrape_samples", "scrape_series")):
        return _value(life, 0.0)
    return life if name == "scrape_duration_seconds" else None


def _default_job(fault: Fault) -> str:
    return DCGM if fault.kind == "exporter_down" else ""


def _on_node(fault: Fault, target: Target) -> bool:
    wanted = text(fault, "node")
    return not wanted or (target.node is not None and target.node.name == wanted)


def _exporter_moved(fault: Fault, life: ExposedSeries) -> ExposedSeries | None:
    if not for_job(fault, life.target.job, "kube-state-metrics"):
        return life
    own = dict(life.target.labels)
    labels = life.labels
    moved = {"instance": _elsewhere(own.get("instance", ""))}
    if own.get("pod"):  # OpenShift drops this label of kube-state-metrics
        moved["pod"] = own["pod"] + "-moved"
    # Only the target's own labels: those of a pod that the series describes are kept.
    changed = {key: value for key, value in moved.items() if labels.get(key) == own.get(key)}
    if not changed:
        return life
    return replace(life, labels=_set(life.labels, changed))


def _elsewhere(instance: str) -> str:
    address, _, port = instance.partition(":")
    head, _, last = address.rpartition(".")
    return f"{head}.{(int(last) + 101) % 250}:{port}" if last.isdigit() else f"{address}-2:{port}"


def _honor_flipped(fault: Fault, life: ExposedSeries) -> ExposedSeries | None:
    target = life.target
    if not for_job(fault, target.job, DCGM) or life.exposed is None:
        return life
    flipped = replace(target, honor_labels=not target.honor_labels)
    return replace(life, labels=flipped.labelled(_name(life), life.exposed))


def _relabelled(fault: Fault, life: ExposedSeries, changed: dict[str, str]) -> ExposedSeries | None:
    """The life with other exposed labels."""
    if life.exposed is None:
        return life
    exposed = tuple({**dict(life.exposed), **changed}.items())
    labels = life.target.labelled(_name(life), exposed)
    return life if labels == life.labels else replace(life, labels=labels, exposed=exposed)


def _pod_labels_lost(fault: Fault, life: ExposedSeries) -> ExposedSeries | None:
    if life.target.job != DCGM or not _on_node(fault, life.target):
        return life
    return _relabelled(fault, life, dict.fromkeys(_POD_LABELS, ""))


def _model_renamed(fault: Fault, life: ExposedSeries) -> ExposedSeries | None:
    exposed = dict(life.exposed or ())
    if life.target.job != DCGM or not _on_node(fault, life.target) or "modelName" not in exposed:
        return life
    return _relabelled(fault, life, {"modelName": text(fault, "to", "NVIDIA A100-SXM4-40GB-NEW")})


def _label_renamed(fault: Fault, life: ExposedSeries) -> ExposedSeries | None:
    label, new = text(fault, "label", "uid"), text(fault, "to", "pod_uid")
    exposed = dict(life.exposed or ())
    about = life.target.job == "kube-state-metrics" and for_metric(fault, _name(life))
    if not about or label not in exposed:
        return life
    changed = {label: ""} | ({new: exposed[label]} if new else {})
    return _relabelled(fault, life, changed)


def _hostname_renamed(fault: Fault, life: ExposedSeries) -> ExposedSeries | None:
    exposed = dict(life.exposed or ())
    if life.target.job != DCGM or "Hostname" not in exposed:
        return life
    return _relabelled(fault, life, {"Hostname": "", "hostname": exposed["Hostname"]})


def _pod_metadata_lost(fault: Fault, life: ExposedSeries) -> ExposedSeries | None:
    labels = life.labels
    wanted, metric = text(fault, "namespace"), text(fault, "metric")
    if _name(life) not in ((metric,) if metric else _KSM_ABOUT_PODS):
        return life
    if wanted and labels.get("namespace") != wanted:
        return life
    return None if drawn(fault, labels.get("uid", "")) else life


def _odd_values(fault: Fault, life: ExposedSeries) -> ExposedSeries | None:
    name = _name(life)
    if name != text(fault, "metric", "kube_pod_container_resource_requests"):
        return life
    which = tuple(life.labels.items())
    if not drawn(fault, which):
        return life
    values = words(fault, "values", _ODD_VALUES)
    return _value(life, parse_value(pick(fault, values, which)))


def _cluster_label_lost(fault: Fault, life: ExposedSeries) -> ExposedSeries | None:
    if not for_metric(fault, _name(life)):
        return life
    return replace(life, external={"cluster": "", "clusterID": ""})


def _undeclared(fault: Fault, life: ExposedSeries) -> ExposedSeries | None:
    return replace(life, replica_label=text(fault, "label", "prometheus_instance"))


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
# Faults that change labels by which a cluster is asked for; then every cluster is looked through.
EXTERNAL = ("cluster_label_lost", "shared_external_labels", "replicas_undeclared")
KINDS = (*_CHANGES, "shared_external_labels", "metric_renamed")
