"""The three aggregates of a month, calculated from its intervals with the SQL of the models.

Put here: the largest number of cards per node and hour, GPU-seconds per pod, and the weighted
roll-up per tenant, each as one statement over the intervals that a refresh stores.
Not here: building these intervals (`bench_facts`), or the scan for comparison.

    python -m bench.aggregates DATABASE STATEMENTS

The statements are the compiled models. Each is calculated once, into a temporary table, and counts
towards the aggregate that needs it. A refresh also stores names and conservation checks; its
seconds are reported separately. The process does nothing else, so its peak memory is that of the
three aggregates.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bench.measurement import peak_mib
from warehouse.connection import connect, connected
from warehouse.placement import register

INTERVALS = (
    "int_device_use",
    "int_node_class_capacity",
    "int_node_labelled_cards",
    "int_unmeasured_intervals",
    "int_node_classes",
    "int_measured_hours",
    "int_priced_segments",
)
"""The tables that the models below read, except those that are the same in every cluster."""

BETWEEN = {
    "node-hours": (
        "int_shared_card_changes",
        "int_node_offers",
        "int_slice_events",
        "int_slices_placed",
        "int_node_levels",
    ),
    "pods": (),
    "tenants": ("int_charges",),
}
"""The models between the intervals and each aggregate, in order of their dependencies."""

ASKED = {
    "node-hours": """
        with maxima as (
            select node_number, hour_second, max(running_cards) as gpu_count_max
            from int_node_levels group by node_number, hour_second
        )
        select nodes.cluster_id, nodes.node_name, hour_second, gpu_count_max
        from maxima inner join (
            select distinct node_number, cluster_id, node_name
            from facts.intermediate.int_node_classes
        ) as nodes using (node_number)
    """,
    "pods": """
        select allocation_number, sum(counted_seconds * device_count) as device_seconds
        from facts.intermediate.int_priced_segments
        where allocation_state = 'running' group by all
    """,
    "tenants": """
        select namespace, gpu_class, mig_profile, sum(device_seconds) as device_seconds,
            sum(device_seconds * weight_numerator) as weighted, sum(cost_nanos) as cost_nanos
        from int_charges group by all
    """,
}
CHECKED = {
    "node-hours": "sum(gpu_count_max)",
    "pods": "sum(device_seconds)",
    "tenants": "sum(device_seconds)",
}
NUMBERS = ("node_number", "node_class_number", "allocation_number", "charge_number")
REPEATS = 5
MEMORY_LIMIT = "700MB"
"""More than a refresh gives DuckDB: this process has neither dbt nor a decoder beside it."""

BETWEEN_COPIES = 1_000_000_000


@dataclass(frozen=True, slots=True)
class AggregateResult:
    """The least seconds and a sum of each aggregate, and the peak memory of the process."""

    seconds: Mapping[str, float]
    sums: Mapping[str, int]
    peak_mib: float

    @property
    def whole(self) -> float:
        return sum(self.seconds.values())


def run_aggregates(database: Path, compiled: Mapping[str, str]) -> AggregateResult:
    """Run the aggregates in a process of their own; `compiled` has the statement of each model."""
    statements = database.with_suffix(".json")
    needed = {name: compiled[name] for names in BETWEEN.values() for name in names}
    statements.write_text(json.dumps(needed), encoding="utf-8")
    command = [sys.executable, "-m", "bench.aggregates", str(database), str(statements)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return AggregateResult(**json.loads(ran.stdout.splitlines()[-1]))


def replicate(database: Path, clusters: int) -> None:
    """Copy the intervals of one cluster to other cluster numbers, for a fleet of that size."""
    with connected(database) as connection:
        for table in INTERVALS:
            columns = connection.execute(f"describe facts.intermediate.{table}").fetchall()
            shown = ", ".join(_other(str(column[0])) for column in columns)
            connection.execute(
                f"insert into facts.intermediate.{table} select {shown}"
                f" from facts.intermediate.{table}, range(1, {clusters}) as copies (copy_number)"
            )


def _other(column: str) -> str:
    if column == "cluster_id":
        return "cluster_id || '-' || copy_number as cluster_id"
    if column in NUMBERS:
        return f"{column} + copy_number * {BETWEEN_COPIES} as {column}"
    return column


def main(database: str, statements: str) -> None:
    compiled = json.loads(Path(statements).read_text(encoding="utf-8"))
    seconds, sums = {}, {}
    with closing(connect(Path(database), memory_limit=MEMORY_LIMIT)) as connection:
        register(connection)
        for name, statement in ASKED.items():
            tables = {one: _on_temporary_tables(compiled[one]) for one in BETWEEN[name]}
            took = []
            for _ in range(REPEATS):
                began = time.perf_counter()
                for table, text in {**tables, "answer": statement}.items():
                    connection.execute(f"create or replace temp table {table} as {text}")
                took.append(time.perf_counter() - began)
            seconds[name] = min(took)
            row = connection.execute(f"select {CHECKED[name]} from answer").fetchone()
            sums[name] = int(row[0]) if row else 0
    print(json.dumps({"seconds": seconds, "sums": sums, "peak_mib": peak_mib(os.getpid())}))


def _on_temporary_tables(text: str) -> str:
    for names in BETWEEN.values():
        for name in names:
            text = text.replace(f'"facts"."intermediate"."{name}"', name)
    return text


if __name__ == "__main__":
    main(*sys.argv[1:])
