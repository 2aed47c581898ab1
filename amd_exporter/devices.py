"""The AMD GPUs of a node after one collection, from any source.

Put here: devices, their readings, the limits of a reading, partitions of one card.
Not here: reading a source (`amd_smi`, `rocm_smi`, `library`), or names of metrics (`exposition`).

A reading that a source does not have is absent from `Device.readings`. It is never 0.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

# Quantities by name. A quantity with parts (sensors, clocks, kinds of errors) is `name/part`.
UTILIZATION = "utilization_percent"
MEMORY_ACTIVITY = "memory_activity_percent"
MEMORY_USED_PERCENT = "memory_used_percent"
MEMORY_USED = "memory_used_bytes"
MEMORY_TOTAL = "memory_total_bytes"
POWER = "power_watts"
ENERGY = "energy_joules_total"
TEMPERATURE = "temperature_celsius"
CLOCK = "clock_hertz"
ECC_ERRORS = "ecc_errors_total"
HEALTHY = "healthy"

MIB = 1024 * 1024
# The plausible range of each reading on any card that exists or is announced. Drivers report some
# values outside it as markers or overflows (65535 W, 2^64 bytes); these are dropped.
LIMITS: Mapping[str, tuple[float, float]] = {
    UTILIZATION: (0, 100),
    MEMORY_ACTIVITY: (0, 100),
    MEMORY_USED_PERCENT: (0, 100),
    MEMORY_USED: (0, 4 * 1024 * 1024 * MIB),
    MEMORY_TOTAL: (1, 4 * 1024 * 1024 * MIB),
    POWER: (0, 3000),
    ENERGY: (0, 1e14),  # 3 kW for a thousand years
    TEMPERATURE: (-50, 200),
    CLOCK: (0, 10e9),
    ECC_ERRORS: (0, 1e15),
    HEALTHY: (0, 1),
}
# On a partitioned card, drivers measure these once and report them on the first logical device. The
# other devices have N/A, or a 0 that was not measured.
FIRST_PARTITION_ONLY = (UTILIZATION, MEMORY_ACTIVITY, POWER, ENERGY)
PCI_ADDRESS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-9a-f])")
LABEL_LENGTH_LIMIT = 128
DEVICES_LIMIT = 1024  # per node; more means a broken source


@dataclass(frozen=True, slots=True)
class DeviceHolder:
    """The container that holds a device."""

    namespace: str
    pod: str
    container: str


class HoldersUnknown(Exception):
    """The kubelet did not report which container holds each device."""


@dataclass(frozen=True, slots=True)
class LogicalDevice:
    """One logical device: a card, or one partition of a card."""

    gpu: str  # the source's index
    unique_id: str  # of the card; empty if the source has none
    pci_bus: str
    product: str
    partition: int = 0  # number within the card
    partition_mode: str = ""  # such as spx_nps1
    readings: Mapping[str, float] = field(default_factory=dict)
    # Utilisation by partition number, if the first logical device reports it for the whole card.
    utilization_by_partition: Mapping[int, float] = field(default_factory=dict)

    @property
    def uuid(self) -> str:
        """The card's unique ID, or its PCI address if it has none."""
        return self.unique_id or self.pci_bus

    @property
    def card(self) -> str:
        """The PCI address without the function, which numbers the partitions of a card."""
        return self.pci_bus.rpartition(".")[0] or self.unique_id or self.gpu


def number(value: object) -> float | None:
    """The number in a reading of any tool; None for N/A and for other text.

    Tools write 12, "12.5", "(300Mhz)", {"value": 12, "unit": "W"}, "N/A", "N/A (Secondary die)".
    """
    if isinstance(value, Mapping):
        return number(value.get("value"))
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else None
    if not isinstance(value, str):
        return None
    found = re.fullmatch(
        r"\s*\(?\s*(-?\d{1,20}(?:\.\d{1,20})?)\s*(?:[MmKkGg]?[Hh]z)?\s*\)?\s*", value
    )
    return float(found[1]) if found else None


def text(value: object) -> str:
    """The text of a label; empty for N/A and for values that are not text."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        return ""
    word = " ".join(str(value).split())
    if word.upper().startswith("N/A") or word.lower() in ("none", "unknown"):
        return ""
    return word[:LABEL_LENGTH_LIMIT]


def unique_id(value: object) -> str:
    """A card's unique ID in one spelling; tools differ in case and in leading zeros."""
    word = text(value).lower()
    if re.fullmatch(r"(?:0x)?[0-9a-f]{1,16}", word) and int(word, 16):
        return f"0x{int(word, 16):016x}"
    return ""


def pci_address(value: object) -> str:
    """A PCI address in the kernel's form, such as 0000:83:00.0; empty for other text."""
    found = PCI_ADDRESS.fullmatch(text(value).lower())
    if not found:
        return ""
    domain, bus, slot, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{slot}.{function}"


def partition_mode(compute: object, memory: object) -> str:
    """The partition mode, such as `cpx_nps4`; empty for a card that cannot be partitioned."""
    return "_".join(word.lower() for word in (text(compute), text(memory)) if word)


def complete_devices(
    devices: Iterable[LogicalDevice],
) -> tuple[tuple[LogicalDevice, ...], Counter[str]]:
    """Devices for the metrics page, and the number of dropped values per quantity.

    Drops implausible values, assigns activity to its partition, and derives the percentage of
    memory and the health from readings of the same collection.
    """
    dropped: Counter[str] = Counter()
    checked = [_drop_implausible(device, dropped) for device in devices]
    by_card: dict[str, list[LogicalDevice]] = {}
    for device in checked:
        by_card.setdefault(device.card, []).append(device)
    shown = [_add_derived(device) for card in by_card.values() for device in _partitions(card)]
    order = {device.gpu: position for position, device in enumerate(checked)}
    return tuple(sorted(shown, key=lambda device: order[device.gpu])), dropped


def _drop_implausible(device: LogicalDevice, dropped: Counter[str]) -> LogicalDevice:
    readings: dict[str, float] = {}
    for name, value in device.readings.items():
        quantity = name.partition("/")[0]
        low, high = LIMITS[quantity]
        if math.isfinite(value) and low <= value <= high:
            readings[name] = value
        else:
            dropped[quantity] += 1
    used, total = readings.get(MEMORY_USED), readings.get(MEMORY_TOTAL)
    if used is not None and total is not None and used > total:
        dropped[MEMORY_USED] += 1
        del readings[MEMORY_USED]
    by_partition = {}
    for partition, value in device.utilization_by_partition.items():
        if 0 <= value <= 100:
            by_partition[partition] = value
        else:
            dropped[UTILIZATION] += 1
    return replace(device, readings=readings, utilization_by_partition=by_partition)


def _partitions(card: list[LogicalDevice]) -> list[LogicalDevice]:
    """The logical devices of one card, each with its own readings."""
    by_partition = next(
        (d.utilization_by_partition for d in card if d.utilization_by_partition), {}
    )
    if len(card) == 1 and card[0].partition_mode.partition("_")[0] in ("", "spx"):
        # A virtual function of a card without partitions: its number is not a partition.
        return [replace(card[0], partition=0)]
    shown = []
    for device in card:
        readings = dict(device.readings)
        if device.partition:
            for name in FIRST_PARTITION_ONLY:
                readings.pop(name, None)
        if len(card) > 1 and device.partition in by_partition:
            readings[UTILIZATION] = by_partition[device.partition]
        shown.append(replace(device, readings=readings))
    return shown


def _add_derived(device: LogicalDevice) -> LogicalDevice:
    readings = dict(device.readings)
    used, total = readings.get(MEMORY_USED), readings.get(MEMORY_TOTAL)
    if used is not None and total is not None:
        # Tools report different totals for partitions: divide only two values of one response.
        readings[MEMORY_USED_PERCENT] = used / total * 100
    uncorrectable = readings.get(f"{ECC_ERRORS}/uncorrectable")
    if uncorrectable is not None:
        readings[HEALTHY] = float(uncorrectable == 0)
    return replace(device, readings=readings)
