"""dcgm-exporter: the default and the profiling set, with MIG, pods, and its known habits.

DCGM 4.7 (dcgm-exporter 4.9) renamed 23 fields of the default set, and 11 of them have another unit
since; `renamed` has both, and a node has one of them.

Put here: names, labels and values of `DCGM_FI_*`.
Not here: how busy a device is (`devices`), or the labels that Prometheus adds.

Its habits, as found in its code and its issues: a GPU with MIG is not exported itself; the
utilisation, PCIe, row and vGPU fields do not exist for instances; of several pods that share a
card, only one is named; with virtual GPUs each is, beside a series of the card, all with the card's
value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from fake_gpu.exporters.devices import Entity, EntityHolder, EntityState
from fake_gpu.exporters.exposition import FamilyHead, MetricKind, Pairs
from fake_gpu.fleet.model import DcgmNames, Incident, Monitoring, Node

# The energy field has no value of its own here: it is the integral of the power.
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
MICROJOULES = {ENERGY: 1000, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL": 1_000_000}
"""How many of the integral's units are one of the counter's."""
Value = Callable[["DcgmReading"], float]


@dataclass(frozen=True, slots=True)
class Style:
    """How the exporter is set up."""

    hostname_label: Literal["Hostname", "hostname"] = "Hostname"
    profiling: bool = True
    pod_uid: bool = False
    virtual_gpus: bool = False
    pci_bus_id: bool = True  # absent from old versions
    driver_version: bool = True

    @classmethod
    def of(cls, monitoring: Monitoring) -> Style:
        return cls(
            monitoring.hostname_label,
            monitoring.profiling,
            monitoring.pod_uid_label,
            monitoring.virtual_gpus,
        )


class DcgmReading(NamedTuple):
    """The inputs of one field."""

    entity: Entity
    step: EntityState
    milliwatts: int
    incident: Incident | None

    @property
    def busy(self) -> float:
        """0..1"""
        return float(self.step.pct) / 100


@dataclass(frozen=True, slots=True)
class Field:
    """One metric: whether MIG instances and the default set have it, how it is written."""

    head: FamilyHead
    value: Value
    decimals: int = 0  # 0: written with %d; 6: with %f
    of_instances: bool = True
    of_mig_cards: bool = False
    """Whether a card with MIG enabled, but without instances, has it."""
    profiling: bool = False

    def text(self, value: float) -> str:
        return f"{value:.6f}" if self.decimals else f"{value:.0f}"


def _field(
    name: str,
    text: str,
    value: Value,
    *,
    kind: MetricKind = "gauge",
    decimals: int = 0,
    of_instances: bool = True,
    of_mig_cards: bool = True,
) -> Field:
    head = FamilyHead(f"DCGM_FI_DEV_{name}", text, kind)
    return Field(head, value, decimals, of_instances, of_mig_cards)


def _profiled(
    name: str, text: str, part: float, decimals: int = 6, *, of_instances: bool = True
) -> Field:
    """A profiling field: a fixed part of how busy the entity is."""
    places = 6 if decimals else 0

    def value(reading: DcgmReading) -> float:
        return round(reading.busy * part, places)

    return Field(
        FamilyHead(f"DCGM_FI_PROF_{name}", text), value, decimals, of_instances, profiling=True
    )


def _clock(idle: int, busy: int) -> Value:
    return lambda reading: busy if reading.step.pct else idle


def _temperature(idle: int, rise: int) -> Value:
    return lambda reading: idle + int(reading.busy * rise)


def _constant(value: float) -> Value:
    return lambda _: value


def _percent(part: float) -> Value:
    return lambda reading: int(float(reading.step.pct) * part)


def _free(reading: DcgmReading) -> float:
    entity = reading.entity
    return entity.memory_mib - entity.reserved_mib - reading.step.used_mib


def _xid(reading: DcgmReading) -> float:
    return reading.incident.xid if reading.incident else 0


def _uncorrectable(reading: DcgmReading) -> float:
    return 1 if reading.incident and reading.incident.mode == "ecc" else 0


_PCIE = (
    "The rate of data {0} over the PCIe bus - including both protocol headers and data payloads - "
    "in bytes per second."
)
_NVLINK = "The rate of data {0} over NVLink, not including protocol headers, in bytes per second."

FIELDS: tuple[Field, ...] = (
    _field("SM_CLOCK", "SM clock frequency (in MHz).", _clock(210, 1410)),
    _field("MEM_CLOCK", "Memory clock frequency (in MHz).", _clock(1215, 1215)),
    _field("MEMORY_TEMP", "Memory temperature (in C).", _temperature(32, 40)),
    _field("GPU_TEMP", "GPU temperature (in C).", _temperature(30, 38)),
    _field(
        "POWER_USAGE",
        "Power draw (in W).",
        lambda reading: reading.milliwatts / 1000,
        decimals=6,
    ),
    _field(
        "TOTAL_ENERGY_CONSUMPTION",
        "Total energy consumption since boot (in mJ).",
        _constant(0),
        kind="counter",
    ),
    _field(
        "PCIE_REPLAY_COUNTER",
        "Total number of PCIe retries.",
        _constant(0),
        kind="counter",
        of_instances=False,
    ),
    _field(
        "GPU_UTIL", "GPU utilization (in %).", _percent(1), of_instances=False, of_mig_cards=False
    ),
    _field(
        "MEM_COPY_UTIL",
        "Memory utilization (in %).",
        _percent(0.6),
        of_instances=False,
        of_mig_cards=False,
    ),
    _field(
        "ENC_UTIL",
        "Encoder utilization (in %).",
        _constant(0),
        of_instances=False,
        of_mig_cards=False,
    ),
    _field(
        "DEC_UTIL",
        "Decoder utilization (in %).",
        _constant(0),
        of_instances=False,
        of_mig_cards=False,
    ),
    _field("XID_ERRORS", "Value of the last XID error encountered.", _xid),
    _field("FB_FREE", "Framebuffer memory free (in MiB).", _free),
    _field("FB_USED", "Framebuffer memory used (in MiB).", lambda reading: reading.step.used_mib),
    _field(
        "FB_RESERVED",
        "Framebuffer memory reserved (in MiB).",
        lambda reading: reading.entity.reserved_mib,
    ),
    _field(
        "NVLINK_BANDWIDTH_TOTAL",
        "Total number of NVLink bandwidth counters for all lanes.",
        _constant(0),
        kind="counter",
        of_mig_cards=False,
    ),
    _field(
        "VGPU_LICENSE_STATUS",
        "vGPU License status",
        _constant(0),
        of_instances=False,
        of_mig_cards=False,
    ),
    _field(
        "UNCORRECTABLE_REMAPPED_ROWS",
        "Number of remapped rows for uncorrectable errors",
        _uncorrectable,
        kind="counter",
        of_instances=False,
    ),
    _field(
        "CORRECTABLE_REMAPPED_ROWS",
        "Number of remapped rows for correctable errors",
        _constant(0),
        kind="counter",
        of_instances=False,
    ),
    _field(
        "ROW_REMAP_FAILURE",
        "Whether remapping of rows has failed",
        _constant(0),
        of_instances=False,
    ),
    _profiled("GR_ENGINE_ACTIVE", "Ratio of time the graphics engine is active.", 1.0),
    _profiled("SM_ACTIVE", "The ratio of cycles an SM has at least 1 warp assigned.", 0.9),
    _profiled("SM_OCCUPANCY", "The ratio of number of warps resident on an SM.", 0.65),
    _profiled("PIPE_TENSOR_ACTIVE", "Ratio of cycles the tensor (HMMA) pipe is active.", 0.5),
    _profiled(
        "DRAM_ACTIVE",
        "Ratio of cycles the device memory interface is active sending or receiving data.",
        0.6,
    ),
    _profiled("PIPE_FP64_ACTIVE", "Ratio of cycles the fp64 pipes are active.", 0.05),
    _profiled("PIPE_FP32_ACTIVE", "Ratio of cycles the fp32 pipes are active.", 0.25),
    _profiled("PIPE_FP16_ACTIVE", "Ratio of cycles the fp16 pipes are active.", 0.35),
    _profiled("PCIE_TX_BYTES", _PCIE.format("transmitted"), 1.2e9, 0, of_instances=False),
    _profiled("PCIE_RX_BYTES", _PCIE.format("received"), 2.4e9, 0, of_instances=False),
    _profiled("NVLINK_TX_BYTES", _NVLINK.format("transmitted"), 9e9, 0),
    _profiled("NVLINK_RX_BYTES", _NVLINK.format("received"), 9e9, 0),
)


class ScaledField(NamedTuple):
    """A field as DCGM has it since 4.7: its value is the old one, divided or multiplied."""

    name: str
    text: str
    per_old: float = 1
    decimals: int = 0


_RATIO = "(as a ratio from 0.0 to 1.0)."
RENAMED: Mapping[str, ScaledField] = {
    "DEV_SM_CLOCK": ScaledField("DEV_SM_CLOCK_HERTZ", "SM clock frequency (in Hz).", 10**6),
    "DEV_MEM_CLOCK": ScaledField(
        "DEV_MEMORY_CLOCK_HERTZ", "Memory clock frequency (in Hz).", 10**6
    ),
    "DEV_MEMORY_TEMP": ScaledField("DEV_MEMORY_TEMP_CELSIUS", "Memory temperature (in C)."),
    "DEV_GPU_TEMP": ScaledField("DEV_GPU_TEMP_CELSIUS", "GPU temperature (in C)."),
    "DEV_POWER_USAGE": ScaledField("DEV_BOARD_POWER_WATTS", "Power draw (in W).", 1, 6),
    "DEV_TOTAL_ENERGY_CONSUMPTION": ScaledField(
        "DEV_GPU_ENERGY_JOULES_TOTAL", "Total energy consumption since boot (in J)."
    ),
    "DEV_PCIE_REPLAY_COUNTER": ScaledField(
        "DEV_PCIE_REPLAY_TOTAL", "Total number of PCIe retries."
    ),
    "DEV_GPU_UTIL": ScaledField("DEV_GPU_UTIL_RATIO", f"GPU utilization {_RATIO}", 0.01, 6),
    "DEV_MEM_COPY_UTIL": ScaledField(
        "DEV_MEMORY_UTIL_RATIO", f"Memory utilization {_RATIO}", 0.01, 6
    ),
    "DEV_ENC_UTIL": ScaledField("DEV_ENC_UTIL_RATIO", f"Encoder utilization {_RATIO}", 0.01, 6),
    "DEV_DEC_UTIL": ScaledField("DEV_DEC_UTIL_RATIO", f"Decoder utilization {_RATIO}", 0.01, 6),
    "DEV_XID_ERRORS": ScaledField("DEV_XID_ERROR", "Value of the last XID error encountered."),
    "DEV_FB_FREE": ScaledField("DEV_FB_FREE_BYTES", "Framebuffer memory free (in bytes).", 2**20),
    "DEV_FB_USED": ScaledField("DEV_FB_USED_BYTES", "Framebuffer memory used (in bytes).", 2**20),
    "DEV_FB_RESERVED": ScaledField(
        "DEV_FB_RESERVED_BYTES", "Framebuffer memory reserved (in bytes).", 2**20
    ),
    "DEV_NVLINK_BANDWIDTH_TOTAL": ScaledField(
        "DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", "NVLink throughput of all lanes (in bytes/s)."
    ),
    "DEV_UNCORRECTABLE_REMAPPED_ROWS": ScaledField(
        "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", "Number of remapped rows for uncorrectable errors"
    ),
    "DEV_CORRECTABLE_REMAPPED_ROWS": ScaledField(
        "DEV_ROW_REMAP_CORRECTABLE_TOTAL", "Number of remapped rows for correctable errors"
    ),
    "DEV_ROW_REMAP_FAILURE": ScaledField(
        "DEV_ROW_REMAP_FAILED", "Whether remapping of rows has failed"
    ),
} | {
    f"PROF_{old}": ScaledField(f"PROF_{new}", text, 1, 6)
    for old, new, text in (
        (
            "GR_ENGINE_ACTIVE",
            "GR_ENGINE_UTIL_RATIO",
            "Ratio of time the graphics engine is active.",
        ),
        ("SM_ACTIVE", "SM_UTIL_RATIO", "The ratio of cycles an SM has at least 1 warp assigned."),
        ("SM_OCCUPANCY", "SM_OCCUPANCY_RATIO", "The ratio of number of warps resident on an SM."),
        (
            "PIPE_TENSOR_ACTIVE",
            "TENSOR_UTIL_RATIO",
            "Ratio of cycles the tensor (HMMA) pipe is active.",
        ),
        (
            "DRAM_ACTIVE",
            "DRAM_UTIL_RATIO",
            "Ratio of cycles the device memory interface is active sending or receiving data.",
        ),
        ("PIPE_FP64_ACTIVE", "FP64_UTIL_RATIO", "Ratio of cycles the fp64 pipes are active."),
        ("PIPE_FP32_ACTIVE", "FP32_UTIL_RATIO", "Ratio of cycles the fp32 pipes are active."),
        ("PIPE_FP16_ACTIVE", "FP16_UTIL_RATIO", "Ratio of cycles the fp16 pipes are active."),
    )
}
"""By the name before, both without DCGM_FI_."""


def _renamed(field: Field) -> Field:
    """The field as it is since 4.7; itself where nothing changed."""
    since = RENAMED.get(field.head.name.removeprefix("DCGM_FI_"))
    if since is None:
        return field
    old = field.value

    def value(reading: DcgmReading) -> float:
        return round(old(reading) * since.per_old, 6)

    head = FamilyHead(f"DCGM_FI_{since.name}", since.text, field.head.kind)
    kept = since.decimals or field.decimals
    return replace(field, head=head, value=value, decimals=kept)


CAPACITY = _field(
    "FB_CAPACITY_BYTES",
    "Framebuffer memory of the device (in bytes).",
    lambda reading: reading.entity.memory_mib * 2**20,
)

# The profiling fields that the exporter shows by default.
_PROFILED_BY_DEFAULT = frozenset(
    f"DCGM_FI_PROF_{name}"
    for name in (
        "GR_ENGINE_ACTIVE",
        "PIPE_TENSOR_ACTIVE",
        "DRAM_ACTIVE",
        "PCIE_TX_BYTES",
        "PCIE_RX_BYTES",
    )
)


def fields_of(style: Style, names: DcgmNames = "old") -> tuple[Field, ...]:
    """The fields of the default set, or with all profiling fields, under one set of names."""
    fields = tuple(
        field
        for field in FIELDS
        if style.profiling or not field.profiling or field.head.name in _PROFILED_BY_DEFAULT
    )
    return fields if names == "old" else (*map(_renamed, fields), CAPACITY)


_LABELS_SINCE = {
    "Hostname": "hostname",
    "DCGM_FI_DRIVER_VERSION": "DCGM_FI_SYSTEM_DRIVER_VERSION",
}


def labels_of(labels: Pairs, names: DcgmNames) -> Pairs:
    """An entity's labels as the exporter of one set of names writes them."""
    if names == "old":
        return labels
    return tuple((_LABELS_SINCE.get(name, name), text) for name, text in labels)


def identity(node: Node, entity: Entity, style: Style) -> Pairs:
    """The labels that name an entity."""
    card = entity.card
    labels = [("gpu", str(card.index)), ("UUID", card.card_id)]
    if style.pci_bus_id:
        labels.append(("pci_bus_id", card.pci_bus_id))
    labels += [("device", card.device_file), ("modelName", card.model_name)]
    if entity.gpu_instance_id is not None:
        labels += [
            ("GPU_I_PROFILE", entity.profile),
            ("GPU_I_ID", str(entity.gpu_instance_id)),
        ]
    labels.append((style.hostname_label, node.name))
    if style.driver_version:
        labels.append(("DCGM_FI_DRIVER_VERSION", node.driver_version))
    return tuple(labels)


_NOBODY: Pairs = (("container", ""), ("namespace", ""), ("pod", ""))


def attributions(entity: Entity, step: EntityState, style: Style) -> Iterator[Pairs]:
    """The pod labels of the series of one field: one set, or one per sharing pod and a bare one."""
    shared = any(device.replica_count for device in entity.devices)
    if style.virtual_gpus and shared:
        yield _NOBODY
        for holder in step.holders:
            yield (*_pod(holder, style), ("vgpu", str(holder.hold.replica_start)))
        return
    if not step.holders:
        yield _NOBODY
        return
    holder = step.holders[-1]
    if holder.by_claim and entity.gpu_instance_id is not None:
        # Claims are known by the parent's UUID, metrics by the instance: they never meet.
        yield _NOBODY
        return
    yield (*_pod(holder, style), *_claim(holder))


def _pod(holder: EntityHolder, style: Style) -> Pairs:
    labels = [
        ("container", holder.container),
        ("namespace", holder.pod.namespace),
        ("pod", holder.pod.name),
    ]
    if style.pod_uid:
        labels.append(("pod_uid", holder.pod.uid))
    return tuple(labels)


def _claim(holder: EntityHolder) -> Pairs:
    if not holder.by_claim:
        return ()
    claim = next((c.claim_name for c in holder.pod.claims), "")
    return (
        ("dra_claim_name", claim),
        ("dra_claim_namespace", holder.pod.namespace),
        ("dra_device_name", holder.device.dra_name),
        ("dra_driver_name", "gpu.nvidia.com"),
        ("dra_pool_name", holder.pod.node_name),
    )


def incident_at(incidents: Sequence[Incident], card_id: str, at: int) -> Incident | None:
    """The newest thing that is wrong with a card."""
    found = [i for i in incidents if i.card_id == card_id and i.covers(at)]
    return found[-1] if found else None


def by_name(fields: Sequence[Field]) -> Mapping[str, Field]:
    return {field.head.name: field for field in fields}
