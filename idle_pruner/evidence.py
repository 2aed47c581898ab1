"""The samples of GPU use over one window, reduced to one reading per device and metric.

Put here: the metrics that show use, their units, and the queries for them.
Not here: whether a workload is idle (`idle_pruner.decision`).

Raw samples are read, not `max_over_time`: a maximum over a gap looks like a maximum over zeros.
A metric that is not in the table is no evidence, because its unit is unknown.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from itertools import pairwise
from typing import Protocol

from clients.prometheus import Series, quoted


class Signal(Enum):
    """A kind of measurement that shows the use of a device."""

    ACTIVITY = "engine activity"
    MEMORY_TRAFFIC = "memory traffic"
    POWER = "power"


@dataclass(frozen=True, slots=True)
class IdlenessMetric:
    """The meaning of a metric. Its value times `factor` is a ratio of 0 to 1, or watts."""

    signal: Signal
    factor: float = 1.0
    # Some metrics of a MIG instance show the whole card or nothing.
    is_known_for_instances: bool = True


METRICS: Mapping[str, IdlenessMetric] = {
    # dcgm-exporter to 4.8, and since 4.9 (DCGM 4.7)
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": IdlenessMetric(Signal.ACTIVITY),
    "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": IdlenessMetric(Signal.ACTIVITY),
    "DCGM_FI_DEV_GPU_UTIL": IdlenessMetric(Signal.ACTIVITY, 0.01, is_known_for_instances=False),
    "DCGM_FI_DEV_GPU_UTIL_RATIO": IdlenessMetric(Signal.ACTIVITY, is_known_for_instances=False),
    "DCGM_FI_PROF_DRAM_ACTIVE": IdlenessMetric(Signal.MEMORY_TRAFFIC),
    "DCGM_FI_PROF_DRAM_UTIL_RATIO": IdlenessMetric(Signal.MEMORY_TRAFFIC),
    "DCGM_FI_DEV_MEM_COPY_UTIL": IdlenessMetric(
        Signal.MEMORY_TRAFFIC, 0.01, is_known_for_instances=False
    ),
    "DCGM_FI_DEV_MEMORY_UTIL_RATIO": IdlenessMetric(
        Signal.MEMORY_TRAFFIC, is_known_for_instances=False
    ),
    "DCGM_FI_DEV_POWER_USAGE": IdlenessMetric(Signal.POWER, is_known_for_instances=False),
    "DCGM_FI_DEV_BOARD_POWER_WATTS": IdlenessMetric(Signal.POWER, is_known_for_instances=False),
    # AMD device-metrics-exporter
    "gpu_gfx_activity": IdlenessMetric(Signal.ACTIVITY, 0.01),
    "gpu_umc_activity": IdlenessMetric(Signal.MEMORY_TRAFFIC, 0.01),
    "gpu_package_power": IdlenessMetric(Signal.POWER),
    "gpu_average_package_power": IdlenessMetric(Signal.POWER),
    # gpu-ledger-amd-exporter
    "amd_gpu_utilization_percent": IdlenessMetric(Signal.ACTIVITY, 0.01),
    "amd_gpu_memory_activity_percent": IdlenessMetric(Signal.MEMORY_TRAFFIC, 0.01),
    "amd_gpu_power_watts": IdlenessMetric(Signal.POWER),
}

INSTANCE_LABELS = ("GPU_I_ID", "gpu_partition_id", "partition")
PRODUCT_LABELS = ("modelName", "card_model", "product")
DEVICE_LABELS = ("UUID", "gpu_uuid", "serial_number", "uuid", "pci_bus")


@dataclass(frozen=True, slots=True, order=True)
class MeasuredDevice:
    """A card, or an instance of one."""

    identity: str
    instance: str = ""

    def __str__(self) -> str:
        return f"{self.identity}/{self.instance}" if self.instance else self.identity


@dataclass(frozen=True, slots=True)
class SeriesReading:
    """One series of one metric of one device in the window, and the scrapes it came from."""

    device: MeasuredDevice
    metric: str
    product: str
    pod_uid: str
    minimum: float
    maximum: float
    sample_count: int
    first_at: float
    last_at: float
    gap_seconds: float  # the longest between two samples
    scrape_count: int  # of the target in the window; 0 if `up` is unknown
    scrape_failed_count: int
    scrape_interval_seconds: float

    @property
    def signal(self) -> Signal:
        return METRICS[self.metric].signal


PodName = tuple[str, str]  # namespace, name


@dataclass(frozen=True, slots=True)
class Evidence:
    """All readings of a window, by the pod that each series names."""

    started_at: datetime
    ended_at: datetime
    queries: tuple[str, ...]
    readings: Mapping[PodName, Sequence[SeriesReading]]


class SampleSource(Protocol):
    """A server of raw samples; `clients.prometheus.PrometheusClient` is one."""

    def raw_samples(self, range_selector: str, at: datetime) -> list[Series]: ...


def collect_evidence(
    prometheus: SampleSource,
    ended_at: datetime,
    duration: timedelta,
    *,
    honor_labels: bool = False,
) -> Evidence:
    """Query every metric of the table, and the scrapes of the targets that expose them.

    Raises `PrometheusFailed` if any response is incomplete: a metric that could not be read may
    be the one that shows use.
    """
    window = f"[{int(duration.total_seconds())}s]"
    queries = [name + window for name in METRICS]
    found = [series for query in queries for series in prometheus.raw_samples(query, ended_at)]
    found = [series for series in found if _pod(series.metric, honor_labels)[1]]
    scrapes: dict[tuple[str, ...], Series] = {}
    for job in sorted({series.metric.get("job", "") for series in found} - {""}):
        queries.append(f"up{{job={quoted(job)}}}{window}")
        for series in prometheus.raw_samples(queries[-1], ended_at):
            scrapes[_target(series.metric)] = series
    by_pod: dict[PodName, list[SeriesReading]] = defaultdict(list)
    for series in found:
        reading = _reading(series, scrapes.get(_target(series.metric)))
        by_pod[_pod(series.metric, honor_labels)].append(reading)
    return Evidence(ended_at - duration, ended_at, tuple(queries), dict(by_pod))


def _target(labels: Mapping[str, str]) -> tuple[str, ...]:
    names = ("cluster", "clusterID", "prometheus", "prometheus_replica", "job", "instance")
    return tuple(labels.get(name, "") for name in names)


def _pod(labels: Mapping[str, str], honor_labels: bool) -> PodName:
    """The pod that uses the device; ("", "") if the series names none.

    Without honorLabels, `pod` is the exporter's own pod. The chart of AMD's exporter sets
    honorLabels, that of dcgm-exporter does not.
    """
    is_honored = honor_labels or not labels.get("__name__", "").startswith("DCGM_")
    if not is_honored or "exported_pod" in labels:
        return labels.get("exported_namespace", ""), labels.get("exported_pod", "")
    return labels.get("namespace", ""), labels.get("pod", "")


def _reading(series: Series, scrapes: Series | None) -> SeriesReading:
    labels = series.metric
    name = labels.get("__name__", "")
    factor = METRICS[name].factor
    values = [parse_number(text) * factor for _, text in series.values]
    if factor != 1.0 and any(value != round(value, 2) for value in values):
        values = [math.nan]  # a percentage is a whole number; this is another unit
    is_complete = bool(values) and not any(map(math.isnan, values))
    instance = next((labels[label] for label in INSTANCE_LABELS if labels.get(label)), "")
    identity = next((labels[label] for label in DEVICE_LABELS if labels.get(label)), "")
    ups = scrapes.values if scrapes is not None else []
    gaps = _distances(ups)
    return SeriesReading(
        device=MeasuredDevice(identity, instance),
        metric=name,
        product=next((labels[label] for label in PRODUCT_LABELS if labels.get(label)), ""),
        pod_uid=labels.get("exported_pod_uid") or labels.get("pod_uid", ""),
        minimum=min(values) if is_complete else math.nan,
        maximum=max(values) if is_complete else math.nan,
        sample_count=len(series.values),
        first_at=series.values[0][0] if series.values else math.nan,
        last_at=series.values[-1][0] if series.values else math.nan,
        gap_seconds=max(_distances(series.values), default=math.nan),
        scrape_count=len(ups),
        scrape_failed_count=sum(parse_number(text) != 1.0 for _, text in ups),
        scrape_interval_seconds=sorted(gaps)[len(gaps) // 2] if gaps else math.nan,
    )


def _distances(samples: Sequence[tuple[float, str]]) -> list[float]:
    return [later[0] - earlier[0] for earlier, later in pairwise(samples)]


def parse_number(text: str) -> float:
    """A sample's value; NaN for a text that is no number."""
    try:
        return float(text)
    except ValueError:
        return math.nan
