"""Series of other exporters: a second kube-state-metrics, and a tenant's own exporter.

Put here: sources of series that exist only in the time of a fault.
Not here: changes to other series (`series_faults`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fake_gpu.fleet.model import Fault
from fake_gpu.prometheus.faults import SampleFaults, text, whole
from fake_gpu.prometheus.label_sets import LabelPairs
from fake_gpu.prometheus.segments import ExposedSeries, ExposedSeriesSource, ValueSegment, within
from fake_gpu.prometheus.targets import Target

_REQUESTS = "kube_pod_container_resource_requests"
_UTILISATION = "DCGM_FI_DEV_GPU_UTIL"
# The faults that add such series.
FORGED = ("second_kube_state_metrics", "forged_series")


def _span(fault: Fault) -> tuple[int, int]:
    return fault.from_at * 1000, fault.until_at * 1000


class SecondExporter:
    """A second exporter with the same series, from another place, under its own job."""

    def __init__(
        self, source: ExposedSeriesSource, target: Target, fault: Fault, faults: SampleFaults
    ):
        self.source = source
        self.fault = fault
        self.faults = faults
        self.first = target
        job = text(fault, "second_job", "opencost")
        changed = {"job": job, "service": job, "instance": "10.128.9.9:8081", "pod": f"{job}-0"}
        labels = tuple({**dict(target.labels), **changed}.items())
        self.target = replace(target, name=f"{target.name}#{job}", labels=labels, dropped=())

    def names(self) -> Iterable[str]:
        return self.source.names()

    def exposed_series(self, name: str, start_ms: int, end_ms: int) -> Sequence[ExposedSeries]:
        low, high = _span(self.fault)
        if low > end_ms or high <= start_ms:
            return []
        series_list = []
        for series in self.source.exposed_series(name, start_ms, end_ms):
            segments = within(series.segments, ((low, high),))
            if series.target is self.first and series.exposed is not None and segments:
                labels = self.target.labelled(name, series.exposed)
                series_list.append(ExposedSeries(self.target, labels, segments, series.exposed))
        if any(within(series.segments, ((start_ms, end_ms + 1),)) for series in series_list):
            self.faults.fire(self.fault, self.fault.from_at, f"{len(series_list)} of {name}")
        return series_list


class ForgedSeries:
    """A tenant's exporter that claims devices for another tenant."""

    def __init__(self, fault: Fault, faults: SampleFaults, interval_ms: int) -> None:
        self.fault = fault
        self.faults = faults
        attacker = text(fault, "attacker") or "attacker"
        low, high = _span(fault)
        self.target = Target(
            name=f"{faults.cluster_id}/{attacker}/forged",
            job=f"{attacker}-exporter",
            interval_ms=interval_ms,
            honor_labels=False,
            labels=(
                ("container", "exporter"),
                ("endpoint", "metrics"),
                ("instance", "10.129.6.6:9400"),
                ("job", f"{attacker}-exporter"),
                ("namespace", attacker),
                ("pod", "exporter-0"),
                ("service", f"{attacker}-exporter"),
            ),
            dropped=(),
            present=((low, high),),
            reachable=((low, high),),
        )

    def names(self) -> Iterable[str]:
        return ("up", _REQUESTS, _UTILISATION)

    def exposed_series(self, name: str, start_ms: int, end_ms: int) -> Sequence[ExposedSeries]:
        low, high = _span(self.fault)
        gpus = whole(self.fault, "gpus", 8)
        if low > end_ms or high <= start_ms or gpus <= 0:
            return []
        self.faults.fire(self.fault, self.fault.from_at, name)
        if name == "up":
            return [
                ExposedSeries(
                    self.target, self.target.labelled_up("up"), (ValueSegment(low, high, 1.0),)
                )
            ]
        return [self._forged(name, number) for number in range(gpus)]

    def _forged(self, name: str, number: int) -> ExposedSeries:
        victim = text(self.fault, "victim") or "victim"
        pod: LabelPairs = (
            ("namespace", victim),
            ("pod", f"forged-{number}"),
            ("container", "main"),
        )
        more: LabelPairs = (
            (
                ("uid", f"f0f0f0f0-0000-4000-8000-{number:012x}"),
                ("node", "forged-node"),
                ("resource", "nvidia_com_gpu"),
                ("unit", "integer"),
            )
            if name == _REQUESTS
            else (("gpu", str(number)), ("UUID", f"GPU-forged-{number}"))
        )
        exposed = (*pod, *more)
        low, high = _span(self.fault)
        value = 1.0 if name == _REQUESTS else 100.0
        labels = self.target.labelled(name, exposed)
        return ExposedSeries(self.target, labels, (ValueSegment(low, high, value),), exposed)
