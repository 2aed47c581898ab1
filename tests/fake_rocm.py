"""A node without ROCm tools: fake `amd-smi`, `rocm-smi`, `amdsmi`, sysfs, kubelet.

Put here: the output of each of them, and its failures.
Not here: the readings of the exporter (`test_amd_exporter_*`).

The formats are those of the real tools: rocm-smi as in the captures of the data folder, amd-smi and
amdsmi as in AMD's published interface (24.6, 26.0). `amd-smi` and `rocm-smi` are programs in a
folder, `amdsmi` is a package in another one. Each writes the contents of a file beside it, or
fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from amd_exporter.pod_resources_pb2 import ListPodResourcesResponse

FAILURES = {
    # The child keeps the output open after its parent is killed.
    "hang": "sleep 600 & echo $! > {folder}/child; wait",
    "crash": "echo 'amdgpu: driver is not loaded' >&2; exit 3",
    "killed": "kill -SEGV $$",
    "garbage": "echo 'ERROR: no GPU, no {{JSON}'",
    "nothing": "true",
    "flood": "yes 'flood' ",
}


@dataclass
class Rocm:
    """A ROCm installation in a folder."""

    folder: Path

    def __post_init__(self) -> None:
        (self.folder / "bin").mkdir(parents=True)

    def rocm_smi(self, text: str, version: str = "6.0.2") -> None:
        """A rocm-smi with this output."""
        (self.folder / "rocm-smi.json").write_text(text)
        (self.folder / ".info").mkdir(exist_ok=True)
        (self.folder / ".info" / "version").write_text(f"{version}-115\n")
        self._program("rocm-smi", f"cat {self.folder}/rocm-smi.json")

    def amd_smi(
        self,
        gpus: Sequence[Mapping[str, Any]],
        *,
        version: str = "26.0.0",
        refused: str = "",
        before: str = "",
    ) -> None:
        """An amd-smi of a version (before 26 its JSON is a list) that refuses the given options."""
        wrapped = (lambda rows: {"gpu_data": rows}) if version >= "26" else list
        names = ("list", "static", "metric")
        for name in names:
            rows = [{"gpu": gpu["gpu"], **gpu[name]} for gpu in gpus]
            text = before + json.dumps(wrapped(rows), indent=4)
            (self.folder / f"amd-smi-{name}.json").write_text(text)
        versions = [{"tool": "AMDSMI Tool", "version": f"{version}+7ed2", "rocm_version": "7.0.2"}]
        (self.folder / "amd-smi-version.json").write_text(json.dumps(versions))
        lines = [f'echo "$*" >> {self.folder}/amd-smi.calls']
        if refused:
            lines.append(
                f'case "$*" in *{refused}*) echo "{refused}: not available" >&2; exit 2;; esac'
            )
        lines.append(f"cat {self.folder}/amd-smi-$1.json")
        self._program("amd-smi", "\n".join(lines))

    def arguments(self) -> list[str]:
        """The arguments of all starts of amd-smi since the last call."""
        path = self.folder / "amd-smi.calls"
        found = path.read_text().splitlines()
        path.write_text("")
        return found

    def calls(self) -> list[str]:
        """The subcommands of these starts."""
        return [line.split()[0] for line in self.arguments()]

    def failing(self, tool: str, how: str) -> None:
        """Let the tool fail from now on."""
        self._program(tool, FAILURES[how].replace("{folder}", str(self.folder)))

    def library(self, gpus: Sequence[Mapping[str, Any]], how: str = "") -> None:
        """An amdsmi package with these GPUs, or one that fails: in init, in a call, by a hang."""
        package = self.folder / "share" / "amd_smi" / "amdsmi"
        package.mkdir(parents=True, exist_ok=True)
        (package / "gpus.json").write_text(json.dumps({"gpus": list(gpus), "how": how}))
        (package / "__init__.py").write_text(LIBRARY)

    def _program(self, name: str, lines: str) -> None:
        # Replaced by renaming, like a package manager does, so that the inode changes.
        new = self.folder / "bin" / f".{name}"
        new.write_text(f"#!/bin/sh\n{lines}\n")
        new.chmod(0o755)
        new.rename(self.folder / "bin" / name)


LIBRARY = '''
"""The calls of AMD's amdsmi 26.0 that read a GPU: their names, arguments, results and errors."""
import enum, json, os, pathlib, time

STATE = json.loads((pathlib.Path(__file__).parent / "gpus.json").read_text())
print("amdsmi writes this to standard output", flush=True)


class AmdSmiException(Exception): ...
class AmdSmiLibraryException(AmdSmiException): ...
class AmdSmiParameterException(AmdSmiException): ...
AmdSmiMemoryType = enum.IntEnum("AmdSmiMemoryType", {"VRAM": 0, "VIS_VRAM": 1, "GTT": 2})
AmdSmiTemperatureType = enum.IntEnum("AmdSmiTemperatureType", "EDGE JUNCTION VRAM")
AmdSmiTemperatureMetric = enum.IntEnum("AmdSmiTemperatureMetric", "CURRENT MAX")
AmdSmiClkType = enum.IntEnum("AmdSmiClkType", "SYS GFX DF DCEF SOC MEM")


def amdsmi_init(flag=2):
    if STATE["how"] == "init":
        raise AmdSmiLibraryException("AMDSMI_STATUS_DRIVER_NOT_LOADED - Driver not loaded")


def amdsmi_get_lib_version():
    return {"major": 26, "minor": 0, "release": 2, "build": "x"}


def amdsmi_get_processor_handles():
    if STATE["how"] == "hang":
        time.sleep(600)
    if STATE["how"] == "crash":
        os.kill(os.getpid(), 11)
    if STATE["how"] == "call":
        raise AmdSmiLibraryException("AMDSMI_STATUS_INTERNAL_EXCEPTION - Internal error")
    return [Handle(gpu) for gpu in STATE["gpus"]]


class Handle:
    def __init__(self, gpu):
        self.gpu = gpu


def _getter(name, kind=None):
    def get(handle, *arguments):
        if not isinstance(handle, Handle):
            raise AmdSmiParameterException(handle)
        if kind and not isinstance(arguments[0], kind):
            raise AmdSmiParameterException(arguments[0])
        found = handle.gpu.get(name)
        if kind and isinstance(found, dict):
            found = found.get(arguments[0].name)
        if found is None:
            raise AmdSmiLibraryException("AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported")
        return found
    return get


for _name in ("gpu_device_bdf", "gpu_device_uuid", "gpu_asic_info", "gpu_compute_partition",
              "gpu_memory_partition", "gpu_kfd_info", "gpu_activity", "gpu_metrics_info",
              "power_info", "energy_count", "gpu_total_ecc_count"):
    globals()["amdsmi_get_" + _name] = _getter(_name)
amdsmi_get_gpu_memory_total = _getter("gpu_memory_total", AmdSmiMemoryType)
amdsmi_get_gpu_memory_usage = _getter("gpu_memory_usage", AmdSmiMemoryType)
amdsmi_get_temp_metric = _getter("temp_metric", AmdSmiTemperatureType)
amdsmi_get_clock_info = _getter("clock_info", AmdSmiClkType)
'''


def leaf(value: Any, unit: str) -> Any:
    return "N/A" if value is None else {"value": value, "unit": unit}


def amd_smi_gpu(
    index: int,
    *,
    bdf: str,
    serial: str = "0x0123456789ABCDEF",
    activity: int | None = 40,
    watts: int | None = 300,
    used_mib: int | None = 49152,
    total_mib: int | None = 196608,
    mode: tuple[str, str] = ("SPX", "NPS1"),
    partition: int | str = 0,
    engines: Mapping[str, list[int | None]] | None = None,
    uncorrectable: int | None = 0,
) -> dict[str, Any]:
    """One GPU in the outputs of `amd-smi list`, `static` and `metric`."""
    busy: Any = "N/A"
    if engines is not None:
        busy = {name: [leaf(value, "%") for value in values] for name, values in engines.items()}
    return {
        "gpu": index,
        "list": {
            "bdf": bdf,
            "uuid": f"uuid-{index}",
            "kfd_id": 7 + index,
            "partition_id": partition,
        },
        "static": {
            "asic": {"market_name": "AMD Instinct MI300X", "asic_serial": serial},
            "partition": {
                "accelerator_partition": mode[0],
                "memory_partition": mode[1],
                "partition_id": partition,
            },
        },
        "metric": {
            "usage": {
                "gfx_activity": leaf(activity, "%"),
                "umc_activity": leaf(None if activity is None else 12, "%"),
                "mm_activity": "N/A",
                "vcn_activity": ["N/A"] * 4,
                "gfx_busy_inst": busy,
            },
            "power": {"socket_power": leaf(watts, "W"), "throttle_status": "UNTHROTTLED"},
            "clock": {
                "gfx_0": {"clk": leaf(2100, "MHz"), "min_clk": "N/A"},
                "mem_0": {"clk": leaf(1300, "MHz")},
                "fclk_0": "N/A",
            },
            "temperature": {
                "edge": "N/A",
                "hotspot": leaf(61, "C"),
                "mem": leaf(52, "C"),
            },
            "ecc": {
                "total_correctable_count": leaf(3, "")["value"],
                "total_uncorrectable_count": "N/A" if uncorrectable is None else uncorrectable,
                "total_deferred_count": 0,
            },
            "energy": {"total_energy_consumption": leaf(1234.5, "J")},
            "mem_usage": {
                "total_vram": leaf(total_mib, "MB"),
                "used_vram": leaf(used_mib, "MB"),
                "free_vram": "N/A",
            },
        },
    }


def library_gpu(index: int, *, bdf: str, serial: str = "0x0123456789ABCDEF") -> dict[str, Any]:
    """One GPU in the results of the library's calls: the readings of `amd_smi_gpu`."""
    mib = 1024 * 1024
    return {
        "gpu_device_bdf": bdf,
        "gpu_device_uuid": f"uuid-{index}",
        "gpu_asic_info": {"market_name": "AMD Instinct MI300X", "asic_serial": serial},
        "gpu_compute_partition": "SPX",
        "gpu_memory_partition": "NPS1",
        "gpu_kfd_info": {"kfd_id": 7, "node_id": 2, "current_partition_id": 0},
        "gpu_activity": {"gfx_activity": 40, "umc_activity": 12, "mm_activity": "N/A"},
        "gpu_metrics_info": {"xcp_stats.gfx_busy_inst": [[40, 40, "N/A"], "N/A"]},
        "power_info": {
            "socket_power": 300,
            "current_socket_power": "N/A",
            "average_socket_power": 0xFFFFFFFF,
        },
        "gpu_memory_total": {"VRAM": 196608 * mib},
        "gpu_memory_usage": {"VRAM": 49152 * mib},
        "temp_metric": {"JUNCTION": 61, "VRAM": 52},
        "clock_info": {"GFX": {"clk": 2100, "min_clk": 500}, "MEM": {"clk": 1300}},
        "energy_count": {
            "energy_accumulator": 80903407,
            "counter_resolution": 15.259,
            "timestamp": 1,
        },
        "gpu_total_ecc_count": {
            "correctable_count": 3,
            "uncorrectable_count": 0,
            "deferred_count": 0,
        },
    }


def partitioned_card(bus: str, first: int, count: int, **options: Any) -> list[dict[str, Any]]:
    """The logical devices of a partitioned card, as in ROCm 7."""
    serial = f"0x{int(bus, 16):016X}"
    return [
        amd_smi_gpu(
            first + number,
            bdf=f"0000:{bus}:00.{number}",
            serial=serial,
            mode=("CPX" if count == 8 else "DPX", "NPS1"),
            partition=number,
            activity=options.get("activity", 40) if number == 0 else None,
            watts=300 if number == 0 else None,
            used_mib=1024 * (number + 1),
            total_mib=196608 // count,
            engines=options.get("engines") if number == 0 else None,
        )
        for number in range(count)
    ]


def sysfs(
    folder: Path, devices: Mapping[str, int], platform: Mapping[str, int] | None = None
) -> Path:
    """The driver's files: PCI address → render minor, and platform device → render minor."""
    nodes = folder / "class" / "kfd" / "kfd" / "topology" / "nodes"
    (nodes / "0").mkdir(parents=True)
    (nodes / "0" / "properties").write_text("cpu_cores_count 64\nsimd_count 0\nvendor_id 0\n")
    for number, (address, minor) in enumerate(devices.items(), 1):
        domain, bus, rest = address.split(":")
        slot, function = rest.split(".")
        location = int(bus, 16) << 8 | int(slot, 16) << 3 | int(function, 16)
        (nodes / str(number)).mkdir()
        (nodes / str(number) / "properties").write_text(
            f"simd_count 1216\nvendor_id 4098\nlocation_id {location}\n"
            f"domain {int(domain, 16)}\ndrm_render_minor {minor}\nunique_id 81985529216486895\n"
        )
    for name, minor in (platform or {}).items():
        (folder / "devices" / "platform" / name / "drm" / f"renderD{minor}").mkdir(parents=True)
    return folder


@dataclass
class Kubelet:
    """The pod-resources API of a kubelet: pods and their devices."""

    socket: Path
    response: ListPodResourcesResponse = field(default_factory=ListPodResourcesResponse)
    failure: grpc.StatusCode | None = None
    listed: int = 0

    def answer(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.listed += 1
        if self.failure is not None:
            context.abort(self.failure, "not now")
        return bytes(self.response.SerializeToString())


@contextmanager
def kubelet(socket: Path) -> Iterator[Kubelet]:
    """A gRPC server on a Unix socket that serves the pod-resources API."""
    served = Kubelet(socket)
    handler = grpc.unary_unary_rpc_method_handler(served.answer)  # bytes in and out
    service = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler})
    server = grpc.server(ThreadPoolExecutor(2), handlers=[service])
    server.add_insecure_port(f"unix://{socket}")
    server.start()
    try:
        yield served
    finally:
        server.stop(None).wait()
