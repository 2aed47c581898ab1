"""Decision tables under random and hostile input, and their lookups against naive ones.

Put here: fuzzing of every table, and properties of lookups, copies and hashes.
Not here: single situations (`tests/unit/test_decisions_*`).
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from domain.decisions import (
    Decisions,
    DecisionsContradict,
    DecisionsRefused,
    PolicyName,
    Rate,
    canonical_files,
    differences,
    load_decisions,
    load_sealed_copy,
    read_decisions,
    template_files,
)
from domain.decisions.cells import LONGEST_TEXT, text
from domain.decisions.problems import MOST_PROBLEMS_PER_TABLE
from domain.errors import BadInput, shown
from domain.interval import Interval
from tests.decisions_by_hand import HEADERS, SIGNED, SIGNED_LAST, table

TABLES = sorted(HEADERS)
START = datetime(2026, 9, 25, tzinfo=UTC)
DAY_COUNT = 12  # across the end of a month


def day(number: int) -> datetime:
    return START + timedelta(days=number)


def date_text(number: int | None) -> str:
    return "" if number is None else f"{day(number):%Y-%m-%d}"


# Fuzzing ---------------------------------------------------------------------------------------

NASTY = ["", "=cmd()", "\x00", '"', '""', "#", ",", "\r", "\r\n", "\n", "\ufeff", "\u202e", "🚀",
         "NaN", "-0", "1e309", "9" * 40, "١٢", "2026-13-01", "2026-10-01T25:00:00Z", "'; drop",
         "../..", "x" * 2_000, "whole", "1g.5gb", "EUR", "\ud800", "0" * 400, "1/0"]  # fmt: skip
EXAMPLES = {
    "clusters": "c1,prod,2026-10-01,,both,300,30,|",
    "tenants": "shared,provider,2026-10-01,,|",
    "rates": ",A100-40GB,whole,EUR,1.803,2026-10-01,,|,",
    "budgets": "team-a,2026-10,EUR,12000,|",
    "outages": "c1,2026-10-14,2026-10-15,credit,|",
    "accepted_gaps": "c1,thanos,2026-10-09,2026-10-10,waive,|,",
    "policies": "mig_weight,v2,memory,2026-10-01,,|",
    "parties": "customer,team-a,Example Ltd,1 Street; DE,DE1,a@example.org,2026-10-01,,|",
    "products": "NVIDIA-X200,nvidia,X200,196608,7,8,,|",
    "amendments": "2026-09,tenants,|,Grace",
}


def check_is_read_or_refused(files: dict[str, str | bytes]) -> None:
    """The table is read completely, or refused with problems whose messages can be printed."""
    decisions, problems = read_decisions(files)
    assert len(problems) <= (MOST_PROBLEMS_PER_TABLE + 50) * len(files)
    for problem in problems:
        assert isinstance(problem, BadInput)
        assert problem.code[:4] in ("DEC-", "RATE")
        assert all((problem.where, problem.seen, problem.why, problem.remedy))
        problem.message().encode()  # fails for unpaired surrogates, which cannot be printed
        assert len(problem.message()) < 5_000
    if problems:
        with pytest.raises(DecisionsRefused) as refused:
            load_decisions(files)
        assert refused.value.problems
    else:
        assert load_decisions(files) == decisions
        assert load_decisions(canonical_files(decisions.rows)) == decisions


def mutated(source: random.Random, body: str) -> str:
    """A valid table after one to three random damages."""
    for _ in range(source.randint(1, 3)):
        lines = body.split("\n")
        number = source.randrange(len(lines))
        cells = lines[number].split(",")
        place = source.randrange(len(cells))
        match source.randrange(6):
            case 0:
                cells[place] = source.choice(NASTY)
            case 1:
                cells[place] += source.choice(NASTY)
            case 2:
                cells.insert(place, source.choice(NASTY))
            case 3:
                del cells[place]
            case 4:
                cells[place] = cells[place][: source.randrange(len(cells[place]) + 1)]
            case 5:
                cells = [*cells, "\n", *cells]
        lines[number] = ",".join(cells)
        body = "\n".join(lines)
    return body


@pytest.mark.parametrize("name", TABLES)
def test_a_damaged_table_is_read_completely_or_refused(name: str) -> None:
    body = f"{HEADERS[name]}\n{EXAMPLES[name].replace('|', SIGNED)}\n"
    check_is_read_or_refused({f"{name}.csv": body})
    for seed in range(300):
        check_is_read_or_refused({f"{name}.csv": mutated(random.Random(seed), body)})


@given(name=st.sampled_from(TABLES), body=st.binary(max_size=400))
@example(name="rates", body=b"\xff\xfe\x00")
@example(name="rates", body=b"\xef\xbb\xbf")
def test_any_bytes_are_read_or_refused(name: str, body: bytes) -> None:
    check_is_read_or_refused({f"{name}.csv": body})


cells = st.one_of(
    st.sampled_from(NASTY),
    st.sampled_from([cell for row in EXAMPLES.values() for cell in row.split(",")]),
    st.text(max_size=20),
)


@given(
    name=st.sampled_from(TABLES),
    rows=st.lists(st.lists(cells, min_size=11, max_size=11), max_size=4),
    ending=st.sampled_from(["\n", "\r\n"]),
)
def test_any_cells_under_a_valid_header_are_read_or_refused(
    name: str, rows: list[list[str]], ending: str
) -> None:
    width = HEADERS[name].count(",") + 1
    lines = [HEADERS[name], *(",".join(row[:width]) for row in rows)]
    check_is_read_or_refused({f"{name}.csv": ending.join(lines)})


@given(files=st.dictionaries(st.text(max_size=12), st.text(max_size=40), max_size=3))
def test_any_file_names_are_read_or_refused(files: dict[str, str]) -> None:
    check_is_read_or_refused(dict(files))


@given(value=st.text(max_size=300))
def test_quoted_values_are_printable_and_short(value: str) -> None:
    assert shown(value).isprintable()
    assert len(shown(value)) < 900
    shown(value).encode()


# Lookups ---------------------------------------------------------------------------------------

until = st.none() | st.integers(1, DAY_COUNT)
spans = st.tuples(st.integers(0, DAY_COUNT - 1), until).map(
    lambda s: (s[0], None if s[1] is None else s[0] + s[1])
)
RATE_KEYS = [
    (cluster, gpu, profile)
    for cluster in ("", "c1", "c2")
    for gpu in ("A", "B")
    for profile in ("whole", "1g.5gb", "2g.10gb")
]
rate_rows = st.lists(st.tuples(st.sampled_from(RATE_KEYS), spans, st.integers(0, 5)), max_size=10)
RateRows = list[tuple[tuple[str, str, str], tuple[int, int | None], int]]


def rate_table(rows: RateRows) -> dict[str, str]:
    return table(
        "rates",
        *(
            f"{','.join(key)},EUR,{price},{date_text(span[0])},{date_text(span[1])},|,Grace"
            for key, span, price in rows
        ),
    )


def holds(span: tuple[int, int | None], number: int) -> bool:
    return span[0] <= number and (span[1] is None or number < span[1])


def naive_prices(rows: RateRows, wanted: tuple[str, str, str], number: int) -> list[int]:
    """The prices of the applicable rows, without rows for which a more specific one applies."""
    cluster, gpu, profile = wanted
    applying = [
        ((key[0] != "") + (key[2] != "whole"), price)
        for key, span, price in rows
        if holds(span, number)
        and key[0] in ("", cluster)
        and key[1] == gpu
        and key[2] in ("whole", profile)
    ]
    most = max((specificity for specificity, _ in applying), default=0)
    return [price for specificity, price in applying if specificity == most]


@given(rows=rate_rows)
def test_prices_equal_the_naive_lookup_and_ambiguous_ones_are_refused(rows: RateRows) -> None:
    decisions, problems = read_decisions(rate_table(rows))
    doubts = []
    for wanted in RATE_KEYS:
        if not wanted[0]:
            continue  # usage is always in a cluster
        for number in range(DAY_COUNT):
            naive = naive_prices(rows, wanted, number)
            try:
                rate = decisions.price_list.find(*wanted, day(number))
            except DecisionsContradict:
                assert len(naive) > 1
                doubts.append(wanted)
                continue
            assert len(naive) <= 1
            assert (rate and [rate.rate_nanos_per_hour // 10**9]) == (naive or None)
    assert not doubts or problems


@given(rows=rate_rows)
def test_rates_are_refused_only_if_a_lookup_is_ambiguous(rows: RateRows) -> None:
    """A row of one cluster does not make prices ambiguous in clusters without a row."""
    _, problems = read_decisions(rate_table(rows))
    horizon = 2 * DAY_COUNT + 1
    in_doubt = any(
        len(naive_prices(rows, wanted, number)) > 1
        for wanted in RATE_KEYS
        for number in range(horizon)
    )
    hidden = any(  # two rows with one key at the same time, below a more specific row
        key == other_key and holds(span, number) and holds(other_span, number)
        for n, (key, span, _) in enumerate(rows)
        for other_key, other_span, _ in rows[:n]
        for number in range(horizon)
    )
    assert bool(problems) is (in_doubt or hidden)


@given(rows=rate_rows)
def test_spans_of_a_price_equal_its_lookups_per_day(rows: RateRows) -> None:
    decisions, problems = read_decisions(rate_table(rows))
    if problems:
        return
    window = Interval(day(2), day(DAY_COUNT - 2))
    for wanted in RATE_KEYS[6:]:
        found = decisions.price_list.spans(*wanted, window)
        assert sum(piece.seconds for piece, _ in found) == window.seconds
        for number in range(2, DAY_COUNT - 2):
            of_day = [rate for piece, rate in found if piece.contains(day(number))]
            assert of_day == [decisions.price_list.find(*wanted, day(number))]
        assert all(left[1] != right[1] for left, right in pairwise(found))


namespace_rows = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "kube-x"]), st.sampled_from(["tenant", "provider"]), spans
    ),
    max_size=7,
)


@given(rows=namespace_rows)
def test_every_row_that_overlaps_an_earlier_one_is_refused(
    rows: list[tuple[str, str, tuple[int, int | None]]],
) -> None:
    texts = [f"{n},{b},{date_text(s[0])},{date_text(s[1])}" for n, b, s in rows]
    _, problems = read_decisions(table("tenants", *texts))
    overlapping = {
        max(i, j, key=lambda n: (rows[n][2][0], n))
        for i in range(len(rows))
        for j in range(i)
        if rows[i][0] == rows[j][0]
        and any(holds(rows[i][2], n) and holds(rows[j][2], n) for n in range(2 * DAY_COUNT + 1))
    }
    told = {int(problem.where.split()[2]) - 2 for problem in problems}
    assert told == overlapping


def everything(source: random.Random) -> dict[str, str]:
    """Random tables without contradictions: rows of one key follow each other in time."""

    def dated(*keys: str) -> list[str]:
        rows = []
        for key in keys:
            edges = sorted(source.sample(range(DAY_COUNT + 1), source.randint(2, 5)))
            for first, last in pairwise(edges):
                if source.random() < 0.7:
                    value = str(source.randint(1, 9))
                    rows.append(key.format(date_text(first), date_text(last), value))
            if source.random() < 0.5:
                rows.append(key.format(date_text(edges[-1]), "", str(source.randint(1, 9))))
        source.shuffle(rows)
        return rows

    files = table("clusters", *dated("c1,n{2},{0},{1},both,300,30", "c2,n,{0},{1},samples,{2},1"))
    files |= table("tenants", *dated("a,provider,{0},{1}", "kube-x,tenant,{0},{1}"))
    files |= table(
        "rates",
        *dated(
            ",A,whole,EUR,{2},{0},{1},|,",
            ",B,whole,EUR,{2},{0},{1},|,Grace",
            ",A,1g.5gb,EUR,0.{2},{0},{1},|,",
        ),
    )
    files |= table("outages", *dated(",{0},{1},credit", ",{0},{1},credit"))
    files |= table("policies", *dated("grace_days,v{2},{2},{0},{1}"))
    files |= table("parties", *dated("issuer,,Cloud {2},,,,{0},{1}"))
    files |= table("budgets", "a,2026-09,EUR,1", "a,,EUR,2.50", "b,2026-10,EUR,3")
    return files


def answers(decisions: Decisions, instant: datetime) -> list[object]:
    window = Interval(instant, instant + timedelta(hours=1))
    return [
        *(
            decisions.price_list.find("c1", g, p, instant)
            for g in "AB"
            for p in ("whole", "1g.5gb")
        ),
        *(decisions.ownership.belongs_to(name, instant) for name in ("a", "b", "kube-x")),
        *(decisions.cluster_at(cluster_id, instant) for cluster_id in ("c1", "c2")),
        sum(outage.seconds for outage in decisions.outage_intervals("c1", window)),
        decisions.policy(PolicyName.GRACE_DAYS, instant).value,
        decisions.grace_days(instant),
        decisions.currency(instant),
    ]


def without_end(answer: object) -> object:
    """The value without an end after the window, which a copy does not keep."""
    return answer.rate_id if isinstance(answer, Rate) else getattr(answer, "cluster_name", answer)


@pytest.mark.parametrize("seed", range(60))
def test_copies_hashes_and_cut_points_of_random_decisions(seed: int) -> None:
    source = random.Random(seed)
    files = everything(source)
    decisions, problems = read_decisions(files)
    assert problems == []
    assert load_decisions(canonical_files(decisions.rows)) == decisions

    first, last = sorted(source.sample(range(DAY_COUNT + 1), 2))
    window = Interval(day(first), day(last))
    copy = decisions.valid_in(window)
    assert load_sealed_copy(canonical_files(copy.rows)) == copy
    assert copy.valid_in(window) == copy
    assert differences(copy.rows, copy.rows) == []
    cuts = set(decisions.cut_points(window))
    before: list[object] = []
    for number in range(first, last):
        original = [without_end(answer) for answer in answers(decisions, day(number))]
        assert [without_end(a) for a in answers(copy, day(number))] == original
        if before and day(number) not in cuts:
            assert original == before, "something changed where there is no cut point"
        before = original


@pytest.mark.parametrize("seed", range(20))
def test_the_hash_depends_on_no_order_spelling_or_comment(seed: int) -> None:
    source = random.Random(seed)
    files = everything(source)
    typed_otherwise: dict[str, str | bytes] = {}
    for name, body in files.items():
        header, *rows = body.splitlines()
        source.shuffle(rows)
        with_comments = [line for row in rows for line in (row, "# and", '"# a, b"', ",,,")]
        lines = ["# a table", header, *with_comments]
        typed_otherwise[name] = b"\xef\xbb\xbf" + "\r\n".join(lines).encode()
    assert load_decisions(typed_otherwise).sha256 == load_decisions(files).sha256
    assert load_decisions(template_files() | files).sha256 == load_decisions(files).sha256


def test_the_bounds_are_those_that_are_stated() -> None:
    assert text().read("x" * LONGEST_TEXT) == "x" * LONGEST_TEXT
    assert set(SIGNED_LAST) < set(HEADERS)
