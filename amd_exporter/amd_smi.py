"""Devices from the JSON of `amd-smi`: `metric`, with names and partitions from `list` and `static`.

Put here: both shapes of its JSON, its keys and units.
Not here: running it (`sources`).

Before tool version 26.0.0 the JSON is a list of GPUs; since then it is {"gpu_data": [...]}. Any
value or block may be "N/A". "MB" in the JSON means mebibytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from amd_exporter.devices import (
    CLOCK,
    ECC_ERRORS,
    ENERGY,
    MEMORY_ACTIVITY,
    MEMORY_TOTAL,
    MEMORY_USED,
    MIB,
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

READINGS: tuple[tuple[str, float, tuple[str, ...]], ...] = (
    (UTILIZATION, 1, ("usage", "gfx_activity")),
    (MEMORY_ACTIVITY, 1, ("usage", "umc_activity")),
    (POWER, 1, ("power", "socket_power")),
    (MEMORY_TOTAL, MIB, ("mem_usage", "total_vram")),
    (MEMORY_USED, MIB, ("mem_usage", "used_vram")),
    (f"{TEMPERATURE}/edge", 1, ("temperature", "edge")),
    (f"{TEMPERATURE}/junction", 1, ("temperature", "hotspot")),
    (f"{TEMPERATURE}/memory", 1, ("temperature", "mem")),
    (f"{CLOCK}/graphics", 1e6, ("clock", "gfx_0", "clk")),
    (f"{CLOCK}/memory", 1e6, ("clock", "mem_0", "clk")),
    (f"{CLOCK}/fabric", 1e6, ("clock", "fclk_0", "clk")),
    (f"{CLOCK}/soc", 1e6, ("clock", "socclk_0", "clk")),
    (ENERGY, 1, ("energy", "total_energy_consumption")),
    (f"{ECC_ERRORS}/correctable", 1, ("ecc", "total_correctable_count")),
    (f"{ECC_ERRORS}/uncorrectable", 1, ("ecc", "total_uncorrectable_count")),
    (f"{ECC_ERRORS}/deferred", 1, ("ecc", "total_deferred_count")),
)
MEMORY_UNITS = {"B": 1, "KB": 1024, "MB": MIB, "GB": 1024 * MIB}


def gpus(document: Any) -> list[Mapping[str, Any]]:
    """The GPUs of any output of amd-smi, in the order of the output."""
    if isinstance(document, Mapping):
        document = document.get("gpu_data")
    if not isinstance(document, list):
        return []
    return [entry for entry in document if isinstance(entry, Mapping) and index_of(entry)]


def index_of(entry: Mapping[str, Any]) -> str:
    """The number that the tool gives a GPU."""
    return text(entry.get("gpu"))


def versions(document: Any) -> tuple[str, str]:
    """The versions of the tool and of ROCm in the output of `amd-smi version`; empty if absent."""
    entries = document if isinstance(document, list) else [document]
    for entry in entries:
        if isinstance(entry, Mapping) and text(entry.get("version")):
            return text(entry["version"]).partition("+")[0], text(entry.get("rocm_version"))
    return "", ""


def read(metric: Any, listed: Any, static: Any) -> list[LogicalDevice]:
    """The devices of one `metric` output, named by the outputs of `list` and `static`."""
    names = {index_of(entry): entry for entry in gpus(listed)}
    statics = {index_of(entry): entry for entry in gpus(static)}
    return [
        _device(entry, names.get(index_of(entry), {}), statics.get(index_of(entry), {}))
        for entry in gpus(metric)
    ]


def _device(
    metric: Mapping[str, Any], listed: Mapping[str, Any], static: Mapping[str, Any]
) -> LogicalDevice:
    address = pci_address(listed.get("bdf"))
    partition = number(_leaf(static, "partition", "partition_id"))
    if partition is None:
        partition = number(listed.get("partition_id"))
    if partition is None and address:
        partition = int(address[-1], 16)
    compute = next(
        (
            mode
            for key in ("accelerator_partition", "compute_partition")
            if text(mode := _leaf(static, "partition", key))
        ),
        None,
    )
    return LogicalDevice(
        gpu=index_of(metric),
        unique_id=unique_id(_leaf(static, "asic", "asic_serial")) or text(listed.get("uuid")),
        pci_bus=address,
        product=text(_leaf(static, "asic", "market_name")),
        partition=int(partition or 0),
        partition_mode=partition_mode(compute, _leaf(static, "partition", "memory_partition")),
        readings=dict(_readings(metric)),
        utilization_by_partition=dict(_by_partition(metric)),
    )


def _readings(metric: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, unit, path in READINGS:
        leaf = _leaf(metric, *path)
        value = number(leaf)
        if value is None:
            continue
        if unit == MIB and isinstance(leaf, Mapping):
            unit = MEMORY_UNITS.get(text(leaf.get("unit")).upper(), MIB)
        yield name, value * unit


def _by_partition(metric: Mapping[str, Any]) -> Iterator[tuple[int, float]]:
    """The activity of each partition: the mean of its engines in `usage.gfx_busy_inst`."""
    engines = _leaf(metric, "usage", "gfx_busy_inst")
    if not isinstance(engines, Mapping):
        return
    for name, values in engines.items():
        found = re.fullmatch(r"xcp_(\d{1,3})", str(name))
        if found and isinstance(values, list):
            known = [value for each in values if (value := number(each)) is not None]
            if known:
                yield int(found[1]), sum(known) / len(known)


def _leaf(entry: Any, *path: str) -> Any:
    for key in path:
        if not isinstance(entry, Mapping):
            return None
        entry = entry.get(key)
    return entry
