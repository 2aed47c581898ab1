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


# --- everything, for any estate ------------------------------------------------------------------

Facts = dict[tuple[Any, ...], Any]

FACTS = ("pod-hours", "allocations", "tenant-periods", "node-hours", "cluster-hours")


def true_facts(estate: Estate) -> dict[str, Facts]:
    """The truth about an estate in the grains that the pipeline counts, by name of the grain."""
    rows = plain_rows(estate)
    window = rows["window"][0]
    allocations = ledger(rows, "allocations", instants=False)
    nodes = ledger(rows, "node-hours", instants=False)
    return {
        "pod-hours": _true_pod_hours(allocations, window),
        "allocations": _true_device_seconds(allocations),
        "tenant-periods": _true_tenant_periods(ledger(rows, "tenant-periods", instants=False)),
        "node-hours": {
            (row["cluster_id"], row["node_name"], row["hour_started_at"]): (
                row["gpu_count_max_bound"],
                row["gpu_seconds_bound"],
            )
            for row in nodes
            if row["gpu_count_max_bound"]
        },
        "cluster-hours": _true_cluster_hours(nodes, ledger(rows, "cluster-hours", instants=False)),
    }


def _true_pod_hours(allocations: list[dict[str, Any]], window: dict[str, Any]) -> Facts:
    """(cluster, pod, hour): running and held seconds, times devices."""
    found: dict[tuple[Any, ...], tuple[int, int]] = {}
    for row in allocations:
        bound, until = row["bound_at"], row["ended_at"] or window["ended_at"]
        started = min(row["started_at"] or until, until)
        for hour in range(window["started_at"], window["ended_at"], 3600):
            running = _overlap(started, until, hour, min(hour + 3600, window["ended_at"]))
            held = _overlap(bound, started, hour, min(hour + 3600, window["ended_at"]))
            key = (row["cluster_id"], row["pod_uid"], hour)
            before = found.get(key, (0, 0))
            count = row["device_count"]
            found[key] = (before[0] + running * count, before[1] + held * count)
    return {key: pair for key, pair in found.items() if any(pair)}


def _overlap(started: int, ended: int, since: int, until: int) -> int:
    return max(0, min(ended, until) - max(started, since))


def _true_device_seconds(allocations: list[dict[str, Any]]) -> Facts:
    """(cluster, pod, resource; '' for claims): running and held seconds, times devices."""
    found: Facts = {}
    for row in allocations:
        key = (row["cluster_id"], row["pod_uid"], row["resource"])
        running, held = found.get(key, (0, 0))
        count = row["device_count"]
        running, held = running + row["running_seconds"] * count, held + row["held_seconds"] * count
        if running or held:
            found[key] = (running, held)
    return found


def _true_tenant_periods(rows: list[dict[str, Any]]) -> Facts:
    """(cluster, namespace, profile): seconds of running shares, by both dimensions and weighted."""
    found: Facts = {}
    for row in rows:
        key = (row["cluster_id"], row["namespace"], row["mig_profile"])
        parts = tuple(
            Fraction(row[f"{name}_seconds_numerator"], row[f"{name}_seconds_denominator"])
            for name in ("running_compute", "running_memory", "running_weighted", "held_compute")
        )
        found[key] = tuple(map(sum, zip(found.get(key, (0, 0, 0, 0)), parts, strict=True)))
    return {key: parts for key, parts in found.items() if any(parts)}


def _true_cluster_hours(nodes: list[dict[str, Any]], clusters: list[dict[str, Any]]) -> Facts:
    """(cluster, hour): active workers, most of them, Σ of nodes' maxima, simultaneous maximum.

    The last only where counting can know as much as the devices say, at every second of the hour.
    """
    sums: Counter[tuple[str, int]] = Counter()
    known: dict[tuple[str, int], bool] = {}
    for row in nodes:
        key = (row["cluster_id"], row["hour_started_at"])
        sums[key] += row["gpu_count_max_bound"]
        known[key] = known.get(key, True) and row["gpu_seconds"] == row["gpu_seconds_bound"]
    return {
        (row["cluster_id"], row["hour_started_at"]): (
            row["active_worker_nodes"],
            row["active_worker_nodes_max"],
            sums[row["cluster_id"], row["hour_started_at"]],
            row["simultaneous_max"]
            if known.get((row["cluster_id"], row["hour_started_at"]), True)
            else None,
        )
        for row in clusters
        if row["cluster_id"]
    }


def counted_facts(home: Home) -> dict[str, Facts]:
    """The same, as the pipeline counted it, for all clusters of a home."""
    return {
        "pod-hours": {
            (c, uid, hour): (int(running), int(held))
            for c, uid, hour, running, held in ask(home, _POD_HOURS)
            if running or held
        },
        "allocations": {
            (c, uid, resource): (int(running), int(held))
            for c, uid, resource, running, held in ask(home, _ALLOCATIONS)
            if running or held
        },
        "tenant-periods": _counted_tenant_periods(home),
        "node-hours": {
            (c, node, hour): (most, seconds)
            for c, node, hour, most, seconds in ask(home, _NODE_HOURS)
            if most
        },
        "cluster-hours": {
            (c, hour): tuple(numbers) for c, hour, *numbers in ask(home, _CLUSTER_HOURS)
        },
    }


def true_cards(estate: Estate) -> dict[tuple[Any, ...], tuple[int, int]]:
    """(cluster, node, hour): the most cards in use at one instant, really and by the bound."""
    return {
        (row["cluster_id"], row["node_name"], row["hour_started_at"]): (
            row["gpu_count_max"],
            row["gpu_count_max_bound"],
        )
        for row in ledger(plain_rows(estate), "node-hours", instants=False)
    }


def counted_cards(home: Home) -> dict[tuple[Any, ...], int | None]:
    """The same card by card, as counted; None where no evidence names every card."""
    statement = f"""
        select cluster_id, node_name, {_EPOCH}, gpu_count_max_by_devices from marts.fct_node_hours
    """
    return {(c, node, hour): most for c, node, hour, most in ask(home, statement)}


def of_clusters(facts: Facts, estate: Estate) -> Facts:
    ids = {cluster.cluster_id for cluster in estate.clusters}
    return {key: value for key, value in facts.items() if key[0] in ids}


def differences(expected: Facts, found: Facts) -> dict[tuple[Any, ...], tuple[Any, Any]]:
    """What is not the same, with both values; a None of the truth is not compared."""
    return {
        key: (expected.get(key), found.get(key))
        for key in sorted({*expected, *found})
        if not _same(expected.get(key), found.get(key))
    }


def _same(expected: Any, found: Any) -> bool:
    if expected is None or found is None:
        return expected is found
    return all(e is None or e == f for e, f in zip(expected, found, strict=True))


def _counted_tenant_periods(home: Home) -> Facts:
    found: Facts = {}
    for c, namespace, profile, *numbers in ask(home, _TENANT_PERIODS):
        running, held = (int(number) for number in numbers[:2])
        compute, memory, weight = (
            Fraction(*pair) for pair in zip(numbers[2::2], numbers[3::2], strict=True)
        )
        parts = (running * compute, running * memory, running * weight, held * compute)
        key = (c, namespace, profile)
        found[key] = tuple(map(sum, zip(found.get(key, (0, 0, 0, 0)), parts, strict=True)))
    return {key: parts for key, parts in found.items() if any(parts)}


_EPOCH = "epoch_us(hour_started_at) // 1000000"
_POD_HOURS = f"""
    select cluster_id, pod_uid, {_EPOCH}, sum(running_seconds * device_count),
        sum(held_seconds * device_count)
    from marts.fct_pod_hours group by all
"""
_ALLOCATIONS = """
    select cluster_id, pod_uid, case when resource like 'gpu.%/%' then '' else resource end,
        sum(running_seconds * device_count), sum(held_seconds * device_count)
    from marts.fct_pod_hours group by all
"""
_TENANT_PERIODS = """
    select cluster_id, tenant, mig_profile, sum(running_seconds * device_count),
        sum(held_seconds * device_count), compute_share_numerator, compute_share_denominator,
        memory_share_numerator, memory_share_denominator, weight_numerator, weight_denominator
    from marts.fct_pod_hours group by all
"""
_NODE_HOURS = f"""
    select cluster_id, node_name, {_EPOCH}, gpu_count_max, gpu_seconds from marts.fct_node_hours
"""
_CLUSTER_HOURS = f"""
    select cluster_id, {_EPOCH}, active_worker_nodes, active_worker_nodes_max, sum_of_node_max,
        simultaneous_max
    from marts.fct_cluster_hours where cluster_id <> ''
"""
