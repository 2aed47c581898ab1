"""Random nodes with MIG, sharing, unhealthy cards and re-partitions, calculated second by second.

The reference places instances by trying (`fake_gpu.truth`, which shares no code with the ledger)
and adds up shares as fractions.
"""

from __future__ import annotations

import csv
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from fake_gpu.truth.fewest_cards import cuts_of, fewest_mig_cards
from tests.decisions_by_hand import decided
from tests.evidence_by_hand import HOUR, PERIOD, Cluster, Node, Pod, clusters_table, write
from warehouse.build import BuildResult, build_period
from warehouse.connection import connected
from warehouse.home import Home

SEED = int(os.environ.get("SEED", "1"))
SEEDS_AND_COUNTS = [
    pytest.param((20261001, 40), id="same"),
    pytest.param(
        (SEED, max(int(os.environ.get("N", "1000")) // 20, 20)),
        id=f"seed-{SEED}",
        marks=pytest.mark.explore,
    ),
]
HOURS = 2
END = HOURS * HOUR

GPU = "nvidia.com/gpu"
PRODUCT = "NVIDIA-A100-SXM4-40GB"
CARD_SLOTS = {"1g.5gb": (1, 1), "2g.10gb": (2, 2), "3g.20gb": (3, 4), "4g.20gb": (4, 4)}
LAYOUTS: list[Counter[str]] = [
    Counter({"1g.5gb": 7}),
    Counter({"3g.20gb": 2}),
    Counter({"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}),
    Counter({"4g.20gb": 1, "2g.10gb": 1, "1g.5gb": 1}),
    Counter({"2g.10gb": 3}),
]
ROWS = [
    {
        "mig_family": row["mig_family"],
        "mig_profile": row["profile"],
        "max_count": row["max_count"],
        "placement_size": row["placement_size"],
        "placement_starts": row["placement_starts"],
        "compute_slots": row["compute_slots"],
    }
    for row in csv.DictReader(
        (Path(__file__).parents[2] / "fake_gpu/fleet/mig_profiles.csv").open()
    )
]
CUTS = cuts_of(list(ROWS), "a100-40")


@dataclass
class Layout:
    """The devices of a node from one second on: whole cards, MIG cards, replicas per card."""

    whole: int
    mig: list[Counter[str]]
    replicas: int = 1
    unhealthy: dict[str, int] = field(default_factory=dict)

    @property
    def cards(self) -> int:
        return self.whole + len(self.mig)

    @property
    def capacity(self) -> dict[str, int]:
        slices: Counter[str] = Counter()
        for card in self.mig:
            slices += card
        counts = {f"nvidia.com/mig-{profile}": n for profile, n in sorted(slices.items())}
        return {GPU: self.whole * self.replicas, **counts}

    @property
    def labels(self) -> dict[str, str]:
        shared = "-SHARED" if self.replicas > 1 else ""
        labels = {
            "nvidia.com/gpu.product": PRODUCT + shared,
            "nvidia.com/gpu.count": str(self.cards),
        }
        if self.replicas > 1:
            labels["nvidia.com/gpu.replicas"] = str(self.replicas)
        if self.mig:
            labels["nvidia.com/mig.strategy"] = "mixed"
        return labels

    def share(self, resource: str, dimension: str) -> Fraction:
        if resource == GPU:
            return Fraction(1, self.replicas)
        compute, memory = CARD_SLOTS[resource.removeprefix("nvidia.com/mig-")]
        return Fraction(compute, 7) if dimension == "compute" else Fraction(memory, 8)


@dataclass
class Fleet:
    cluster: Cluster
    layouts: dict[int, Layout]
    shares: dict[str, dict[str, Fraction]]  # by pod and dimension, fixed at binding

    def layout(self, second: int) -> Layout:
        return self.layouts[max(s for s in self.layouts if s <= second)]


def random_fleet(number: int, rng: random.Random) -> Fleet:
    whole, replicas = rng.randint(0, 3), rng.choice([1, 1, 4])
    mig = [] if replicas > 1 else [rng.choice(LAYOUTS) for _ in range(rng.randint(0, 3))]
    layouts = {-HOUR: Layout(max(whole, 1 - len(mig)), mig, replicas)}
    change = rng.choice([None, HOUR, rng.randint(1, END - 1)])
    if change is not None:
        first = layouts[-HOUR]
        new_mig = [rng.choice(LAYOUTS) for _ in first.mig]
        layouts[change] = Layout(first.whole, new_mig, first.replicas)
    for second, layout in list(layouts.items()):
        if rng.random() < 0.4:
            resource = rng.choice([r for r, n in layout.capacity.items() if n] or [GPU])
            sick = rng.randint(0, layout.capacity[resource])
            start = rng.randint(max(second, 0), END - 1)
            layouts[start] = Layout(layout.whole, layout.mig, layout.replicas, {resource: sick})
    # A later layout keeps the changes of earlier ones.
    pods = random_pods(layouts, rng)
    cluster = Cluster(f"m{number:03}", pods, [as_node(layouts)], until=END)
    shares = {
        pod.uid: {
            dimension: sum(
                (
                    at(layouts, pod.bound or 0).share(resource, dimension) * count
                    for resource, count in pod.requests.items()
                ),
                Fraction(0),
            )
            for dimension in ("compute", "memory")
        }
        for pod in pods
    }
    return Fleet(cluster, layouts, shares)


def at(layouts: dict[int, Layout], second: int) -> Layout:
    return layouts[max(s for s in layouts if s <= second)]


def as_node(layouts: dict[int, Layout]) -> Node:
    return Node(
        "n1",
        labels={second: layout.labels for second, layout in layouts.items()},
        capacity={second: layout.capacity for second, layout in layouts.items()},
        allocatable={
            second: {r: n - layout.unhealthy.get(r, 0) for r, n in layout.capacity.items()}
            for second, layout in layouts.items()
        },
    )


def random_pods(layouts: dict[int, Layout], rng: random.Random) -> list[Pod]:
    """Pods that fit into every layout at every second of their lifetime."""
    taken: dict[str, list[int]] = {}
    pods: list[Pod] = []
    for number in range(rng.randint(0, 14)):
        bound = rng.randint(0, END - 2)
        started = min(bound + rng.choice([0, 0, 30]), END - 1)
        ended = min(END, started + rng.choice([1, 60, 600, 3600, rng.randint(1, END)]))
        layout = at(layouts, bound)
        resource = rng.choice([r for r, n in layout.capacity.items() if n] or [GPU])
        counts = taken.setdefault(resource, [0] * END)
        room = all(
            at(layouts, s).capacity.get(resource, 0) > counts[s]
            for s in {bound, ended - 1, *(c for c in layouts if bound <= c < ended)}
        ) and all(
            counts[s] < at(layouts, s).capacity.get(resource, 0) for s in range(bound, ended, 7)
        )
        if not room or max(counts[bound:ended]) >= min(
            at(layouts, s).capacity.get(resource, 0)
            for s in {bound, *(c for c in layouts if bound <= c < ended)}
        ):
            continue
        for second in range(bound, ended):
            counts[second] += 1
        pods.append(Pod(f"p{number}", started, ended, "n1", requests={resource: 1}, bound=bound))
    return pods


@pytest.fixture(scope="module", params=SEEDS_AND_COUNTS)
def fleets(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[Fleet], Home, BuildResult]:
    seed, count = request.param
    rng = random.Random(seed)
    fleets = [random_fleet(number, rng) for number in range(count)]
    home = Home.create(tmp_path_factory.mktemp("fleets"))
    clusters = [fleet.cluster for fleet in fleets]
    write(home, *clusters)
    result = build_period(
        home, PERIOD, decided(clusters_table(*clusters)), closed_periods=frozenset()
    )
    return fleets, home, result


Fleets = tuple[list[Fleet], Home, BuildResult]


def query(home: Home, sql: str) -> list[tuple[Any, ...]]:
    with connected(home.warehouse_path, read_only=True) as connection:
        return connection.execute(sql).fetchall()


def test_every_test_of_dbt_passes(fleets: Fleets) -> None:
    assert [(test.name, test.status) for test in fleets[2].failed_tests] == []


def changes(fleet: Fleet) -> list[int]:
    """The seconds at which the fleet changes; between two of them all seconds are equal."""
    edges = {0, *range(0, END, HOUR), *(s for s in fleet.layouts if s >= 0)}
    for pod in fleet.cluster.pods:
        assert pod.bound is not None
        assert pod.started is not None
        assert pod.ended is not None
        edges |= {pod.bound, pod.started, pod.ended}
    return sorted(edge for edge in edges if edge < END)


def running_at(fleet: Fleet, second: int) -> list[Pod]:
    return [p for p in fleet.cluster.pods if (p.started or 0) <= second < (p.ended or 0)]


def fewest_at(fleet: Fleet, second: int) -> int:
    layout = fleet.layout(second)
    held: Counter[str] = Counter()
    for pod in running_at(fleet, second):
        held += Counter(pod.requests)
    plain = -(-held[GPU] // layout.replicas)
    slices = {r.removeprefix("nvidia.com/mig-"): n for r, n in held.items() if r != GPU}
    capacity = {
        r.removeprefix("nvidia.com/mig-"): n for r, n in layout.capacity.items() if r != GPU
    }
    return plain + fewest_mig_cards(
        CUTS, tuple(sorted(capacity.items())), tuple(sorted(slices.items())), len(layout.mig), 7
    )


def test_node_hours_are_the_fewest_cards_at_the_busiest_second(fleets: Fleets) -> None:
    expected: dict[tuple[str, int], tuple[int, int, int]] = {}
    for fleet in fleets[0]:
        edges = changes(fleet)
        for second, until in zip(edges, [*edges[1:], END], strict=True):
            key = (fleet.cluster.cluster_id, second // HOUR)
            most, seconds, cards = expected.get(key, (0, 0, 0))
            fewest = fewest_at(fleet, second)
            expected[key] = (
                max(most, fewest),
                seconds + fewest * (until - second),
                max(cards, fleet.layout(second).cards),
            )
    found = {
        (cluster, hour): (most, seconds, capacity)
        for cluster, hour, most, seconds, capacity in query(
            fleets[1],
            "select cluster_id, hour(hour_started_at), gpu_count_max, gpu_seconds, gpu_capacity "
            "from marts.fct_node_hours",
        )
    }
    assert found == expected


def test_every_term_of_conservation_is_exact(fleets: Fleets) -> None:
    expected: dict[tuple[str, int, str], list[Fraction]] = {}
    for fleet in fleets[0]:
        edges = changes(fleet)
        for second, until in zip(edges, [*edges[1:], END], strict=True):
            for dimension in ("compute", "memory"):
                key = (fleet.cluster.cluster_id, second // HOUR, dimension)
                terms = terms_at(fleet, second, dimension)
                before = expected.setdefault(key, [Fraction(0)] * len(terms))
                for place, term in enumerate(terms):
                    before[place] += term * (until - second)
    found = {
        (cluster, hour, dimension): [Fraction(int(term), unit) for term in terms]
        for cluster, hour, dimension, unit, *terms in query(
            fleets[1],
            "select cluster_id, hour(hour_started_at), dimension, share_denominator, "
            "installed_share_seconds, running_share_seconds, held_share_seconds, "
            "unhealthy_share_seconds, idle_share_seconds, overallocated_share_seconds, "
            "unsold_share_seconds + withdrawn_share_seconds from marts.fct_node_share_hours",
        )
    }
    assert found == expected


def terms_at(fleet: Fleet, second: int, dimension: str) -> list[Fraction]:
    layout = fleet.layout(second)
    zero = Fraction(0)
    running = sum((fleet.shares[p.uid][dimension] for p in running_at(fleet, second)), zero)
    holding = [p for p in fleet.cluster.pods if (p.bound or 0) <= second < (p.started or 0)]
    held = sum((fleet.shares[p.uid][dimension] for p in holding), zero)
    allocated: Counter[str] = Counter()
    for pod in [*running_at(fleet, second), *holding]:
        allocated += Counter(pod.requests)
    offered = sum((layout.share(r, dimension) * n for r, n in layout.capacity.items()), zero)
    unhealthy = sum(
        (
            layout.share(r, dimension) * max(0, min(sick, layout.capacity[r] - allocated[r]))
            for r, sick in layout.unhealthy.items()
        ),
        zero,
    )
    idle = offered - running - held - unhealthy
    return [
        Fraction(layout.cards),
        running,
        held,
        unhealthy,
        max(idle, zero),
        max(-idle, zero),
        layout.cards - offered,
    ]
