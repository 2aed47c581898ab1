"""Two rows for the same key and instant are refused, with both lines and values.

Put here: overlap in every table, versions, currencies, names without a row.
Not here: single cells (`test_decisions_reading`), equally specific prices (`test_decisions_rates`).
"""

from __future__ import annotations

import pytest

from domain.decisions import DecisionsContradict, InvalidDecision, read_decisions
from domain.errors import BadInput
from tests.decisions_by_hand import SIGNED, table


def problems(*tables: dict[str, str]) -> list[BadInput]:
    files: dict[str, str] = {}
    for one in tables:
        files |= one
    return read_decisions(files)[1]


OCTOBER, NOVEMBER, DECEMBER = "2026-10-01", "2026-11-01", "2026-12-01"

ROWS = {
    "clusters": "c1,prod,{0},{1},both,30,30",
    "tenants": "shared,provider,{0},{1}",
    "rates": "c1,A100-40GB,1g.5gb,EUR,1,{0},{1},|,",
    "policies": "mig_weight,{2},max,{0},{1}",
    "parties": "customer,team-a,{2},,,,{0},{1}",
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize(
    ("first", "second", "is_good"),
    [
        ((OCTOBER, NOVEMBER), (NOVEMBER, ""), True),
        ((NOVEMBER, ""), (OCTOBER, NOVEMBER), True),
        ((OCTOBER, NOVEMBER), (DECEMBER, ""), True),
        ((OCTOBER, NOVEMBER), (f"{OCTOBER}T23:59:59Z", DECEMBER), False),
        ((OCTOBER, f"{NOVEMBER}T00:00:01Z"), (NOVEMBER, ""), False),
        ((OCTOBER, ""), (NOVEMBER, ""), False),
        ((NOVEMBER, ""), (OCTOBER, ""), False),
        ((OCTOBER, ""), (NOVEMBER, DECEMBER), False),
        ((OCTOBER, ""), (OCTOBER, ""), False),
    ],
)
def test_validities_may_touch_and_never_overlap(
    name: str, first: tuple[str, str], second: tuple[str, str], is_good: bool
) -> None:
    rows = [ROWS[name].format(*first, "one"), ROWS[name].format(*second, "two")]
    found = problems(table(name, *rows))
    if is_good:
        assert found == []
    else:
        assert [type(problem) for problem in found] == [DecisionsContradict]
        assert "line 2" in found[0].where
        assert "line 3" in found[0].where


def test_both_rows_and_the_instant_are_shown() -> None:
    (problem,) = problems(
        table("tenants", "shared,provider,2026-10-01,", "shared,tenant,2026-11-15,2026-12-01")
    )
    assert problem.where == "tenants.csv line 3 and line 2"
    assert problem.seen == (
        "from 2026-11-15T00:00:00Z both hold for shared: "
        f"shared,provider,2026-10-01T00:00:00Z,,{SIGNED} and "
        f"shared,tenant,2026-11-15T00:00:00Z,2026-12-01T00:00:00Z,{SIGNED}"
    )


def test_different_keys_are_valid_at_once() -> None:
    rates = [
        f"{cluster},{gpu},{profile},EUR,1,2026-10-01,,|,"
        for cluster in ("", "c1")
        for gpu in ("A100-40GB", "H100-80GB")
        for profile in ("whole", "1g.5gb")
    ]
    assert problems(table("rates", *rates)) == []


def test_a_short_row_inside_a_long_one_is_found_behind_another() -> None:
    found = problems(
        table(
            "tenants",
            "shared,provider,2026-01-01,2027-01-01",
            "shared,tenant,2026-02-01,2026-03-01",
            "shared,tenant,2026-04-01,2026-05-01",
        )
    )
    assert [problem.where for problem in found] == [
        "tenants.csv line 3 and line 2",
        "tenants.csv line 4 and line 2",
    ]


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("budgets", "team-a,2026-10,EUR,100"),
        ("budgets", "team-a,,EUR,100"),
        ("products", "NVIDIA-X200,nvidia,X200,,7,8,"),
        ("amendments", "2026-09,tenants,|,Grace"),
    ],
)
def test_tables_without_validity_have_one_row_per_key(name: str, row: str) -> None:
    (problem,) = problems(table(name, row, row))
    assert problem.where == f"{name}.csv line 3 and line 2"
    assert "is decided twice" in problem.seen


def test_a_monthly_budget_and_one_for_every_month_are_no_overlap() -> None:
    rows = ["team-a,,EUR,100", "team-a,2026-10,EUR,200", "team-b,2026-10,EUR,300"]
    assert problems(table("budgets", *rows)) == []


@pytest.mark.parametrize(("until", "is_good"), [(NOVEMBER, True), (DECEMBER, False), ("", False)])
def test_two_clusters_are_never_the_hub_at_once(until: str, is_good: bool) -> None:
    first, second = f"c1,east,{OCTOBER},{until}", f"c2,west,{NOVEMBER},"
    files = table("clusters", *(f"{one},both,30,30" for one in (first, second)))
    hubs = {name: text.replace(",\n", ",hub\n") for name, text in files.items()}
    found = problems(hubs)
    assert [type(one) for one in found] == ([] if is_good else [DecisionsContradict])
    if found:
        assert "both hold for hub" in found[0].seen


GAP = "c1,thanos,2026-10-09T{0}:00:00Z,2026-10-09T{1}:00:00Z,{2},|,{3}"


@pytest.mark.parametrize(
    ("second", "is_good"),
    [
        (("15", "17", "waive", ""), True),  # accepted in two overlapping rows
        (("15", "17", "bill_lifecycle", ""), False),
        (("16", "17", "bill_lifecycle", ""), True),
        (("15", "17", "bill_lifecycle", "pod-1"), True),  # the row of one pod takes precedence
    ],
)
def test_a_gap_may_be_accepted_in_parts_but_not_in_two_ways(
    second: tuple[str, ...], is_good: bool
) -> None:
    found = problems(
        table("accepted_gaps", GAP.format("14", "16", "waive", ""), GAP.format(*second))
    )
    assert [type(p) for p in found] == ([] if is_good else [DecisionsContradict])


def test_a_third_value_is_found_behind_two_equal_rows() -> None:
    found = problems(
        table(
            "accepted_gaps",
            GAP.format("10", "20", "waive", ""),
            GAP.format("11", "12", "waive", ""),
            GAP.format("13", "14", "bill_nothing", ""),
        )
    )
    assert [problem.where for problem in found] == ["accepted_gaps.csv line 4 and line 2"]


def test_outages_may_overlap() -> None:
    rows = ["c1,2026-10-01,,credit", "c1,2026-10-02,2026-10-03,credit", ",2026-10-01,,credit"]
    assert problems(table("outages", *rows)) == []


def test_a_version_has_one_value_for_ever() -> None:
    rows = ["mig_weight,v2,memory,2026-01-01,2026-02-01", "mig_weight,v2,max,2026-03-01,"]
    (problem,) = problems(table("policies", *rows))
    assert "the version 'v2' of mig_weight is two values" in problem.seen
    same = ["mig_weight,v2,memory,2026-01-01,2026-02-01", "mig_weight,v2,memory,2026-03-01,"]
    assert problems(table("policies", *same)) == []
    other = ["mig_weight,v2,memory,2026-01-01,", "billable_state,v2,held,2026-01-01,"]
    assert problems(table("policies", *other)) == []


def test_two_currencies_may_follow_each_other_and_not_overlap() -> None:
    row = ",{0},whole,{1},1,{2},{3},|,"
    euro = row.format("A100-40GB", "EUR", "2026-01-01", "2026-10-01")
    assert problems(table("rates", euro, row.format("H100-80GB", "USD", "2026-10-01", ""))) == []
    (problem,) = problems(table("rates", euro, row.format("H100-80GB", "USD", "2026-09-30", "")))
    assert "two currencies hold: EUR and USD" in problem.seen


def test_a_decided_currency_equals_that_of_the_prices() -> None:
    rates = table("rates", ",A100-40GB,whole,USD,1,2026-10-01,,|,")
    policy = table("policies", "currency,v1,EUR,2026-01-01,")
    (problem,) = problems(rates, policy)
    assert problem.where == "rates.csv line 2 and policies.csv line 2"


def test_a_budget_in_a_currency_without_prices_is_refused() -> None:
    rates = table("rates", ",A100-40GB,whole,USD,1,2026-10-01,,|,")
    (problem,) = problems(rates, table("budgets", "team-a,,EUR,100"))
    assert isinstance(problem, InvalidDecision)
    assert problems(table("budgets", "team-a,,EUR,100")) == []


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("rates", "c2,A100-40GB,whole,EUR,1,2026-10-01,,|,"),
        ("outages", "c2,2026-10-01,,credit"),
        ("accepted_gaps", "c2,thanos,2026-10-01,2026-10-02,waive,|,"),
    ],
)
def test_a_decision_about_an_unknown_cluster_is_refused(name: str, row: str) -> None:
    clusters = table("clusters", "c1,prod,2026-10-01,,both,30,30")
    (problem,) = problems(clusters, table(name, row))
    assert isinstance(problem, InvalidDecision)
    assert problem.where == f"{name}.csv line 2, column cluster_id"
    assert "is it c1?" in problem.remedy
    assert problems(clusters, table(name, row.replace("c2", "c1"))) == []


def test_a_name_with_an_invalid_row_is_not_reported_as_unknown() -> None:
    rows = ["c1,prod,yesterday,,both,30,30", "c2,lab,2026-10-01,,both,30,30"]
    broken = table("clusters", *rows)
    rates = table("rates", "c1,A100-40GB,whole,EUR,1,2026-10-01,,|,")
    assert [problem.code for problem in problems(broken, rates)] == ["DEC-001"]


def test_a_price_of_zero_needs_a_reason() -> None:
    free = table("rates", "c1,A100-40GB,whole,EUR,0,2026-10-01,,pilot phase,Ada,2026-09-15,")
    assert problems(free) == []
    silent = {name: text.replace("pilot phase", "") for name, text in free.items()}
    (problem,) = problems(silent)
    assert problem.code == "DEC-001"
    assert problem.where == "rates.csv line 2, column reason"
