"""Comparing what the pipeline counted with what really was, row by row, with no tolerance.

The expected side comes from the truth ledger alone (`fake_gpu.truth`), which shares no code with
the pipeline.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

from fake_gpu.estate.export import plain_rows
from fake_gpu.estate.model import Estate
from fake_gpu.truth.ledger import ledger
from warehouse.connection import connected
from warehouse.home import Home

Rows = list[tuple[Any, ...]]


def ask(home: Home, statement: str) -> Rows:
    with connected(home.warehouse_path, read_only=True) as connection:
        rows: Rows = connection.execute(statement).fetchall()
    return rows


def true_allocations(estate: Estate) -> dict[tuple[str, str, str], tuple[int, int]]:
    """(cluster, pod, resource): running and held seconds inside the scenario."""
    return {
        (row["cluster_id"], row["pod_uid"], row["resource"]): (
            row["running_seconds"],
            row["held_seconds"],
        )
        for row in ledger(plain_rows(estate), "allocations")
    }


def counted_allocations(home: Home) -> dict[tuple[str, str, str], tuple[int, int]]:
    statement = """
        select cluster_id, pod_uid, resource, sum(running_seconds), sum(held_seconds)
        from marts.fct_pod_hours group by all
    """
    return {(c, uid, r): (int(run), int(held)) for c, uid, r, run, held in ask(home, statement)}


def true_weighted_seconds(estate: Estate) -> dict[tuple[str, str, str], Fraction]:
    """(cluster, namespace, profile): running seconds weighted by max(compute, memory)."""
    found: Counter[tuple[str, str, str]] = Counter()
    for row in ledger(plain_rows(estate), "tenant-periods"):
        key = (row["cluster_id"], row["namespace"], row["mig_profile"])
        found[key] += Fraction(  # type: ignore[assignment]
            row["running_weighted_seconds_numerator"], row["running_weighted_seconds_denominator"]
        )
    return dict(found)  # type: ignore[arg-type]


def counted_weighted_seconds(home: Home) -> dict[tuple[str, str, str], Fraction]:
    statement = """
        select cluster_id, tenant, mig_profile, weight_numerator, weight_denominator,
            sum(billable_seconds * device_count)
        from marts.fct_pod_hours group by all
    """
    found: dict[tuple[str, str, str], Fraction] = {}
    for cluster, tenant, profile, numerator, denominator, seconds in ask(home, statement):
        if seconds:
            weighted = Fraction(numerator, denominator) * int(seconds)
            found[cluster, tenant, profile] = (
                found.get((cluster, tenant, profile), Fraction(0)) + weighted
            )
    return found


def true_node_hours(estate: Estate) -> dict[tuple[str, str, str], int]:
    """(cluster, node, hour): most cards in use at one instant, as far as counting can tell."""
    return {
        (row["cluster_id"], row["node_name"], row["hour_started_at"]): row["gpu_count_max_bound"]
        for row in ledger(plain_rows(estate), "node-hours")
    }


def counted_node_hours(home: Home) -> dict[tuple[str, str, str], int]:
    statement = """
        select cluster_id, node_name, strftime(hour_started_at, '%Y-%m-%dT%H:%M:%SZ'), gpu_count_max
        from marts.fct_node_hours
    """
    return {(c, node, hour): int(most) for c, node, hour, most in ask(home, statement)}


def true_cluster_hours(estate: Estate) -> dict[tuple[str, str], int]:
    """(cluster, hour): active worker nodes at the instant at which the hour begins."""
    return {
        (row["cluster_id"], row["hour_started_at"]): row["active_worker_nodes"]
        for row in ledger(plain_rows(estate), "cluster-hours")
        if row["cluster_id"]
    }


def counted_cluster_hours(home: Home) -> dict[tuple[str, str], int]:
    statement = """
        select cluster_id, strftime(hour_started_at, '%Y-%m-%dT%H:%M:%SZ'), active_worker_nodes
        from marts.fct_cluster_hours where cluster_id <> ''
    """
    return {(c, hour): int(count) for c, hour, count in ask(home, statement)}
