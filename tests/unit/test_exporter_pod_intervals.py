"""Series over the lifetime of a pod equal the ones that an exporter makes of its documents."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from fake_gpu.exporters import pod_intervals, scheduler
from fake_gpu.exporters.kube_state_metrics.metric_families import families
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import Container, Fleet, PhaseChange, Run, SimulatedCluster
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.scenario.load import load_scenario
from tests.small_fleets import MIDNIGHT, fleet_of, quiet_cluster, quiet_fleet

Stretch = tuple[int, int | None, float]


def _joined(parts: list[Stretch]) -> list[Stretch]:
    """Adjoining equal parts joined; a series that is exposed twice counts once."""
    joined: list[Stretch] = []
    for from_at, until_at, value in sorted(set(parts), key=lambda part: part[0]):
        if joined and joined[-1][1] == from_at and joined[-1][2] == value:
            joined[-1] = (joined[-1][0], until_at, value)
        else:
            joined.append((from_at, until_at, value))
    return joined


def _restarting() -> Fleet:
    """A pod with an init container, a sidecar and a main container that fails once."""
    cluster = quiet_cluster()
    first = cluster.pods[0]
    start = MIDNIGHT - 1770
    containers = (
        Container("prep", "init", {"nvidia.com/gpu": 2}, (Run(start - 10, start - 5, 0, ""),)),
        Container("proxy", "sidecar", {"nvidia.com/gpu": 1}, (Run(start - 4, None),)),
        Container(
            "main",
            "main",
            {"nvidia.com/mig-1g.24gb.me": 1, "nvidia.com/mig-1g.24gb-me": 1},
            (Run(start, start + 500, 1, "Error"), Run(start + 520, start + 900, 0, "Completed")),
        ),
        Container("second", "main", {}, (Run(start + 1, start + 700, 0, "Completed"),)),
    )
    phases = (*first.phases[:2], PhaseChange(start + 900, "Succeeded"))
    ended = replace(
        first,
        containers=containers,
        phases=phases,
        finished_at=start + 900,
        deletion_requested_at=start + 950,
        gone_at=start + 980,
    )
    unreported = replace(
        ended, name="evicted", uid="e", end_reported=False,
        phases=(*first.phases[:2], PhaseChange(start + 900, "Failed", "Evicted")),
    )  # fmt: skip
    return fleet_of(replace(cluster, pods=(ended, unreported, *cluster.pods[1:])))


def _fleets() -> list[tuple[str, Fleet]]:
    return [
        ("quiet", quiet_fleet()),
        ("restarting", _restarting()),
        ("thin_line", build_fleet(load_scenario("thin_line"))),
    ]


def _from_documents(cluster: SimulatedCluster, name: str) -> dict[object, list[Stretch]]:
    known = {family.head.name: family for family in (*families(), *scheduler.FAMILIES)}
    found: dict[object, list[Stretch]] = defaultdict(list)
    for version in ObjectHistory(cluster).versions("Pod"):
        for line in known[name].lines(version.object):
            key = tuple(sorted(line.labels))
            found[key].append((version.from_at, version.until_at, line.value))
    return {labels: _joined(parts) for labels, parts in found.items()}


@pytest.mark.parametrize(("story", "fleet"), _fleets(), ids=lambda part: str(part)[:12])
@pytest.mark.parametrize("name", [*pod_intervals.KUBE_STATE_METRICS, *pod_intervals.SCHEDULER])
def test_series_of_a_lifetime_equal_those_of_its_documents(
    story: str, fleet: Fleet, name: str
) -> None:
    table = (
        pod_intervals.SCHEDULER
        if name in pod_intervals.SCHEDULER
        else pod_intervals.KUBE_STATE_METRICS
    )
    for cluster in fleet.clusters:
        found: dict[object, list[Stretch]] = defaultdict(list)
        for life in cluster.pods:
            for interval in pod_intervals.intervals_of(table, name, life):
                key = tuple(sorted(interval.labels))
                found[key].append((interval.from_at, interval.until_at, interval.value))
        lives = {labels: _joined(parts) for labels, parts in found.items()}
        assert lives == _from_documents(cluster, name), f"{story}: {name}"


def test_the_scenarios_have_every_metric_but_claims() -> None:
    """Without it, the comparison above would be empty for a metric."""
    shown = {
        name
        for _, fleet in _fleets()
        for cluster in fleet.clusters
        for life in cluster.pods
        for name in pod_intervals.KUBE_STATE_METRICS
        if any(pod_intervals.intervals_of(pod_intervals.KUBE_STATE_METRICS, name, life))
    }
    assert shown == set(pod_intervals.KUBE_STATE_METRICS)
