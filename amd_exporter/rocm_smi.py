"""Devices from the output of `rocm-smi --json`, ROCm 4.3 to 6.x.

Put here: its keys, which differ between versions, and their meaning.
Not here: running it (`sources`).

Every value is a string. Keys are compared in lower case. `GPU memory use (%)` is the activity of
the memory controller, not the allocated memory: newer versions call it `GPU Memory Read/Write
Activity (%)`. The rows of clock levels ("0": "8.0GT/s x16 *") have the same keys for different
clocks and are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from amd_exporter.devices import (
    CLOCK,
    ENERGY,
    MEMORY_ACTIVITY,
    MEMORY_TOTAL,
    MEMORY_USED,
    MEMORY_USED_PERCENT,
    POWER,
    TEMPERATURE,
    UTILIZATION,
    LogicalDevice,
    number,
    partition_mode,
    pci_address,
    text,
    unique_id,
)

# The keys of each reading, newest first, with the factor from the tool's unit to ours.
READINGS: tuple[tuple[str, float, tuple[str, ...]], ...] = (
    (UTILIZATION, 1, ("gpu use (%)",)),
    (
        MEMORY_ACTIVITY,
        1,
        ("gpu memory read/write activity (%)", "gpu memory use (%)"),
    ),
    (MEMORY_USED_PERCENT, 1, ("gpu memory allocated (vram%)",)),
    (MEMORY_TOTAL, 1, ("vram total memory (b)",)),
    (MEMORY_USED, 1, ("vram total used memory (b)",)),
    (
        POWER,
        1,
        (
            "current socket graphics package power (w)",
            "average graphics package power (w)",
        ),
    ),
    (ENERGY, 1e-6, ("accumulated energy (uj)",)),
    (f"{CLOCK}/graphics", 1e6, ("sclk clock speed:", "sclk clock speed")),
    (f"{CLOCK}/memory", 1e6, ("mclk clock speed:", "mclk clock speed")),
    (f"{CLOCK}/fabric", 1e6, ("fclk clock speed:", "fclk clock speed")),
    (f"{CLOCK}/soc", 1e6, ("socclk clock speed:", "socclk clock speed")),
)
SENSOR = re.compile(r"temperature \(sensor ([a-z0-9 ]+)\) \(c\)")
CARD = re.compile(r"card(\d+)")
PRODUCT = ("device name", "card series", "card model")


def read(document: Any) -> list[LogicalDevice]:
    """The devices of one output, in the order of the output."""
    if not isinstance(document, Mapping):
        return []
    return [
        _device(found[1], {str(key).strip().lower(): value for key, value in card.items()})
        for name, card in document.items()
        if (found := CARD.fullmatch(str(name))) and isinstance(card, Mapping)
    ]


def _device(index: str, card: Mapping[str, Any]) -> LogicalDevice:
    address = pci_address(card.get("pci bus"))
    mode = partition_mode(card.get("compute partition"), card.get("memory partition"))
    function = int(address[-1], 16) if address else 0
    return LogicalDevice(
        gpu=index,
        unique_id=unique_id(card.get("unique id")),
        pci_bus=address,
        product=next((name for key in PRODUCT if (name := _product(card.get(key)))), ""),
        # The PCI function numbers the partitions of a card; other cards have function 0.
        partition=function,
        partition_mode=mode,
        readings=dict(_readings(card)),
    )


def _product(value: object) -> str:
    """The product name; empty for a number, because older versions show the vendor's ID instead."""
    name = text(value)
    return "" if re.fullmatch(r"0x[0-9a-fA-F]+", name) else name


def _readings(card: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, unit, keys in READINGS:
        for key in keys:
            value = number(card.get(key))
            if value is not None:
                yield name, value * unit
                break
    for key, written in card.items():
        sensor = SENSOR.fullmatch(key)
        value = number(written)
        if sensor and value is not None:
            yield f"{TEMPERATURE}/{sensor[1].replace(' ', '_')}", value
