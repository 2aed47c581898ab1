"""The metrics page: names, labels and help of all metrics of the exporter.

Put here: metric families, built from one snapshot for each scrape.
Not here: collecting (`collection`), or HTTP (`server`).

There are no global gauges. A GPU or a reading that the last collection did not have is not on the
page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from amd_exporter.collection import Snapshot, SnapshotCollector
from amd_exporter.devices import (
    CLOCK,
    ECC_ERRORS,
    ENERGY,
    HEALTHY,
    MEMORY_ACTIVITY,
    MEMORY_TOTAL,
    MEMORY_USED,
    MEMORY_USED_PERCENT,
    POWER,
    TEMPERATURE,
    UTILIZATION,
    LogicalDevice,
)
from amd_exporter.sources import is_tested

PREFIX = "amd_gpu"
EXPORTER_PREFIX = "amd_gpu_exporter"
NO_HOLDER = ("", "", "")


class Quantity(NamedTuple):
    """Name, unit and label of a reading on the page."""

    name: str
    help: str
    part: str = ""  # label that distinguishes its parts


QUANTITIES = (
    Quantity(
        UTILIZATION,
        "Activity of the graphics engines in percent. Of a card in partitions, without figures of"
        " each: of the whole card, on partition 0.",
    ),
    Quantity(MEMORY_ACTIVITY, "Activity of the memory controller in percent."),
    Quantity(MEMORY_USED_PERCENT, "VRAM in use, in percent of the device's VRAM."),
    Quantity(MEMORY_USED, "VRAM in use in bytes."),
    Quantity(MEMORY_TOTAL, "VRAM of the device in bytes."),
    Quantity(POWER, "Power of the card in watts; of a card in partitions, on partition 0."),
    Quantity(ENERGY, "Energy that the card has used since its driver was loaded, in joules."),
    Quantity(TEMPERATURE, "Temperature in degrees Celsius by sensor.", "sensor"),
    Quantity(CLOCK, "Frequency of a clock in hertz.", "clock"),
    Quantity(ECC_ERRORS, "ECC errors since the driver was loaded, by kind.", "kind"),
    Quantity(
        HEALTHY,
        "1 without an uncorrectable ECC error since the driver was loaded, else 0; absent where the"
        " source has no ECC counts.",
    ),
)
LABELS = (
    "node",
    "gpu",
    "uuid",
    "pci_bus",
    "product",
    "partition",
    "partition_mode",
    "namespace",
    "pod",
    "container",
)


class RegistryCollector(Collector):
    """The collector that the registry calls at each scrape."""

    def __init__(self, collection: SnapshotCollector, node: str) -> None:
        self._collection = collection
        self._node = node

    def collect(self) -> Iterator[Metric]:
        snapshot = self._collection.snapshot
        yield from self._readings(snapshot)
        yield from self._counts_of_devices(snapshot)
        yield from _self_metrics(snapshot)

    def _readings(self, snapshot: Snapshot) -> Iterator[Metric]:
        names = (*LABELS, *snapshot.extra_labels)
        labelled = [(device, self._labels(device, snapshot)) for device in snapshot.devices]
        for quantity in QUANTITIES:
            family_of = (
                CounterMetricFamily if quantity.name.endswith("_total") else GaugeMetricFamily
            )
            labels = (*names, quantity.part) if quantity.part else names
            family = family_of(f"{PREFIX}_{quantity.name}", quantity.help, labels=labels)
            for device, values in labelled:
                for key, value in device.readings.items():
                    name, _, part = key.partition("/")
                    if name == quantity.name:
                        family.add_metric([*values, part] if quantity.part else values, value)
            if family.samples:
                yield family

    def _labels(self, device: LogicalDevice, snapshot: Snapshot) -> list[str]:
        holder = snapshot.holders.get(device.pci_bus)
        return [
            self._node,
            device.gpu,
            device.uuid,
            device.pci_bus,
            device.product,
            str(device.partition),
            device.partition_mode,
            *((holder.namespace, holder.pod, holder.container) if holder else NO_HOLDER),
            *snapshot.extra_labels.values(),
        ]

    def _counts_of_devices(self, snapshot: Snapshot) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            f"{PREFIX}_devices",
            "Logical GPUs: expected by the node's capacity or its driver; reported by the source.",
            labels=("node", "kind"),
        )
        if snapshot.expected is not None:
            family.add_metric([self._node, "expected"], snapshot.expected)
        family.add_metric([self._node, "reported"], len(snapshot.devices))
        yield family


def _self_metrics(snapshot: Snapshot) -> Iterator[Metric]:
    results = CounterMetricFamily(
        f"{EXPORTER_PREFIX}_collections", "Collections by result.", labels=["result"]
    )
    for result, count in snapshot.results.items():
        results.add_metric([result], count)
    yield results

    errors = CounterMetricFamily(
        f"{EXPORTER_PREFIX}_collection_errors",
        "Errors of sources by reason.",
        labels=["source", "reason"],
    )
    for labels, count in snapshot.errors.items():
        errors.add_metric(labels, count)
    yield errors

    dropped = CounterMetricFamily(
        f"{EXPORTER_PREFIX}_values_dropped",
        "Values outside the physical range.",
        labels=["quantity"],
    )
    for quantity, count in snapshot.dropped.items():
        dropped.add_metric([quantity], count)
    yield dropped

    ready = GaugeMetricFamily(f"{EXPORTER_PREFIX}_ready", "Whether /readyz answers 200.")
    ready.add_metric([], snapshot.is_ready)
    yield ready

    if snapshot.last_success_at is not None:
        last = GaugeMetricFamily(
            f"{EXPORTER_PREFIX}_last_success_timestamp_seconds",
            "Unix time of the last good collection.",
        )
        last.add_metric([], snapshot.last_success_at)
        yield last
    if snapshot.duration_seconds is not None:
        took = GaugeMetricFamily(
            f"{EXPORTER_PREFIX}_collection_duration_seconds", "Duration of the last collection."
        )
        took.add_metric([], snapshot.duration_seconds)
        yield took
    yield from _sources(snapshot)
    for name, is_known, text in (
        ("pods_known", snapshot.pods_known, "1 if the kubelet listed the pods of the GPUs."),
        ("node_known", snapshot.node_known, "Whether the node's object could be read."),
    ):
        if is_known is not None:
            family = GaugeMetricFamily(f"{EXPORTER_PREFIX}_{name}", text)
            family.add_metric([], is_known)
            yield family


def _sources(snapshot: Snapshot) -> Iterator[Metric]:
    if snapshot.source:
        info = GaugeMetricFamily(
            f"{EXPORTER_PREFIX}_source_info",
            "The source of readings and its version; whether it is among the tested ones.",
            labels=["source", "version", "tested"],
        )
        tested = "true" if is_tested(snapshot.source, snapshot.version) else "false"
        info.add_metric([snapshot.source, snapshot.version, tested], 1)
        yield info
    problems = GaugeMetricFamily(
        f"{EXPORTER_PREFIX}_source_problem",
        "1 for each source that did not work when it was tried last.",
        labels=["source", "reason"],
    )
    for source, reason in snapshot.problems.items():
        problems.add_metric([source, reason], 1)
    yield problems
