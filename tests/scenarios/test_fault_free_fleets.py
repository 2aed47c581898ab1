"""A fleet without faults has no finding, with busy GPUs, idle GPUs, or none.

Put here: findings of random fleets, measured by samples alone or by both sources; one idle cluster
calculated by hand, and one whose requests are lost.
Not here: comparing the facts of random fleets with the truth (`test_facts_equal_truth`).

`python -m tests.random_fleets --fleet SEED [--by-samples]` prints a failing fleet.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.decisions import Decisions
from domain.findings import Finding
from domain.interval import parse_instant
from fake_gpu.clock import epoch
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import Fleet
from fake_gpu.scenario.load import load_scenario
from quality.checks import record_dbt_tests
from quality.run import check_facts, check_period
from tests.decisions_by_hand import decided
from tests.fleets import fleet as read
from tests.random_fleets import fault_free_fleet
from tests.recorded_fleets import clusters_csv, record_fleet
from tests.scenarios import against_truth as truth
from warehouse.build import build_period
from warehouse.connection import connected
from warehouse.home import Home

PERIOD = BillingPeriod("2026-10")
AFTER = StoppedClock(parse_instant("2026-11-03T00:00:00Z", "test"))
FLEETS = 4
# By samples alone. The telemetry of an hour names pods whose last sample is in the hour before; the
# first partition of a card is busy for the others; a shared card names a pod that is not running
# yet.
BUSY_WITHOUT_A_POD = (1640259874, 7054, 17082)
# By both sources: a pod that starts 6 s before the end of measuring, before its first sample.
CUT_OFF_AT_THE_END = 17315
IDLE = "idle_nights_and_weekends"
STILL_OPEN = "month_not_over"

# The scheduler still counts the pod whose requests have another name in kube-state-metrics.
REQUESTS_LOST = """
name: requests_lost
story: A metric that was taken off the allow-list, or renamed, before anything was measured.
seed: 5
from: 2026-10-05T00:00:00Z
until: 2026-10-05T03:00:00Z
clusters:
  - name: lost
    nodes: [{name: a100, product: NVIDIA-A100-SXM4-80GB, cards: 4}]
    workloads:
      - name: train
        namespace: physics
        kind: Job
        requests: 2
        pods: [{created: +59m, started: +1h, ended: +2h}]
faults:
  - {fault: metric_renamed, metric: kube_pod_container_resource_requests, to: requests,
     from: +0h, until: +3h}
"""

# The scheduler's metric is not on the allow-list either. Only telemetry shows the pod.
ALL_REQUESTS_LOST = f"""{REQUESTS_LOST.replace("lost", "unnoticed")}
  - {{fault: metric_renamed, metric: kube_pod_resource_request, to: scheduled,
     from: +0h, until: +3h}}
"""


@dataclass(frozen=True)
class Checked:
    """The facts, and the findings of each fleet by name; 'fleet' has those without a cluster."""

    home: Home
    decisions: Decisions
    names: Mapping[str, str]  # by cluster
    findings: Mapping[str, list[Finding]]

    def findings_of(self, name: str) -> list[tuple[str, str, str]]:
        return [(f.code, f.where, f.seen) for f in self.findings.get(name, [])]


def fleets(first_seed: int, count: int) -> dict[str, Fleet]:
    """By seed and sources: fleets with an even seed are measured by samples alone."""
    return {
        f"{seed} {sources}": read(fault_free_fleet(seed, by_samples=sources == "samples"))
        for seed in range(first_seed, first_seed + count)
        for sources in ("both" if seed % 2 else "samples",)
    }


def checked(home: Home, fleets: Mapping[str, Fleet]) -> Checked:
    for name, fleet in fleets.items():
        record_fleet(home, fleet, watched=not name.endswith("samples"), telemetry=True)
    alone = [fleet.name for name, fleet in fleets.items() if name.endswith("samples")]
    clusters = clusters_csv(fleets.values(), alone=alone)["clusters.csv"]
    for name, fleet in fleets.items():
        if name.startswith("open"):
            ended = epoch(fleet.ended_at).strftime("%Y-%m-%dT%H:%M:%SZ")
            cluster_id = fleet.clusters[0].cluster_id
            clusters = "".join(
                line.replace(f",{ended},", ",,") if line.startswith(cluster_id) else line
                for line in clusters.splitlines(keepends=True)
            )
    decisions = decided({"clusters.csv": clusters})
    build_period(home, PERIOD, decisions, closed_periods=frozenset(), also=record_dbt_tests)
    names = {c.cluster_id: name for name, e in fleets.items() for c in e.clusters}
    found: dict[str, list[Finding]] = {}
    for finding in check_period(home, PERIOD, decisions, AFTER).findings:
        found.setdefault(names.get(finding.cluster_id, "fleet"), []).append(finding)
    return Checked(home, decisions, names, found)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    own = {
        f"{IDLE} samples": build_fleet(load_scenario(IDLE)),
        "lost samples": read(REQUESTS_LOST),
        "unnoticed samples": read(ALL_REQUESTS_LOST),
        "open samples": build_fleet(load_scenario(STILL_OPEN)),
    }
    drawn = fleets(3, FLEETS)
    for seed in (*BUSY_WITHOUT_A_POD, CUT_OFF_AT_THE_END):
        drawn |= fleets(seed, 1)
    return checked(Home.create(tmp_path_factory.mktemp("fleets") / "home"), drawn | own)


def test_a_fleet_without_faults_has_no_finding(few: Checked) -> None:
    faulty = ("lost samples", "unnoticed samples", "open samples")
    assert {name: few.findings_of(name) for name in few.findings if name not in faulty} == {}


def test_idle_nights_and_weekends_have_no_cost_and_full_coverage(few: Checked) -> None:
    """Two cards for four hours, then one for four and a half; the weekend has rows of coverage."""
    statement = """
        select pod_name, sum(running_seconds * device_count) from marts.fct_pod_hours
        where namespace = 'physics' and pod_name like '%noon%' or pod_name like 'morning%'
        group by all order by all
    """
    assert [int(seconds) for _, seconds in truth.ask(few.home, statement)] == [
        9 * 1800,
        2 * 4 * 3600,
    ]
    busiest = """
        select gpu_count_max, count(*) from marts.fct_node_hours
        where node_name like 'a100%' and hour_started_at < timestamptz '2026-10-05 00:00:00+00'
        group by all order by all
    """
    assert truth.ask(few.home, busiest) == [(0, 72 - 4 - 5), (1, 5), (2, 4)]


def test_a_lost_request_metric_of_a_pod_with_devices_is_a_gap(few: Checked) -> None:
    """From the scheduler's metric: the hour of the pod and the minute before; no idle hour."""
    found = {finding.code: finding for finding in few.findings["lost samples"]}
    assert set(found) >= {"GAP-001", "GAP-007"}
    assert found["GAP-001"].blocks
    assert "metric not allowed or renamed" in found["GAP-001"].seen
    assert 3600 <= found["GAP-001"].affected_seconds <= 3600 + 120
    assert "kube_pod_container_resource_requests" in found["GAP-007"].where


def test_requests_without_a_metric_are_a_gap_if_telemetry_names_a_pod(few: Checked) -> None:
    """The hour in which the pod ran; telemetry shows only the hour."""
    found = {finding.code: finding for finding in few.findings["unnoticed samples"]}
    assert set(found) >= {"GAP-001", "GAP-007"}
    assert found["GAP-001"].blocks
    assert "metric not allowed or renamed" in found["GAP-001"].seen
    assert 3600 <= found["GAP-001"].affected_seconds <= 2 * 3600
    assert "kube_pod_container_resource_requests" in found["GAP-007"].where


def test_an_open_month_has_no_missing_hour_after_its_last_ended_hour(few: Checked) -> None:
    """At 03:11 the hour until 03:00 can have been queried, no later one; at 04:11 one is due."""
    cluster_id = next(cluster for cluster, name in few.names.items() if name == "open samples")
    for now, missing in (("03:11", 0), ("04:10", 0), ("04:11", 3600)):
        clock = StoppedClock(parse_instant(f"2026-10-05T{now}:00Z"))
        with connected(few.home.warehouse_path, read_only=True) as connection:
            check_result = check_facts(connection, PERIOD, few.decisions, clock)
        own = [f for f in check_result.findings if f.cluster_id == cluster_id]
        assert sum(finding.affected_seconds for finding in own) == missing, (now, own)
        assert [finding.code for finding in own] == ["GAP-001"] * (missing // 3600)
    assert [f.code for f in few.findings["open samples"]] == ["GAP-001"]


def test_an_open_month_has_no_uncertainty_after_its_last_hour(few: Checked) -> None:
    """Two devices from 01:00 until 03:00; its start is between two scrapes, and no end is due."""
    statement = """
        select sum(running_seconds * device_count), max(uncertain) from (
            select running_seconds, device_count,
                sum(uncertainty_seconds) over (partition by pod_uid) as uncertain
            from marts.fct_pod_hours where pod_name like 'train%' and cluster_id = ?
        )
    """
    cluster_id = next(cluster for cluster, name in few.names.items() if name == "open samples")
    [(seconds, uncertain)] = truth.ask(few.home, statement.replace("?", f"'{cluster_id}'"))
    assert 2 * (7200 - 60) < int(seconds) <= 2 * 7200
    assert int(uncertain) <= 60


@pytest.mark.explore
def test_many_fleets_without_faults_have_no_finding(tmp_path: Path) -> None:
    count = int(os.environ.get("N", "60"))
    first = int(os.environ.get("SEED", "1000"))
    print(f"seeds {first} to {first + count - 1}: SEED={first} N={count}")
    many = checked(Home.create(tmp_path / "home"), fleets(first, count))
    assert {name: many.findings_of(name) for name in many.findings} == {}
