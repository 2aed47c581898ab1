"""Random fleets, calculated second by second; the models must give exactly the same.

The reference is naive on purpose: an array of seconds per pod. Many fleets are put into one build
as separate clusters, because a start of dbt takes longer than the calculation.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from fractions import Fraction
from typing import Any

import pytest

from domain.money import apportion
from tests.decisions_by_hand import decided, table
from tests.evidence_by_hand import (
    A100,
    GPU,
    HOUR,
    PERIOD,
    Cluster,
    Node,
    Pod,
    clusters_table,
    write,
)
from warehouse.build import BuildResult, build_period
from warehouse.connection import connected
from warehouse.home import Home

SEED = int(os.environ.get("SEED", "1"))
SEEDS_AND_COUNTS = [
    pytest.param((20261001, 50), id="same"),
    pytest.param(
        (SEED, max(int(os.environ.get("N", "1000")) // 20, 20)),
        id=f"seed-{SEED}",
        marks=pytest.mark.explore,
    ),
]
HOURS = 3
RATE_NANOS = 1_234_567_891


def random_cluster(number: int, rng: random.Random) -> Cluster:
    # Twelve pods of two devices fit on any node, so this test allocates nothing beyond capacity.
    labels = {-HOUR: A100 | {"nvidia.com/gpu.count": "24"}}
    nodes = [Node(f"n{i}", labels, {-HOUR: {GPU: 24}}) for i in range(rng.randint(1, 3))]
    pods = [random_pod(i, rng.choice(nodes).name, rng) for i in range(rng.randint(0, 12))]
    return Cluster(
        f"c{number:03}",
        pods,
        nodes,
        until=HOURS * HOUR,
        interval=rng.choice([15, 30, 60, 300]),
        offset=rng.randint(0, 14),
    )


def random_pod(number: int, node: str, rng: random.Random) -> Pod:
    # Boundaries first: hours, equal seconds, pods between two samples, and pods across the edges.
    edges = [0, 1, HOUR - 1, HOUR, HOUR + 1, 2 * HOUR, HOURS * HOUR - 1]
    start = rng.choice([rng.choice(edges), rng.randint(-2 * HOUR, HOURS * HOUR - 1)])
    length = rng.choice([1, 5, 20, 59, 60, 300, 3599, 3600, 3601, rng.randint(1, 3 * HOUR)])
    end = rng.choice([start + length, start + length, rng.choice(edges), None])
    if end is not None and end <= start:
        end = start + length
    held = rng.choice([0, 0, 1, 45, 400, 4000])
    return Pod(
        f"p{number}",
        None if rng.random() < 0.05 else start,
        end,
        node,
        namespace=rng.choice(["team-a", "team-b", "kube-system"]),
        requests={GPU: rng.randint(1, 2)},
        bound=start - held,
        lingers=rng.choice([0, 0, 100, 5000]),
    )


def running_seconds(pod: Pod, since: int, until: int) -> int:
    if pod.started is None:
        return 0
    ended = HOURS * HOUR if pod.ended is None else pod.ended
    return max(0, min(ended, until) - max(pod.started, since))


def held_seconds(pod: Pod, since: int, until: int) -> int:
    assert pod.bound is not None
    ended = HOURS * HOUR if pod.ended is None else pod.ended
    started = ended if pod.started is None else pod.started
    return max(0, min(started, until) - max(pod.bound, since))


@pytest.fixture(scope="module", params=SEEDS_AND_COUNTS)
def fleets(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[Cluster], Home, BuildResult]:
    seed, count = request.param
    rng = random.Random(seed)
    clusters = [random_cluster(number, rng) for number in range(count)]
    home = Home.create(tmp_path_factory.mktemp("fleets"))
    write(home, *clusters)
    rates = table("rates", f",A100-40GB,whole,EUR,{RATE_NANOS / 10**9},2026-01-01,,|,")
    decisions = decided(clusters_table(*clusters), rates)
    return clusters, home, build_period(home, PERIOD, decisions, closed_periods=frozenset())


Fleets = tuple[list[Cluster], Home, BuildResult]


def query(home: Home, sql: str) -> list[tuple[Any, ...]]:
    with connected(home.warehouse_path, read_only=True) as connection:
        return connection.execute(sql).fetchall()


def test_every_test_of_dbt_passes(fleets: Fleets) -> None:
    assert fleets[2].failed_tests == []


def test_seconds_of_every_pod_and_hour_are_exact(fleets: Fleets) -> None:
    clusters, home, _ = fleets
    expected = {}
    for cluster in clusters:
        for pod in cluster.pods:
            for hour in range(HOURS):
                since, until = hour * HOUR, (hour + 1) * HOUR
                pair = running_seconds(pod, since, until), held_seconds(pod, since, until)
                if any(pair):
                    expected[cluster.cluster_id, pod.uid, hour] = pair
    found = {
        (cluster, pod, hour): (running, held)
        for cluster, pod, hour, running, held in query(
            home,
            "select cluster_id, pod_uid, hour(hour_started_at), sum(running_seconds)::bigint, "
            "sum(held_seconds)::bigint from marts.fct_pod_hours group by all",
        )
    }
    assert found == expected


def test_without_faults_nothing_is_disputed_missing_or_uncertain(fleets: Fleets) -> None:
    _, home, _ = fleets
    assert (
        query(
            home,
            "select cluster_id, pod_uid, method, method_reason, segment_started_at, "
            "segment_ended_at from marts.fct_pod_hours "
            "where method not in ('confirmed', 'lifecycle_only') or uncertainty_seconds > 0 "
            "or (method = 'lifecycle_only' "
            "and method_reason not in ('too_short', 'window_edge', 'held'))",
        )
        == []
    )


def node_levels(cluster: Cluster, node: str) -> list[int]:
    levels = [0] * (HOURS * HOUR)
    for pod in cluster.pods:
        if pod.node == node and pod.started is not None:
            ended = HOURS * HOUR if pod.ended is None else min(pod.ended, HOURS * HOUR)
            for second in range(max(pod.started, 0), ended):
                levels[second] += pod.requests[GPU]
    return levels


def test_node_hours_are_the_maximum_over_every_second(fleets: Fleets) -> None:
    clusters, home, _ = fleets
    expected = {}
    for cluster in clusters:
        for node in cluster.nodes:
            levels = node_levels(cluster, node.name)
            for hour in range(HOURS):
                seconds = levels[hour * HOUR : (hour + 1) * HOUR]
                expected[cluster.cluster_id, node.name, hour] = (24, max(seconds), sum(seconds))
    found = {
        (cluster, node, hour): (capacity, most, seconds)
        for cluster, node, hour, capacity, most, seconds in query(
            home,
            "select cluster_id, node_name, hour(hour_started_at), gpu_capacity, gpu_count_max, "
            "gpu_seconds from marts.fct_node_hours",
        )
    }
    assert found == expected


def test_cluster_hours_have_both_maxima(fleets: Fleets) -> None:
    clusters, home, _ = fleets
    expected = {}
    for cluster in clusters:
        by_node = [node_levels(cluster, node.name) for node in cluster.nodes]
        together = [sum(levels) for levels in zip(*by_node, strict=True)]
        for hour in range(HOURS):
            part = slice(hour * HOUR, (hour + 1) * HOUR)
            expected[cluster.cluster_id, hour] = (
                sum(max(levels[part]) for levels in by_node),
                max(together[part]),
            )
    found = {
        (cluster, hour): (node_sum, simultaneous)
        for cluster, hour, node_sum, simultaneous in query(
            home,
            "select cluster_id, hour(hour_started_at), sum_of_node_max, simultaneous_max "
            "from marts.fct_cluster_hours",
        )
    }
    assert found == expected


def test_the_fleet_has_the_most_of_all_clusters_at_one_second(fleets: Fleets) -> None:
    clusters, home, _ = fleets
    each = [node_levels(cluster, node.name) for cluster in clusters for node in cluster.nodes]
    together = [sum(levels) for levels in zip(*each, strict=True)]
    expected = {}
    for hour in range(HOURS):
        part = slice(hour * HOUR, (hour + 1) * HOUR)
        maxima = [max(levels[part]) for levels in each]
        expected[hour] = (sum(maxima), max(together[part]), sum(together[part]), "by_devices")
    found = {
        hour: tuple(numbers)
        for hour, *numbers in query(
            home,
            "select hour(hour_started_at), sum_of_node_max, simultaneous_max, gpu_seconds, "
            "how_known from marts.fct_fleet_hours",
        )
    }
    assert found == expected


def half_even(value: Fraction) -> int:
    return round(value)  # Python rounds halves to even


def test_charges_are_exact_and_apportioned_completely(fleets: Fleets) -> None:
    clusters, home, _ = fleets
    seconds: defaultdict[tuple[str, str], int] = defaultdict(int)
    for cluster in clusters:
        for pod in cluster.pods:
            used = running_seconds(pod, 0, HOURS * HOUR) * pod.requests[GPU]
            seconds[pod.namespace, cluster.cluster_id] += used
    expected = {
        key: half_even(Fraction(used * RATE_NANOS, 3600)) for key, used in seconds.items() if used
    }
    found = query(home, "select tenant, cluster_id, cost_nanos from marts.fct_charges")
    assert {(t, c): int(nanos) for t, c, nanos in found} == expected


def test_a_charge_is_apportioned_as_in_python(fleets: Fleets) -> None:
    _, home, _ = fleets
    parts: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    found: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for tenant, cluster, key, seconds, nanos in query(
        home,
        "select tenant, cluster_id, concat_ws('/', pod_uid, resource, "
        "lpad(epoch_us(segment_started_at)::varchar, 20, '0'), "
        "lpad(epoch_us(segment_ended_at)::varchar, 20, '0'), state, method_reason), "
        "billable_seconds * device_count, cost_nanos from marts.fct_pod_hours",
    ):
        parts[tenant, cluster][key] = seconds
        found[tenant, cluster][key] = int(nanos)
    totals = {key: sum(nanos.values()) for key, nanos in found.items()}
    assert found == {key: apportion(totals[key], weights) for key, weights in parts.items()}
