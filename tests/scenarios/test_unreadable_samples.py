"""Samples that cannot be used: a renamed label, values that are not counts.

Put here: the result of these faults of the simulated fleet, with a journal and without one.
Not here: the other classes of gap (`test_simulated_months`), or their texts (`tests/unit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.findings import Finding
from fake_gpu.faults.ledger import FaultLedger
from fake_gpu.fleet.model import Fault, Fleet, SimulatedCluster
from quality.causes import GapCause
from quality.run import check_period
from tests.decisions_by_hand import decided
from tests.recorded_fleets import clusters_csv, record_fleet
from tests.scenarios import against_truth as truth
from tests.small_fleets import CLUSTER_ID, HOUR, MIDNIGHT, fleet_of, quiet_cluster, renamed
from warehouse.build import build_period
from warehouse.home import Home

PERIOD = BillingPeriod("2026-10")
WITHOUT_JOURNAL = "22222222-aaaa-4bbb-8ccc-000000000002"
REQUESTS = "kube_pod_container_resource_requests"
FAULTS = (
    ("label_renamed", 600, 1200, {"metric": REQUESTS}),
    ("odd_values", HOUR + 600, HOUR + 900, {"values": ("NaN",)}),
)
"""Ten minutes of the first hour, and five of the second, with a scrape each half minute."""


@dataclass(frozen=True)
class Checked:
    home: Home
    watched: Fleet
    fired: Sequence[FaultLedger]
    findings: Sequence[Finding]
    failed_tests: Sequence[str]

    def gaps(self, cluster_id: str) -> list[tuple[str, str]]:
        """The code and the cause of each gap of the samples, in order of time."""
        found = [f for f in self.findings if f.cluster_id == cluster_id and f.code[:3] == "GAP"]
        return [
            (f.code, cause)
            for f in sorted(found, key=lambda f: f.where)
            for cause in GapCause
            if f"thanos: {cause}" in f.seen
        ]


def two_hours(cluster: SimulatedCluster) -> Fleet:
    faults = tuple(
        Fault(f"{kind}#1", kind, cluster.cluster_id, MIDNIGHT + since, MIDNIGHT + until, 7, more)
        for kind, since, until, more in FAULTS
    )
    return replace(fleet_of(cluster), ended_at=MIDNIGHT + 2 * HOUR, faults=faults)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    home = Home.create(tmp_path_factory.mktemp("unreadable") / "home")
    watched = two_hours(quiet_cluster())
    alone = two_hours(renamed(quiet_cluster(), WITHOUT_JOURNAL, "beta"))
    fired = [record_fleet(home, watched), record_fleet(home, alone, watched=False)]
    both = clusters_csv([watched])["clusters.csv"]
    samples = clusters_csv([alone], "samples")["clusters.csv"].splitlines()[1]
    decisions = decided({"clusters.csv": f"{both}{samples}\n"})
    build = build_period(home, PERIOD, decisions, closed_periods=frozenset())
    check_result = check_period(home, PERIOD, decisions, StoppedClock(PERIOD.ended_at))
    failed = [test.name for test in build.failed_tests]
    return Checked(home, watched, fired, check_result.findings, failed)


def test_each_fault_has_fired(checked: Checked) -> None:
    for ledger in checked.fired:
        assert all(ledger.count(f"{kind}#1") for kind, *_ in FAULTS)


def test_every_sample_is_counted_or_refused(checked: Checked) -> None:
    assert checked.failed_tests == []


def test_unreadable_samples_covered_by_the_journal_change_no_second(
    checked: Checked,
) -> None:
    assert checked.gaps(CLUSTER_ID) == [
        ("GAP-002", GapCause.LABEL_RENAMED),
        ("GAP-002", GapCause.VALUE_REFUSED),
    ]
    counted = truth.counted_allocations(checked.home)
    own = {key: value for key, value in counted.items() if key[0] == CLUSTER_ID}
    assert own == truth.true_allocations(checked.watched)


def test_unreadable_samples_without_a_journal_block_their_seconds(checked: Checked) -> None:
    assert checked.gaps(WITHOUT_JOURNAL) == [
        ("GAP-001", GapCause.LABEL_RENAMED),
        ("GAP-001", GapCause.VALUE_REFUSED),
    ]
    blocking = [f for f in checked.findings if f.code == "GAP-001"]
    assert all(f.blocks for f in blocking)
    # Scrapes are half a minute apart, and the last valid one counts until the next.
    lasted = sorted(f.affected_seconds for f in blocking)
    assert [seconds // 30 * 30 for seconds in lasted] == [300, 600]


def test_the_finding_names_the_label_of_the_samples(checked: Checked) -> None:
    [seen] = [f.seen for f in checked.findings if GapCause.LABEL_RENAMED in f.seen and not f.blocks]
    assert f"{REQUESTS} without the label uid, with cluster, clusterID, container" in seen
    assert ", pod_uid, resource" in seen
