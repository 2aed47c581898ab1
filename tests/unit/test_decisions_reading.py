"""Reading decision tables: spreadsheet formats are accepted, invalid tables are refused whole.

Put here: bytes, headers, cells, limits; each problem with its file, line, value and remedy.
Not here: rows against each other (`test_decisions_contradictions`).
"""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from domain.decisions import (
    DecisionsRefused,
    InvalidDecision,
    load_decisions,
    read_decisions,
)
from domain.decisions.problems import MOST_PROBLEMS_PER_TABLE, MOST_PROBLEMS_SHOWN
from domain.decisions.reading import LARGEST_FILE_BYTES, LONGEST_LINE, MOST_ROWS
from domain.decisions.rows import Rate
from domain.errors import BadInput
from tests.decisions_by_hand import HEADERS, table

RATE = ",A100-40GB,whole,EUR,1.803,2026-10-01,,agreed,Ada,2026-09-15,"
RATES = HEADERS["rates"]
CLUSTER = "c1,prod,2026-10-01,,both,300,30,agreed,Ada,2026-09-15,"


def problems(files: dict[str, str | bytes]) -> list[BadInput]:
    return read_decisions(files)[1]


def the_problem(files: dict[str, str | bytes]) -> BadInput:
    """The one problem of the files, after a check that no table was loaded."""
    found = problems(files)
    assert len(found) == 1, found
    with pytest.raises(DecisionsRefused):
        load_decisions(files)
    return found[0]


def rates(body: str | bytes) -> tuple[Rate, ...]:
    return load_decisions({"rates.csv": body}).rates


def test_a_row_has_typed_values() -> None:
    (rate,) = rates(f"{RATES}\n{RATE}\n")
    assert rate == Rate(
        cluster_id="",
        gpu_class="A100-40GB",
        mig_profile="whole",
        currency="EUR",
        rate_nanos_per_hour=1_803_000_000,
        valid_from=datetime(2026, 10, 1, tzinfo=UTC),
        valid_until=None,
        reason="agreed",
        decided_by="Ada",
        decided_on=date(2026, 9, 15),
        second_name="",
    )
    assert rate.line == 2


@pytest.mark.parametrize(
    "body",
    [
        f"{RATES}\r\n{RATE}\r\n".encode(),
        b"\xef\xbb\xbf" + f"{RATES}\n{RATE}".encode(),
        "\ufeff" + f"{RATES}\n{RATE}\n",
        f"# prices of autumn\n\n{RATES}\n  # one comment\n\n{RATE}\n,,,,,,,,,,\n",
        f'"# a comment, that a spreadsheet put in quotes",,,,,,,,,,\n{RATES}\n{RATE}',
        f"{RATES}\n{RATE.replace('agreed', ' agreed	')}\n",
        f'{RATES}\n{RATE.replace("agreed", chr(34) + "agreed" + chr(34))}\n',
        f"{RATES}\n{RATE.replace('1.803', '01.80300')}\n",
        f"{RATES}\n{RATE.replace('2026-10-01', '2026-10-01T02:00:00+02:00')}\n",
    ],
    ids=["CRLF", "BOM", "BOM in text", "comments", "quoted comment", "space", "quotes",
         "zeros", "offset"],
)  # fmt: skip
def test_formats_of_spreadsheets_and_people_are_accepted(body: str | bytes) -> None:
    assert rates(body) == rates(f"{RATES}\n{RATE}\n")


def test_columns_may_be_in_any_order_and_optional_ones_absent() -> None:
    names = RATES.removesuffix(",second_name").split(",")
    cells = RATE.removesuffix(",").split(",")
    backwards = f"{','.join(reversed(names))}\n{','.join(reversed(cells))}\n"
    assert rates(backwards) == rates(f"{RATES}\n{RATE}\n")


def test_commas_quotes_and_formulas_are_data_in_free_text() -> None:
    row = CLUSTER.replace("prod", '"=cmd()|""x"", 1"')
    text = f"{HEADERS['clusters']}\n{row}"
    assert load_decisions({"clusters.csv": text}).clusters[0].cluster_name == '=cmd()|"x", 1'


def test_emoji_and_right_to_left_names_are_kept() -> None:
    text = f"{HEADERS['clusters']}\n{CLUSTER.replace('prod', 'עברית 🚀')}"
    assert load_decisions({"clusters.csv": text}).clusters[0].cluster_name == "עברית 🚀"


def test_a_missing_table_is_empty() -> None:
    assert load_decisions({}) == load_decisions({"rates.csv": RATES})
    assert load_decisions({}).rates == ()


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (f"{RATES}\n{RATE}\n".encode("utf-16"), "UTF-16"),
        (b"\xff\xfe", "UTF-16"),
        (f"{RATES}\n{RATE.replace('agreed', 'für')}".encode("latin-1"), "0xfc"),
        (b"PK\x03\x04\x14\x00\x06\x00\x08\x00\xff", "0xff"),
    ],
)
def test_other_encodings_are_refused(body: bytes, seen: str) -> None:
    problem = the_problem({"rates.csv": body})
    assert isinstance(problem, InvalidDecision)
    assert seen in problem.seen
    assert "UTF-8" in problem.remedy


def test_an_invalid_byte_is_shown_with_its_line() -> None:
    body = f"{RATES}\n{RATE}\n".encode() + b"c1,\xfc"
    problem = the_problem({"rates.csv": body})
    assert problem.where == "rates.csv line 3"
    assert f"offset {len(body) - 1}" in problem.seen


@pytest.mark.parametrize(
    ("character", "name"),
    [("\x00", "U+0000"), ("\x1b", "U+001B"), ("\r", "U+000D"), ("\x7f", "U+007F"),
     ("\x85", "U+0085"), ("\u202e", "U+202E"), ("\ud800", "U+D800")],
)  # fmt: skip
def test_invisible_characters_are_refused(character: str, name: str) -> None:
    problem = the_problem({"rates.csv": f"{RATES}\n{RATE.replace('agreed', f'a{character}b')}"})
    assert isinstance(problem, InvalidDecision)
    assert problem.where == "rates.csv line 2"
    assert name in problem.seen


def test_a_missing_quote_invalidates_only_its_own_line() -> None:
    broken = RATE.replace("agreed", '"agreed')
    found = problems({"rates.csv": f"{RATES}\n{broken}\n{RATE}\n{RATE.replace('1.803', 'x')}"})
    assert [problem.where for problem in found] == [
        "rates.csv line 2",
        "rates.csv line 4, column rate_per_hour",
    ]


@pytest.mark.parametrize("cell", ['"agreed"!', '"agreed" ', '"a"b"'])
def test_text_after_a_closing_quote_is_refused(cell: str) -> None:
    problem = the_problem({"rates.csv": f"{RATES}\n{RATE.replace('agreed', cell)}"})
    assert isinstance(problem, InvalidDecision)
    assert "close the quote" in problem.remedy


@pytest.mark.parametrize("cells", [RATE + ",", RATE.removesuffix(","), "c1"])
def test_a_row_with_a_cell_too_many_or_too_few_is_refused(cells: str) -> None:
    problem = the_problem({"rates.csv": f"{RATES}\n{cells}"})
    assert problem.seen == f"{cells.count(',') + 1} cells; the header has 11"


def test_a_header_error_lists_missing_unknown_and_duplicate_columns() -> None:
    header = RATES.replace("currency", "curency").replace("reason", "decided_by")
    problem = the_problem({"rates.csv": f"{header}\n{RATE}"})
    assert isinstance(problem, InvalidDecision)
    assert problem.seen == (
        "missing: currency, reason; unknown: 'curency' (is it currency?); "
        "more than once: 'decided_by'"
    )
    assert RATES in problem.remedy


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_table_with_another_separator_is_named_as_such(separator: str) -> None:
    problem = the_problem({"rates.csv": f"{RATES}\n{RATE}".replace(",", separator)})
    assert isinstance(problem, InvalidDecision)
    assert "separated by commas" in problem.remedy


@pytest.mark.parametrize("body", ["", "\n\n", "# rates\n", "\ufeff", ",,,\n"])
def test_an_empty_file_is_not_a_table_without_rows(body: str) -> None:
    assert isinstance(the_problem({"rates.csv": body}), InvalidDecision)


def test_a_file_of_another_name_is_refused_with_a_suggestion() -> None:
    problem = the_problem({"rate.csv": f"{RATES}\n{RATE}"})
    assert isinstance(problem, InvalidDecision)
    assert problem.remedy == "rename it to rates.csv"


CELLS = {
    "clusters": CLUSTER,
    "tenants": "shared,provider,2026-10-01,,agreed,Ada,2026-09-15",
    "rates": RATE,
    "budgets": "team-a,2026-10,EUR,12000,agreed,Ada,2026-09-15,,,,",
    "outages": "c1,2026-10-14T12:00:00Z,2026-10-14T21:00:00Z,credit,agreed,Ada,2026-09-15,,",
    "accepted_gaps": "c1,thanos,2026-10-09T14:00:00Z,2026-10-09T16:00:00Z,waive,agreed,Ada,"
    "2026-10-15,",
    "policies": "mig_weight,v2,memory,2026-10-01,,agreed,Ada,2026-09-15",
    "parties": "customer,team-a,Example Ltd,1 Street; DE,DE1,a@example.org,2026-10-01,,agreed,"
    "Ada,2026-09-15,VAT ID,8.875,,30,30 days net,Bank; IBAN 1,PO-1",
    "products": "NVIDIA-X200,nvidia,X200,196608,7,8,,agreed,Ada,2026-09-15",
    "amendments": "2026-09,tenants,agreed,Ada,2026-10-15,Grace",
}


@pytest.mark.parametrize("name", CELLS)
def test_the_valid_row_of_every_table_is_read(name: str) -> None:
    decisions = load_decisions({f"{name}.csv": f"{HEADERS[name]}\n{CELLS[name]}"})
    assert len(getattr(decisions, name)) == 1


@pytest.mark.parametrize(
    ("name", "column", "bad"),
    [
        ("clusters", "cluster_id", ""),
        ("clusters", "cluster_id", "=cmd()"),
        ("clusters", "cluster_id", "a b"),
        ("clusters", "cluster_id", "x" * 129),
        ("clusters", "cluster_name", ""),
        ("clusters", "valid_from", ""),
        ("clusters", "valid_from", "01.10.2026"),
        ("clusters", "valid_until", "2026-10-01"),  # equal to its start: it would never be valid
        ("clusters", "valid_until", "2026-09-30"),
        ("clusters", "sources", "Both"),
        ("clusters", "sample_interval_seconds", "0"),
        ("clusters", "sample_interval_seconds", "3601"),
        ("clusters", "sample_interval_seconds", "30.0"),
        ("clusters", "sample_interval_seconds", "29"),  # less frequent scrapes than samples
        ("clusters", "scrape_interval_seconds", "-30"),
        ("clusters", "reason", ""),
        ("clusters", "reason", "x" * 1001),
        ("clusters", "decided_by", ""),
        ("clusters", "decided_on", "2026-02-30"),
        ("clusters", "decided_on", "2026-09-15T10:00:00Z"),
        ("tenants", "namespace", "Team-A"),
        ("tenants", "namespace", "team_a"),
        ("tenants", "namespace", "-team"),
        ("tenants", "namespace", "a" * 64),
        ("tenants", "namespace", "=HYPERLINK()"),
        ("tenants", "belongs_to", "providers"),
        ("rates", "gpu_class", ""),
        ("rates", "gpu_class", "A100 40GB"),
        ("rates", "mig_profile", ""),
        ("rates", "mig_profile", "Whole"),
        ("rates", "mig_profile", "1g5gb"),
        ("rates", "mig_profile", "1g.5gb.me"),  # as in a resource name
        ("rates", "mig_profile", "01g.5gb"),
        ("rates", "currency", "eur"),
        ("rates", "rate_per_hour", ""),
        ("rates", "rate_per_hour", "-1"),
        ("rates", "rate_per_hour", "1,803"),
        ("rates", "rate_per_hour", "1e3"),
        ("rates", "rate_per_hour", "0.0000000001"),
        ("rates", "rate_per_hour", "1000000000.000000001"),
        ("rates", "second_name", "Ada"),  # the same person as the first name
        ("rates", "second_name", "ADA"),
        ("budgets", "billing_period", "2026-13"),
        ("budgets", "amount", "all of it"),
        ("outages", "ended_at", "2026-10-14T11:00:00Z"),
        ("outages", "treatment", "ignore"),
        ("accepted_gaps", "cluster_id", ""),
        ("accepted_gaps", "source", "prometheus"),
        ("accepted_gaps", "ended_at", ""),  # an accepted gap has an end
        ("accepted_gaps", "ended_at", "2026-10-09T14:00:00Z"),
        ("accepted_gaps", "treatment", "bill"),
        ("accepted_gaps", "pod_uid", "a/b"),
        ("policies", "policy", "mig_weights"),
        ("policies", "version", "default-1"),  # the name of a shipped version
        ("policies", "value", "average"),
        ("parties", "role", "seller"),
        ("parties", "tenant", ""),
        ("parties", "name", ""),
        ("parties", "name", "\N{CJK UNIFIED IDEOGRAPH-682A}"),
        ("parties", "tax_percent", "101"),
        ("parties", "tax_percent", "0.0001"),
        ("parties", "payment_days", "-1"),
        ("products", "product", "NVIDIA X200"),
        ("products", "vendor", "Nvidia"),
        ("products", "compute_slots", "0"),
        ("products", "memory_slots", ""),
        ("amendments", "billing_period", ""),
        ("amendments", "amended_table", "rate"),
        ("amendments", "second_name", ""),
        ("amendments", "second_name", "ada"),
    ],
)
def test_an_invalid_cell_is_named_by_file_line_and_column(name: str, column: str, bad: str) -> None:
    cells = CELLS[name].split(",")
    cells[HEADERS[name].split(",").index(column)] = f'"{bad}"'
    problem = the_problem({f"{name}.csv": f"# a table\n{HEADERS[name]}\n{','.join(cells)}"})
    assert isinstance(problem, InvalidDecision)
    assert problem.where == f"{name}.csv line 3, column {column}"
    assert problem.remedy


@pytest.mark.parametrize(
    ("policy", "good", "bad"),
    [
        ("billable_state", ["running", "held"], ["Running", "idle"]),
        ("mig_weight", ["max", "compute", "memory", "table"], ["min"]),
        ("uncertainty_limit", ["0", "1", "0.005", "1/200"], ["-0.1", "1.001", "0.5%", "1/0"]),
        ("one_source_limit", ["0.05"], ["5", "nan"]),
        ("grace_days", ["0", "2", "60"], ["61", "-1", "2.5"]),
        ("currency", ["EUR"], ["Euro"]),
    ],
)
def test_the_value_of_a_policy_has_the_format_of_its_policy(
    policy: str, good: list[str], bad: list[str]
) -> None:
    for value in good:
        assert problems(table("policies", f"{policy},v2,{value},2026-10-01,")) == []
    for value in bad:
        problem = the_problem(table("policies", f"{policy},v2,{value},2026-10-01,"))
        assert problem.where == "policies.csv line 2, column value"


@pytest.mark.parametrize(
    ("role", "tenant", "is_good"),
    [("issuer", "", True), ("issuer", "team-a", False), ("customer", "team-a", True)],
)
def test_an_issuer_has_no_tenant_and_a_customer_has(role: str, tenant: str, is_good: bool) -> None:
    found = problems(table("parties", f"{role},{tenant},Example Ltd,,,,2026-10-01,"))
    assert bool(found) is not is_good


def test_all_problems_are_collected() -> None:
    bad_rate = RATE.replace("EUR", "eur").replace("1.803", "x")
    found = problems(
        {
            "rates.csv": f"{RATES}\n{bad_rate}\n{RATE.replace('A100-40GB', '')}",
            "clusters.csv": "cluster_id\n",
            "prices.csv": "",
        }
    )
    assert sorted(problem.where for problem in found) == [
        "clusters.csv line 1",
        "decisions/prices.csv",
        "rates.csv line 2, column currency",
        "rates.csv line 2, column rate_per_hour",
        "rates.csv line 3, column gpu_class",
    ]


def test_the_error_shows_twenty_problems_and_counts_the_others() -> None:
    rows = "\n".join(RATE.replace("EUR", "eur") for _ in range(MOST_PROBLEMS_SHOWN + 5))
    with pytest.raises(DecisionsRefused) as refused:
        load_decisions({"rates.csv": f"{RATES}\n{rows}"})
    assert refused.value.seen.startswith("25 problems\n")
    assert refused.value.seen.count("DEC-001") == MOST_PROBLEMS_SHOWN
    assert refused.value.seen.endswith("… and 5 more")
    assert len(refused.value.problems) == 25


def test_a_file_of_more_than_100_megabytes_is_refused_unread() -> None:
    problem = the_problem({"rates.csv": b"\x00" * (LARGEST_FILE_BYTES + 1)})
    assert "100000001 bytes, at most 100000000 are read" in problem.seen


def test_a_file_of_exactly_100_megabytes_is_read() -> None:
    problem = the_problem({"rates.csv": b"x" * LARGEST_FILE_BYTES})
    assert problem.where == "rates.csv line 1"
    assert len(problem.message()) < 1_000


def test_an_endless_line_is_refused_and_quoted_in_part() -> None:
    problem = the_problem({"rates.csv": f"{RATES}\n{'x' * (LONGEST_LINE + 1)}"})
    assert len(problem.message()) < 1_000
    assert problem.where == "rates.csv line 2"
    assert problem.seen == f"{LONGEST_LINE + 1} characters, at most {LONGEST_LINE} are read"
    at_the_limit = the_problem({"rates.csv": f"{RATES}\n{'x' * LONGEST_LINE}"})
    assert at_the_limit.seen.startswith("1 cells")


def test_the_limit_of_rows_is_exact() -> None:
    row = "team-a,,EUR,1,r,Ada,2026-09-15"
    full = f"{HEADERS['budgets']}\n" + f"{row}\n" * MOST_ROWS
    assert "more than" not in problems({"budgets.csv": full})[0].seen
    problem = the_problem({"budgets.csv": full + row})
    assert problem.seen == "more than 100000 rows"


def test_reading_stops_early_if_a_file_is_not_the_table() -> None:
    rows = "\n".join("c1" for _ in range(10_000))
    assert len(problems({"rates.csv": f"{RATES}\n{rows}"})) == MOST_PROBLEMS_PER_TABLE
    assert len(problems({"rates.csv": "\x00\n" * 10_000})) == MOST_PROBLEMS_PER_TABLE
