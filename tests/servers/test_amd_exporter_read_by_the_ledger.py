"""Our exporter on simulated AMD nodes, in a real Prometheus: the ledger reads the same as from
AMD's.

Put here: the path of a reading from a card's state to the ledger's runs, for both exporters.
Not here: names and units one by one (`test_thanos_telemetry`), or facts (`fct_gpu_use`).

The simulator serves AMD's exporter. Our own exporter is the real one, with tools that report the
same state: it collects every 30 seconds for two hours, and its pages become the history of a real
Prometheus.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from amd_exporter import amd_smi
from amd_exporter.collection import SnapshotCollector
from amd_exporter.devices import DeviceHolder
from amd_exporter.exposition import RegistryCollector
from amd_exporter.settings import read_settings
from amd_exporter.sources import SourceReading
from domain.clock import StoppedClock, SystemClock
from domain.interval import HOUR, Interval
from fake_gpu.exporters.devices import NodeUse
from fake_gpu.fleet.build import Fleet, build_fleet
from fake_gpu.fleet.model import Node, SimulatedCluster
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.node_intervals import EntityInterval, NodeIntervals
from fake_gpu.prometheus.openmetrics import write_openmetrics
from fake_gpu.prometheus.source import FleetSeries
from fake_gpu.scenario.load import read_scenario
from ingestion.evidence.landing import Landing
from ingestion.settings import ClusterSource, Connection, ThanosSettings
from ingestion.thanos.pull import pull_hours
from tests.derived_rows import Row, rows_of
from tests.fake_rocm import amd_smi_gpu
from tests.servers.prometheus import make_blocks, programs, prometheus
from warehouse.manifest import Outcome, Sampling
from warehouse.store import FolderStore

pytestmark = pytest.mark.servers

SCENARIO = """
name: two_exporters
story: A whole card that is busy, one that is free, and a card in eight partitions, of which two
  are held; nothing changes in the hours that are read.
seed: 3
from: 2026-10-06T00:00:00Z
until: 2026-10-06T06:00:00Z
clusters:
  - name: amd
    id: 9b1f6a52-7c1d-4f0e-b7a3-58c2d40e6f91
    monitoring: {scrape_interval: 30s, prometheus_replicas: 1}
    nodes:
      - {name: whole, product: AMD_Instinct_MI300X_OAM, cards: 2}
      - {name: cut, product: AMD_Instinct_MI300X_OAM, cards: 1, partition: cpx_nps4}
    workloads:
      - {name: train, namespace: vision, kind: Pod, requests: {amd.com/gpu: 1}, utilisation: 60,
         node: whole, pods: [{created: 2026-10-05T20:00:00Z, started: 2026-10-05T20:00:10Z}]}
      - {name: tune, namespace: speech, kind: Pod, requests: {amd.com/gpu: 2}, utilisation: 80,
         node: cut, pods: [{created: 2026-10-05T20:00:00Z, started: 2026-10-05T20:00:10Z}]}
"""
START = datetime(2026, 10, 6, 1, tzinfo=UTC)
WINDOW = Interval(START, START + 2 * HOUR)
STEP_SECONDS = 30
EXTERNAL = {"job": "gpu-ledger-amd-exporter", "instance": "10.0.0.1:9400"}
READINGS = {"card_use", "memory_traffic", "memory_used", "power", "temperature"}


class SimulatedTools:
    """The tools of one node at one instant, as a source of our exporter."""

    name = "amd-smi"

    def __init__(self, stretches: list[EntityInterval]) -> None:
        self.stretches = stretches
        self.now = 0

    def present(self) -> list[EntityInterval]:
        return [s for s in self.stretches if s.from_at <= self.now < s.until_at]

    def read(self) -> SourceReading:
        gpus = [_gpu(index, stretch) for index, stretch in enumerate(self.present())]
        outputs = [
            [{"gpu": gpu["gpu"], **gpu[name]} for gpu in gpus]
            for name in ("metric", "list", "static")
        ]
        return SourceReading(amd_smi.read(*outputs), "26.0.0")

    def holders(self) -> Mapping[str, DeviceHolder]:
        return {
            _address(stretch): DeviceHolder(holder.pod.namespace, holder.pod.name, holder.container)
            for stretch in self.present()
            for holder in stretch.step.holders
        }

    def close(self) -> None:
        pass


def _address(stretch: EntityInterval) -> str:
    bus = stretch.entity.card.pci_bus_id.split(":")[1].lower()
    return f"0000:{bus}:00.{stretch.entity.partition_id or 0}"


def _gpu(index: int, stretch: EntityInterval) -> dict[str, Any]:
    """A logical device in the form of amd-smi of ROCm 6: without values of single partitions."""
    entity = stretch.entity
    partition, pct = entity.partition_id or 0, int(stretch.card_pct)
    first = entity.devices[0]
    mode = ("SPX", "NPS1") if first.makeup != "partition" else ("CPX", "NPS4")
    gpu = amd_smi_gpu(
        index,
        bdf=_address(stretch),
        serial=f"0x{entity.card.index + 1:x}",
        activity=None if partition else pct,
        watts=None if partition else stretch.milliwatts // 1000,
        used_mib=stretch.step.used_mib,
        total_mib=entity.memory_mib,
        mode=mode,
        partition=partition,
    )
    if not partition:
        gpu["metric"]["usage"]["umc_activity"] = {"value": int(pct * 0.6), "unit": "%"}
    gpu["metric"]["temperature"]["hotspot"] = {"value": 38 + int(pct * 0.4), "unit": "C"}
    return gpu


def history(cluster: SimulatedCluster, node: Node, folder: Path) -> Iterator[str]:
    """Every sample of our exporter on a node, with its time."""
    pods = [pod for pod in cluster.pods if pod.holds and pod.node_name == node.name]
    day = NodeIntervals(NodeUse(node, pods)).day(int(START.timestamp()) // 86400)
    tools = SimulatedTools(day)
    settings = read_settings(["--node-name", node.name, "--sysfs-path", str(folder)], {})
    collection = SnapshotCollector(settings, [tools], tools.holders)
    registry = CollectorRegistry()
    registry.register(RegistryCollector(collection, node.name))
    begin, end = (int(at.timestamp()) for at in (START - HOUR, WINDOW.ended_at + HOUR))
    for tools.now in range(begin, end, STEP_SECONDS):
        collection.collect()
        for family in text_string_to_metric_families(generate_latest(registry).decode()):
            for sample in family.samples:
                labels = {**sample.labels, **EXTERNAL, "instance": f"{node.name}:9400"}
                labels |= {"cluster": cluster.name, "clusterID": cluster.cluster_id}
                written = ",".join(f'{name}="{value}"' for name, value in labels.items())
                yield f"{sample.name}{{{written}}} {sample.value!r} {tools.now}\n"


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return build_fleet(read_scenario(SCENARIO, "two_exporters", None))


def pulled(fleet: Fleet, version: int, folder: Path) -> list[Row]:
    """The ledger's device-hours of both exporters, from a real Prometheus."""
    which = programs(version)
    [cluster] = fleet.clusters
    clock = StoppedClock(WINDOW.ended_at + HOUR)
    source = FleetSeries(fleet, {cluster.cluster_id: ObjectHistory(cluster)}, clock)
    files = write_openmetrics(source, START - HOUR, WINDOW.ended_at + HOUR, folder / "om")
    ours = folder / "ours.om"
    nodes = [node for node in cluster.nodes if node.cards]
    lines = sorted(line for node in nodes for line in history(cluster, node, folder))
    ours.write_text("".join(lines) + "# EOF\n")
    make_blocks(which, [*files, ours], folder / "data")
    with prometheus(which, folder) as client:
        server = ThanosSettings(
            "hub", Connection(str(client.base_url)), replica_labels=("prometheus_replica",)
        )
        asked = ClusterSource(cluster.cluster_id, server, Sampling(30, 30))
        landing = Landing(FolderStore(folder / "landing"))
        attempt = pull_hours(asked, WINDOW, landing, folder / "runs", SystemClock())
    assert attempt.outcome is Outcome.OK
    return rows_of(folder / "runs", cluster.cluster_id, [attempt.attempt_id], "telemetry")


Value = tuple[int, float, float]


def by_reading(rows: list[Row], start: str) -> dict[tuple[Any, ...], Value]:
    """(reading, node, card, partition, pod, hour) → samples, average, maximum."""
    found = {}
    for row in rows:
        if not row["metric"].startswith(start) or not row["reading"]:
            continue
        labels = dict(row["labels"])
        ours = start == "amd_gpu_"
        card = int(labels["uuid"], 16) - 1 if ours else int(labels["gpu_id"])
        partition = labels["partition" if ours else "gpu_partition_id"]
        key = (row["reading"], labels["node" if ours else "hostname"], card, partition)
        value = (row["sample_count"], row["average_value"], row["maximum_value"])
        found[(*key, labels.get("pod", ""), row["hour_started_at"])] = value
    return found


@pytest.mark.parametrize("version", [2, 3])
def test_the_ledger_reads_both_exporters_to_the_same_readings(
    version: int, fleet: Fleet, tmp_path: Path
) -> None:
    rows = pulled(fleet, version, tmp_path)
    ours, theirs = (by_reading(rows, start) for start in ("amd_gpu_", "gpu_"))
    assert {reading for reading, *_ in theirs} == READINGS
    assert set(ours) == set(theirs)
    for key, value in theirs.items():
        assert ours[key] == pytest.approx(value, rel=1e-9), key
    # Two whole cards and eight partitions in two hours; activity and power of three of them.
    counts = {name: sum(key[0] == name for key in ours) for name in READINGS}
    assert counts["memory_used"] == 20
    assert counts["card_use"] == counts["power"] == 6
    assert {key[4] for key in ours if key[1] == "whole"} == {"train", ""}
