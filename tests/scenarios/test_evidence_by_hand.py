"""Scenarios about evidence of devices, with expectations that a person can calculate.

Put here: `dcgm_renamed`, `amd_partitions`, `shared_devices`, counted in one build.
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
from fake_gpu.estate.build import build_estate
from fake_gpu.scenario.load import load_scenario
from quality.run import Judgement, judge
from tests.decisions_by_hand import decided, table
from tests.lived_estates import clusters_csv, live
from tests.scenarios.against_truth import ask
from warehouse.build import build_period
from warehouse.home import Home

pytestmark = pytest.mark.deep

PERIOD = BillingPeriod("2026-10")
SCENARIOS = ("dcgm_renamed", "amd_partitions")
CENT = 10_000_000  # nanos

Rows = list[tuple[Any, ...]]


RATES = [
    f",{gpu_class},whole,USD,{rate},2026-01-01T00:00:00Z,,agreed,Ada,2026-09-15,"
    for gpu_class, rate in (("A100-40GB", "1.80"), ("MI300X", "8.00"))
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home.create(tmp_path_factory.mktemp("by_hand") / "home")


@pytest.fixture(scope="module")
def judged(home: Home) -> Judgement:
    estates = [build_estate(load_scenario(name)) for name in SCENARIOS]
    for estate in estates:
        live(home, estate, telemetry=True)
    decisions = decided(clusters_csv(estates), table("rates", *RATES))
    build = build_period(home, PERIOD, decisions, closed_periods=frozenset())
    assert [test.name for test in build.failed_tests] == []
    return judge(home, PERIOD, decisions, StoppedClock(parse_instant("2026-11-02T00:00:00Z")))


def use_by_hour(home: Home, columns: str, where: str) -> Rows:
    """Rows of fct_gpu_use as (node, card, hour of the day, columns)."""
    statement = f"""
        select node_name, gpu_index, hour(hour_started_at), {columns}
        from marts.fct_gpu_use where {where} order by all
    """
    return list(ask(home, statement))


def findings_about(judged: Judgement, place: str) -> list[tuple[str, str]]:
    return [(f.code, f.where) for f in judged.findings if place in f.where]


# --- DCGM before and since 4.7 -------------------------------------------------------------------


def test_use_is_the_same_under_both_sets_of_names(home: Home, judged: Judgement) -> None:
    """40 % and 70 % in each of six hours, also in the one in which the exporter was upgraded."""
    columns = "use_millionths_average, use_millionths_maximum"
    busy = use_by_hour(home, columns, "pod_name like 'train%' or pod_name like 'small%'")
    assert busy == [
        *(("since", "0", hour, 700_000, 700_000) for hour in range(6)),
        *(("upgraded", "1", hour, 400_000, 400_000) for hour in range(6)),
    ]


def test_memory_and_power_have_one_unit(home: Home, judged: Judgement) -> None:
    """An A100 that is held and idles: 80 % of the 40,448 MiB that its driver leaves, and 55 W."""
    columns = "memory_used_mib_average, power_milliwatts_average"
    found = use_by_hour(home, columns, "pod_name like 'idle%'")
    assert {row[3:] for row in found} == {(32_358, 55_000)}


def test_idle_time_is_the_same_under_both_sets_of_names(home: Home, judged: Judgement) -> None:
    """An hour of upgrade has a third of its samples under one name: no evidence, so not idle."""
    idle = use_by_hour(home, "idle_seconds, idle_nanos", "pod_name like 'idle%'")
    hour_idle, not_idle = (3600, 180 * CENT), (0, 0)
    assert idle == [
        *(("before", "0", hour, *hour_idle) for hour in range(6)),
        *(("twice", "0", hour, *hour_idle) for hour in range(6)),
        *(("upgraded", "0", hour, *(not_idle if hour == 2 else hour_idle)) for hour in range(6)),
    ]


def test_only_a_node_with_two_exporters_is_a_finding(home: Home, judged: Judgement) -> None:
    twice = use_by_hour(home, "count(*)", "has_two_names group by all")
    assert twice == [
        *(("twice", "0", hour, 1) for hour in range(6)),
        ("upgraded", "0", 2, 1),
        ("upgraded", "1", 2, 1),
    ]
    [finding] = [f for f in judged.findings if f.code == "USE-002"]
    assert finding.where.endswith("node twice")
    assert finding.seen == "1 devices with both sets of DCGM names in 6 device-hours"
    assert not finding.blocks


# --- partitions of AMD cards ---------------------------------------------------------------------


def test_a_partition_that_measures_nothing_is_never_idle(home: Home, judged: Judgement) -> None:
    """The card is busy until two o'clock; of three pods only the first can be found idle then.

    Were 0 a reading, `second` would be idle for two busy hours and `third` for four: 6.00 too much.
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


def test_nothing_else_is_found(judged: Judgement) -> None:
    """CHECK-002: this build runs no suites."""
    assert [f.code for f in judged.findings if f.code not in ("USE-002", "CHECK-002")] == []
