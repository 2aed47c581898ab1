"""A fleet of realistic shape: 3,416 GPUs with pods that mostly run all month.

Put here: the commands that close such a month, against one scan of its pod-hours.
Not here: the evidence of the month (`home_of_a_month`), or a fleet with short pods (`bench_facts`).

    python -m bench "real month"

A fleet of short pods does not show costs that grow with pod-hours instead of pods. Both sides of a
ratio are CPU seconds, so that other work on the machine changes them little.
"""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path

from bench.home_of_a_month import CommandRun, create_home, run
from bench.measurement import Measurement
from bench.month_of_a_fleet import PERIOD, Month
from warehouse.connection import connected
from warehouse.home import Home

GOAL = "real month"
MONTH = Month(nodes=427, pod_seconds=20_000 * 3600, mig_every=0, tenants=156)
COMMANDS = {
    "refresh": ("refresh", "--period", PERIOD.name),
    "check": ("check", PERIOD.name),
    "close": ("close", PERIOD.name),
}
LIMITS = {"refresh": 333.0, "check": 250.0, "close": 500.0}
"""20 s, 15 s and 30 s of two processors, on a machine that scans in 0.12 s of one processor."""

MEMORY_MIB = 1024.0
SCANS = 5
SCAN = "select max(hash(each)) from marts.fct_pod_hours as each"
"""Reads every column, many of which are constant in such a month."""


def measure() -> list[Measurement]:
    with tempfile.TemporaryDirectory(prefix="bench_real_month_") as folder:
        home = create_home(Path(folder) / "home", MONTH)
        ran = {name: run(home, *command) for name, command in COMMANDS.items()}
        hours, scan = scan_of_pod_hours(home)
    return [row for name in COMMANDS for row in _rows(name, ran[name], hours, scan)]


def _rows(name: str, ran: CommandRun, hours: int, scan: float) -> list[Measurement]:
    how = (
        f"{hours:,} pod-hours of {MONTH.gpus:,} GPUs: {ran.cpu_seconds:.1f} s of the processor,"
        f" {ran.wall_seconds:.1f} s on the wall, with the start of the program; one scan"
        f" {scan:.2f} s of the processor"
    )
    memory = f"the same run of `gpu-ledger {name}`: the process's peak"
    return [
        Measurement(GOAL, f"`gpu-ledger {name}` against one scan of the pod-hours",
                    ran.cpu_seconds / scan, LIMITS[name], "at most", how),
        Measurement(GOAL, f"memory of `gpu-ledger {name}`", ran.peak_mib, MEMORY_MIB, "at most",
                    memory, "MiB"),
    ]  # fmt: skip


def scan_of_pod_hours(home: Home) -> tuple[int, float]:
    """The number of pod-hours, and the least CPU seconds of a scan of them."""
    seconds = []
    with connected(home.warehouse_path, read_only=True) as connection:
        row = connection.execute("select count(*) from marts.fct_pod_hours").fetchone()
        for _ in range(SCANS):
            before = _processor_seconds()
            connection.execute(SCAN).fetchall()
            seconds.append(_processor_seconds() - before)
    return int(row[0]) if row else 0, min(seconds)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    for row in measure():
        print(row.line())
