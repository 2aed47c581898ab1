"""Simulated months: whatever the sources do, an amount is right or a finding names hour and cause.

Some with every test run, any number on demand: `make simulate N=1000`. The seed is printed with the
command that replays it.

The expected side is the truth ledger, which shares no code with the pipeline, and a price list and
a rounding of its own below.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

import pytest

from domain.findings import Finding
from fake_gpu.estate.export import plain_rows
from fake_gpu.estate.model import Fault
from fake_gpu.truth.ledger import ledger
from tests.simulated import (
    ASKED_AGAIN_AT,
    CLEAN_EVERY,
    PERIOD,
    TROUBLES,
    Month,
    Trouble,
    live,
    trouble_of,
)

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("GPU_LEDGER_SEED", "20261014"))
TENANT_MONTHS = int(os.environ.get("GPU_LEDGER_TENANT_MONTHS", "160"))
CLUSTERS = -(-len(TROUBLES) * CLEAN_EVERY // (CLEAN_EVERY - 1))
"""Of each simulated month: every fault in one cluster, and the clean ones beside them."""
TENANTS_LIMIT = 34
"""Of one cluster: some thirty clusters of them are what a build takes in one go, in minutes."""

PRICES = {"NVIDIA-A100-SXM4-80GB": Decimal("2.50"), "NVIDIA-A100-SXM4-40GB": Decimal("1.80")}
NANO = Decimal("0.000000001")
CENT = Decimal("0.01")
TOO_SHORT = "REC-003"
NEAR = timedelta(hours=1)
"""How far from its fault a finding may lie: it names whole hours, and a pod's whole life."""


def months() -> Iterator[tuple[int, int]]:
    """(seed, tenants of each cluster) of each simulated month."""
    left = -(-TENANT_MONTHS // CLUSTERS)
    for number in range(-(-left // TENANTS_LIMIT)):
        yield SEED + number, min(left - number * TENANTS_LIMIT, TENANTS_LIMIT)


@pytest.fixture(scope="module", params=list(months()), ids=lambda month: f"seed-{month[0]}")
def month(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Month:
    seed, tenants = request.param
    print(f"replay: make simulate N={tenants * CLUSTERS} GPU_LEDGER_SEED={seed}")
    return live(seed, CLUSTERS, tenants, tmp_path_factory.mktemp("simulated") / "home")


def oracle(month: Month) -> dict[str, Decimal]:
    """Tenant → what is owed, to the cent; each class and shape is rounded to 10⁻⁹ first."""
    owed: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in ledger(plain_rows(month.running.estate), "tenant-periods"):
        weighted = Fraction(
            row["running_weighted_seconds_numerator"], row["running_weighted_seconds_denominator"]
        )
        exact = weighted * Fraction(PRICES[row["product"]]) / 3600
        nanos = Decimal(exact.numerator) / Decimal(exact.denominator)
        owed[row["namespace"]] += nanos.quantize(NANO, ROUND_HALF_EVEN)
    return {tenant: sum_.quantize(CENT, ROUND_HALF_EVEN) for tenant, sum_ in owed.items()}


def issued(month: Month) -> dict[str, Decimal]:
    record = month.opened.record
    documents = (record.sealed(issued.sha256) for issued in record.invoices(PERIOD.name))
    return {str(d["tenant"]): Decimal(str(d["total_billed_cost"])) for d in documents}


def cluster_of(month: Month) -> dict[str, str]:
    """Tenant → the one cluster that it is in."""
    estate = month.running.estate
    return {pod.namespace: c.cluster_id for c in estate.clusters for pod in c.pods}


def faults_of(month: Month) -> dict[str, list[Fault]]:
    found: defaultdict[str, list[Fault]] = defaultdict(list)
    for fault in month.running.estate.faults:
        found[fault.cluster_id].append(fault)
    return found


def news(month: Month) -> list[Finding]:
    return [finding for finding in month.judgement.findings if finding.code != TOO_SHORT]


def test_every_amount_is_right_or_flagged_with_its_hour_and_cause(month: Month) -> None:
    expected, found, homes = oracle(month), issued(month), cluster_of(month)
    flagged = {
        (finding.cluster_id, tenant)
        for finding in month.judgement.findings
        if finding.hour_started_at and finding.seen and finding.code != TOO_SHORT
        for tenant in [finding.tenant]
    }
    wrong = {
        tenant: (found.get(tenant, Decimal(0)), expected.get(tenant, Decimal(0)))
        for tenant in sorted({*expected, *found})
        if found.get(tenant, Decimal(0)) != expected.get(tenant, Decimal(0))
        and not {(homes[tenant], tenant), (homes[tenant], "")} & flagged
    }
    assert wrong == {}


def test_clean_months_are_right_to_the_cent_and_raise_nothing(month: Month) -> None:
    expected, found, homes, faulty = (
        oracle(month),
        issued(month),
        cluster_of(month),
        faults_of(month),
    )
    clean = [tenant for tenant, cluster in homes.items() if cluster not in faulty]
    assert len(clean) >= len(homes) // (CLEAN_EVERY + 1)
    assert {t: found.get(t, Decimal(0)) for t in clean} == {
        t: expected.get(t, Decimal(0)) for t in clean
    }
    assert [finding for finding in news(month) if finding.cluster_id not in faulty
            and homes.get(finding.tenant) not in faulty] == []  # fmt: skip


def test_every_flag_is_explained_by_a_fault_of_its_time_and_place(month: Month) -> None:
    faulty, homes = faults_of(month), cluster_of(month)
    unexplained = [
        (finding.code, finding.where, finding.seen)
        for finding in news(month)
        if not any(
            explains(fault, finding)
            for fault in faulty.get(finding.cluster_id or homes.get(finding.tenant, ""), ())
        )
    ]
    assert unexplained == []


def explains(fault: Fault, finding: Finding) -> bool:
    if not finding.hour_started_at or not finding.hour_ended_at:
        return True
    began, ended = instant(fault.from_at), instant(fault.until_at)
    if began <= ASKED_AGAIN_AT < ended:
        return True  # it was there when all hours were asked for the last time
    return finding.hour_started_at < ended + NEAR and began - NEAR < finding.hour_ended_at


def instant(second: int) -> datetime:
    return datetime.fromtimestamp(min(second, 2**32), UTC)


def test_every_fault_has_fired_and_was_caught(month: Month) -> None:
    """Caught: told by the words of its class, or healed, so that only right amounts are left."""
    uncounted = {trouble.kind for trouble in TROUBLES if not trouble.is_counted}
    faults = month.running.estate.faults
    month.running.ledger.require_fired(fault for fault in faults if fault.kind not in uncounted)
    troubles = troubles_of(month)
    said = {
        cluster: [f"{f.code} {f.seen}" for f in month.judgement.findings if f.cluster_id == cluster]
        for cluster in troubles
    }
    missed = [
        (trouble.kind, trouble.caught_as, said[cluster])
        for cluster, trouble in troubles.items()
        if trouble.caught_as and not any(trouble.caught_as in text for text in said[cluster])
    ]
    assert missed == []


def troubles_of(month: Month) -> dict[str, Trouble]:
    clusters = month.running.estate.clusters
    found = {
        cluster.cluster_id: trouble_of(month.running.estate.seed, number)
        for number, cluster in enumerate(clusters)
    }
    return {cluster: trouble for cluster, trouble in found.items() if trouble}
