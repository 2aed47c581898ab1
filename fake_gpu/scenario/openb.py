"""The openb trace: 8,152 pods of a real GPU cluster, as a scenario.

Put here: reading its two files, and the values that are invented on top of them.
Not here: the files; they are Apache-2.0, from hkust-adsl/kubernetes-scheduler-simulator, and are
not part of this project.

From the files: when each pod was created, bound and deleted, how many GPUs it had, or which
thousandths of one; and which nodes there are with which cards. Invented: namespaces (by
the pod's number), the placement, that a pod starts when it is bound, which nodes share their cards
(a fraction of a card is a count of 1,000 time-sliced replicas), the calendar (second 0 is
2026-05-01T00:00:00Z), and the products of the two models that the files do not disclose.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path

from fake_gpu.scenario.errors import InvalidScenario
from fake_gpu.scenario.spec import ClusterSpec, MonitoringSpec, Scenario
from fake_gpu.scenario.spec_hardware import NodeSpec, SharingSpec
from fake_gpu.scenario.trace import TraceRow
from fake_gpu.scenario.trace_pods import pods_of, workloads_of

SETTING = "GPU_LEDGER_OPENB"
PODS_FILE = "openb_pod_list_default.csv"
NODES_FILE = "openb_node_list_all_node.csv"

OPENB = "openb"
HOUR = 3600
START = 1_777_593_600  # 2026-05-01T00:00:00Z
REPLICAS = 1000
NAMESPACES = ("ads", "maps", "search", "speech", "vision")

PRODUCTS = {
    "A10": "NVIDIA-A10",
    "G2": "NVIDIA-A10",  # not disclosed
    "G3": "NVIDIA-A100-SXM4-80GB",  # not disclosed
    "P100": "Tesla-P100-PCIE-16GB",
    "T4": "Tesla-T4",
    "V100M16": "Tesla-V100-SXM2-16GB",
    "V100M32": "Tesla-V100-SXM2-32GB",
}

# The first so many T4 nodes share their cards: at most 12 cards' worth of fractions run at once.
SHARED_NODES = 20
SHARED_MODEL = "T4"


def openb_folder(given: str | Path | None) -> Path:
    """Where the files are: an option, or a setting; a clear word when they are nowhere."""
    named = str(given or os.environ.get(SETTING, ""))
    folder = Path(named)
    if not named or not (folder / PODS_FILE).is_file():
        raise InvalidScenario(
            where="scenario 'openb'",
            seen=f"no {PODS_FILE} in {named!r}" if named else "no folder was given",
            why="the trace is not part of this project",
            remedy=f"get it from github.com/hkust-adsl/kubernetes-scheduler-simulator (data/csv), "
            f"and give its folder with --data, or in {SETTING}",
        )
    return folder


def openb_scenario(folder: Path) -> Scenario:
    """The whole trace as one cluster."""
    with (folder / PODS_FILE).open(encoding="utf-8", newline="") as file:
        rows = [_row(cells) for cells in csv.DictReader(file) if int(cells["num_gpu"])]
    with (folder / NODES_FILE).open(encoding="utf-8", newline="") as file:
        nodes = _nodes([cells for cells in csv.DictReader(file) if cells["model"]])
    last = max(row.finished_at for row in rows if row.finished_at is not None)
    cluster = ClusterSpec(
        name="openb",
        nodes=nodes,
        workloads=workloads_of(pods_of(rows, OPENB), OPENB),
        monitoring=MonitoringSpec(prometheus_replicas=1),
    )
    return Scenario(
        name="openb",
        from_=START,
        until=-(-(last + 1) // HOUR) * HOUR,
        clusters=(cluster,),
        story=__doc__ or "",
    )


def _row(cells: Mapping[str, str]) -> TraceRow:
    count, thousandths = int(cells["num_gpu"]), int(cells["gpu_milli"])
    whole = thousandths == REPLICAS
    scheduled = START + int(cells["scheduled_time"]) if cells["scheduled_time"] else None
    number = int(cells["name"].rsplit("-", 1)[1])
    return TraceRow(
        cluster="openb",
        namespace=NAMESPACES[number % len(NAMESPACES)],
        pod=cells["name"],
        uid="",
        node="",
        gpu_product="",
        resource="nvidia.com/gpu" if whole else "nvidia.com/gpu.shared",
        count=count if whole else count * thousandths,
        created_at=START + int(cells["creation_time"]),
        scheduled_at=scheduled,
        started_at=scheduled,
        finished_at=START + int(cells["deletion_time"]),
        phase=cells["pod_phase"],
        owner_kind="",
        owner_name="",
    )


def _nodes(listed: list[dict[str, str]]) -> tuple[NodeSpec, ...]:
    nodes = []
    shared = 0
    for cells in listed:
        shares = cells["model"] == SHARED_MODEL and shared < SHARED_NODES
        shared += shares
        nodes.append(
            NodeSpec(
                name=cells["sn"],
                product=PRODUCTS[cells["model"]],
                cards=int(cells["gpu"]),
                sharing=SharingSpec(REPLICAS, rename=True) if shares else None,
                cpu_cores=int(cells["cpu_milli"]) // 1000,
                memory_gib=int(cells["memory_mib"]) // 1024,
            )
        )
    return tuple(nodes)
