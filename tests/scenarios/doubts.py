"""Hours with a missing source: a fact is the truth, or within the stated uncertainty.

Put here: the possible error of an hour according to its pod-hours, and the comparison of every mart
of hours with the truth within it.
Not here: facts without uncertainty (`against_truth`).

An hour without a stated uncertainty is compared with `==`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.scenarios.against_truth import EXACT, by_cluster, counted_facts, of_fleet
from tests.scenarios.counted_facts import ask
from tests.scenarios.true_facts import HOUR, Facts, Truth
from warehouse.home import Home

_SAID = """
    select distinct cluster_id, node_name, tenant, pod_uid, resource, mig_profile, gpu_class,
        epoch_us(hour_started_at) // 1000000, device_count, epoch_us(segment_started_at),
        state, method, uncertainty_seconds,
        case when method in ('missing', 'disputed') then
            (epoch_us(segment_ended_at) - epoch_us(segment_started_at)) // 1000000 else 0 end
    from marts.fct_pod_hours
    where uncertainty_seconds > 0 or method in ('missing', 'disputed')
"""


@dataclass(frozen=True)
class Doubt:
    """The possible error of one pod in one hour, in device-seconds and devices."""

    cluster_id: str
    node_name: str
    tenant: str
    gpu_class: str
    profile: str
    hour: int
    devices: int
    device_seconds: int


def doubts(
    said: Iterable[tuple[Any, ...]], seen: set[tuple[Any, ...]], truth: Truth
) -> list[Doubt]:
    """The uncertainty that pod-hours state, and the pods without any trace.

    Uncertain seconds are in the hour of the end; the end may be in the next hour.
    """
    found = []
    for row in said:
        cluster, node, tenant, _, _, profile, gpu_class, hour, count, _, _, _, around, interval = (
            row
        )
        if cluster not in truth.cluster_ids:
            continue
        place = (cluster, node, tenant, gpu_class, profile)
        found.append(Doubt(*place, hour, count, count * (around + interval)))
        if around:
            found += [Doubt(*place, hour + by, count, count * around) for by in (-HOUR, HOUR)]
    found += [
        Doubt(row["cluster_id"], row["node_name"], row["namespace"], *kind, hour,
              row["device_count"], row["device_count"] * HOUR)
        for row, kind, hour in truth.pod_hours_of(lambda key: key not in seen)
    ]  # fmt: skip
    return found


GRAINS = ("tenant-hours", "weighted-hours", "node-class-hours", "node-hours", "cluster-hours")


def wrong_beyond_doubt(home: Home, truths: Mapping[str, Truth]) -> dict[tuple[str, str], Facts]:
    """By fleet and mart, the rows beyond their uncertainty: truth, fact, uncertainty."""
    counted = {grain: by_cluster(counted_facts(home, grain)) for grain in GRAINS}
    said = ask(home, _SAID)
    seen = set(ask(home, "select distinct cluster_id, pod_uid from marts.fct_pod_hours"))
    return {
        (name, grain): dict(list(found.items())[:3])
        for name, truth in truths.items()
        for grain, found in wrong_by_grain(
            truth,
            {grain: of_fleet(parts, truth) for grain, parts in counted.items()},
            doubts(said, seen, truth),
        )
        if found
    }


def wrong_by_grain(
    truth: Truth, counted: Mapping[str, Facts], said: Sequence[Doubt]
) -> Iterator[tuple[str, Facts]]:
    """Every mart of hours with its rows beyond their uncertainty."""
    nodes, clusters = counted["node-hours"], counted["cluster-hours"]
    exact = {key: row[-1] in EXACT for key, row in nodes.items()}
    by_tenant = _seconds(said, lambda d: (d.cluster_id, d.tenant, d.gpu_class, d.profile, d.hour))
    by_class = _seconds(said, lambda d: (d.cluster_id, d.node_name, d.gpu_class, d.profile, d.hour))
    by_node = _seconds(said, lambda d: (d.cluster_id, d.node_name, d.hour))
    on_node = _devices(said, lambda d: (d.cluster_id, d.node_name, d.hour))
    in_cluster = _devices(said, lambda d: (d.cluster_id, d.hour))

    def really(number: str) -> Facts:
        """A number of the nodes: by devices if the fact is by devices, otherwise by the bound."""
        ways = {True: number, False: f"{number}_bound"}
        return {key: row[ways[exact.get(key, True)]] for key, row in truth.nodes.items()}

    tenants = counted["tenant-hours"]
    yield "tenant-hours", _off(_place(truth.tenant_hours, 0), _place(tenants, 0), by_tenant)
    yield "weighted-hours", _off(truth.weighted_hours, counted["weighted-hours"], by_tenant)
    classes = counted["node-class-hours"]
    yield "node-class-hours", _off(_place(truth.node_class_hours, 1), _place(classes, 1), by_class)
    yield "node-hours' seconds", _off(really("gpu_seconds"), _place(nodes, 1), by_node)
    yield "node-hours' maxima", _off(really("gpu_count_max"), _place(nodes, 0), on_node)
    known = {key for key, row in clusters.items() if row[-1] in EXACT}
    together = {key: row["simultaneous_max"] for key, row in truth.clusters.items()}
    yield (
        "cluster-hours' maxima",
        _off(
            {key: most for key, most in together.items() if key in known or key not in clusters},
            {key: row[4] for key, row in clusters.items() if key in known},
            in_cluster,
        ),
    )


def _off(true: Facts, counted: Facts, allowed: Counter[Any]) -> Facts:
    return {
        key: (true.get(key, 0), counted.get(key, 0), allowed[key])
        for key in sorted({*true, *counted})
        if abs(true.get(key, 0) - counted.get(key, 0)) > allowed[key]
    }


def _place(facts: Facts, place: int) -> Facts:
    return {key: row[place] for key, row in facts.items()}


def _seconds(said: Iterable[Doubt], key_of: Callable[[Doubt], Any]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for doubt in said:
        found[key_of(doubt)] += doubt.device_seconds
    return found


def _devices(said: Iterable[Doubt], key_of: Callable[[Doubt], Any]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for doubt in said:
        found[key_of(doubt)] += doubt.devices
    return found
