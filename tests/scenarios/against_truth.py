"""Compares the facts of the pipeline with the truth, row by row, without tolerance.

Put here: the comparison, mart by mart, of fleets whose evidence is in one home.
Not here: the two sides (`true_facts`, `counted_facts`).

One number depends on the evidence: for slices without evidence of their cards, the most cards in
use are the smallest number that the node's capacity permits. The truth has both numbers. Each row
says which one it has, and a node that never had slices must have the exact one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from fake_gpu.fleet.export import plain_rows
from fake_gpu.fleet.model import Fleet
from fake_gpu.truth.ledger import ledger
from tests.scenarios.counted_facts import (
    ask,
    counted,
    counted_node_shares,
    counted_pod_shares,
    counted_weighted_hours,
    seconds_of,
)
from tests.scenarios.true_facts import HOUR, Facts, Truth, added_up

__all__ = ["Truth", "ask", "counted", "counted_allocations", "true_allocations", "wrong_facts"]

EXACT = ("nothing", "by_devices")
Wrong = dict[tuple[str, str], dict[tuple[Any, ...], tuple[Any, Any]]]


def true_allocations(fleet: Fleet) -> dict[tuple[str, str, str], tuple[int, int]]:
    """(cluster, pod, resource): running and held seconds inside the scenario."""
    return {
        (row["cluster_id"], row["pod_uid"], row["resource"]): (
            row["running_seconds"],
            row["held_seconds"],
        )
        for row in ledger(plain_rows(fleet), "allocations")
    }


def counted_allocations(home: Any) -> dict[tuple[str, str, str], tuple[int, int]]:
    statement = """
        select cluster_id, pod_uid, resource, sum(running_seconds), sum(held_seconds)
        from marts.fct_pod_hours group by all
    """
    return {(c, uid, r): (int(run), int(held)) for c, uid, r, run, held in ask(home, statement)}


def wrong_facts(home: Any, watched: Mapping[str, Truth], others: Iterable[str] = ()) -> Wrong:
    """(fleet, grain): the rows that differ, with both values; a few of each.

    `others` are the clusters of the home with broken journals. The sums of the marts over all
    clusters contain the pod-hours of those clusters, as the pipeline calculated them.
    """
    others = tuple(others)
    wrong: Wrong = {}
    for grain in OF_CLUSTERS:
        parts = by_cluster(counted_facts(home, grain))
        for name, truth in watched.items():
            mine = of_fleet(parts, truth)
            _note(wrong, name, grain, _expected(grain, truth, mine), mine)
    for grain, true, columns in (
        ("tenant-periods", (t.tenant_periods for t in watched.values()),
         "tenant, gpu_class, mig_profile"),
        ("workload-periods", (t.workload_periods for t in watched.values()),
         "tenant, workload_kind, workload_name, gpu_class, mig_profile"),
    ):  # fmt: skip
        found = counted(home, grain)
        width = 2 if grain == "tenant-periods" else 3
        rest = {k: v[:width] for k, v in seconds_of(home, others, columns).items()}
        _note(wrong, "all", grain, added_up([*true, rest]), found)
    _note(wrong, "all", "fleet-hours", *_fleets(home, watched, others))
    return wrong


OF_CLUSTERS = ("pod-hours", "allocations", "tenant-hours", "node-class-hours", "node-hours",
               "cluster-hours", "pod-shares", "weighted-hours", "node-shares")  # fmt: skip
"""Every grain that has the cluster in its key."""


def counted_facts(home: Any, grain: str) -> Facts:
    """One grain of the pipeline's facts, for all clusters."""
    match grain:
        case "pod-shares":
            return counted_pod_shares(home)
        case "weighted-hours":
            return counted_weighted_hours(home)
        case "node-shares":
            return counted_node_shares(home)
        case _:
            return counted(home, grain)


def of_fleet(parts: Mapping[str, Facts], truth: Truth) -> Facts:
    """The facts of a fleet's clusters among facts by cluster."""
    return {k: v for cluster_id in truth.cluster_ids for k, v in parts.get(cluster_id, {}).items()}


def _expected(grain: str, truth: Truth, found: Facts) -> Facts:
    match grain:
        case "node-hours":
            return _true_nodes(truth, found)
        case "cluster-hours":
            return _true_clusters(truth, found)
        case _:
            facts: Facts = getattr(truth, grain.replace("-", "_"))
            return facts


def _true_nodes(truth: Truth, found: Facts) -> Facts:
    """(cluster, node, hour): most cards at once, seconds of cards, the bound, kind of evidence."""
    expected: Facts = {}
    for key, row in truth.nodes.items():
        bound, really = row["gpu_count_max_bound"], row["gpu_count_max"]
        if not really:
            continue
        how = found[key][-1] if key in found else None
        if key[:2] not in truth.sliced_nodes:
            how = "by_devices"
        seconds = row["gpu_seconds"] if how in EXACT else row["gpu_seconds_bound"]
        expected[key] = (really if how in EXACT else bound, seconds, bound, how)
    return expected


def _true_clusters(truth: Truth, found: Facts) -> Facts:
    """(cluster, hour): sums of its nodes' hours, with the truth's maximum where all cards are
    known.

    For slices without evidence, the simultaneous maximum is known if the bound equals the truth at
    every second; otherwise it is not compared.
    """
    expected: Facts = {}
    for key, row in truth.clusters.items():
        nodes = [n for k, n in truth.nodes.items() if (k[0], k[2]) == key]
        how = found[key][-1] if key in found else None
        is_exact = all(n["gpu_seconds"] == n["gpu_seconds_bound"] for n in nodes)
        numbers: list[Any] = [row["active_worker_nodes"], row["active_worker_nodes_max"]]
        if how in EXACT:
            numbers += [row["sum_of_node_max"]]
        elif is_exact:
            numbers += [sum(n["gpu_count_max_bound"] for n in nodes)]
        else:
            numbers += [None]
        numbers += [sum(n["gpu_count_max_bound"] for n in nodes)]
        numbers += [row["simultaneous_max"] if how in EXACT or is_exact else None]
        numbers += [row["gpu_seconds"] if how in EXACT or is_exact else None, how]
        if any(isinstance(number, int) and number for number in numbers):
            expected[key] = tuple(numbers)
    return expected


def _fleets(home: Any, watched: Mapping[str, Truth], others: Iterable[str]) -> tuple[Facts, Facts]:
    """(hour,): the sums of the clusters' hours, and the most cards of all clusters at one second.

    The maximum is found by sweeping over all cards. It is compared in hours in which every running
    card is known and every journal is complete.
    """
    found = counted(home, "fleet-hours")
    clusters = counted(home, "cluster-hours")
    by_hour: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for truth in watched.values():
        mine = {k: v for k, v in clusters.items() if k in truth.clusters}
        for key, numbers in _true_clusters(truth, mine).items():
            by_hour[key[1]].append(_without_holes(numbers, clusters[key]))
    unsure = set()
    for key, numbers in clusters.items():
        if key[0] in others:
            by_hour[key[1]].append(numbers)
            unsure.add(key[1])
    unsure |= {
        key[2]
        for truth in watched.values()
        for key, row in truth.nodes.items()
        if row["gpu_seconds"] != row["gpu_seconds_bound"]
    }
    most = _most_at_once(span for truth in watched.values() for span in truth.busy_cards())
    expected: Facts = {}
    for hour, rows in by_hour.items():
        active, active_max, sum_max, bound, _, seconds, _ = zip(*rows, strict=True)
        hows = {row[-1] for row in rows} - {"nothing"}
        expected[hour,] = (
            sum(active),
            sum(active) if active == active_max else None,
            sum(sum_max),
            sum(bound),
            None if hour in unsure else most.get(hour, 0),
            sum(seconds),
            max(hows) if hows else "nothing",
            found[hour,][-1] if (hour,) in found else None,
        )
    return expected, found


def _without_holes(numbers: tuple[Any, ...], counted_ones: tuple[Any, ...]) -> tuple[Any, ...]:
    """The sum for all clusters without the numbers that are not compared for a single cluster."""
    return tuple(c if n is None else n for n, c in zip(numbers, counted_ones, strict=True))


def _most_at_once(spans: Iterable[tuple[int, int]]) -> dict[int, int]:
    """By hour: the largest number of intervals that contain one second of it."""
    changes: Counter[int] = Counter()
    for began, ended in spans:
        changes[began] += 1
        changes[ended] -= 1
    hours = range(min(changes, default=0) // HOUR * HOUR, max(changes, default=0), HOUR)
    moments = sorted({*changes, *hours})
    level, most = 0, dict.fromkeys(hours, 0)
    for at in moments:
        level += changes[at]
        hour = at // HOUR * HOUR
        most[hour] = max(most.get(hour, 0), level)
    return most


def by_cluster(facts: Facts) -> dict[str, Facts]:
    parts: defaultdict[str, Facts] = defaultdict(dict)
    for key, value in facts.items():
        parts[key[0]][key] = value
    return parts


def _note(wrong: Wrong, name: str, grain: str, expected: Facts, found: Facts) -> None:
    if differing := differences(expected, found):
        wrong[name, grain] = dict(list(differing.items())[:3])


def differences(expected: Facts, found: Facts) -> dict[tuple[Any, ...], tuple[Any, Any]]:
    """The rows that differ, with both values; a None of the truth is not compared."""
    return {
        key: (expected.get(key), found.get(key))
        for key in sorted({*expected, *found})
        if not _same(expected.get(key), found.get(key))
    }


def _same(expected: Any, found: Any) -> bool:
    if expected is None or found is None:
        return expected is found
    if not isinstance(expected, tuple):
        return bool(expected == found)
    return all(e is None or e == f for e, f in zip(expected, found, strict=True))
