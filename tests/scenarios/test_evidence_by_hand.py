"""Scenarios about evidence of devices and pods, with expectations that a person can calculate.

Put here: `dcgm_renamed`, `amd_partitions`, `shared_devices`, and by samples alone
`single_pods_lost`, counted in one build.
Not here: that every library scenario equals the truth ledger (`test_facts_equal_truth`).

    A100-40GB      1.80 an hour, a 1g.5gb 1/7 of it
    MI300X         8.00 an hour, a cpx partition 1/8 of it: 1.00
"""

from __future__ import annotations

from typing import Any

import pytest

from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.interval import parse_instant
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import load_scenario
from quality.run import CheckResult, check_period
from tests.decisions_by_hand import decided, table
from tests.recorded_fleets import clusters_csv, record_fleet
from tests.scenarios.against_truth import ask
from warehouse.build import build_period
from warehouse.home import Home

pytestmark = pytest.mark.deep

PERIOD = BillingPeriod("2026-10")
SCENARIOS = ("dcgm_renamed", "amd_partitions", "shared_devices", "single_pods_lost")
ALONE = ("single_pods_lost",)
CENT = 10_000_000  # nanos
OF_LOSSY = "select cluster_id from marts.fct_node_hours where node_name = 'lossy'"

Rows = list[tuple[Any, ...]]


RATES = [
    f",{gpu_class},whole,USD,{rate},2026-01-01T00:00:00Z,,agreed,Ada,2026-09-15,"
    for gpu_class, rate in (("A100-40GB", "1.80"), ("MI300X", "8.00"))
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home.create(tmp_path_factory.mktemp("by_hand") / "home")


@pytest.fixture(scope="module")
def checked(home: Home) -> CheckResult:
    fleets = [build_fleet(load_scenario(name)) for name in SCENARIOS]
    for fleet in fleets:
        record_fleet(home, fleet, watched=fleet.name not in ALONE, telemetry=True)
    decisions = decided(clusters_csv(fleets, alone=ALONE), table("rates", *RATES))
    build = build_period(home, PERIOD, decisions, closed_periods=frozenset())
    assert [test.name for test in build.failed_tests] == []
    return check_period(
        home, PERIOD, decisions, StoppedClock(parse_instant("2026-11-02T00:00:00Z"))
    )


def use_by_hour(home: Home, columns: str, where: str) -> Rows:
    """Rows of fct_gpu_use as (node, card, hour of the day, columns)."""
    statement = f"""
        select node_name, gpu_index, hour(hour_started_at), {columns}
        from marts.fct_gpu_use where {where} order by all
    """
    return list(ask(home, statement))


def findings_about(checked: CheckResult, place: str) -> list[tuple[str, str]]:
    return [(f.code, f.where) for f in checked.findings if place in f.where]


# --- DCGM before and since 4.7 -------------------------------------------------------------------


def test_use_is_the_same_under_both_sets_of_names(home: Home, checked: CheckResult) -> None:
    """40 % and 70 % in each of six hours, also in the one in which the exporter was upgraded."""
    columns = "use_millionths_average, use_millionths_maximum"
    busy = use_by_hour(
        home, columns, "node_name in ('since', 'upgraded') and use_millionths_average > 0"
    )
    assert busy == [
        *(("since", "0", hour, 700_000, 700_000) for hour in range(6)),
        *(("upgraded", "1", hour, 400_000, 400_000) for hour in range(6)),
    ]


def test_memory_and_power_have_one_unit(home: Home, checked: CheckResult) -> None:
    """An A100 that is held and idle: 80 % of the 40,448 MiB that its driver leaves, and 55 W."""
    columns = "memory_used_mib_average, power_milliwatts_average"
    found = use_by_hour(home, columns, "pod_name like 'idle%'")
    assert {row[3:] for row in found} == {(32_358, 55_000)}


def test_idle_time_is_the_same_under_both_sets_of_names(home: Home, checked: CheckResult) -> None:
    """The hour of the upgrade has a third of its samples under one name: too few for idle time."""
    idle = use_by_hour(home, "idle_seconds, idle_nanos", "pod_name like 'idle%'")
    hour_idle, not_idle = (3600, 180 * CENT), (0, 0)
    assert idle == [
        *(("before", "0", hour, *hour_idle) for hour in range(6)),
        *(("twice", "0", hour, *hour_idle) for hour in range(6)),
        *(("upgraded", "0", hour, *(not_idle if hour == 2 else hour_idle)) for hour in range(6)),
    ]


def test_only_a_node_with_two_exporters_is_a_finding(home: Home, checked: CheckResult) -> None:
    twice = use_by_hour(home, "count(*)", "has_two_names group by all")
    assert twice == [
        *(("twice", "0", hour, 1) for hour in range(6)),
        ("upgraded", "0", 2, 1),
        ("upgraded", "1", 2, 1),
    ]
    [finding] = [f for f in checked.findings if f.code == "USE-002"]
    assert finding.where.endswith("node twice")
    assert finding.seen == "1 devices with both sets of DCGM names in 6 device-hours"
    assert not finding.blocks


# --- partitions of AMD cards ---------------------------------------------------------------------


def test_a_partition_that_measures_nothing_is_never_idle(home: Home, checked: CheckResult) -> None:
    """The card is busy until two o'clock; of three pods only the first can be found idle then.

    If 0 counted as a reading, `second` would be idle for two busy hours and `third` for four: 6.00
    too much.
    """
    columns = "instance_id, use_millionths_maximum is null, idle_seconds, idle_nanos"
    found = use_by_hour(home, columns, "node_name = 'cpx' and pod_name <> ''")
    expected = [
        *(("cpx", "0", hour, "0", False, 0, 0) for hour in (0, 1)),
        *(("cpx", "0", hour, "1", True, 0, 0) for hour in (0, 1)),
        *(("cpx", "0", hour, "2", True, 0, 0) for hour in (0, 1, 2, 3)),
        *(("cpx", "0", hour, "0", False, 3600, 100 * CENT) for hour in (2, 3)),
    ]
    assert found == sorted(expected)


# --- claims that share a card ---------------------------------------------------------------------


def test_each_claim_is_billed_what_it_consumes_of_a_card(home: Home, checked: CheckResult) -> None:
    """Of 40 GiB at 1.80 an hour: 20 for 4 h, 10 for 1 h, 10 for 1 h and then half of it each."""
    costs = ask(
        home,
        """
        select tenant, pod_name, resource, sum(billable_seconds)::bigint, sum(cost_nanos)::bigint
        from marts.fct_pod_hours where node_name = 'dra' group by all order by all
        """,
    )
    first, second = (f"gpu.nvidia.com/gpu-{card}" for card in (0, 1))
    assert costs == [
        ("speech", "one", f"{second}:1/4", 7200, 450_000_000 + 225_000_000),
        ("speech", "small", f"{first}:1/4", 3600, 450_000_000),
        ("speech", "two", f"{second}:1/4", 3600, 225_000_000),
        ("vision", "large", f"{first}:1/2", 14400, 3_600_000_000),
    ]


def test_shares_of_cards_are_conserved(home: Home, checked: CheckResult) -> None:
    """Two cards for four hours: 28,800 card-seconds, of which 7,200 + 900 + 1,800 are used."""
    found = ask(
        home,
        """
        select dimension, sum(running_share_seconds) / max(share_denominator),
            sum(held_share_seconds), sum(idle_share_seconds) / max(share_denominator),
            sum(installed_share_seconds) / max(share_denominator)
        from marts.fct_node_share_hours where node_name = 'dra' group by all order by all
        """,
    )
    used = (9_900, 0, 18_900, 28_800)
    assert [tuple(row) for row in found] == [("compute", *used), ("memory", *used)]


def test_a_card_of_several_claims_is_one_card(home: Home, checked: CheckResult) -> None:
    """The first card all the time, the second from two o'clock."""
    found = ask(
        home,
        """
        select hour(hour_started_at), gpu_count_max, gpu_count_max_bound
        from marts.fct_node_hours where node_name = 'dra' order by all
        """,
    )
    assert found == [(0, 1, 1), (1, 1, 1), (2, 2, 2), (3, 2, 2)]


def test_cards_without_discovery_have_the_product_of_their_slices(
    home: Home, checked: CheckResult
) -> None:
    statement = "select distinct gpu_class from marts.fct_pod_hours where node_name = 'dra'"
    assert ask(home, statement) == [("A100-40GB",)]


# --- lost samples of single pods ------------------------------------------------------------------


def test_lost_samples_of_single_pods_are_counted_by_hour(home: Home, checked: CheckResult) -> None:
    """A sample a minute: 5 of them after 02:10, 2 before 03:00, 2 after it; none in idle hours."""
    statement = f"""
        select hour(hour_started_at), missing_count, pod_missing_count from marts.fct_coverage
        where source = 'thanos' and cluster_id in ({OF_LOSSY}) order by all
    """
    lost = {2: 7, 3: 2}
    assert ask(home, statement) == [(hour, 0, lost.get(hour, 0)) for hour in range(6)]
    [finding] = [f for f in checked.findings if f.code == "GAP-009"]
    assert not finding.blocks
    assert finding.seen == (
        "2 hours (thanos: 9 samples of single pods missing); "
        "samples before and after prove the time between"
    )


def test_lost_samples_between_two_others_change_no_bill(home: Home, checked: CheckResult) -> None:
    """Both pods run from 01:00 to 04:00 at 1.80 an hour; each end is known by the minute."""
    statement = """
        select tenant, sum(running_seconds)::bigint, sum(uncertainty_seconds)::bigint,
            sum(cost_nanos)::bigint
        from marts.fct_pod_hours where node_name = 'lossy' group by all order by all
    """
    (physics, *whole), (speech, *lossy) = ask(home, statement)
    assert (physics, speech) == ("physics", "speech")
    assert whole[:2] == lossy[:2]
    seconds, uncertain, cost = lossy
    assert 3 * 3600 - 2 * 60 < seconds <= 3 * 3600
    assert 3 * 3600 - seconds <= uncertain <= 2 * 60
    assert cost == seconds * 500_000
    assert whole[2] == 2 * cost


def test_largest_numbers_of_samples_alone_are_lower_bounds(
    home: Home, checked: CheckResult
) -> None:
    """Three cards from one to four; a pod between two samples would not be seen."""
    statement = """
        select node_name = 'lossy', hour(hour_started_at), gpu_count_max, is_lower_bound
        from marts.fct_node_hours where node_name in ('lossy', 'cpx') order by all
    """
    used = {1: 3, 2: 3, 3: 3}
    assert ask(home, statement) == [
        *((False, hour, 1, False) for hour in range(4)),
        *((True, hour, used.get(hour, 0), True) for hour in range(6)),
    ]


def test_nothing_else_is_found(checked: CheckResult) -> None:
    """CHECK-002: this build runs no suites. GAP-007: pods with claims alone have no requests."""
    known = {"USE-002", "CHECK-002", "GAP-007", "GAP-009"}
    assert [f.code for f in checked.findings if f.code not in known] == []
