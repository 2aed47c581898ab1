"""A month of device readings of simulated clusters, as facts, with planted anomalies.

Put here: hours of every card, instance and partition from the simulator's own state, and changes of
single readings with their kind.
Not here: the findings of the ledger (`scenarios/test_device_anomalies`).

The simulator calculates use, memory, power and temperature; they are written like `fct_gpu_use`
from exporters. The model that searches for anomalies has no data about the planted ones.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import duckdb
import polars as pl

from fake_gpu.exporters.devices import NodeUse
from fake_gpu.fleet.build import Fleet
from fake_gpu.fleet.model import Node, PodLifetime, SimulatedCluster
from fake_gpu.prometheus.node_intervals import EntityInterval, NodeIntervals
from tests.marts_in_memory import contracts
from tests.rendered_models import rendered
from warehouse.connection import connect
from warehouse.project import dbt_project_dir

HOUR, DAY = 3600, 86400
DUE_SAMPLES = 120
MODEL = dbt_project_dir() / "models" / "marts" / "fct_device_anomalies.sql"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Planted:
    """One hour of one device with a changed reading."""

    what: str
    rule_name: str
    row: int


def hours_of(fleet: Fleet, first_second: int, days: int) -> list[Row]:
    """A row per device, pod and hour."""
    rows: list[Row] = []
    for cluster in fleet.clusters:
        on_nodes: dict[str, list[PodLifetime]] = {}
        for pod in cluster.pods:
            if pod.holds:
                on_nodes.setdefault(pod.node_name, []).append(pod)
        for node in cluster.nodes:
            if node.cards:
                rows += _of_node(cluster, node, on_nodes.get(node.name, []), first_second, days)
    return rows


def _of_node(
    cluster: SimulatedCluster, node: Node, pods: Sequence[PodLifetime], first_second: int, days: int
) -> Iterator[Row]:
    intervals = NodeIntervals(NodeUse(node, pods))
    for day in range(first_second // DAY, first_second // DAY + days):
        sums: defaultdict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
        for interval in intervals.day(day):
            for hour, seconds in _hours(interval):
                key = (*_identity(node, interval), *_holder(interval), hour)
                _add(sums[key], interval, node, seconds)
        for key, total in sums.items():
            yield _row(cluster, key, total)


def _hours(interval: EntityInterval) -> Iterator[tuple[int, int]]:
    at = interval.from_at
    while at < interval.until_at:
        end = min(interval.until_at, at - at % HOUR + HOUR)
        yield at - at % HOUR, end - at
        at = end


def _identity(node: Node, interval: EntityInterval) -> tuple[str, ...]:
    entity = interval.entity
    part = entity.gpu_instance_id if entity.gpu_instance_id is not None else entity.partition_id
    card = entity.card
    instance = "" if part is None else str(part)
    return node.name, card.card_id, str(card.index), instance, card.model_name


def _holder(interval: EntityInterval) -> tuple[str, str]:
    holders = interval.step.holders
    return (holders[-1].pod.namespace, holders[-1].pod.name) if holders else ("", "")


def _add(total: Counter[str], interval: EntityInterval, node: Node, seconds: int) -> None:
    amd, entity = interval.entity.card.vendor == "amd", interval.entity
    pct = int(interval.card_pct) if amd else int(interval.step.pct)
    total["seconds"] += seconds
    total["memory"] += interval.step.used_mib * seconds
    total["celsius"] += (38000 + 400 * pct if amd else 30000 + 380 * pct) * seconds
    if not (amd and entity.partition_id):
        total["use"] += pct * 10000 * seconds
        total["use_maximum"] = max(total["use_maximum"], pct * 10000)
        total["power"] += interval.milliwatts * seconds
        total["measured"] = 1


def _row(cluster: SimulatedCluster, key: tuple[Any, ...], total: Counter[str]) -> Row:
    node, uuid, index, instance, model, namespace, pod, hour = key
    seconds = total["seconds"]
    measured = bool(total["measured"])
    return {
        "billing_period": "2026-10",
        "cluster_id": cluster.cluster_id,
        "node_name": node,
        "device_uuid": uuid,
        "gpu_index": index,
        "instance_id": instance,
        "model_name": model,
        "hour_started_at": datetime.fromtimestamp(hour, UTC),
        "namespace": namespace,
        "pod_name": pod,
        "tenant": namespace,
        "sample_count": DUE_SAMPLES * seconds // HOUR,
        "use_millionths_average": total["use"] // seconds if measured else None,
        "use_millionths_maximum": total["use_maximum"] if measured else None,
        "memory_used_mib_average": total["memory"] // seconds,
        "power_milliwatts_average": total["power"] // seconds if measured else None,
        "temperature_millicelsius_average": total["celsius"] // seconds,
        "allocated_seconds": seconds if pod else 0,
        "is_ambiguous": False,
    }


# --- planting ---


def planted(rows: list[Row], seed: int, episodes: int) -> tuple[list[Row], list[Planted]]:
    """The rows with episodes of each kind of anomaly, each of whole hours of one device."""
    draw = random.Random(seed)
    rows = [dict(row) for row in rows]
    marks: list[Planted] = []
    taken: set[int] = set()
    by_device: dict[tuple[str, ...], list[int]] = {}
    for number, row in enumerate(rows):
        if row["sample_count"] == DUE_SAMPLES:
            by_device.setdefault(_device(row), []).append(number)
    for what, (rule, fits, change, length) in KINDS.items():
        starts = [n for numbers in by_device.values() for n in numbers if fits(rows[n])]
        for start in draw.sample(starts, min(episodes, len(starts))):
            numbers = by_device[_device(rows[start])]
            place = numbers.index(start)
            for number in numbers[place : place + draw.randint(1, length)]:
                if number not in taken and fits(rows[number]):
                    taken.add(number)
                    change(rows[number], draw)
                    marks.append(Planted(what, rule, number))
    return rows, marks


def _device(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in ("cluster_id", "device_uuid", "gpu_index", "instance_id"))


def _whole(row: Row) -> bool:
    return row["use_millionths_average"] is not None and row["instance_id"] == ""


def _stall(row: Row, _: random.Random) -> None:
    """The device does not calculate, so it uses no power for that."""
    row.update(use_millionths_average=0, use_millionths_maximum=0)
    if row["power_milliwatts_average"] is not None:
        row.update(power_milliwatts_average=min(60_000, row["power_milliwatts_average"]))


# Of the demo's cards that have their own power reading.
PEAK_WATTS = {"NVIDIA H100 80GB HBM3": 700, "NVIDIA A100-SXM4-80GB": 400, "Tesla T4": 70}

KINDS: dict[str, tuple[str, Any, Any, int]] = {
    "power without use": (
        "power_unlike_use",
        lambda row: _whole(row) and row["use_millionths_average"] == 0,
        lambda row, draw: row.update(
            power_milliwatts_average=draw.randint(50, 100) * 10 * PEAK_WATTS[row["model_name"]]
        ),
        6,
    ),
    "use without power": (
        "power_unlike_use",
        lambda row: _whole(row) and row["use_millionths_average"] >= 900_000,
        lambda row, _: row.update(power_milliwatts_average=60_000),
        6,
    ),
    "memory kept after the pod": (
        "memory_without_pod",
        lambda row: not row["pod_name"] and not row["use_millionths_maximum"],
        lambda row, _: row.update(memory_used_mib_average=4096),
        12,
    ),
    "25 degrees hotter": (
        "unlike_own_history",
        lambda row: True,
        lambda row, _: row.update(
            temperature_millicelsius_average=row["temperature_millicelsius_average"] + 25_000
        ),
        8,
    ),
    "a busy pod that stalls": (
        "unlike_own_history",
        lambda row: bool(row["pod_name"]) and (row["use_millionths_average"] or 0) >= 600_000,
        _stall,
        8,
    ),
}


# --- searching ---


def found_in(rows: Sequence[Row]) -> list[Row]:
    """The anomalies that the model finds in these hours."""
    connection = connect(":memory:")
    _table(connection, "fct_gpu_use", contracts()["fct_gpu_use"], rows)
    clusters = {row["cluster_id"] for row in rows}
    connection.execute(
        "create table int_cluster_windows (cluster_id varchar, sample_interval_seconds bigint)"
    )
    for cluster in sorted(clusters):
        connection.execute("insert into int_cluster_windows values (?, 30)", [cluster])
    connection.execute("create table stg_parameters as select '2026-10' as billing_period")
    found = connection.execute(rendered(MODEL, "duckdb"))
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _table(
    connection: duckdb.DuckDBPyConnection, name: str, columns: dict[str, str], rows: Sequence[Row]
) -> None:
    connection.execute(
        f"create table {name} ({', '.join(f'{column} {kind}' for column, kind in columns.items())})"
    )
    frame = pl.DataFrame(list(rows), infer_schema_length=None)
    connection.register("rows_given", frame.to_arrow())
    connection.execute(f"insert into {name} by name select * from rows_given")
