"""Checking a period: findings of facts written by hand, and reasons not to bill."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.findings import CheckResult, Finding
from domain.interval import Interval
from quality.checked_facts import read_segments
from quality.checks import ALWAYS, IDENTITIES, WITH_ROWS, required_checks
from quality.finding_catalogue import CATALOGUE
from quality.run import FactsMissing, check_period
from quality.suites import CHECK_NAMES
from tests.marts_by_hand import SIGNED, Pod, World, at
from warehouse.connection import connected
from warehouse.project import dbt_project_dir

CLOCK = StoppedClock(datetime(2026, 11, 4, tzinfo=UTC))


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "home")
    world.pods = [
        Pod("team-a", "train", at("09 10:00"), at("09 11:30")),
        Pod("team-b", "serve", at("09 22:00"), at("10 08:00"), device_count=2),
    ]
    return world


def checked(world: World) -> CheckResult:
    return check_period(world.write(), world.period, world.decisions, CLOCK)


def named(check_result: CheckResult, name: str) -> list[Finding]:
    return [finding for finding in check_result.findings if finding.name == name]


def test_a_clean_month_has_no_finding_and_every_required_check(world: World) -> None:
    check_result = checked(world)
    assert check_result.findings == ()
    assert check_result.missing_checks == ()
    assert check_result.billable
    executed = {check.name for check in check_result.checks if check.evaluated_row_count}
    assert executed >= {*ALWAYS, *(n for names in WITH_ROWS.values() for n in names)}


def test_missing_samples_of_single_pods_are_found_and_block_nothing(world: World) -> None:
    for hour, count in (("09 10:00", 3), ("09 11:00", 1), ("09 23:00", 2)):
        world.pods_missing["c1", "thanos", at(hour)] = count
    check_result = checked(world)
    assert check_result.billable
    assert [
        (one.code, one.hour_started_at, one.hour_ended_at) for one in check_result.findings
    ] == [
        ("GAP-009", at("09 10:00"), at("09 12:00")),
        ("GAP-009", at("09 23:00"), at("10 00:00")),
    ]
    assert check_result.findings[0].seen == (
        "2 hours (thanos: 4 samples of single pods missing); "
        "samples before and after prove the time between"
    )


def test_a_month_without_usage_can_be_checked(world: World) -> None:
    world.pods = []
    check_result = checked(world)
    assert check_result.billable
    assert all(check.evaluated_row_count for check in check_result.checks)


def test_a_period_that_was_never_built_cannot_be_checked(world: World) -> None:
    with pytest.raises(FactsMissing):
        check_period(world.home, world.period, world.decisions, CLOCK)
    world.write()
    with pytest.raises(FactsMissing):
        check_period(world.home, BillingPeriod("2026-11"), world.decisions, CLOCK)


NOT_REQUIRED = {
    # Tests of cards, fleets, column types, existing samples, and differences where both sources are
    # expected; a failure of any of them blocks.
    "assert_cards_are_counted_in_every_measured_second",
    "assert_cards_by_devices_are_no_fewer_than_the_bound",
    "assert_every_sample_is_counted_or_refused",
    "assert_no_fact_has_a_floating_point_column",
    "assert_the_fleet_never_exceeds_its_nodes",
    "assert_sources_that_differ_are_flagged",
}


def test_every_data_test_is_required_or_listed_as_not_required() -> None:
    there = {path.stem for path in (dbt_project_dir() / "data_tests").glob("*.sql")}
    named = {*ALWAYS, *(name for names in WITH_ROWS.values() for name in names)}
    required = {name.removeprefix("dbt_") for name in named}
    assert there - required == NOT_REQUIRED


@pytest.mark.parametrize("table", WITH_ROWS)
def test_the_tests_of_a_table_are_required_if_it_has_rows(table: str) -> None:
    nothing = dict.fromkeys(WITH_ROWS, 0)
    assert required_checks(nothing) == ALWAYS
    assert required_checks({**nothing, table: 1}) == (*ALWAYS, *WITH_ROWS[table])


EVERY_DBT_TEST = (
    *(name for name in ALWAYS if name.startswith("dbt_")),
    *(n for names in WITH_ROWS.values() for n in names if n.startswith("dbt_")),
)


@pytest.mark.parametrize("left_out", [EVERY_DBT_TEST[:1], EVERY_DBT_TEST[-1:], EVERY_DBT_TEST])
def test_a_required_test_that_did_not_run_blocks(world: World, left_out: tuple[str, ...]) -> None:
    world.dbt_tests_left_out = left_out
    check_result = checked(world)
    assert sorted(check_result.missing_checks) == sorted(left_out)
    assert not check_result.billable
    wheres = [finding.where for finding in named(check_result, "check_not_executed")]
    assert all(any(name in where for where in wheres) for name in left_out)


def test_tests_that_ran_on_other_facts_do_not_count(world: World) -> None:
    home = world.write()
    with connected(home.warehouse_path) as connection:
        connection.execute("update marts.fct_coverage set longest_gap_seconds = 1")
    check_result = check_period(home, world.period, world.decisions, CLOCK)
    assert "dbt_fct_coverage_has_one_row_per_key" in check_result.missing_checks


def test_a_failed_dbt_test_blocks(world: World) -> None:
    home = world.write()
    with connected(home.warehouse_path) as connection:
        connection.execute(
            "update quality.dbt_tests set status = 'fail', failed_row_count = 3 "
            "where name = 'assert_every_segment_is_within_its_hour'"
        )
    check_result = check_period(home, world.period, world.decisions, CLOCK)
    [finding] = named(check_result, "check_failed")
    assert finding.seen == "3 of 1 rows failed"
    assert not check_result.billable


def broken(world: World, statement: str) -> CheckResult:
    """Check facts that were changed by a statement."""
    home = world.write()
    with connected(home.warehouse_path) as connection:
        connection.execute(statement)
    return check_period(home, world.period, world.decisions, CLOCK)


@pytest.mark.parametrize(
    ("statement", "checks"),
    [
        (
            "update marts.fct_charges set device_seconds = device_seconds + 1 "
            "where tenant = 'team-a'",
            {"pod_seconds_add_up_to_charges", "charges_are_priced_exactly", "suite_tenants"},
        ),
        (
            "update marts.fct_charges set cost_nanos = cost_nanos + 1 where tenant = 'team-a'",
            {"pod_costs_add_up_to_charges", "charges_are_priced_exactly", "suite_tenants"},
        ),
        (
            "insert into marts.fct_pod_hours select * from marts.fct_pod_hours "
            "where tenant = 'team-a'",
            {
                "pod_seconds_add_up_to_charges",
                "pod_costs_add_up_to_charges",
                "no_pod_holds_a_device_twice",
                "suite_tenants",
            },
        ),
        (
            "update marts.fct_pod_hours set segment_ended_at = segment_ended_at + interval 1 hour "
            "where tenant = 'team-a' and hour(segment_started_at) = 11",
            {"no_pod_hour_leaves_its_hour"},
        ),
        (
            "update marts.fct_node_share_hours set idle_share_seconds = idle_share_seconds - 1 "
            "where dimension = 'memory'",
            {"shares_add_up_to_capacity"},
        ),
        (
            "update marts.fct_node_share_hours set overallocated_share_seconds = 5, "
            "idle_share_seconds = idle_share_seconds + 5 where dimension = 'memory'",
            {"no_node_gives_more_than_it_has"},
        ),
        (
            "delete from marts.fct_charges where tenant = 'team-a'",
            {"pod_seconds_add_up_to_charges", "pod_costs_add_up_to_charges", "suite_tenants"},
        ),
        (
            "update marts.fct_pod_hours set uncertainty_seconds = -1 where tenant = 'team-a'",
            {"suite_values"},
        ),
        (
            "update marts.fct_coverage set seen_count = seen_count - 1 "
            "where source = 'thanos' and hour_started_at = '2026-10-09 10:00:00+00'",
            {"suite_coverage"},
        ),
        (
            "insert into marts.fct_coverage select * from marts.fct_coverage "
            "where hour_started_at = '2026-10-09 10:00:00+00'",
            {"suite_coverage"},
        ),
    ],
)
def test_each_check_has_its_finding(world: World, statement: str, checks: set[str]) -> None:
    check_result = broken(world, statement)
    own = {*IDENTITIES, *CHECK_NAMES, "charges_are_priced_exactly"}
    assert {c.name for c in check_result.checks if c.failed_row_count and c.name in own} == checks
    assert not check_result.billable


def test_usage_without_a_price_blocks_and_shows_its_amount(world: World) -> None:
    world.pods.append(Pod("team-c", "big", at("09 10:00"), at("09 11:00"), gpu_class="B300"))
    check_result = checked(world)
    [finding] = named(check_result, "usage_without_price")
    assert "B300 whole" in finding.where
    assert "3600 device seconds of 1 tenants (team-c)" in finding.seen
    assert finding.tenant == "team-c"
    assert not check_result.billable


def test_without_a_price_list_no_price_is_missing(world: World) -> None:
    world.rates = []
    assert checked(world).billable


def test_an_unknown_device_blocks(world: World) -> None:
    world.pods.append(Pod("team-c", "odd", at("09 10:00"), at("09 11:00"), gpu_class=""))
    check_result = checked(world)
    assert named(check_result, "device_unknown")
    assert not check_result.billable


def test_a_price_ten_times_as_high_needs_two_names(world: World) -> None:
    world.rates = [
        f",A100-40,whole,EUR,3.6,2026-01-01,2026-10-15,{SIGNED},",
        f",A100-40,whole,EUR,36,2026-10-15,,{SIGNED},",
    ]
    check_result = checked(world)
    [finding] = named(check_result, "price_change_needs_second_name")
    assert "36 EUR per hour, after 3.6 EUR" in finding.seen
    assert not check_result.billable
    world.rates[1] += "bob"
    assert checked(world).billable


def test_a_disagreement_blocks_until_it_is_accepted(world: World) -> None:
    disputed = replace(world.pods[0], method="disputed", method_reason="outside_lifecycle")
    world.pods[0] = disputed
    [finding] = named(checked(world), "sources_disagree")
    assert finding.blocks
    assert "samples show it while the journal has it as not running" in finding.seen
    world.accepted_gaps = [
        "c1,kubernetes,2026-10-09T10:00:00Z,2026-10-09T11:30:00Z,bill_samples,why,bob,2026-11-02,"
        + disputed.uid
    ]
    check_result = checked(world)
    assert [f.name for f in check_result.findings] == ["dispute_accepted"]
    assert check_result.billable


def test_acceptance_for_another_pod_or_time_is_ignored(world: World) -> None:
    world.pods[0] = replace(world.pods[0], method="disputed", method_reason="absent")
    row = "c1,kubernetes,{},{},bill_samples,why,bob,2026-11-02,{}"
    for first, last, pod in (
        ("2026-10-09T10:00:00Z", "2026-10-09T11:30:00Z", "other"),
        ("2026-10-09T10:00:01Z", "2026-10-09T11:30:00Z", ""),
        ("2026-10-09T10:00:00Z", "2026-10-09T11:29:59Z", ""),
    ):
        world.accepted_gaps = [row.format(first, last, pod)]
        assert not checked(world).billable, (first, last, pod)


def test_a_pod_too_short_to_be_sampled_is_reported_and_does_not_block(world: World) -> None:
    world.pods.append(
        Pod("team-c", "blink", at("09 10:00:01"), at("09 10:00:09"), method="lifecycle_only",
            method_reason="too_short")
    )  # fmt: skip
    check_result = checked(world)
    assert [f.code for f in check_result.findings] == ["REC-003"]
    assert check_result.billable


def limited(world: World, hole_seconds: int, method: str, reason: str) -> CheckResult:
    """Team a: 5400 s, of which only one source has these seconds."""
    whole = world.pods[0]
    middle = whole.ended_at.timestamp() - hole_seconds
    cut = datetime.fromtimestamp(middle, UTC)
    uncertain = hole_seconds if method == "samples_only" else 0
    world.pods[0] = replace(whole, ended_at=cut)
    world.pods.append(
        replace(whole, name="tail", started_at=cut, method=method, method_reason=reason,
                uncertainty_seconds=uncertain)
    )  # fmt: skip
    return checked(world)


@pytest.mark.parametrize(("seconds", "over"), [(270, False), (271, True)])
def test_one_source_may_cover_exactly_five_percent(world: World, seconds: int, over: bool) -> None:
    check_result = limited(world, seconds, "lifecycle_only", "sample_gap")
    assert bool(named(check_result, "one_source_limit_exceeded")) is over
    assert check_result.billable is not over


def test_only_gaps_count_towards_the_one_source_limit(world: World) -> None:
    assert checked(world).billable
    assert limited(world, 1000, "lifecycle_only", "no metric shows it").billable


@pytest.mark.parametrize(("seconds", "over"), [(27, False), (28, True)])
def test_uncertainty_may_be_exactly_half_a_percent(world: World, seconds: int, over: bool) -> None:
    check_result = limited(world, seconds, "samples_only", "journal_gap")
    assert bool(named(check_result, "uncertainty_limit_exceeded")) is over


def test_a_limit_of_one_accepts_more_uncertainty_than_time(world: World) -> None:
    pod = Pod("team-c", "blink", at("09 10:00:01"), at("09 10:00:31"), method="samples_only",
              method_reason="journal_gap", uncertainty_seconds=64)  # fmt: skip
    world.pods.append(pod)
    assert not checked(world).billable
    world.policies.append(f"uncertainty_limit,wide,1,2026-10-01T00:00:00Z,,{SIGNED}")
    assert checked(world).billable


def test_a_disagreement_about_an_instant_names_an_acceptable_second(world: World) -> None:
    with connected(world.write().warehouse_path) as connection:
        connection.execute(
            "update marts.fct_pod_hours set method = 'missing', method_reason = 'end_unknown', "
            "segment_ended_at = segment_started_at "
            "where pod_name = 'train' and hour(segment_started_at) = 10"
        )
        (stretch,) = read_segments(connection, world.period.name)
    assert stretch.interval == Interval(at("09 10:00"), at("09 10:00:01"))


def test_without_an_expected_journal_uncertainty_does_not_block(world: World) -> None:
    world.clusters = {"c1": "samples"}
    assert limited(world, 5000, "samples_only", "journal_not_expected").billable


def test_the_check_is_stored_with_the_facts(world: World) -> None:
    world.lose("thanos", "09 10:00")
    check_result = checked(world)
    again = check_period(world.home, world.period, world.decisions, CLOCK)
    assert again == check_result
    with connected(world.home.warehouse_path, read_only=True) as connection:
        rows = connection.execute(
            "select code, cluster_id, blocks from quality.findings"
        ).fetchall()
        counts = connection.execute(
            "select (select count(*) from quality.coverage_statuses), "
            "(select count(*) from quality.checks), (select is_billable from quality.check_results)"
        ).fetchall()
    assert rows == [("GAP-002", "c1", False)]
    assert counts == [(2 * 744, len(check_result.checks), True)]


def test_every_finding_has_its_own_code_and_its_consequence() -> None:
    codes = [kind.code for kind in CATALOGUE.values()]
    assert len(set(codes)) == len(codes)
    for kind in CATALOGUE.values():
        assert kind.means.endswith(".")
        assert kind.bill.endswith(".")
        assert kind.to_do.endswith(".")


def test_two_gaps_in_one_hour_that_do_not_overlap_do_not_block(world: World) -> None:
    world.lose_interval("thanos", "20 10:05", "20 10:10")
    world.lose_interval("kubernetes", "20 10:40", "20 10:50")
    check_result = checked(world)
    assert [f.code for f in check_result.findings] == ["GAP-002", "GAP-003"]
    assert [f.affected_seconds for f in check_result.findings] == [300, 600]
    assert check_result.billable


def test_overlapping_gaps_block_for_the_seconds_of_their_overlap(world: World) -> None:
    world.lose_interval("thanos", "20 10:05", "20 10:45")
    world.lose_interval("kubernetes", "20 10:40", "20 10:50")
    check_result = checked(world)
    [finding] = [f for f in check_result.findings if f.blocks]
    assert (finding.code, finding.affected_seconds) == ("GAP-001", 300)
    assert "2026-10-20T10:40:00Z to 2026-10-20T10:45:00Z" in finding.where


def test_a_recreated_namespace_is_reported_with_both_uids(world: World) -> None:
    tenant = world.pods[0].tenant
    world.made_again = {tenant: "20 10:05"}
    check_result = checked(world)
    [finding] = check_result.findings
    assert (finding.code, finding.tenant, finding.blocks) == ("TEN-001", tenant, False)
    assert finding.seen == (
        f"{tenant}-first until 2026-10-20T09:05:00Z, {tenant}-second from 2026-10-20T10:05:00Z"
    )


def test_gpu_budgets_that_do_not_count_are_named_and_block_nothing(world: World) -> None:
    nanos = 10**9
    world.budgets = [
        ("a", "team", "c1", "differs", "", "EUR", 10 * nanos),
        ("a", "team", "c2", "counted", "", "EUR", 20 * nanos),
        ("a", "typo", "c1", "invalid", "'x': write an amount", "", 0),
        ("a", "usd", "c1", "other_currency", "", "USD", 5 * nanos),
        ("a", "last", "c1", "too_many", "", "EUR", nanos),
        # Nothing is wrong with these.
        ("b", "team", "c1", "counted", "", "EUR", 10 * nanos),
        ("b", "team", "c2", "repeated", "", "EUR", 10 * nanos),
        ("b", "usual", "c1", "replaced", "", "EUR", 10 * nanos),
    ]
    check_result = checked(world)
    assert [(f.code, f.where.rpartition("/")[2], f.blocks) for f in check_result.findings] == [
        ("BUD-001", "team", False),
        ("BUD-002", "last", False),
        ("BUD-002", "typo", False),
        ("BUD-002", "usd", False),
    ]
    differs, _, typo, usd = check_result.findings
    assert (differs.cluster_id, differs.tenant) == ("c1", "a")
    assert "10 EUR, and 20 EUR in cluster c2, which counts" in differs.seen
    assert typo.seen == "'x': write an amount"
    assert usd.seen.startswith("5 USD; ")
    assert check_result.billable


def test_a_contradictory_journal_is_reported_once_for_each_kind(world: World) -> None:
    world.contradictions = [
        ("20 10:05", "uid-1", "end_moved", "10:00", "10:01"),
        ("20 12:10", "uid-2", "end_moved", "12:00", "12:05"),
        ("20 10:06", "uid-1", "absent_then_seen", "absent", "hourly"),
    ]
    check_result = checked(world)
    assert [(f.code, f.blocks) for f in check_result.findings] == [("JRN-001", False)] * 2
    assert check_result.findings[1].seen == (
        "2 from 2026-10-20T10:05:00Z to 2026-10-20T12:10:00Z; the first: uid-1: 10:00, then 10:01"
    )
    assert check_result.billable


def test_single_lost_scrapes_are_one_gap_with_all_their_seconds(world: World) -> None:
    for minute in (5, 20, 50):
        world.lose_interval("thanos", f"20 10:{minute:02}", f"20 10:{minute + 1:02}")
    [finding] = checked(world).findings
    assert finding.affected_seconds == 180
    assert "2026-10-20T10:05:00Z to 2026-10-20T10:51:00Z" in finding.where
