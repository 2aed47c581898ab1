"""The cost of the AMD exporter on a node: CPU, memory, bytes per scrape, size of its image.

Put here: measuring the real command on a node with simulated tools.
Not here: the correctness of its metrics (`tests/unit/test_amd_exporter_*`).

The simulated `amd-smi` uses a second of CPU time and 60 MiB at each start, like a Python program
that loads AMD's library. The simulated `amdsmi` uses 20 ms per call once it is loaded. Both are
children of the exporter and are counted with it, including their starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import httpx

from bench.measurement import Measurement
from tests.fake_rocm import Rocm, amd_smi_gpu, kubelet, library_gpu, partitioned_card, sysfs
from tests.servers.process import free_port
from tests.unit.test_amd_exporter_collections import pods

GOAL = "amd exporter"
ROOT = Path(__file__).parents[1]
INTERVAL_SECONDS = 30  # the product's interval; measured at 5 and converted
MEASURED_INTERVAL_SECONDS = 5
COLLECTIONS = 4
CPU_LIMIT_MILLI, MEMORY_LIMIT_MIB, SCRAPE_LIMIT_KB, PACKAGES_LIMIT_MB = 200, 256, 30, 60
BUSY_TOOL = """\
import sys, time
memory = bytearray(60 << 20)
end = time.process_time() + {seconds}
while time.process_time() < end: pass
sys.stdout.write(open(sys.argv[1]).read())
"""
TICKS = os.sysconf("SC_CLK_TCK")


def measure() -> list[Measurement]:
    rows = []
    for name, partitions in (("8 GPUs", 1), ("64 partitions", 8)):
        for source in ("amdsmi", "amd-smi"):
            rows += _node(name, partitions, source)
    return [*rows, _packages()]


def _node(name: str, partitions: int, source: str) -> list[Measurement]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        port, socket = free_port(), Path(folder) / "kubelet.sock"
        addresses = _install(Path(folder), partitions, source)
        listing = stack.enter_context(kubelet(socket))
        holders = enumerate(addresses)
        entries = [(f"team-{n % 4}", f"train-{n}", "main", "amd.com/gpu", [a]) for n, a in holders]
        listing.response = pods(*entries)
        command = [sys.executable, "-m", "amd_exporter.cli", "--listen-address", "127.0.0.1"]
        command += ["--port", str(port), "--rocm-path", f"{folder}/rocm"]
        command += ["--sysfs-path", f"{folder}/sys", "--pod-resources-socket", str(socket)]
        command += ["--collection-interval", str(MEASURED_INTERVAL_SECONDS), "--source", source]
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
        try:
            return list(_rows(name, source, process.pid, f"http://127.0.0.1:{port}/metrics"))
        finally:
            process.terminate()
            process.wait()


def _install(folder: Path, partitions: int, source: str) -> list[str]:
    rocm = Rocm(folder / "rocm")
    if partitions == 1:
        gpus = [amd_smi_gpu(n, bdf=f"0000:{n + 1:02x}:00.0", serial=f"0x{n + 1}") for n in range(8)]
    else:
        engines: dict[str, list[int | None]] = {f"xcp_{n}": [50] for n in range(partitions)}
        gpus = [
            gpu
            for card in range(8)
            for gpu in partitioned_card(
                f"{card + 1:02x}", card * partitions, partitions, engines=engines
            )
        ]
    addresses = [gpu["list"]["bdf"] for gpu in gpus]
    sysfs(folder / "sys", {address: 128 + n for n, address in enumerate(addresses)})
    if source == "amdsmi":
        rocm.library([library_gpu(n, bdf=a, serial=f"0x{n + 1}") for n, a in enumerate(addresses)])
        package = folder / "rocm/share/amd_smi/amdsmi/__init__.py"
        busy = "\nend = time.process_time() + {}\nwhile time.process_time() < end: pass\n"
        text = package.read_text().replace(
            "    return [Handle(gpu)",
            busy.format(0.02).replace("\n", "\n    ") + "return [Handle(gpu)",
        )
        package.write_text(text + busy.format(1))
    else:
        rocm.amd_smi(gpus)
        (folder / "busy.py").write_text(BUSY_TOOL.format(seconds=1))
        tool = folder / "rocm/bin/amd-smi"
        run = f"exec {sys.executable} -S {folder}/busy.py {folder}/rocm/amd-smi-$1.json\n"
        tool.write_text(f"#!/bin/sh\n{run}")
    return addresses


def _rows(name: str, source: str, process: int, url: str) -> list[Measurement]:
    collections = 0.0
    peak_kib, received = 0, 0
    first_cpu = first_collections = -1.0
    while collections < first_collections + COLLECTIONS or first_cpu < 0:
        time.sleep(0.2)
        peak_kib = max(peak_kib, sum(_pss_kib(each) for each in _tree(process)))
        try:
            with httpx.stream("GET", url) as page:
                received = max(received, sum(len(chunk) for chunk in page.iter_raw()))
            text = httpx.get(url).text
        except httpx.TransportError:
            continue  # it is still starting
        marks = [
            line for line in text.splitlines() if 'collections_total{result="success"}' in line
        ]
        collections = float(marks[0].split()[-1]) if marks else 0
        if first_cpu < 0 and collections >= 1:
            first_cpu, first_collections = _cpu_seconds(process), collections
    per_collection = (_cpu_seconds(process) - first_cpu) / (collections - first_collections)
    milli = 1000 * per_collection / INTERVAL_SECONDS
    quantity = f"{name}, {source}"
    how = (
        f"{per_collection:.2f} s of a processor per collection, with its tools and five scrapes a"
        f" second meanwhile; {first_cpu:.1f} s until the first one was shown"
    )
    memory = f"proportional set size of the exporter and its tools, largest of all looks: {source}"
    return [
        Measurement(GOAL, f"{quantity}: processor", milli, CPU_LIMIT_MILLI, "at most", how, "m"),
        Measurement(
            GOAL, f"{quantity}: memory", peak_kib / 1024, MEMORY_LIMIT_MIB, "at most", memory, "MiB"
        ),
        Measurement(
            *(GOAL, f"{quantity}: one scrape", received / 1000, SCRAPE_LIMIT_KB, "at most"),
            f"with gzip, as Prometheus asks for it; {len(text) / 1000:.0f} KB unpacked",
            "KB",
        ),
    ]


def _tree(process: int) -> list[int]:
    """The process and its descendants."""
    found = [process]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            try:
                found += map(int, task.read_text().split())
            except OSError:
                continue  # the process has ended
    return found


def _pss_kib(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _cpu_seconds(process: int) -> float:
    """CPU seconds of the process and its descendants, those that have ended included."""
    total = 0
    for each in _tree(process):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / TICKS


def _packages() -> Measurement:
    with tempfile.TemporaryDirectory() as folder:
        uv = Path(sys.executable).with_name("uv")
        listed = ROOT / "deploy/amd-exporter/requirements.txt"
        common = [str(uv), "pip", "install", "--quiet", "--target", folder, "--no-deps"]
        versions = ["--constraint", str(ROOT / "constraints.txt")]
        subprocess.run([*common, *versions, "--requirement", str(listed)], check=True)
        libraries = _megabytes(Path(folder))
        subprocess.run([*common, str(ROOT)], check=True)
        total = _megabytes(Path(folder))
    how = f"the libraries {libraries:.1f} MB, the ledger's wheel {total - libraries:.1f} MB"
    return Measurement(
        GOAL, "packages of its image", total, PACKAGES_LIMIT_MB, "at most", how, "MB"
    )


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
