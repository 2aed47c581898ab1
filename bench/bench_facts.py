"""P3, P4, P5: the facts of a month from intervals, calculated by the models themselves.

Put here: building a month of a fleet with the project's own models, and the time of each model.
Not here: the fleet (`month_of_a_fleet`), or reading the published copy (`bench_published`).

    python -m bench P3 P4 P5

The fleet of the goals has ten clusters; one of them is refreshed: 1,000 GPUs, 31 days. P3 compares
the three aggregates of the intervals of ten such clusters, with the SQL of the models
(`bench.aggregates`), with a scan of the samples of 10,000 GPUs. The refresh of one cluster, from
the raw evidence to the last mart, is reported separately: it also reconciles, prices, apportions,
checks conservation, and writes all of that for each hour.
"""

from __future__ import annotations

import resource
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.aggregates import replicate, run_aggregates
from bench.measurement import Measurement
from bench.month_of_a_fleet import (
    CARDS,
    DAYS,
    Month,
    create_lives,
    expected_seconds,
    fill,
    write_samples,
)
from warehouse.connection import connected
from warehouse.dbt_run import DbtProject

if TYPE_CHECKING:
    from dbt.artifacts.schemas.results import NodeResult

CLUSTERS = 10
NODES = 125  # of 8 cards, in each cluster
SMALL_NODES = 25  # for comparisons between two sizes of one fleet
INTERVALS = "int_allocations_reconciled"
FACTS = ("fct_node_hours", "fct_pod_periods", "fct_mig_weighted_hours")
FROM_INTERVALS, FINER, LAST_DAY, MEMORY_MIB = 4.0, 1.2, 2.2, 1024.0
SCANS = 5


@dataclass(frozen=True, slots=True)
class TimedBuild:
    """One build: seconds, dependencies and compiled SQL of each model, and sums of the marts."""

    seconds: Mapping[str, float]
    parents: Mapping[str, frozenset[str]]
    compiled: Mapping[str, str]
    device_seconds: int
    node_maxima: int
    pods: int

    @property
    def whole(self) -> float:
        return sum(self.seconds.values())

    def between(self, first: str, last: Iterable[str]) -> list[str]:
        """The models that depend on `first` and on which one of `last` depends."""
        needed = set().union(*(self._needed(name) | {name} for name in last))
        return sorted(name for name in needed if first in self._needed(name))

    def _needed(self, name: str) -> set[str]:
        found: set[str] = set()
        todo = [name]
        while todo:
            new = self.parents.get(todo.pop(), frozenset()) - found
            found |= new
            todo.extend(new)
        return found


def build_month(folder: Path, month: Month) -> TimedBuild:
    """A refresh of the month: seeds and models, without data tests."""
    seconds: dict[str, float] = {}
    parents: dict[str, frozenset[str]] = {}
    compiled: dict[str, str] = {}

    class Timed(DbtProject):
        def _results(self, *command: str) -> list[NodeResult]:
            results = super()._results(*command)
            for result in results:
                node = result.node
                if str(node.resource_type) == "test":
                    continue
                seconds[node.name] = result.execution_time
                compiled[node.name] = getattr(node, "compiled_code", None) or ""
                needed = getattr(node.depends_on, "nodes", ())
                parents[node.name] = frozenset(name.rpartition(".")[2] for name in needed)
            return results

    database = folder / "facts.duckdb"
    fill(folder / "evidence", database, month)
    project = Timed(folder / "dbt", database)
    project.build()
    with connected(database, read_only=True) as connection:
        statement = "select sum(running_seconds * device_count), count(distinct pod_uid)"
        pods = connection.execute(f"{statement} from marts.fct_pod_hours").fetchone()
        nodes = connection.execute("select sum(gpu_count_max) from marts.fct_node_hours").fetchone()
    assert pods is not None
    assert nodes is not None
    return TimedBuild(seconds, parents, compiled, int(pods[0]), int(nodes[0]), int(pods[1]))


def scan_seconds(path: Path) -> float:
    """The least seconds of a full scan of samples: two sums and a maximum."""
    took = []
    with connected(":memory:") as connection:
        for _ in range(SCANS):
            began = time.perf_counter()
            connection.execute(
                f"select sum(devices), sum(series), max(sampled_at) from '{path}'"
            ).fetchall()
            took.append(time.perf_counter() - began)
    return min(took)


def measure() -> list[Measurement]:
    folder = Path(tempfile.mkdtemp(prefix="bench_facts_"))
    try:
        return [*_month(folder / "month"), *_finer(folder), *_one_hour_more(folder)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _month(folder: Path) -> list[Measurement]:
    folder.mkdir()
    month, fleet = Month(NODES), Month(NODES * CLUSTERS)
    ours = build_month(folder, month)
    peak = peak_of_process_mib()
    assert ours.device_seconds == expected_seconds(month), "the facts differ from the made month"
    with connected(":memory:") as connection:
        create_lives(connection, fleet)
        samples = write_samples(connection, fleet, folder / "samples.parquet")
    replicate(folder / "facts.duckdb", CLUSTERS)
    three = run_aggregates(folder / "facts.duckdb", ours.compiled)
    scan = scan_seconds(folder / "samples.parquet")
    said = {name: total // CLUSTERS for name, total in three.sums.items()}
    seconds = ours.device_seconds
    assert said == {"node-hours": ours.node_maxima, "pods": seconds, "tenants": seconds}, said
    names = ours.between(INTERVALS, FACTS)
    chain = sum(ours.seconds.get(name, 0.0) for name in names)
    slowest = sorted(names, key=lambda name: -ours.seconds.get(name, 0.0))[:3]
    listed = ", ".join(f"{name} {ours.seconds[name]:.1f} s" for name in slowest)
    each = ", ".join(f"{name} {took:.2f} s" for name, took in three.seconds.items())
    how = f"{ours.pods:,} pods of {month.gpus:,} GPUs in {DAYS} days"
    return [
        Measurement("P3", "three aggregates from intervals against one scan of the samples",
                    three.whole / scan, FROM_INTERVALS, "at most",
                    f"{CLUSTERS} clusters of {how}: {each}; one scan of the {samples:,} samples of"
                    f" {fleet.nodes * CARDS:,} GPUs {scan:.3f} s. Apart, the whole refresh of one"
                    f" cluster: {len(ours.seconds)} models from raw evidence to marts"
                    f" {ours.whole:.1f} s, {len(names)} of them from the intervals on {chain:.1f} s"
                    f" ({listed})"),
        Measurement("P3", "memory of the three aggregates", three.peak_mib, MEMORY_MIB, "at most",
                    f"{CLUSTERS} clusters of {how}: the process's peak, with libraries", "MiB"),
        Measurement("P3", "memory of the whole refresh", peak, MEMORY_MIB, "at most",
                    f"{how}: the process's peak, with libraries and making the evidence", "MiB"),
    ]  # fmt: skip


def _finer(folder: Path) -> list[Measurement]:
    coarse = build_month(_make_folder(folder / "coarse"), Month(SMALL_NODES, step=300))
    fine = build_month(_make_folder(folder / "fine"), Month(SMALL_NODES, step=30))
    assert coarse.device_seconds == fine.device_seconds
    return [
        Measurement("P4", "the whole refresh from samples of 30 s against 5 min",
                    fine.whole / coarse.whole, FINER, "at most",
                    f"{coarse.pods:,} pods of {SMALL_NODES * 8} GPUs in {DAYS} days:"
                    f" {fine.whole:.1f} s against {coarse.whole:.1f} s"),
    ]  # fmt: skip


def _one_hour_more(folder: Path) -> list[Measurement]:
    half = build_month(_make_folder(folder / "half"), Month(SMALL_NODES, days=DAYS // 2))
    full = build_month(_make_folder(folder / "full"), Month(SMALL_NODES, days=DAYS))
    return [
        Measurement("P5", "a refresh on the last day against one in the middle",
                    full.whole / half.whole, LAST_DAY, "at most",
                    f"{SMALL_NODES * 8} GPUs, the period rebuilt whole: {full.pods:,} pods"
                    f" {full.whole:.1f} s, {half.pods:,} pods {half.whole:.1f} s;"
                    " start-up of the tools aside"),
    ]  # fmt: skip


def _make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


def peak_of_process_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    for row in measure():
        print(row.line())
