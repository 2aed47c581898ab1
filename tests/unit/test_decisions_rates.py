"""The price that applies is the most specific valid row; a missing or ambiguous price is an error.

Put here: the lookup, its intervals, equal specificity, and large changes of prices.
Not here: the cost of a number of seconds (`test_money`).
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import pytest

from domain.billing_period import BillingPeriod
from domain.decisions import (
    Decisions,
    DecisionsContradict,
    Rate,
    Rates,
    load_decisions,
    read_decisions,
    unknown_to_catalogue,
)
from domain.gpu.product_tables import parse_catalogue
from domain.interval import Interval
from domain.money import Money, parse_nanos
from tests.decisions_by_hand import decided, table
from warehouse.project import seed_text

OCTOBER = BillingPeriod("2026-10").interval
AT = datetime(2026, 10, 10, tzinfo=UTC)
A100 = "A100-40GB"


def rate_row(
    rate_per_hour: str,
    cluster: str = "",
    profile: str = "whole",
    since: str = "2026-01-01",
    until: str = "",
    second_name: str = "",
    currency: str = "EUR",
    gpu_class: str = A100,
) -> str:
    key = f"{cluster},{gpu_class},{profile},{currency},{rate_per_hour}"
    return f"{key},{since},{until},|,{second_name}"


def rates(*rows: str) -> Decisions:
    return decided(table("rates", *rows))


def price(decisions: Decisions, cluster: str, profile: str, at: datetime = AT) -> str:
    found = decisions.price_list.find(cluster, A100, profile, at)
    assert found is not None
    return str(found.money_per_hour)


def test_the_most_specific_row_wins() -> None:
    decisions = rates(
        rate_row("1"),
        rate_row("2", cluster="c1"),
        rate_row("3", profile="1g.5gb"),
        rate_row("4", cluster="c1", profile="1g.5gb"),
    )
    assert price(decisions, "c1", "1g.5gb") == "4 EUR"
    assert price(decisions, "c1", "whole") == "2 EUR"
    assert price(decisions, "c1", "2g.10gb") == "2 EUR"  # by weight
    assert price(decisions, "c2", "1g.5gb") == "3 EUR"
    assert price(decisions, "c2", "whole") == "1 EUR"
    assert price(decisions, "c2", "2g.10gb") == "1 EUR"


def test_a_price_is_valid_from_its_first_instant_to_before_its_last() -> None:
    decisions = rates(
        rate_row("1", until="2026-10-10"), rate_row("1.2", since="2026-10-10", until="2026-10-20")
    )
    assert price(decisions, "c1", "whole", AT - timedelta(seconds=1)) == "1 EUR"
    assert price(decisions, "c1", "whole", AT) == "1.2 EUR"
    after = datetime(2026, 10, 20, tzinfo=UTC)
    assert decisions.price_list.find("c1", A100, "whole", after) is None


def test_an_ended_specific_price_is_replaced_by_the_general_one() -> None:
    decisions = rates(rate_row("1"), rate_row("0.9", cluster="c1", until="2026-10-10"))
    assert price(decisions, "c1", "whole", AT - timedelta(seconds=1)) == "0.9 EUR"
    assert price(decisions, "c1", "whole", AT) == "1 EUR"


@pytest.mark.parametrize(
    ("cluster", "gpu_class", "profile"),
    [("c1", "H100-80GB", "whole"), ("c1", "A100", "whole"), ("c1", "a100-40gb", "whole")],
)
def test_without_a_row_there_is_no_price(cluster: str, gpu_class: str, profile: str) -> None:
    decisions = rates(rate_row("1"))
    assert decisions.price_list.find(cluster, gpu_class, profile, AT) is None


def test_a_price_for_one_cluster_does_not_apply_to_another() -> None:
    decisions = rates(rate_row("1", cluster="c1"))
    assert decisions.price_list.find("c2", A100, "whole", AT) is None


def test_a_price_of_zero_is_a_price() -> None:
    assert price(rates(rate_row("0")), "c1", "whole") == "0 EUR"


def test_a_month_is_cut_at_price_changes_and_shows_gaps() -> None:
    decisions = rates(
        rate_row("1", until="2026-10-10"),
        rate_row("1.1", since="2026-10-20"),
        rate_row("1.2", cluster="c1", since="2026-10-25"),
    )
    spans = decisions.price_list.spans("c1", A100, "whole", OCTOBER)
    days = [(p.started_at.day, p.ended_at.day, r and str(r.money_per_hour)) for p, r in spans]
    assert days == [(1, 10, "1 EUR"), (10, 20, None), (20, 25, "1.1 EUR"), (25, 1, "1.2 EUR")]
    assert sum(piece.seconds for piece, _ in spans) == 31 * 86_400


def test_edges_of_other_prices_cut_nothing() -> None:
    decisions = rates(
        rate_row("1"),
        rate_row("2", cluster="c2", since="2026-10-10", second_name="Grace"),
        rate_row("3", profile="1g.5gb", since="2026-10-12"),
        rate_row("3", cluster="c2", profile="1g.5gb", since="2026-10-12"),
        rate_row("4", gpu_class="H100-80GB", since="2026-10-14"),
    )
    spans = decisions.price_list.spans("c1", A100, "whole", OCTOBER)
    assert [piece for piece, _ in spans] == [OCTOBER]


def test_a_change_of_a_general_price_under_a_specific_one_cuts_nothing() -> None:
    decisions = rates(
        rate_row("1", until="2026-10-10"),
        rate_row("1.1", since="2026-10-10"),
        rate_row("1.2", cluster="c1"),
    )
    assert len(decisions.price_list.spans("c1", A100, "whole", OCTOBER)) == 1


def undecided(*rows: str) -> list[str]:
    _, problems = read_decisions(table("rates", *rows))
    assert {problem.code for problem in problems} <= {"DEC-002"}
    return [problem.where for problem in problems]


def test_a_cluster_price_and_a_profile_price_are_equally_specific() -> None:
    of_cluster, of_profile = rate_row("1", cluster="c1"), rate_row("2", profile="1g.5gb")
    where = ["A100-40GB / 1g.5gb in c1 from 2026-01-01T00:00:00Z"]
    assert undecided(of_cluster, of_profile) == where
    assert undecided(of_profile, of_cluster) == where
    assert undecided(of_cluster, of_profile, rate_row("3", cluster="c1", profile="1g.5gb")) == []


@pytest.mark.parametrize(
    ("deciding", "where"),
    [
        (("2026-01-01", "2026-10-01"), "2026-10-01"),
        (("2026-02-01", ""), "2026-01-01"),
        (("2025-01-01", ""), None),
    ],
)
def test_a_deciding_price_must_cover_the_whole_ambiguous_interval(
    deciding: tuple[str, str], where: str | None
) -> None:
    found = undecided(
        rate_row("1", cluster="c1"),
        rate_row("2", profile="1g.5gb"),
        rate_row("3", cluster="c1", profile="1g.5gb", since=deciding[0], until=deciding[1]),
    )
    assert found == (
        [f"A100-40GB / 1g.5gb in c1 from {where}T00:00:00Z"] if where is not None else []
    )


def test_equally_specific_prices_at_different_times_are_unambiguous() -> None:
    assert (
        undecided(
            rate_row("1", cluster="c1", until="2026-06-01"),
            rate_row("2", profile="1g.5gb", since="2026-06-01"),
        )
        == []
    )


def test_equally_specific_prices_of_different_classes_are_unambiguous() -> None:
    assert (
        undecided(
            rate_row("1", cluster="c1"), rate_row("2", profile="1g.10gb", gpu_class="H100-80GB")
        )
        == []
    )


def test_an_ambiguous_price_is_also_refused_at_the_lookup() -> None:
    rows = [rate_row("1", cluster="c1"), rate_row("2", profile="1g.5gb")]
    each = [load_decisions(table("rates", row)).rates[0] for row in rows]
    with pytest.raises(DecisionsContradict, match=r"1 EUR per hour.*2 EUR per hour"):
        Rates(each).find("c1", A100, "1g.5gb", AT)
    assert Rates(each).find("c1", A100, "whole", AT) == each[0]
    assert Rates(each).find("c2", A100, "1g.5gb", AT) == each[1]


def the_rate(**changes: str) -> Rate:
    return rates(rate_row(changes.pop("rate_per_hour", "1"), **changes)).rates[0]


def test_a_rate_keeps_its_id_when_its_end_or_reason_changes() -> None:
    ended = the_rate(until="2026-12-01", second_name="Grace")
    assert ended.rate_id == the_rate().rate_id
    assert the_rate(rate_per_hour="1.000").rate_id == the_rate().rate_id


def test_every_part_of_a_price_is_in_its_id() -> None:
    names = {
        the_rate().rate_id,
        the_rate(rate_per_hour="1.000000001").rate_id,
        the_rate(cluster="c1").rate_id,
        the_rate(profile="1g.5gb").rate_id,
        the_rate(gpu_class="H100-80GB").rate_id,
        the_rate(currency="USD").rate_id,
        the_rate(since="2026-01-01T00:00:01Z").rate_id,
    }
    assert len(names) == 7


def test_the_id_of_a_rate_never_changes() -> None:
    """Invoices contain it, so a change of its calculation must fail here."""
    canonical = b"l67:s0:s9:A100-40GBs5:wholet20:2026-01-01T00:00:00Zs3:EURi10:1000000000"
    assert the_rate().rate_id == f"rate-{hashlib.sha256(canonical).hexdigest()[:16]}"


def unsigned(*rows: str) -> list[str]:
    return [problem.seen.split(";")[0] for problem in rates(*rows).problems]


@pytest.mark.parametrize(
    ("old", "new", "is_large"),
    [
        ("1", "1.25", False),
        ("1", "1.250000001", True),
        ("1", "0.75", False),
        ("1", "0.749999999", True),
        ("1", "10", True),
        ("1", "0", True),
        ("0", "1", True),
        ("0", "0", False),
        ("0.000000004", "0.000000005", False),
    ],
)
def test_a_change_above_a_quarter_needs_a_second_name(old: str, new: str, is_large: bool) -> None:
    first = rate_row(old, until="2026-10-01")
    assert bool(unsigned(first, rate_row(new, since="2026-10-01"))) is is_large
    assert unsigned(first, rate_row(new, since="2026-10-01", second_name="Grace")) == []


def test_a_change_shows_both_prices_and_the_percentage() -> None:
    (problem,) = rates(
        rate_row("1.803", until="2026-10-01"), rate_row("18.03", since="2026-10-01")
    ).problems
    assert problem.where == "rates.csv line 3, column second_name"
    assert problem.seen == (
        "from 2026-10-01T00:00:00Z A100-40GB / whole costs 18.03 EUR per hour, "
        "after 1.803 EUR (line 2), +900.0 %; only Ada decided it"
    )


def test_the_first_price_is_no_change() -> None:
    assert unsigned(rate_row("1"), rate_row("100", gpu_class="H100-80GB")) == []


def test_a_gap_between_prices_does_not_hide_a_large_change() -> None:
    assert unsigned(rate_row("1", until="2026-03-01"), rate_row("10", since="2026-10-01"))


def test_a_more_specific_row_with_a_later_start_is_a_change() -> None:
    seen = unsigned(rate_row("1"), rate_row("10", cluster="c1", since="2026-10-01"))
    assert len(seen) == 1
    assert unsigned(rate_row("1"), rate_row("10", cluster="c1")) == []  # at the same instant


def test_fallback_to_the_general_price_is_approved_in_the_ending_row() -> None:
    general = rate_row("10", until="2027-01-01")
    special = rate_row("1", cluster="c1", until="2026-10-01")
    assert len(unsigned(general, special)) == 1
    signed = rate_row("1", cluster="c1", until="2026-10-01", second_name="Grace")
    assert unsigned(general, signed) == []


def test_a_general_change_for_many_clusters_is_reported_once() -> None:
    rows = [rate_row("1", until="2026-10-01"), rate_row("10", since="2026-10-01")]
    rows += [rate_row("1", cluster=c, until="2026-02-01") for c in ("c1", "c2", "c3")]
    assert len(unsigned(*rows)) == 1


def test_a_change_of_currency_needs_a_second_name() -> None:
    rows = [rate_row("1", until="2026-10-01")]
    assert unsigned(*rows, rate_row("1", since="2026-10-01", currency="USD"))


@pytest.mark.parametrize(
    ("month", "count"), [("2026-09", 0), ("2026-10", 1), ("2026-11", 1), ("2026-12", 0)]
)
def test_a_problem_belongs_to_every_month_billed_at_the_new_price(month: str, count: int) -> None:
    decisions = rates(
        rate_row("1", until="2026-10-01"),
        rate_row("10", since="2026-10-01", until="2026-12-01"),
    )
    assert len(decisions.valid_in(BillingPeriod(month).interval).problems) == count


def test_prices_of_unknown_products_are_found() -> None:
    catalogue = parse_catalogue(seed_text("gpu_products"), seed_text("mig_profiles"))
    decisions = rates(
        rate_row("1"),
        rate_row("2", profile="1g.5gb"),
        rate_row("3", profile="1g.10gb"),
        rate_row("4", profile="1g.6gb"),  # a profile of the A30
        rate_row("5", gpu_class="A100-40"),
        rate_row("6", gpu_class="MI300X", profile="cpx_nps4"),
        rate_row("7", gpu_class="L4", profile="1g.5gb"),
    )
    found = unknown_to_catalogue(decisions.rates, catalogue)
    assert sorted(problem.where for problem in found) == [
        "rates.csv line 5, column mig_profile",
        "rates.csv line 6, column gpu_class",
        "rates.csv line 8, column mig_profile",
    ]
    by_line = {problem.where[15]: problem for problem in found}
    assert "is it A100-40GB?" in by_line["6"].remedy


def test_a_price_per_hour_is_money() -> None:
    assert the_rate(rate_per_hour="1.803").money_per_hour == Money(parse_nanos("1.803"), "EUR")
    assert Interval(AT, AT + timedelta(hours=1)).seconds == 3600
