"""Hashes and copies of decisions: which edits change them and which do not.

Put here: canonical rows and files, the copy of a period, differences, templates.
Not here: where a close keeps its copy.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from domain.billing_period import BillingPeriod
from domain.decisions import (
    Decisions,
    TableName,
    canonical_files,
    differences,
    load_decisions,
    load_sealed_copy,
    template_files,
)
from domain.identity import sha256
from tests.decision_tables_page import decision_tables_page
from tests.decisions_by_hand import HEADERS, SIGNED, decided, table

OCTOBER = BillingPeriod("2026-10").interval
PRICE = ",A100-40GB,whole,EUR,1.5,2026-01-01,,|,"
OTHER = ",H100-80GB,whole,EUR,6.04,2026-01-01,,|,"


def rates(*rows: str) -> Decisions:
    return decided(table("rates", *rows))


def text(body: str) -> Decisions:
    return load_decisions({"rates.csv": body.replace("|", SIGNED)})


@pytest.mark.parametrize(
    "other",
    [
        rates(OTHER, PRICE),
        text(f"# a comment\n\n{HEADERS['rates']}\r\n{PRICE}\r\n# another\r\n{OTHER}\r\n"),
        rates(PRICE.replace("1.5", "1.50"), OTHER),
        rates(PRICE.replace("2026-01-01", "2026-01-01T01:00:00+01:00"), OTHER),
        decided(table("rates", PRICE, OTHER), table("tenants")),
        load_decisions(template_files() | table("rates", PRICE, OTHER)),
    ],
    ids=["order", "comments", "zeros", "zone", "an empty table", "templates"],
)
def test_the_hash_depends_on_values_and_not_on_formatting(other: Decisions) -> None:
    assert other == rates(PRICE, OTHER)
    assert other.sha256 == rates(PRICE, OTHER).sha256


def test_the_hash_covers_only_cells_with_a_value() -> None:
    """A later version with more tables and columns must calculate the same hash."""
    cells = {
        "gpu_class": "A100-40GB",
        "mig_profile": "whole",
        "currency": "EUR",
        "rate_per_hour": "1.5",
        "valid_from": "2026-01-01T00:00:00Z",
        "reason": "agreed",
        "decided_by": "Ada",
        "decided_on": "2026-09-15",
    }
    assert rates(PRICE).sha256 == sha256({"rates": [cells]})


@pytest.mark.parametrize(
    "row",
    [
        PRICE.replace("1.5", "1.500000001"),
        PRICE.replace("whole", "1g.5gb"),
        PRICE.replace("2026-01-01", "2026-01-01T00:00:01Z"),
        PRICE.replace("EUR", "USD"),
        PRICE.replace("01,,|", "01,2027-01-01,|"),
        PRICE.replace("|", SIGNED.replace("Ada", "Eve")),
        PRICE.replace("|", SIGNED.replace("agreed", "agreed!")),
        f"{PRICE}Grace",
    ],
)
def test_every_part_of_a_decision_changes_the_hash(row: str) -> None:
    assert rates(row).sha256 != rates(PRICE).sha256


def test_the_same_cells_in_another_table_are_another_decision() -> None:
    hashes = {
        Decisions().sha256,
        decided(table("tenants", "shared,provider,2026-01-01,")).sha256,
        decided(table("tenants", "shared,tenant,2026-01-01,")).sha256,
    }
    assert len(hashes) == 3


def test_canonical_files_give_the_same_decisions() -> None:
    decisions = decided(
        table("rates", PRICE, OTHER),
        table("parties", 'issuer,,"=cmd(), ""Ltd"" # 1",1 Road; DE,,,2026-01-01,'),
        table("budgets", "team-a,2026-10,EUR,12.50", "team-a,,EUR,1"),
        table("policies", "uncertainty_limit,v2,1/200,2026-01-01,"),
    )
    files = canonical_files(decisions.rows)
    assert sorted(files) == ["budgets.csv", "parties.csv", "policies.csv", "rates.csv"]
    assert files["rates.csv"].splitlines()[1] == (
        f",A100-40GB,whole,EUR,1.5,2026-01-01T00:00:00Z,,{SIGNED},"
    )
    assert load_decisions(files) == load_sealed_copy(files) == decisions
    assert canonical_files(load_decisions(files).rows) == files


def test_the_copy_of_a_period_has_the_decisions_valid_in_it() -> None:
    decisions = decided(
        table(
            "tenants",
            "a,provider,2026-09-01,2026-10-01",  # ended at the start of the period
            "b,provider,2026-09-01,2026-10-02",
            "c,provider,2026-10-31T23:59:59Z,",
            "d,provider,2026-11-01,",
        ),
        table("budgets", "team-a,2026-09,EUR,1", "team-a,2026-10,EUR,2", "team-a,,EUR,3"),
        table("outages", "c1,2026-10-31,,credit", "c1,2026-11-01,,credit"),
        table("products", "NVIDIA-X200,nvidia,X200,,7,8,"),
        table("amendments", "2026-09,tenants,|,Grace"),
    )
    copy = decisions.valid_in(OCTOBER)
    assert [row.namespace for row in copy.tenants] == ["b", "c"]
    assert [row.amount_nanos // 10**9 for row in copy.budgets] == [3, 2]
    assert len(copy.outages) == 1
    assert copy.products == decisions.products
    assert copy.amendments == ()
    assert copy.valid_in(OCTOBER) == copy


@pytest.mark.parametrize(
    "later",
    [
        ["shared,provider,2026-01-01,2026-11-01"],  # ended at the end of the period
        ["shared,provider,2026-01-01,2027-01-01"],
        ["shared,provider,2026-01-01,2026-11-01", "shared,tenant,2026-11-01,"],
        ["shared,provider,2026-01-01,", "other,provider,2026-11-01,"],
    ],
)
def test_later_decisions_do_not_change_the_copy(later: list[str]) -> None:
    sealed = decided(table("tenants", "shared,provider,2026-01-01,")).valid_in(OCTOBER)
    present = decided(table("tenants", *later)).valid_in(OCTOBER)
    assert present.sha256 == sealed.sha256
    assert differences(sealed.rows, present.rows) == []


def test_a_price_that_ends_later_keeps_its_id_in_the_copy() -> None:
    sealed = rates(PRICE).valid_in(OCTOBER)
    ended = rates(PRICE.replace("01,,|", "01,2026-11-15,|")).valid_in(OCTOBER)
    assert [rate.rate_id for rate in ended.rates] == [rate.rate_id for rate in sealed.rates]
    assert ended.sha256 == sealed.sha256


def test_a_changed_row_is_shown_as_one_removed_and_one_added() -> None:
    sealed = rates(PRICE, OTHER).valid_in(OCTOBER)
    present = rates(PRICE.replace("1.5", "15"), OTHER).valid_in(OCTOBER)
    assert present.sha256 != sealed.sha256
    found = differences(sealed.rows, present.rows)
    assert [(d.table, d.change) for d in found] == [("rates", "gone"), ("rates", "new")]
    assert ",1.5," in found[0].cells
    assert ",15," in found[1].cells


def test_an_end_inside_the_closed_period_is_a_change_of_the_copy() -> None:
    sealed = decided(table("tenants", "shared,provider,2026-01-01,")).valid_in(OCTOBER)
    ended = decided(table("tenants", "shared,provider,2026-01-01,2026-10-31")).valid_in(OCTOBER)
    assert ended.sha256 != sealed.sha256


def test_a_copy_is_valid_without_the_other_rows() -> None:
    """Rows that were valid only at other times are missing from it, without a contradiction."""
    decisions = decided(
        table(
            "clusters",
            "c1,prod,2026-10-01,,both,30,30",
            "c2,old,2026-01-01,2026-06-01,both,30,30",
        ),
        table(
            "rates",
            "c1,A100-40GB,whole,EUR,1,2026-01-01,,|,",
            ",A100-40GB,1g.5gb,EUR,0.2,2026-01-01,,|,",
            "c1,A100-40GB,1g.5gb,EUR,0.21,2026-01-01,2026-06-01,|,",
            "c1,A100-40GB,1g.5gb,EUR,0.22,2026-06-01,,|,",
            "c2,A100-40GB,whole,EUR,1,2026-06-01,,|,",
            "c2,A100-40GB,1g.5gb,EUR,1,2026-01-01,,|,Grace",
        ),
        table("outages", "c2,2026-10-01,,credit"),
    )
    copy = decisions.valid_in(OCTOBER)
    assert {rate.cluster_id for rate in copy.rates} == {"", "c1"}
    assert copy.outages == ()
    assert load_sealed_copy(canonical_files(copy.rows)) == copy


def test_templates_are_tables_without_rows() -> None:
    files = template_files()
    assert load_decisions(files) == Decisions()
    assert sorted(files) == sorted(f"{name}.csv" for name in HEADERS)
    for name, header in HEADERS.items():
        lines = files[f"{name}.csv"].splitlines()
        assert lines[0] == header
        assert all(line.startswith("#") for line in lines[1:])
        for column in header.split(","):
            assert sum(line.startswith(f"# {column}: ") for line in lines) == 1, column


def test_template_examples_are_valid_without_the_comment_character() -> None:
    uncommented = {}
    for name, body in template_files().items():
        *lines, example = body.splitlines()
        uncommented[name] = "\n".join([*lines, example.removeprefix("#")])
    decisions = load_decisions(uncommented)
    assert all(len(decisions.rows(table)) == 1 for table in TableName)
    assert decisions.problems == ()


def test_the_documentation_page_is_generated_from_the_tables() -> None:
    """To rewrite the page after an intended change, set GPU_LEDGER_WRITE_GOLDEN=1."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "decision-tables.md"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        page.write_text(f"{decision_tables_page()}\n", encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    assert text == f"{decision_tables_page()}\n"
    assert text.count("## ") == len(HEADERS)
