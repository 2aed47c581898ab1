"""The facts of the pipeline, read from the marts in the grains of the truth.

Put here: one query per mart; every number that is compared with the truth is one of its columns.
Not here: the truth (`true_facts`), or arithmetic beyond a fraction of two columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from tests.scenarios.true_facts import Facts
from warehouse.connection import connected
from warehouse.home import Home

Rows = list[tuple[Any, ...]]


def ask(home: Home, statement: str) -> Rows:
    with connected(home.warehouse_path, read_only=True) as connection:
        rows: Rows = connection.execute(statement).fetchall()
    return rows


_EPOCH = "epoch_us(hour_started_at) // 1000000"
_SECONDS = """
    cast(sum(running_seconds * device_count) as bigint),
    cast(sum(held_seconds * device_count) as bigint)
"""

QUESTIONS = {
    "pod-hours": (2, f"""
        select cluster_id, pod_uid, {_EPOCH}, {_SECONDS} from marts.fct_pod_hours group by all
    """),
    "allocations": (2, f"""
        select cluster_id, pod_uid, case when resource like 'gpu.%/%' then '' else resource end,
            {_SECONDS}
        from marts.fct_pod_hours group by all
    """),
    "tenant-hours": (2, f"""
        select cluster_id, tenant, gpu_class, mig_profile, {_EPOCH}, running_device_seconds,
            held_device_seconds
        from marts.fct_tenant_hours
    """),
    "tenant-periods": (2, """
        select tenant, gpu_class, mig_profile, running_device_seconds, held_device_seconds
        from marts.fct_tenant_periods
    """),
    "workload-periods": (3, """
        select tenant, workload_kind, workload_name, gpu_class, mig_profile,
            running_device_seconds, held_device_seconds, pod_count
        from marts.fct_workload_periods
    """),
    "node-class-hours": (3, f"""
        select cluster_id, node_name, gpu_class, mig_profile, {_EPOCH}, device_count_max,
            running_device_seconds, held_device_seconds
        from marts.fct_node_class_hours
    """),
    "node-hours": (4, f"""
        select cluster_id, node_name, {_EPOCH}, gpu_count_max, gpu_seconds, gpu_count_max_bound,
            how_known
        from marts.fct_node_hours
    """),
    "cluster-hours": (7, f"""
        select cluster_id, {_EPOCH}, active_worker_nodes, active_worker_nodes_max,
            sum_of_node_max, sum_of_node_max_bound, simultaneous_max, gpu_seconds, how_known
        from marts.fct_cluster_hours
    """),
    "fleet-hours": (8, f"""
        select {_EPOCH}, active_worker_nodes, active_worker_nodes_max, sum_of_node_max,
            sum_of_node_max_bound, simultaneous_max, gpu_seconds, how_known, cluster_count
        from marts.fct_fleet_hours
    """),
}  # fmt: skip
"""By grain: the number of numeric columns at the end, and the query."""


def counted(home: Home, grain: str) -> Facts:
    """The rows of one grain, without rows of zeros."""
    numbers, statement = QUESTIONS[grain]
    rows = ask(home, statement)
    return {row[:-numbers]: row[-numbers:] for row in rows if _counts(row[-numbers:])}


def _counts(numbers: Iterable[Any]) -> bool:
    return any(isinstance(number, int) and number for number in numbers)


def counted_pod_shares(home: Home) -> Facts:
    """(cluster, tenant, profile): seconds of shares in the pod-hours."""
    found: defaultdict[tuple[Any, ...], list[Fraction]] = defaultdict(lambda: [Fraction(0)] * 4)
    for c, tenant, profile, *numbers in ask(home, _POD_SHARES):
        running, held = numbers[:2]
        compute, memory, weight = (
            Fraction(*pair) for pair in zip(numbers[2::2], numbers[3::2], strict=True)
        )
        parts = (running * compute, running * memory, running * weight, held * compute)
        found[c, tenant, profile] = [
            a + b for a, b in zip(found[c, tenant, profile], parts, strict=True)
        ]
    return {key: tuple(parts) for key, parts in found.items() if any(parts)}


def counted_weighted_hours(home: Home) -> Facts:
    """(cluster, tenant, class, profile, hour): weighted running seconds, which are billed."""
    found: defaultdict[tuple[Any, ...], Fraction] = defaultdict(Fraction)
    for *key, denominator, running, billable in ask(home, _WEIGHTED):
        assert running == billable, "the policy of these decisions bills what runs"
        found[tuple(key)] += Fraction(int(running), denominator)
    return {key: seconds for key, seconds in found.items() if seconds}


def counted_node_shares(home: Home) -> Facts:
    """(cluster, node, class, dimension, hour): running and held card-seconds."""
    return {
        tuple(key): (Fraction(int(running), denominator), Fraction(int(held), denominator))
        for *key, denominator, running, held in ask(home, _NODE_SHARES)
        if running or held
    }


def seconds_of(home: Home, clusters: Iterable[str], key: str) -> Facts:
    """Running and held seconds, and pods, in the pod-hours of some clusters, grouped by columns."""
    listed = ", ".join(f"'{cluster}'" for cluster in clusters)
    columns = key.count(",") + 1
    rows = ask(home, f"""
        select {key}, {_SECONDS}, count(distinct pod_uid)
        from marts.fct_pod_hours where cluster_id in ('', {listed or "''"}) group by {key}
    """)  # fmt: skip
    return {row[:columns]: row[columns:] for row in rows}


_POD_SHARES = f"""
    select cluster_id, tenant, mig_profile, {_SECONDS},
        compute_share_numerator, compute_share_denominator,
        memory_share_numerator, memory_share_denominator, weight_numerator, weight_denominator
    from marts.fct_pod_hours group by all
"""
_WEIGHTED = f"""
    select cluster_id, tenant, gpu_class, mig_profile, {_EPOCH}, weight_denominator,
        weighted_running_numerator, weighted_billable_numerator
    from marts.fct_mig_weighted_hours
"""
_NODE_SHARES = f"""
    select cluster_id, node_name, gpu_class, dimension, {_EPOCH}, share_denominator,
        running_share_seconds, held_share_seconds
    from marts.fct_node_share_hours
"""
