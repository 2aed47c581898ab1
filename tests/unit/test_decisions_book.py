"""Decisions for an instant, a window, a cluster or a tenant.

Put here: policies, clusters, outages, gaps, budgets, parties, cut points.
Not here: prices (`test_decisions_rates`), copies of a period (`test_decisions_sealing`).
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from domain.billing_period import BillingPeriod
from domain.decisions import (
    DEFAULT_POLICIES,
    BillableState,
    Decisions,
    PartyRole,
    PolicyName,
    Source,
    TableName,
)
from domain.gpu.weights import WeightPolicy
from domain.interval import Interval, format_instant
from domain.money import Money, parse_nanos
from tests.decisions_by_hand import HEADERS, SIGNED, decided, table

OCTOBER = BillingPeriod("2026-10")


def at(day: int, hour: int = 0) -> datetime:
    return datetime(2026, 10, day, hour, tzinfo=UTC)


def days(first: int, last: int) -> Interval:
    return Interval(at(first), at(last))


def test_without_a_decision_the_shipped_policies_apply() -> None:
    nothing = Decisions()
    assert nothing.billable_state(at(1)) is BillableState.RUNNING
    assert nothing.mig_weight(at(1)) is WeightPolicy.MAX
    assert nothing.uncertainty_limit(at(1)) == Fraction(1, 200)
    assert nothing.one_source_limit(at(1)) == Fraction(1, 20)
    assert nothing.grace_days(at(1)) == 2
    assert nothing.currency(at(1)) is None
    assert {policy.version for policy in DEFAULT_POLICIES.values()} == {"default-1"}
    assert set(PolicyName) - set(DEFAULT_POLICIES) == {PolicyName.CURRENCY}


def test_a_policy_applies_during_its_validity_and_the_default_outside() -> None:
    decisions = decided(
        table(
            "policies",
            "mig_weight,2026-10,memory,2026-10-10,2026-10-20",
            "billable_state,2026-10,held,2026-10-10,",
            "uncertainty_limit,2026-10,0.01,2026-10-10,",
            "one_source_limit,2026-10,1/8,2026-10-10,",
            "grace_days,2026-10,5,2026-10-10,",
        )
    )
    assert decisions.mig_weight(at(9)) is WeightPolicy.MAX
    assert decisions.mig_weight(at(10)) is WeightPolicy.MEMORY
    assert decisions.mig_weight(at(20)) is WeightPolicy.MAX
    assert decisions.policy(PolicyName.MIG_WEIGHT, at(10)).version == "2026-10"
    assert decisions.policy(PolicyName.MIG_WEIGHT, at(20)).version == "default-1"
    assert decisions.billable_state(at(10)) is BillableState.HELD
    assert decisions.uncertainty_limit(at(10)) == Fraction(1, 100)
    assert decisions.one_source_limit(at(10)) == Fraction(1, 8)
    assert decisions.grace_days(at(10)) == 5


def test_the_default_currency_is_that_of_the_prices() -> None:
    rates = table("rates", ",A100-40GB,whole,EUR,1,2026-10-10,,|,")
    assert decided(rates).currency(at(9)) is None
    assert decided(rates).currency(at(10)) == "EUR"
    policy = table("policies", "currency,v1,EUR,2026-10-01,")
    assert decided(policy).currency(at(1)) == "EUR"
    assert decided(policy, rates).currency(at(1)) == "EUR"


CLUSTERS = table(
    "clusters",
    "c1,prod,2026-10-10T12:30:00Z,2026-10-10T15:00:00Z,both,300,30",
    "c2,lab,2026-10-10,2026-10-10T02:00:00Z,samples,30,30",
    "c3,edge,2026-10-10,2026-10-10T01:00:00Z,lifecycle,30,30",
)


def test_a_cluster_is_measured_only_during_its_validity() -> None:
    decisions = decided(CLUSTERS)
    assert decisions.cluster_at("c1", at(10, 12)) is None
    cluster = decisions.cluster_at("c1", at(10, 13))
    assert cluster is not None
    assert (cluster.cluster_name, cluster.sample_interval_seconds) == ("prod", 300)
    assert decisions.cluster_at("c1", at(10, 15)) is None
    assert decisions.cluster_at("prod", at(10, 13)) is None  # a name is only a label


def test_the_calendar_expects_every_partly_measured_hour() -> None:
    expected = list(decided(CLUSTERS).expected_hours(OCTOBER.interval))
    assert [(c, s.value, h.hour) for c, s, h in expected] == [
        ("c1", "thanos", 12),
        ("c1", "thanos", 13),
        ("c1", "thanos", 14),
        ("c1", "kubernetes", 12),
        ("c1", "kubernetes", 13),
        ("c1", "kubernetes", 14),
        ("c2", "thanos", 0),
        ("c2", "thanos", 1),
        ("c3", "kubernetes", 0),
    ]


def test_an_hour_with_a_change_is_expected_once() -> None:
    decisions = decided(
        table(
            "clusters",
            "c1,prod,2026-10-10,2026-10-10T00:30:00Z,both,300,30",
            "c1,prod,2026-10-10T00:30:00Z,2026-10-10T02:00:00Z,samples,30,30",
        )
    )
    expected = Counter(decisions.expected_hours(OCTOBER.interval))
    assert expected == {
        ("c1", Source.THANOS, at(10, 0)): 1,
        ("c1", Source.KUBERNETES, at(10, 0)): 1,
        ("c1", Source.THANOS, at(10, 1)): 1,
    }


def test_measured_time_is_clipped_to_the_window() -> None:
    measured = decided(CLUSTERS).measured(Interval(at(10, 14), at(11)))
    assert [(piece, row.cluster_id) for piece, row in measured] == [
        (Interval(at(10, 14), at(10, 15)), "c1")
    ]


def test_outages_are_united_clipped_and_may_be_open() -> None:
    decisions = decided(
        table(
            "outages",
            "c1,2026-10-05,2026-10-07,credit",
            "c1,2026-10-06,2026-10-08,credit",
            ",2026-10-31T23:00:00Z,,credit",
            "c2,2026-10-01,2026-10-02,credit",
        )
    )
    last_hour = Interval(at(31, 23), OCTOBER.ended_at)
    assert decisions.outage_intervals("c1", OCTOBER.interval) == [days(5, 8), last_hour]
    assert decisions.outage_intervals("c2", OCTOBER.interval) == [days(1, 2), last_hour]
    assert decisions.outage_intervals("c3", OCTOBER.interval) == [last_hour]
    november = BillingPeriod("2026-11").interval
    assert decisions.outage_intervals("c1", november) == [november]
    assert decisions.outage_intervals("c1", BillingPeriod("2026-09").interval) == []


def test_outages_of_a_node_and_of_a_pod_are_not_united() -> None:
    rows = (
        f"c1,2026-10-05,2026-10-07,credit,{SIGNED},n,",
        f"c1,2026-10-06,2026-10-08,credit,{SIGNED},,u",
    )
    decisions = decided({"outages.csv": "\n".join([HEADERS["outages"], *rows])})
    assert decisions.outage_intervals("c1", OCTOBER.interval) == []
    assert decisions.outage_intervals("c1", OCTOBER.interval, "n") == [days(5, 7)]
    assert decisions.outage_intervals("c1", OCTOBER.interval, "", "u") == [days(6, 8)]


def test_a_budget_of_one_month_replaces_that_of_every_month() -> None:
    rows = ["team-a,,EUR,100", "team-a,2026-10,EUR,200.50", "team-b,2026-10,EUR,300"]
    decisions = decided(table("budgets", *rows))
    november = BillingPeriod("2026-11")

    def amounts(period: BillingPeriod) -> dict[str, Money]:
        return {budget.tenant: budget.amount for budget in decisions.budgets_of(period)}

    assert amounts(OCTOBER) == {
        "team-a": Money(parse_nanos("200.5"), "EUR"),
        "team-b": Money(parse_nanos("300"), "EUR"),
    }
    assert amounts(november) == {"team-a": Money(parse_nanos("100"), "EUR")}


def test_a_budget_is_named_by_what_it_is_about() -> None:
    header = "tenant,currency,amount,billing_period,workload,label,reason,decided_by,decided_on"
    rows = [f"a,EUR,1,,{about},agreed,Ada,2026-09-15" for about in (",", "Job/a/b,", ",team=x=y")]
    decisions = decided({"budgets.csv": "\n".join([header, *rows])})
    names = {budget.name for budget in decisions.budgets_of(OCTOBER)}
    assert names == {"month", "Job/a/b", "team=x=y"}


def test_a_budget_in_another_currency_than_the_prices_is_ignored() -> None:
    decisions = decided(
        table(
            "rates",
            ",A100-40GB,whole,EUR,1,2026-01-01,2026-11-01,|,",
            ",A100-40GB,whole,USD,1,2026-11-01,,|,Grace",
        ),
        table("budgets", "team-a,,EUR,100"),
    )
    assert len(decisions.budgets_of(OCTOBER)) == 1
    assert decisions.budgets_of(OCTOBER.next()) == []


def test_an_invoice_has_the_issuer_and_customer_of_its_time() -> None:
    decisions = decided(
        table(
            "parties",
            "issuer,,Cloud One,1 Road; 12345 Town; DE,DE1,,2026-01-01,2026-10-10",
            "issuer,,Cloud Two,,,,2026-10-10,",
            "customer,team-a,Lab,,,,2026-10-01,",
        )
    )
    before, after = (decisions.party(PartyRole.ISSUER, "", at(day)) for day in (9, 10))
    assert before is not None
    assert before.address_lines == ["1 Road", "12345 Town", "DE"]
    assert after is not None
    assert (after.name, after.address_lines) == ("Cloud Two", [])
    customer = decisions.party(PartyRole.CUSTOMER, "team-a", at(9))
    assert customer is not None
    assert customer.name == "Lab"
    assert decisions.party(PartyRole.CUSTOMER, "team-b", at(9)) is None


EVERYTHING = decided(
    table("clusters", "c1,prod,2026-10-02,,both,30,30"),
    table("tenants", "shared,provider,2026-10-03,2026-10-04"),
    table("rates", ",A100-40GB,whole,EUR,1,2026-10-01,2026-10-05,|,"),
    table("outages", "c1,2026-10-06,2026-11-07,credit"),
    table("accepted_gaps", "c1,thanos,2026-10-07,2026-10-08,waive,|,"),
    table("policies", "grace_days,v2,3,2026-09-01,2026-10-09"),
    table("parties", "issuer,,Cloud,,,,2026-10-03,"),
    table("budgets", "team-a,2026-10,EUR,1"),
)


def test_the_month_is_cut_at_every_change_strictly_inside_it() -> None:
    cuts = EVERYTHING.cut_points(OCTOBER.interval)
    assert cuts == [at(day) for day in (2, 3, 4, 5, 6, 7, 8, 9)]


def test_cut_points_of_some_tables_only() -> None:
    cuts = EVERYTHING.cut_points(OCTOBER.interval, [TableName.RATES, TableName.OUTAGES])
    assert cuts == [at(5), at(6)]
    assert EVERYTHING.cut_points(days(10, 20)) == []


@pytest.mark.parametrize("cut", EVERYTHING.cut_points(OCTOBER.interval))
def test_decisions_differ_before_and_after_every_cut(cut: datetime) -> None:
    def answers(instant: datetime) -> list[object]:
        window = Interval(instant, instant + timedelta(seconds=1))
        return [
            EVERYTHING.cluster_at("c1", instant),
            EVERYTHING.ownership.belongs_to("shared", instant),
            EVERYTHING.price_list.find("c1", "A100-40GB", "whole", instant),
            bool(EVERYTHING.outage_intervals("c1", window)),
            [g.interval.contains(instant) for g in EVERYTHING.accepted_gaps],
            EVERYTHING.grace_days(instant),
            EVERYTHING.party(PartyRole.ISSUER, "", instant),
        ]

    assert answers(cut - timedelta(seconds=1)) != answers(cut), format_instant(cut)
