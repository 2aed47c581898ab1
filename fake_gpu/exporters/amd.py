"""AMD's device-metrics-exporter: names, labels and values of `gpu_*`.

Put here: its series of cards and partitions.
Not here: how busy a device is (`devices`).

Its habits: of a partitioned card, power, energy and activity are shown by partition 0 and are 0
on the others; and its chart scrapes with honorLabels, so `pod` is the pod that uses the card.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from fake_gpu.exporters.devices import Entity, EntityState
from fake_gpu.exporters.exposition import FamilyHead, Pairs
from fake_gpu.fleet.model import Incident, Node

ENERGY = "gpu_energy_consumed"
NODES = "gpu_nodes_total"


class AmdReading(NamedTuple):
    """The inputs of one metric."""

    entity: Entity
    step: EntityState
    milliwatts: int
    card_pct: float  # of the whole card, as partition 0 shows it
    incident: Incident | None


@dataclass(frozen=True, slots=True)
class AmdMetric:
    head: FamilyHead
    value: Callable[[AmdReading], float]
    extra: Pairs = ()  # labels of its own


def _first_only(value: Callable[[AmdReading], float]) -> Callable[[AmdReading], float]:
    """Partitions beyond the first show nothing of their card."""

    def read(reading: AmdReading) -> float:
        return 0 if reading.entity.partition_id else value(reading)

    return read


def _metric(
    name: str, text: str, value: Callable[[AmdReading], float], *extra: tuple[str, str]
) -> AmdMetric:
    return AmdMetric(FamilyHead(name, text), value, extra)


def _watts(reading: AmdReading) -> float:
    return reading.milliwatts // 1000


METRICS: tuple[AmdMetric, ...] = (
    _metric("gpu_package_power", "Current socket power in Watts", _first_only(_watts)),
    _metric("gpu_average_package_power", "Average socket power in Watts", _first_only(_watts)),
    _metric("gpu_power_usage", "Power usage in Watts", _first_only(_watts)),
    _metric(ENERGY, "Accumulated energy consumed in uJ", lambda _: 0),
    _metric(
        "gpu_gfx_activity",
        "Graphics engine usage in percentage",
        _first_only(lambda reading: int(reading.card_pct)),
    ),
    _metric(
        "gpu_umc_activity",
        "Memory engine usage in percentage",
        _first_only(lambda reading: int(reading.card_pct * 0.6)),
    ),
    _metric("gpu_total_vram", "Total VRAM in MB", lambda reading: reading.entity.memory_mib),
    _metric("gpu_used_vram", "Used VRAM in MB", lambda reading: reading.step.used_mib),
    _metric(
        "gpu_free_vram",
        "Free VRAM in MB",
        lambda reading: reading.entity.memory_mib - reading.step.used_mib,
    ),
    _metric(
        "gpu_edge_temperature",
        "Current edge temperature in Celsius",
        lambda reading: 33 + int(reading.card_pct * 0.3),
    ),
    _metric(
        "gpu_junction_temperature",
        "Current junction temperature in Celsius",
        lambda reading: 38 + int(reading.card_pct * 0.4),
    ),
    _metric(
        "gpu_memory_temperature",
        "Current memory temperature in Celsius",
        lambda reading: 35 + int(reading.card_pct * 0.35),
    ),
    _metric(
        "gpu_clock",
        "Clock frequency in MHz",
        lambda reading: 2100 if reading.card_pct else 132,
        ("clock_index", "0"),
        ("clock_type", "GPU_CLOCK_TYPE_SYSTEM"),
    ),
    _metric(
        "gpu_health",
        "Health of the GPU (0 = unhealthy, 1 = healthy)",
        lambda reading: 0 if reading.incident else 1,
    ),
)


def nodes_total(node: Node) -> int:
    """The number of GPUs that the exporter has found: partitions count."""
    return len([d for d in node.devices if d.exists_until is None])


def identity(node: Node, entity: Entity) -> Pairs:
    """The mandatory labels that name a card or a partition."""
    first = entity.devices[0]
    compute, _, memory = first.profile.partition("_")
    whole = first.makeup != "partition"
    return (
        ("card_model", entity.card.model_name),
        ("deployment_mode", "k8s"),
        ("gpu_compute_partition_type", "spx" if whole else compute),
        ("gpu_id", str(entity.card.index)),
        ("gpu_memory_partition_type", "nps1" if whole else memory or "nps1"),
        ("gpu_partition_id", str(entity.partition_id or 0)),
        ("hostname", node.name),
        ("kfd_process_id", ""),
        ("serial_number", entity.card.serial),
    )


def attribution(step: EntityState) -> Pairs:
    """The pod that has the device; one of them, when there are several."""
    holder = step.holders[-1] if step.holders else None
    return (
        ("container", holder.container if holder else ""),
        ("job_id", ""),
        ("job_partition", ""),
        ("job_user", ""),
        ("namespace", holder.pod.namespace if holder else ""),
        ("pod", holder.pod.name if holder else ""),
    )
