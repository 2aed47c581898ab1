"""A process that reads AMD's own Python library, `amdsmi`, and writes devices as JSON lines.

Put here: calls of that library, and the lines between the two processes.
Not here: starting, timing and ending this process (`sources`).

The library runs in its own process because a call into the driver can hang or crash, and `/metrics`
must stay available. The process keeps the library loaded between collections: each start of
`amd-smi` takes about a second of CPU time. This module imports little for the same reason.

Run it as `python -m amd_exporter.library FOLDER`. It writes one line for each line of standard
input.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

NOT_AVAILABLE = "N/A"


def main() -> int:
    # The library writes messages to standard output: send them to standard error, so that standard
    # output has responses only.
    responses = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.path.insert(0, sys.argv[1])
    try:
        import amdsmi  # from the ROCm installation of the node

        amdsmi.amdsmi_init()
    except Exception as error:  # noqa: BLE001 - any error is the response
        print(json.dumps({"error": _text(error)}), file=responses, flush=True)
        return 1
    for _ in sys.stdin:
        try:
            response = {"version": _version(amdsmi), "gpus": list(_gpus(amdsmi))}
        except Exception as error:  # noqa: BLE001
            response = {"error": _text(error)}
        print(json.dumps(response), file=responses, flush=True)
    return 0


def _text(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _version(amdsmi: Any) -> str:
    version = amdsmi.amdsmi_get_lib_version()
    return f"{version['major']}.{version['minor']}"


def _gpus(amdsmi: Any) -> Iterator[dict[str, Any]]:
    """Each logical device in the JSON form of `amd-smi`, so that `amd_smi` can read it."""
    for index, handle in enumerate(amdsmi.amdsmi_get_processor_handles()):

        def read(name: str, *members: str, handle: Any = handle) -> Any:
            """The result of a call; N/A if the device or this version of the library does not have
            it.

            `members` are members of the library's enumerations, such as `AmdSmiClkType.GFX`.
            """
            try:
                enumerations = [member.split(".") for member in members]
                arguments = [getattr(amdsmi, kind)[member] for kind, member in enumerations]
                return getattr(amdsmi, f"amdsmi_get_{name}")(handle, *arguments)
            except (amdsmi.AmdSmiException, AttributeError, KeyError):
                return NOT_AVAILABLE

        yield {"gpu": index, **_identity(read), **_readings(read)}


def _identity(read: Callable[..., Any]) -> dict[str, Any]:
    return {
        "bdf": read("gpu_device_bdf"),
        "uuid": read("gpu_device_uuid"),
        "asic": read("gpu_asic_info"),
        "partition": {
            "compute_partition": read("gpu_compute_partition"),
            "memory_partition": read("gpu_memory_partition"),
            "partition_id": _part(read("gpu_kfd_info"), "current_partition_id"),
        },
    }


def _readings(read: Callable[..., Any]) -> dict[str, Any]:
    activity, ecc = read("gpu_activity"), read("gpu_total_ecc_count")
    # On a partitioned card, the first logical device reports the activity of all partitions.
    engines = _part(read("gpu_metrics_info"), "xcp_stats.gfx_busy_inst")
    by_partition = dict(enumerate(engines)) if isinstance(engines, list) else {}
    clocks = {"gfx_0": "GFX", "mem_0": "MEM", "fclk_0": "DF", "socclk_0": "SOC"}
    sensors = {"edge": "EDGE", "hotspot": "JUNCTION", "mem": "VRAM"}
    current = "AmdSmiTemperatureMetric.CURRENT"
    return {
        "usage": {
            "gfx_activity": _part(activity, "gfx_activity"),
            "umc_activity": _part(activity, "umc_activity"),
            "gfx_busy_inst": {f"xcp_{key}": values for key, values in by_partition.items()},
        },
        "power": {"socket_power": _watts(read("power_info"))},
        "mem_usage": {
            name: {"value": read(call, "AmdSmiMemoryType.VRAM"), "unit": "B"}
            for name, call in (
                ("total_vram", "gpu_memory_total"),
                ("used_vram", "gpu_memory_usage"),
            )
        },
        "temperature": {
            name: read("temp_metric", f"AmdSmiTemperatureType.{sensor}", current)
            for name, sensor in sensors.items()
        },
        "clock": {
            name: {"clk": _part(read("clock_info", f"AmdSmiClkType.{kind}"), "clk")}
            for name, kind in clocks.items()
        },
        "energy": {"total_energy_consumption": _joules(read("energy_count"))},
        "ecc": {
            f"total_{kind}_count": _part(ecc, f"{kind}_count")
            for kind in ("correctable", "uncorrectable", "deferred")
        },
    }


def _part(response: Any, *keys: str) -> Any:
    """The first of these fields in the response; names differ between versions."""
    if not isinstance(response, dict):
        return NOT_AVAILABLE
    return next((response[key] for key in keys if key in response), NOT_AVAILABLE)


def _watts(power: Any) -> Any:
    """The power of a card, from the field that its generation has."""
    for key in ("socket_power", "current_socket_power", "average_socket_power"):
        value = _part(power, key)
        # The driver writes 0xFFFF or more for a field that the card does not have.
        if isinstance(value, int | float) and value < 0xFFFF:
            return value
    return NOT_AVAILABLE


def _joules(energy: Any) -> Any:
    count = _part(energy, "energy_accumulator", "power")
    microjoules = _part(energy, "counter_resolution")
    if isinstance(count, int) and isinstance(microjoules, int | float):
        return count * microjoules / 1e6
    return NOT_AVAILABLE


if __name__ == "__main__":
    sys.exit(main())
